"""Changes of a journal that its anchors show: each is made as carefully as a forger would."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from journal.anchors import Anchor, AnchorKeys
from journal.histories import LINEAGES_NOTE, AbandonedLineage, to_note
from ledger.verify import Finding
from ledger.verify.engine import SqlEngine
from ledger.verify.journal_checks import AnchorsHold, ChainWhole
from tests.integration.ledger.conftest import AT, KEYS, World
from tests.integration.ledger.findings import problems

Look = Callable[..., Finding]


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Look:
    """The answer of the anchors' invariant, so many hours after the last row, to a holder of ``keys``."""

    def answer(hours: float = 0.1, keys: AnchorKeys = KEYS) -> Finding:
        return world.verify(engine, AnchorsHold.name, after=timedelta(hours=hours), keys=keys).findings[0]

    return answer


def test_anchors_of_every_commit_hold(look: Look, world: World) -> None:
    world.anchor()
    found = look()
    assert found.ok, found
    assert found.figures == {"anchors": 3, "anchored_seq": 14, "behind": 0}


def test_anchors_of_some_commits_hold_and_say_how_far_they_are(look: Look, world: World) -> None:
    world.anchor(batches=2)
    world.anchor(batches=1)
    found = look()
    assert found.ok, found
    assert found.figures == {"anchors": 3, "anchored_seq": 11, "behind": 3}


def test_a_changed_row_with_the_whole_chain_computed_anew_is_found(look: Look, world: World, engine: SqlEngine) -> None:
    world.anchor()
    world.row(9).postings = str(world.row(9).postings).replace("1000", "9000")
    world.rewrite()
    assert world.verify(engine, ChainWhole.name).ok, (
        "the forger's chain must be whole, or the anchors aren't what finds it"
    )
    found = look()
    assert [offender["seq"] for offender in found.offenders] == [11, 14]
    assert "rows were changed or removed" in problems(found)


def test_a_tail_that_was_cut_off_is_found(look: Look, world: World) -> None:
    world.anchor()
    world.rows = [row for row in world.rows if row.seq <= 11]
    world.state = replace(world.state, next_seq=12)
    world.rewrite()
    assert "its end was cut off" in problems(look())


def test_a_commit_that_was_taken_out_with_all_later_ones_numbered_anew_is_found(look: Look, world: World) -> None:
    world.anchor()
    gone = [row for row in world.rows if row.batch_seq == 7]
    world.rows = [row for row in world.rows if row.batch_seq != 7]
    for row in world.rows:
        if row.batch_seq > 7:
            row.seq, row.batch_seq = row.seq - len(gone), 7
    world.state = replace(world.state, next_seq=world.state.next_seq - len(gone))
    world.rewrite()
    assert "its end was cut off" in problems(look())


def test_a_commit_that_was_taken_out_is_found(look: Look, world: World) -> None:
    world.anchor()
    world.rows = [row for row in world.rows if row.batch_seq != 7]
    world.rewrite()
    found = look()
    assert [offender["seq"] for offender in found.offenders] == [11, 14]
    assert "no commit ends at the row that the anchor names" in problems(found)
    assert "rows were changed or removed" in problems(found)


def test_two_commits_made_one_are_found(look: Look, world: World) -> None:
    world.anchor()
    for row in world.rows:
        if row.batch_seq == 12:
            row.batch_seq = 7
    world.rewrite()
    assert "no commit ends at the row that the anchor names" in problems(look())


def test_an_anchor_of_another_key_is_no_anchor(look: Look, world: World) -> None:
    world.anchor(keys=AnchorKeys(["x" * 64]))
    assert "no known key signed it" in problems(look())


def test_a_key_that_was_replaced_is_still_believed(look: Look, world: World) -> None:
    world.anchor(batches=2)
    world.anchor(keys=AnchorKeys(["new" * 20]))
    assert look(keys=AnchorKeys(["new" * 20, "k" * 64])).ok


@pytest.mark.parametrize("value", [b"", b"{}", b"\xff", b"[1]", b"x" * 2_000])
def test_what_is_no_anchor_is_an_offender(look: Look, world: World, value: bytes) -> None:
    world.anchor()
    world.kafka.anchors.insert(1, value)
    assert [offender["offset"] for offender in look().offenders] == [1]


def test_an_anchor_whose_seq_was_moved_is_refused(look: Look, world: World) -> None:
    world.anchor()
    tree = json.loads(world.kafka.anchors[0])
    world.kafka.anchors[0] = json.dumps(tree | {"seq": 11}).encode()
    assert "no known key signed it" in problems(look())


def test_anchors_that_the_journal_remembers_and_kafka_lacks_are_missed(look: Look, world: World) -> None:
    world.anchor(batches=1)
    world.remember_anchored(11)
    found = look()
    assert "anchors that Kafka acknowledged are gone" in problems(found)


def test_anchors_removed_from_the_start_of_their_topic_are_missed(look: Look, world: World) -> None:
    world.anchor()
    world.kafka.held["payments.anchors"] = {0: (2, 5)}
    assert "anchors were removed" in problems(look())


def test_a_journal_that_nobody_anchors_is_an_offence_once_it_is_old(look: Look, world: World) -> None:
    assert look().ok
    assert "isn't anchored" in problems(look(hours=2))
    world.anchor()
    assert look(hours=2).ok


def test_anchors_of_a_lineage_that_was_given_up_are_passed_over(look: Look, world: World) -> None:
    """A journal goes on from row 11 of a lineage: what that lineage said of later rows isn't of this journal."""
    world.anchor()
    beyond = Anchor("ledger", 7, 12, "f" * 64, AT, "old")
    world.kafka.anchors.append(KEYS.encode(beyond))
    assert "no commit ends" in problems(look())
    given_up = to_note([AbandonedLineage("old", 11, AT, "restored")])
    world.state = replace(world.state, notes={LINEAGES_NOTE: given_up})
    world.rewrite()
    assert look().ok, look()
    world.kafka.anchors.append(KEYS.encode(replace(beyond, seq=11)))
    assert "rows were changed or removed" in problems(look()), "the restored rows are still held against its anchors"
