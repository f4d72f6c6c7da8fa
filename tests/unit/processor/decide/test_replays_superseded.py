"""Replays of what others have passed meanwhile, and what the index forecasts of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from core.work import MissingPredecessor
from dlq.acceptance import ReplayRules, judge_replay
from dlq.command import Place, ReplayMode
from processor.settings import DeadHead
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import command, decided, dying, last, mended, order, passing, target


def test_what_was_passed_runs_behind_and_says_so(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    [late] = dying(engine, "evt_1")
    engine.post("evt_2")
    engine.batch()
    mended(engine)
    row = order(engine, "replay", late, mode=ReplayMode.SUPERSEDED)
    engine.advance(0)
    assert row.reason == "1 of 1 accepted"
    assert engine.decisions(late) == ["dead", "replayed", "applied"]
    assert last(engine, late).out_of_order


def test_what_has_its_place_still_is_not_superseded(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    [key] = dying(engine, "evt_1")
    row = order(engine, "replay", key, mode=ReplayMode.SUPERSEDED)
    assert row.reason == "0 of 1 accepted; refused: item 1 has its place still: replay it alone, and it runs there"


@pytest.mark.parametrize("together", [True, False])
def test_what_was_passed_since_the_dry_run_is_refused_if_it_was_to_run_in_its_place(
    tmp_path: Path, *, together: bool
) -> None:
    engine = passing(tmp_path)
    [key] = dying(engine, "evt_1")
    engine.post("evt_2")
    if not together:
        engine.batch()
    row = order(engine, "replay", key, expects=Place.IN_PLACE)
    assert "has lost its place to events of its entity that were applied since" in str(row.reason)
    assert engine.decisions(key) == ["dead"]
    assert order(engine, "replay", key).reason == "1 of 1 accepted"


@pytest.mark.parametrize("policy", list(DeadHead))
@pytest.mark.parametrize("passed", [False, True])
def test_a_forecast_by_the_index_is_what_happens(tmp_path: Path, policy: DeadHead, *, passed: bool) -> None:
    engine = Engine(tmp_path, dead_head=policy)
    [key] = dying(engine, "evt_1")
    if passed:
        engine.post("evt_2")
        engine.batch()
    given = command(engine, "replay", target(engine, key))
    rows = len(engine.journal.rows)
    [reported] = judge_replay(given, engine.index, ReplayRules(policy is DeadHead.DIE_WITH_IT, 5))
    assert len(engine.journal.rows) == rows
    mended(engine)
    decided(engine)
    engine.advance(0)
    assert reported.refusal is None
    assert reported.in_place == (not last(engine, key).out_of_order)


def test_a_place_is_lost_to_later_ones_also_by_what_missed_its_predecessor(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = engine.post("evt_1")
    engine.handler.fails(key, MissingPredecessor(key, "its capture"))
    engine.post("evt_2")
    engine.batch()
    for delay in (1, 2, 4, 8, 16):
        engine.advance(delay)
    assert last(engine, key).decision is Decision.DEAD
    assert "lost its place" in str(order(engine, "replay", key, expects=Place.IN_PLACE).reason)
    assert order(engine, "replay", key, mode=ReplayMode.SUPERSEDED).reason == "1 of 1 accepted"
