"""Later decisions continue an item that is open: others are named."""

from __future__ import annotations

from core.decision import Decision
from tests.integration.ledger.conftest import Verify, World, later_row
from tests.integration.ledger.findings import wrong


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


def test_an_item_that_was_never_open_is_not_replayed(report: Verify, world: World) -> None:
    """An ignored one may be taken up again, but row 7, its cause, is no command for that."""
    world.row(14).item_seq = 8
    world.rewrite()
    offender = wrong(report, "reprocessed_were_ignored").offenders[0]
    assert (offender["item_seq"], offender["was"], offender["cause_seq"]) == (8, "ignored", 7)


def test_an_item_that_was_applied_at_once_is_not_replayed(report: Verify, world: World) -> None:
    world.row(14).item_seq = 9
    world.rewrite()
    offender = wrong(report, "reprocessed_were_ignored").offenders[0]
    assert (offender["item_seq"], offender["was"]) == (9, "applied")
