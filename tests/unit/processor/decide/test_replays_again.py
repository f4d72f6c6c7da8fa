"""A replay after a replay: the loop guard, and that it takes effect once."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from dlq.command import Place
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import BUG, command, decided, dying, last, mended, order, passing, target


def replayed_in_vain(engine: Engine, key: str, times: int) -> None:
    for _ in range(times):
        assert order(engine, "replay", key).reason == "1 of 1 accepted"
        engine.advance(0)


@pytest.mark.parametrize("restart", ["", "index kept", "index lost"])
def test_what_died_after_every_replay_is_replayed_only_by_force(tmp_path: Path, restart: str) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    replayed_in_vain(engine, key, 5)
    if restart:
        engine.start(keeps_index=restart == "index kept")
    row = order(engine, "replay", key)
    assert row.reason == (
        "0 of 1 accepted; refused: item 1 was replayed 5 times and died each time: mend its cause, then force it"
    )
    mended(engine)
    assert order(engine, "replay", key, force=True).reason == "1 of 1 accepted"
    engine.advance(0)
    assert engine.decisions(key)[-1] == "applied"


def test_force_overrules_the_loop_guard_alone(tmp_path: Path) -> None:
    engine = passing(tmp_path)
    [key] = dying(engine, "evt_1")
    engine.post("evt_2")
    engine.batch()
    assert "lost its place" in str(order(engine, "replay", key, expects=Place.IN_PLACE, force=True).reason)


def test_the_same_set_replayed_twice_takes_effect_once(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    keys = [dying(engine, f"evt_{number}", entity=f"e{number}")[0] for number in range(3)]
    targets = [target(engine, key) for key in keys]
    mended(engine)
    command(engine, "replay", *targets)
    decided(engine)
    command(engine, "replay", *targets, actor="bob")
    assert "0 of 3 accepted; refused: item 1 has moved on" in str(decided(engine).reason)
    command(engine, "replay", *targets, actor="eve")
    assert "0 of 3 accepted; refused: item 1 is not open" in str(decided(engine).reason)
    assert [engine.decisions(key) for key in keys] == [["dead", "replayed", "applied"]] * 3
    assert engine.handler.calls == keys


def test_a_replayed_event_whose_fact_was_booked_meanwhile_says_which(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    first = engine.post("evt_1", "e1", fact="stripe:re_1:refund")
    engine.handler.fails(first, BUG)
    engine.batch()
    engine.post("evt_2", "e2", fact="stripe:re_1:refund")
    engine.batch()
    mended(engine)
    order(engine, "replay", first)
    engine.advance(0)
    row = last(engine, first)
    assert (row.decision, row.reason) == (
        Decision.DUPLICATE_FACT,
        "stripe:re_1:refund was applied under another event key",
    )
    assert engine.handler.calls == []
