"""A ledger is of one mode: events of another one are named."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from ledger.verify.evidence import VerifyLimits
from tests.integration.ledger.conftest import Verify, World
from tests.integration.ledger.findings import failed, wrong


@pytest.mark.parametrize("mode", ["test", None])
def test_an_event_of_another_mode_is_named(report: Verify, world: World, mode: str | None) -> None:
    world.row(2).mode = mode
    world.rewrite()
    found = wrong(report, "one_mode")
    assert [(one["seq"], one["mode"]) for one in found.offenders] == [(2, mode)]


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
