"""An event and a fact take effect once: what took it twice, or copies nothing, is named."""

from __future__ import annotations

from core.decision import Decision
from tests.integration.ledger.conftest import Verify, World
from tests.integration.ledger.findings import failed, wrong


def test_an_event_that_took_effect_twice_is_named(report: Verify, world: World) -> None:
    world.row(2).decision = Decision.APPLIED
    world.row(2).fact_key = None
    world.rewrite()
    found = wrong(report, "one_effect_per_event_key")
    assert (found.offenders[0]["event_key"], found.offenders[0]["applied"]) == ("stripe:evt_1:charge", 2)


def test_a_key_that_was_held_twice_is_named(report: Verify, world: World) -> None:
    """A second copy passed deduplication, even though its handler then booked nothing."""
    world.row(2).decision = Decision.IGNORED
    world.rewrite()
    assert wrong(report, "one_effect_per_event_key").offenders[0]["held"] == 2


def test_a_duplicate_of_nothing_is_named(report: Verify, world: World) -> None:
    """An event that was called a duplicate while no copy of it was kept is a lost event."""
    world.row(8).decision = Decision.DUPLICATE
    world.rewrite()
    assert wrong(report, "one_effect_per_event_key").offenders[0]["event_key"] == "stripe:evt_5:charge"


def test_a_duplicate_before_its_first_copy_is_named(report: Verify, world: World) -> None:
    first, copy = world.row(1), world.row(2)
    for name in ("seq", "item_seq", "offset"):
        mine, theirs = getattr(first, name), getattr(copy, name)
        setattr(first, name, theirs)
        setattr(copy, name, mine)
    world.rewrite()
    assert "one_effect_per_event_key" in failed(report("one_effect_per_event_key"))


def test_a_fact_that_was_booked_under_two_events_is_named(report: Verify, world: World) -> None:
    world.row(3).decision = Decision.APPLIED
    world.rewrite()
    found = wrong(report, "one_effect_per_fact_key")
    assert (found.offenders[0]["fact_key"], found.offenders[0]["applied"]) == ("stripe:ch_1", 2)


def test_a_duplicate_fact_that_nobody_booked_is_named(report: Verify, world: World) -> None:
    world.row(3).fact_key = "stripe:ch_9"
    world.rewrite()
    assert wrong(report, "one_effect_per_fact_key").offenders[0]["applied"] == 0
