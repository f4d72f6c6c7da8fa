"""Later decisions continue an item that is open: others are named."""

from __future__ import annotations

from core.decision import Decision
from tests.integration.ledger.conftest import Verify, World, later_row
from tests.integration.ledger.findings import failed


def test_a_decision_after_the_closing_one_is_named(report: Verify, world: World) -> None:
    again = later_row(world.row(11), 14, Decision.IGNORED, postings=None)
    again.batch_seq, again.epoch = world.row(14).batch_seq, world.row(14).epoch
    world.rows[-1] = again
    world.rewrite()
    found = failed(report())["items_close_once"]
    assert (found.offenders[0]["item_seq"], found.offenders[0]["closings"]) == (6, 2)


def test_a_decision_on_an_item_that_was_never_open_is_named(report: Verify, world: World) -> None:
    world.row(14).item_seq = 8
    world.rewrite()
    assert failed(report())["items_close_once"].offenders[0]["item_seq"] == 8
