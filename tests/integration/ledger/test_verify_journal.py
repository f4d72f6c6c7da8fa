"""What a journal promises of itself: numbers, hashes, order, items, effects, mode and what waits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from core.decision import Decision
from journal.schema import GENESIS, JournalRow
from ledger.verify.evidence import VerifyLimits
from tests.integration.ledger.conftest import AT, EVENTS, Verify, World, later_row
from tests.integration.ledger.findings import failed, problems, wrong

EVENT, FACT = "one_effect_per_event_key", "one_effect_per_fact_key"
PLANTED: dict[str, tuple[int, dict[str, Any], str, dict[str, Any]]] = {
    "an event that took effect twice": (
        *(2, {"decision": Decision.APPLIED, "fact_key": None}, EVENT),
        {"event_key": "stripe:evt_1:charge", "applied": 2},
    ),
    # A second copy passed deduplication, even though its handler then booked nothing.
    "a key that was held twice": (2, {"decision": Decision.IGNORED}, EVENT, {"held": 2}),
    # An event that was called a duplicate while no copy of it was kept is a lost event.
    "a duplicate of nothing": (8, {"decision": Decision.DUPLICATE}, EVENT, {"event_key": "stripe:evt_5:charge"}),
    "a fact booked under two events": (
        *(3, {"decision": Decision.APPLIED}, FACT),
        {"fact_key": "stripe:ch_1", "applied": 2},
    ),
    "a duplicate fact that nobody booked": (3, {"fact_key": "stripe:ch_9"}, FACT, {"applied": 0}),
    "an event of the test mode": (2, {"mode": "test"}, "one_mode", {"seq": 2, "mode": "test"}),
    "an event of no mode": (2, {"mode": None}, "one_mode", {"seq": 2, "mode": None}),
    # An ignored one may be taken up again, but row 7, its cause, is no command for that.
    "an item that was never open is replayed": (
        *(14, {"item_seq": 8}, "reprocessed_were_ignored"),
        {"item_seq": 8, "was": "ignored", "cause_seq": 7},
    ),
    "an item that was applied at once is replayed": (
        *(14, {"item_seq": 9}, "reprocessed_were_ignored"),
        {"item_seq": 9, "was": "applied"},
    ),
}
"""By what is wrong: the row that is changed and how, the invariant, and what its first offender says."""


@pytest.mark.parametrize(("seq", "changes", "invariant", "offender"), PLANTED.values(), ids=PLANTED)
def test_one_changed_row_is_named(
    report: Verify, world: World, seq: int, changes: dict[str, Any], invariant: str, offender: dict[str, Any]
) -> None:
    for name, value in changes.items():
        setattr(world.row(seq), name, value)
    world.rewrite()
    found = wrong(report, invariant).offenders
    assert {name: found[0][name] for name in offender} == offender
    assert invariant != "one_mode" or len(found) == 1


# rows are numbered from first to last: what was removed, cut off or numbered twice is named


def test_a_row_that_was_removed_is_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.seq != 2]
    world.rewrite()
    found = failed(report())
    assert found["seq_without_gaps"].offenders[0]["rows"] == 5
    assert "offsets_accounted" in found


def test_a_number_that_was_given_twice_is_named(report: Verify, world: World) -> None:
    world.row(9).seq = 8
    world.rewrite()
    assert "aren't numbered once each" in problems(wrong(report, "seq_without_gaps"))


def test_a_commit_that_was_removed_is_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.batch_seq != 7]
    world.rewrite()
    assert wrong(report, "seq_without_gaps").offenders[0]["expected"] == 7


def test_rows_that_were_cut_off_at_the_end_are_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.seq <= 11]
    world.rewrite()
    assert "missing at the end" in problems(wrong(report, "seq_without_gaps"))


# rows are what their hashes say, and commits what the chain says: what was edited is named


@pytest.mark.row("G7")
@pytest.mark.parametrize(
    "change",
    [
        lambda row: setattr(row, "reason", "nothing to see"),
        lambda row: setattr(row, "decided_at", row.decided_at + timedelta(microseconds=1)),
        lambda row: setattr(row, "headers", '{"ce_id":"a"}'),
        lambda row: setattr(row, "blocking", not row.blocking),
        lambda row: setattr(row, "error_stack", ""),
        lambda row: setattr(row, "row_hash", "0" * 64),
    ],
)
def test_a_row_that_was_edited_is_named(report: Verify, world: World, change: Callable[[JournalRow], None]) -> None:
    change(world.row(8))
    world.rewrite(forge=False)
    found = wrong(report, "chain_whole")
    assert {"problem": "rows don't match their hash", "seq": 8, "rows": 1} in found.offenders


def test_a_row_that_was_edited_with_its_hash_breaks_the_chain(report: Verify, world: World) -> None:
    chain = world.state.chain
    world.row(8).reason = "nothing to see"
    world.rewrite()
    world.state = replace(world.state, chain=chain)
    world.rewrite(forge=False)
    assert "head" in problems(wrong(report, "chain_whole"))


def test_a_commit_of_an_epoch_that_was_over_is_named(report: Verify, world: World) -> None:
    for row in world.rows:
        row.epoch = 2 if row.batch_seq == 1 else 1
    world.rewrite()
    assert "after its successor" in problems(wrong(report, "chain_whole"))


def test_a_chain_without_rows_has_the_first_head(report: Verify, world: World) -> None:
    world.state = replace(world.state, chain=GENESIS)
    world.rewrite(forge=False)
    assert "head" in problems(wrong(report, "chain_whole"))


# Kafka's order within an entity: what was numbered or took effect in another one, and doesn't say so, is named


NAME = "order_kept"


@pytest.fixture
def overtaken(world: World) -> World:
    """The event that waited took effect behind a later one of the same entity."""
    waited, other = world.row(11), world.row(9)
    assert waited.item_seq == 6 < other.item_seq == 9 and waited.decision == other.decision == "applied"
    for row in world.rows:
        if row.item_seq in (6, 9):
            row.entity_key = "stripe:acct_1:pi_1"
    return world


def test_a_ledger_in_order_holds(report: Verify) -> None:
    [found] = report(NAME).findings
    assert (found.offenders, found.figures) == ((), {"after_their_first_row": 1})


def test_an_event_that_took_effect_behind_a_later_one_of_its_entity_is_named(report: Verify, overtaken: World) -> None:
    overtaken.rewrite()
    [one] = failed(report(NAME))[NAME].offenders
    assert (one["entity_key"], one["item_seq"], one["seq"], one["later_item"]) == ("stripe:acct_1:pi_1", 6, 11, 9)


def test_one_that_says_so_is_right(report: Verify, overtaken: World) -> None:
    """Its predecessor had died and was passed over, or a person had it tried again."""
    overtaken.row(11).out_of_order = True
    overtaken.rewrite()
    assert report(NAME).findings[0].ok


def test_events_of_two_entities_overtake_one_another(report: Verify, world: World) -> None:
    assert world.row(11).entity_key != world.row(9).entity_key
    assert report(NAME).findings[0].ok


@pytest.mark.parametrize(("earlier", "later"), [(1, 2), (2, 8)], ids=["in one commit", "in two"])
def test_records_that_were_numbered_against_kafkas_order_are_named(
    report: Verify, world: World, earlier: int, later: int
) -> None:
    """Both have their decision, each once: nothing else sees it."""
    one, other = world.row(earlier), world.row(later)
    one.offset, other.offset = other.offset, one.offset
    for row in world.rows:
        row.offset = world.row(row.item_seq).offset
    world.rewrite()
    world.kafka.decided = world.rows
    found = failed(report())
    assert set(found) == {NAME}
    assert "numbered behind a later one" in problems(found[NAME])
    assert {offender["topic"] for offender in found[NAME].offenders} == {EVENTS}


# later decisions continue an item that is open: others are named


def test_a_decision_after_the_closing_one_is_named(report: Verify, world: World) -> None:
    again = later_row(world.row(11), 14, Decision.IGNORED, postings=None)
    again.batch_seq, again.epoch = world.row(14).batch_seq, world.row(14).epoch
    world.rows[-1] = again
    world.rewrite()
    found = wrong(report, "items_close_once")
    assert (found.offenders[0]["item_seq"], found.offenders[0]["closings"]) == (6, 2)


def test_a_decision_on_an_item_that_was_never_open_is_named(report: Verify, world: World) -> None:
    later = later_row(world.row(8), 14, Decision.IGNORED, postings=None)
    later.batch_seq, later.epoch = world.row(14).batch_seq, world.row(14).epoch
    world.rows[-1] = later
    world.rewrite()
    assert wrong(report, "items_close_once").offenders[0]["item_seq"] == 8


# an event and a fact take effect once: what took it twice, or copies nothing, is named


def test_a_duplicate_before_its_first_copy_is_named(report: Verify, world: World) -> None:
    first, copy = world.row(1), world.row(2)
    for name in ("seq", "item_seq", "offset"):
        mine, theirs = getattr(first, name), getattr(copy, name)
        setattr(first, name, theirs)
        setattr(copy, name, mine)
    world.rewrite()
    assert "one_effect_per_event_key" in failed(report("one_effect_per_event_key"))


# a ledger is of one mode: events of another one are named


def test_a_refused_record_has_neither_mode_nor_key_and_is_no_offence(report: Verify, world: World) -> None:
    world.row(2).mode = world.row(2).event_key = None
    world.rewrite()
    assert "one_mode" not in failed(report("one_mode"))


def test_a_test_ledger_is_held_to_its_own_mode(report: Verify, world: World) -> None:
    """The whole live lake under the test stream's name: everything in it is of the wrong mode."""
    live = world.lake.places
    test = replace(live, stream="ledger-test")
    for kept in ("journal", "bodies_table", "postings", "index"):
        shutil.copytree(getattr(live, kept), getattr(test, kept))
    world.lake = replace(world.lake, places=test)
    assert len(wrong(report, "one_mode").offenders) == VerifyLimits().sample_max


# what waits is counted; what waits too long, or is lost while it waits, is named


def test_what_waits_in_kafka_is_counted_and_is_no_offence(report: Verify, world: World) -> None:
    world.kafka.held[EVENTS][0] = (0, 111)
    world.kafka.held[EVENTS][2] = (0, 3)
    found = report("in_flight")
    assert found.ok
    assert next(one for one in found.findings if one.name == "in_flight").figures["undecided"] == 9


def test_an_offset_that_waits_too_long_is_named(report: Verify, world: World) -> None:
    world.kafka.held[EVENTS][0] = (0, 106)
    world.kafka.written_at = AT - timedelta(days=2)
    found = wrong(report, "in_flight")
    assert (found.offenders[0]["partition"], found.offenders[0]["offset"]) == (0, 105)


def test_an_event_that_is_parked_too_long_is_named(report: Verify, world: World) -> None:
    world.row(13).received_at = AT - timedelta(days=2)
    world.rewrite()
    assert wrong(report, "in_flight").offenders[0]["item_seq"] == 13


def test_undecided_offsets_that_kafka_dropped_are_named(report: Verify, world: World) -> None:
    world.kafka.held[EVENTS][0] = (110, 120)
    assert wrong(report, "in_flight").offenders[0]["lost"] == [105, 110]
