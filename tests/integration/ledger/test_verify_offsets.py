"""Every offset of Kafka has one first decision: offsets that lack one, have two, or lie beyond the marks are named."""

from __future__ import annotations

from tests.integration.ledger.conftest import CONTROL, EVENTS, Verify, World
from tests.integration.ledger.findings import failed, only, problems


def test_an_offset_without_a_decision_is_named(report: Verify, world: World) -> None:
    world.row(8).offset = 1_000_000
    world.row(8).first = False
    world.rewrite()
    found = failed(report())["offsets_accounted"]
    assert {"problem": "an offset with no first row", "topic": EVENTS, "partition": 0, "offset": 103} in found.offenders


def test_an_offset_with_two_first_decisions_is_named(report: Verify, world: World) -> None:
    world.row(8).offset = 102
    world.rewrite()
    found = only(report(), "offsets_accounted")
    assert [(one["offset"], one["problem"]) for one in found.offenders] == [
        (102, "an offset with several first rows"),
        (103, "an offset with no first row"),
    ]


def test_a_mark_beyond_the_rows_is_named(report: Verify, world: World) -> None:
    """The end of a partition was lost: the mark says that offsets were decided which have no row."""
    world.state.marks[EVENTS][1] = 6
    world.kafka.held[EVENTS][1] = (0, 6)
    world.rewrite()
    assert only(report(), "offsets_accounted").offenders[0]["offset"] == 5


def test_rows_beyond_the_mark_are_named(report: Verify, world: World) -> None:
    world.state.marks[EVENTS][1] = 4
    world.rewrite()
    assert "beyond the marks" in problems(only(report(), "offsets_accounted"))


def test_rows_of_a_partition_without_a_mark_are_named(report: Verify, world: World) -> None:
    del world.state.marks[CONTROL]
    world.rewrite()
    assert "without a mark" in problems(only(report(), "offsets_accounted"))


def test_decided_offsets_that_kafka_never_had_are_named(report: Verify, world: World) -> None:
    """The topic was made anew under a journal that remembers the old one."""
    world.kafka.held[EVENTS][0] = (0, 3)
    assert "never had" in problems(only(report(), "offsets_accounted"))
