"""Every offset of Kafka has one first decision: offsets that lack one, have two, or lie beyond the marks are named."""

from __future__ import annotations

from dataclasses import replace

from core.decision import Decision
from journal.histories import History
from journal.schema import TopicRecord
from tests.integration.ledger.conftest import CONTROL, EVENTS, Verify, World
from tests.integration.ledger.findings import failed, problems, wrong


def test_an_offset_without_a_decision_is_named(report: Verify, world: World) -> None:
    world.row(8).offset = 1_000_000
    world.row(8).first = False
    world.rewrite()
    found = wrong(report, "offsets_accounted")
    assert {"problem": "an offset with no first row", "topic": EVENTS, "partition": 0, "offset": 103} in found.offenders


def test_an_offset_with_two_first_decisions_is_named(report: Verify, world: World) -> None:
    world.row(8).offset = 102
    world.rewrite()
    found = wrong(report, "offsets_accounted")
    assert [(one["offset"], one["problem"]) for one in found.offenders] == [
        (102, "an offset with several first rows"),
        (103, "an offset with no first row"),
    ]


def test_the_first_offset_of_a_partition_decided_twice_is_named(report: Verify, world: World) -> None:
    first, second = [row for row in world.rows if row.first and (row.topic, row.partition) == (EVENTS, 0)][:2]
    second.offset = first.offset
    world.rewrite()
    found = [(one["offset"], one["problem"]) for one in wrong(report, "offsets_accounted").offenders]
    assert (first.offset, "an offset with several first rows") in found
    assert (first.offset + 1, "an offset with no first row") in found


def test_a_mark_beyond_the_rows_is_named(report: Verify, world: World) -> None:
    """The end of a partition was lost: the mark says that offsets were decided which have no row."""
    world.state.marks[EVENTS][1] = 6
    world.kafka.held[EVENTS][1] = (0, 6)
    world.rewrite()
    assert wrong(report, "offsets_accounted").offenders[0]["offset"] == 5


def test_rows_beyond_the_mark_are_named(report: Verify, world: World) -> None:
    world.state.marks[EVENTS][1] = 4
    world.rewrite()
    assert "beyond the marks" in problems(wrong(report, "offsets_accounted"))


def test_rows_of_a_partition_without_a_mark_are_named(report: Verify, world: World) -> None:
    del world.state.marks[CONTROL]
    world.rewrite()
    assert "without a mark" in problems(wrong(report, "offsets_accounted"))


def test_decided_offsets_that_kafka_never_had_are_named(report: Verify, world: World) -> None:
    """The topic was made again under a journal that remembers the old one."""
    world.kafka.held[EVENTS][0] = (0, 3)
    assert "never had" in problems(wrong(report, "offsets_accounted"))


def second_history(world: World, since: int) -> None:
    """From row ``since`` on, partition 0 of the events is of another log, which begins two offsets before."""
    state = world.state
    mine = [row for row in world.rows if row.topic == EVENTS and row.partition == 0 and row.first]
    border = next(row.offset for row in mine if row.seq >= since)
    items = {row.item_seq for row in mine if row.seq >= since}
    for row in world.rows:
        if row.item_seq in items:
            row.history, row.offset = 2, row.offset - 2
        elif row.topic == EVENTS and row.partition == 1 and row.seq >= since:
            row.history = 2
    world.kafka.ids[EVENTS] = "id-2"
    until = dict(state.marks[EVENTS])
    other = [row.offset for row in world.rows if row.topic == EVENTS and row.partition == 1 and row.history is None]
    turned = {0: border, 1: max(other, default=-1) + 1}
    history = History().begin_next("id-2", state.start[EVENTS], turned)
    world.state = replace(
        state,
        histories={EVENTS: history},
        start={**state.start, EVENTS: {0: border - 2, 1: turned[1]}},
        marks={**state.marks, EVENTS: {0: until[0] - 2, 1: until[1]}},
    )


def test_the_same_offsets_in_two_histories_are_two_records_each(report: Verify, world: World) -> None:
    second_history(world, 8)
    world.rewrite()
    assert "offsets_accounted" not in failed(report("offsets_accounted"))


def test_a_record_before_the_border_that_kafka_holds_otherwise_is_named(report: Verify, world: World) -> None:
    """The second history began too late: Kafka holds another record before it already."""
    second_history(world, 8)
    world.rewrite()
    border = world.state.start[EVENTS][0]
    assert report("records_are_those_decided").findings[0].ok
    world.kafka.planted[EVENTS, 0, border - 1] = TopicRecord(border - 1, b"another", ())
    [one] = wrong(report, "records_are_those_decided").offenders
    assert (one["offset"], one["topic"]) == (border - 1, EVENTS)


def test_an_offset_without_a_decision_in_the_second_history_is_named(report: Verify, world: World) -> None:
    second_history(world, 8)
    world.state.start[EVENTS][0] -= 1
    world.rewrite()
    offender = wrong(report, "offsets_accounted").offenders[0]
    assert (offender["topic"], offender["problem"]) == (f"{EVENTS}#2", "an offset with no first row")


def test_one_row_stands_for_a_range_that_was_lost(report: Verify, world: World) -> None:
    """Its offsets are accounted for; without it each of them lacks a decision."""
    last = world.rows[-1]
    until = world.state.marks[EVENTS][1]
    lost = replace(
        last,
        seq=last.seq + 1,
        item_seq=last.seq + 1,
        batch_seq=last.seq + 1,
        first=True,
        topic=EVENTS,
        partition=1,
        offset=until,
        offset_until=until + 40_000,
        decision=Decision.LOST,
        event_key=None,
        fact_key=None,
        entity_key=None,
        postings=None,
        cause_seq=None,
        mode=None,
        body_sha256=None,
    )
    marks = {**world.state.marks, EVENTS: {**world.state.marks[EVENTS], 1: until + 40_000}}
    world.kafka.held[EVENTS][1] = (until + 40_000, until + 40_000)
    world.rows.append(lost)
    world.state = replace(world.state, marks=marks, next_seq=world.state.next_seq + 1)
    world.rewrite()
    assert "offsets_accounted" not in failed(report("offsets_accounted"))
    lost.offset_until = until + 39_999
    world.rewrite()
    assert wrong(report, "offsets_accounted").offenders[0]["offset"] == until + 39_999
