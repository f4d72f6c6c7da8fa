"""What waits is counted; what waits too long, or is lost while it waits, is named."""

from __future__ import annotations

from datetime import timedelta

from tests.integration.ledger.conftest import AT, EVENTS, Verify, World
from tests.integration.ledger.findings import wrong


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
