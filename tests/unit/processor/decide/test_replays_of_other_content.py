"""Other content under one key: applied only once the first is purged."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import (
    close,
    command,
    decided,
    dying,
    last,
    mended,
    order,
    run_order,
    send_run,
    target,
)


def conflict(engine: Engine) -> str:
    """A dead event, and other content under its key; the second's item is the last of the key."""
    [key] = dying(engine, "evt_1")
    engine.post("evt_1", content="better")
    engine.batch()
    assert last(engine, key).error_class == "EventConflict"
    return key


@pytest.mark.parametrize("restart", ["", "index kept", "index lost"])
def test_other_content_is_applied_once_the_first_is_purged(tmp_path: Path, restart: str) -> None:
    engine = Engine(tmp_path)
    key = conflict(engine)
    refused = order(engine, "replay", key)
    assert refused.reason == (
        "0 of 1 accepted; refused: item 2 is another content under a key that is held: if the first copy "
        "is dead, discard that, then replay this; if it was booked, it stays booked: discard this"
    )
    mended(engine)
    assert run_order(engine, "purge", engine.target(1, 1)).refusals == ""
    if restart:
        engine.start(keeps_index=restart == "index kept")
    assert order(engine, "replay", key).reason == "1 of 1 accepted"
    if restart:
        engine.start(keeps_index=restart == "index kept")
    engine.advance(0)
    assert engine.decisions(key) == ["dead", "dead", "purged", "replayed", "applied"]
    assert not last(engine, key).out_of_order
    for content in ("", "better"):
        engine.post("evt_1", content=content)
    engine.batch()
    assert engine.decisions(key)[-2:] == ["duplicate", "duplicate"]


def test_a_replay_of_the_other_content_in_the_batch_that_purges_is_decided_before_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = conflict(engine)
    send_run(engine, "purge", engine.target(1, 1))
    engine.batch()
    assert "is another content under a key that is held" in str(order(engine, "replay", key).reason)
    assert order(engine, "replay", key).reason == "1 of 1 accepted"


def test_purge_and_replay_of_the_other_content_by_two_runs_of_one_batch(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = conflict(engine)
    better = target(engine, key)
    mended(engine)
    send_run(engine, "purge", engine.target(1, 1))
    assert run_order(engine, "replay", better).refusals == ""
    assert engine.decisions(key) == ["dead", "dead", "purged", "replayed"]
    engine.start(keeps_index=False)
    engine.advance(0)
    assert last(engine, key).decision is Decision.APPLIED


def test_of_two_other_contents_one_takes_the_key(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = conflict(engine)
    second = target(engine, key)
    engine.post("evt_1", content="third")
    engine.batch()
    third = target(engine, key)
    mended(engine)
    run_order(engine, "purge", engine.target(1, 1))
    command(engine, "replay", second, third)
    row = decided(engine)
    assert row.reason == (
        f"1 of 2 accepted; refused: item {third.item_seq} is another content under a key that is held: if the first "
        "copy is dead, discard that, then replay this; if it was booked, it stays booked: discard this"
    )
    engine.advance(0)
    assert "is another content under a key that is held" in str(order(engine, "replay", key).reason)
    applied = [row.item_seq for row in engine.journal.rows if row.decision is Decision.APPLIED]
    assert applied == [second.item_seq]


def test_what_was_resolved_by_hand_keeps_its_key(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = conflict(engine)
    run_order(engine, "resolve", engine.target(1, 1))
    assert "is another content under a key that is held" in str(order(engine, "replay", key).reason)


def test_the_other_content_itself_may_be_purged_and_the_key_stays_held(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    key = conflict(engine)
    close(engine, "purge", key)
    engine.post("evt_1", content="third")
    engine.batch()
    assert "is another content under a key that is held" in str(order(engine, "replay", key).reason)
    engine.post("evt_1", content="better")
    engine.batch()
    assert last(engine, key).decision is Decision.DUPLICATE
