"""A released key is free, and a purged one may be another content since: what is right about them, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from core.decision import Decision
from core.keys import hash_key
from journal import index_layout as layout
from journal.schema import JournalRow
from ledger.verify.derived_checks import IndexEqualsJournal
from ledger.verify.engine import SqlEngine
from tests.integration.ledger.conftest import CONTROL, EVENTS, World, later_row, new_row
from tests.integration.ledger.findings import problems

# a released event's key is free: the same event may come again, once, and is no duplicate of what was released


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


# a purged event's key may be another content's since: the index is right in that, and cleared without a search


KEY = "stripe:evt_7:charge"


@pytest.fixture
def purged(world: World) -> World:
    """Row 12 died and is purged; other content under its key, refused as a conflict, is replayed and applied."""
    refused: dict[str, Any] = {"error_class": "EventConflict", "handler_version": None}
    better = new_row(15, EVENTS, 0, 105, Decision.DEAD, "evt_7", content="better", **refused)
    world.add_commit(
        better,
        new_row(16, CONTROL, 0, 1, Decision.PURGED, "cmd_2"),
        later_row(world.row(12), 17, Decision.PURGED, cause_seq=16),
        new_row(18, CONTROL, 0, 2, Decision.REPLAYED, "cmd_3"),
        later_row(better, 19, Decision.REPLAYED, cause_seq=18),
        later_row(better, 20, Decision.APPLIED, error_class=None, handler_version="ledger-1"),
    )
    world.index_commit()
    world.rewrite()
    return world


def test_a_key_that_went_over_to_other_content_is_right(engine: SqlEngine, purged: World) -> None:
    assert purged.verify(engine, IndexEqualsJournal.name).ok


def test_a_key_that_went_over_to_anything_else_is_found(engine: SqlEngine, purged: World) -> None:
    purged.index(lambda index: index._store._db.delete(layout.EVENT + hash_key(KEY)))
    assert "doesn't know an event key" in problems(purged.verify(engine, IndexEqualsJournal.name).findings[0])
