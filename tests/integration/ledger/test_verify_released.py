"""A released event's key is free: the same event may come again, once, and is no duplicate of what was released."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.decision import Decision
from journal.schema import JournalRow
from ledger.verify.engine import SqlEngine
from tests.integration.ledger.conftest import CONTROL, EVENTS, World, later_row, new_row

NAMES = ("items_close_once", "index_equals_journal", "offsets_accounted", "one_effect_per_event_key", "order_kept")


@pytest.fixture
def gains(world: World) -> Callable[..., World]:
    """Row 12 died and is released; then rows of its event that come again, each with a decision."""

    def gain(*decisions: Decision, released: bool = True) -> World:
        rows: list[JournalRow] = []
        if released:
            rows += [
                new_row(15, CONTROL, 0, 1, Decision.RELEASED, "cmd_2"),
                later_row(world.row(12), 16, Decision.RELEASED, cause_seq=15),
            ]
        first = 15 + len(rows)
        for at, decision in enumerate(decisions):
            rows.append(new_row(first + at, EVENTS, 0, 105 + at, decision, "evt_7"))
        world.add_commit(*rows)
        world.kafka.held[EVENTS][0] = (world.kafka.held[EVENTS][0][0], 200)
        world.kafka.held[CONTROL][0] = (world.kafka.held[CONTROL][0][0], 200)
        world.index_commit()
        world.rewrite()
        return world

    return gain


def offending(engine: SqlEngine, world: World) -> set[str]:
    return {one.name for one in world.verify(engine, *NAMES).findings if one.offenders}


def test_what_was_released_may_come_again_once(engine: SqlEngine, gains: Callable[..., World]) -> None:
    assert offending(engine, gains(Decision.IGNORED, Decision.DUPLICATE)) == set()


def test_what_was_released_and_has_not_come_is_known_to_nobody(engine: SqlEngine, gains: Callable[..., World]) -> None:
    assert offending(engine, gains()) == set()


def test_what_comes_again_is_no_duplicate_of_what_was_released(engine: SqlEngine, gains: Callable[..., World]) -> None:
    assert "one_effect_per_event_key" in offending(engine, gains(Decision.DUPLICATE))


def test_two_first_events_after_one_release_are_one_too_many(engine: SqlEngine, gains: Callable[..., World]) -> None:
    assert "one_effect_per_event_key" in offending(engine, gains(Decision.IGNORED, Decision.IGNORED))


def test_a_second_first_event_without_a_release_is_found(engine: SqlEngine, gains: Callable[..., World]) -> None:
    assert "one_effect_per_event_key" in offending(engine, gains(Decision.IGNORED, released=False))


def test_a_release_that_no_second_person_approved_is_found(engine: SqlEngine, gains: Callable[..., World]) -> None:
    [found] = gains().verify(engine, "releases_have_two_people").findings
    assert [one["event_key"] for one in found.offenders] == ["stripe:evt_7:charge"]
