"""Kafka's order within an entity: what was numbered or took effect in another one, and doesn't say so, is named."""

from __future__ import annotations

import pytest

from tests.integration.ledger.conftest import EVENTS, Verify, World
from tests.integration.ledger.findings import failed, problems

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
