"""Dead rows and dead letters are the same: a letter that is missing, forged or out of place is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dlq.record import build_record
from journal.histories import LINEAGES_NOTE, AbandonedLineage, to_note
from tests.integration.ledger.conftest import DLQ, Verify, World, body_of
from tests.integration.ledger.findings import wrong


def test_a_dead_letter_that_never_arrived_is_named(report: Verify, world: World) -> None:
    world.kafka.letters = [one for one in world.kafka.letters if one.seq != 10]
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["seq"] == 10


def test_a_dead_letter_may_arrive_twice_or_early_or_by_reference(report: Verify, world: World) -> None:
    world.kafka.letters += world.kafka.letters
    world.kafka.letters.append(build_record(world.row(12), body_of(world.row(12)), "g"))
    world.kafka.letters[0] = build_record(world.row(4), b"", "g", by_reference=True)
    assert report("dlq_equals_open_dead").ok


def test_letters_that_copy_nothing_are_known_by_their_row(report: Verify, world: World) -> None:
    world.kafka.letters = [
        build_record(world.row(one.seq), body_of(world.row(one.seq)), "g", copy_record=False)
        for one in world.kafka.letters
    ]
    assert report("dlq_equals_open_dead").ok
    world.kafka.letters.pop(0)
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["seq"] == 4


def test_a_record_of_what_is_not_dead_is_named(report: Verify, world: World) -> None:
    world.kafka.letters.append(build_record(world.row(1), body_of(world.row(1)), "g"))
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["seq"] == 1


def test_a_record_that_nobody_here_wrote_is_named(report: Verify, world: World) -> None:
    world.kafka.letters.append(replace(world.kafka.letters[0], headers=[("payhook.seq", b"x")]))
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["dead_rows"] == 0


def test_a_record_with_other_bytes_is_named(report: Verify, world: World) -> None:
    world.kafka.letters[0] = replace(world.kafka.letters[0], value=b"forged")
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["seq"] == 4


def test_a_record_on_another_partition_is_named(report: Verify, world: World) -> None:
    world.kafka.letters[0] = replace(world.kafka.letters[0], partition=0)
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["seq"] == 4


def test_a_dead_letter_that_retention_took_is_no_offence(report: Verify, world: World) -> None:
    kept = [one for one in world.kafka.letters if one.seq != 4]
    world.kafka.letters = kept
    world.kafka.held[DLQ] = {0: (0, 0), 1: (1, 2)}
    world.kafka.written_at = world.row(10).decided_at
    assert report("dlq_equals_open_dead").ok


def test_a_dead_letter_of_a_row_that_was_given_up_is_passed_over(report: Verify, world: World) -> None:
    """The journal went on from row 11; a row 14 of before had died, and its letter is on the topic for good."""
    lost = replace(world.row(12), seq=14)
    world.kafka.letters.append(build_record(lost, body_of(lost), "g"))
    assert wrong(report, "dlq_equals_open_dead").offenders[0]["seq"] == 14
    note = to_note([AbandonedLineage("old", 11, lost.decided_at + timedelta(seconds=1), "restored")])
    world.state = replace(world.state, notes={LINEAGES_NOTE: note})
    world.rewrite()
    assert not [one for one in report("dlq_equals_open_dead").findings if one.offenders]
