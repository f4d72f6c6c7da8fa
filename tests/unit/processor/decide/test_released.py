"""Release: a dead event is discarded by two people and its key is freed, so that the provider may send it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import (
    RunDecision,
    approved_run,
    close,
    dying,
    last,
    mended,
    order,
    target,
)


def released(engine: Engine, key: str, by: str = "grace") -> RunDecision:
    """Ada proposes the release of a key's last item, and another person approves it."""
    return approved_run(engine, "release", target(engine, key), by=by)


@pytest.mark.parametrize("restart", ["", "index kept", "index lost"])
def test_what_was_released_comes_again_and_is_decided_as_a_first_event(tmp_path: Path, restart: str) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    assert released(engine, key).begun.decision is Decision.RELEASED
    assert engine.freed == [key]
    mended(engine)
    if restart:
        engine.start(keeps_index=restart == "index kept")
    engine.post("evt_1")
    engine.batch()
    again = last(engine, key)
    assert engine.decisions(key) == ["dead", "released", "applied"]
    assert (again.first, again.item_seq == again.seq) == (True, True)
    engine.post("evt_1")
    engine.batch()
    assert engine.decisions(key)[-1] == "duplicate"


def test_a_released_event_that_comes_again_with_other_content_is_the_first_and_the_old_content_dies_beside_it(
    tmp_path: Path,
) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    released(engine, key)
    mended(engine)
    engine.post("evt_1", content="corrected")
    engine.batch()
    assert engine.decisions(key)[-1] == "applied"
    engine.post("evt_1")
    engine.batch()
    assert last(engine, key).error_class == "EventConflict"


@pytest.mark.parametrize("action", ["release", "purge"])
def test_a_release_takes_two_people_however_small_it_is(tmp_path: Path, action: str) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    alone = close(engine, action, key)
    if action == "purge":
        assert engine.decisions(key) == ["dead", "purged"]
        return
    assert "a release always takes a second person" in alone.refusals
    assert engine.decisions(key) == ["dead"]
    decided = released(engine, key, by="Ada")
    assert (decided.begun.decision, engine.freed) == (Decision.IGNORED, [])
    assert "Ada proposed it" in decided.refusals


def test_other_content_holds_no_key_and_can_not_be_released(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    engine.post("evt_1", content="better")
    engine.batch()
    assert target(engine, key).item_seq == 2
    assert released(engine, key).refusals == (
        "item 2 holds no event key that could be freed: discard it; if another event holds its key, release that one"
    )


def test_other_content_of_a_released_key_is_not_replayed_beside_what_comes_again(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    first = target(engine, key)
    engine.post("evt_1", content="better")
    engine.batch()
    assert approved_run(engine, "release", first).refusals == ""
    assert order(engine, "replay", key).reason == (
        "0 of 1 accepted; refused: item 2 is another content under a key that was freed: discard it, and let the "
        "provider send the event again"
    )


def test_nothing_is_released_while_the_claims_can_not_be_freed(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    [key] = dying(engine, "evt_1")
    engine.redis_is_down = "no answer"
    refused = "Redis didn't free the key of item 1 (no answer): nothing is released; release it again"
    assert released(engine, key).refusals == refused
    assert engine.decisions(key) == ["dead"]
    engine.redis_is_down = ""
    released(engine, key)
    assert engine.decisions(key) == ["dead", "released"]


def test_who_waited_behind_a_released_event_goes_on(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    [head] = dying(engine, "evt_1")
    waiting = engine.post("evt_2")
    engine.batch()
    released(engine, head)
    engine.advance(0)
    assert engine.decisions(waiting)[-1] == "applied"
