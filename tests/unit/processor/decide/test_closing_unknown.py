"""A person closes an event that nobody knows the meaning of, with a reason, and it is closed for good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.decision import Decision
from ledger.verify.duckdb_engine import duckdb_engine
from operations.command import PROPOSE_RELEASE, PURGE, RESOLVE
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.decide.test_reprocessing import knows, of_key, passed_over
from tests.unit.processor.fakes import unknown
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import command, decided, last, order, target

CLOSED = {PURGE: Decision.PURGED, RESOLVE: Decision.RESOLVED}


def not_known(engine: Engine, event_id: str = "evt_1") -> str:
    """An event that the handler doesn't know."""
    key = engine.post(event_id, "e1")
    engine.handler.script[key] = unknown
    engine.batch()
    return key


@pytest.mark.parametrize("action", CLOSED)
def test_an_unknown_event_is_closed_with_who_and_why(engine: Engine, action: str) -> None:
    key = not_known(engine)
    ordered = order(engine, action, key)
    before, closed = of_key(engine, key)
    assert (before.decision, closed.decision) == (Decision.UNKNOWN, CLOSED[action])
    assert (closed.cause_seq, closed.actor, closed.reason) == (ordered.seq, "ada", "garbage")
    assert (closed.postings, closed.blocking, closed.due_at) == (None, False, None)
    assert ordered.decision is CLOSED[action]
    assert engine.index.open_count() == 0
    assert engine.dead_letters.published == []


@pytest.mark.parametrize("keeps_index", [True, False])
def test_what_was_closed_is_not_taken_up_again_and_its_key_stays_held(engine: Engine, keeps_index: bool) -> None:
    key = not_known(engine)
    seen = target(engine, key)
    order(engine, PURGE, key)
    engine.start(keeps_index=keeps_index)
    knows(engine)
    for action in ("replay", PURGE, RESOLVE):
        command(engine, action, seen)
        assert "has moved on since row 1" in str(decided(engine).reason), action
        command(engine, action, target(engine, key))
        assert "refused" in str(decided(engine).reason), action
    assert engine.post("evt_1", "e1") == key
    engine.batch()
    assert engine.decisions(key) == ["unknown", "purged", "duplicate"]


def test_what_was_taken_up_again_meanwhile_is_not_closed(engine: Engine) -> None:
    key = not_known(engine)
    seen = target(engine, key)
    order(engine, "replay", key)
    engine.advance(0)
    command(engine, PURGE, seen)
    assert "has moved on since row 1" in str(decided(engine).reason)
    assert engine.decisions(key) == ["unknown", "replayed", "unknown"]
    order(engine, PURGE, key)
    assert engine.decisions(key) == ["unknown", "replayed", "unknown", "purged"]


def test_two_orders_of_one_batch_close_it_once(engine: Engine) -> None:
    key = not_known(engine)
    for actor in ("ada", "bob"):
        command(engine, PURGE, target(engine, key), actor=actor)
    assert "item 1 has moved on since row 1" in str(decided(engine).reason)
    assert engine.decisions(key) == ["unknown", "purged"]


def test_an_order_to_replay_and_one_to_close_in_one_batch_do_one_of_both(engine: Engine) -> None:
    key = not_known(engine)
    command(engine, PURGE, target(engine, key))
    command(engine, "replay", target(engine, key), actor="bob")
    assert "item 1 has moved on since row 1" in str(decided(engine).reason)
    engine.advance(0)
    assert engine.decisions(key) == ["unknown", "purged"]


def test_an_ignored_event_is_not_closed_and_no_key_of_an_unknown_one_is_freed(engine: Engine) -> None:
    """What is ignored has ended. To have an unknown event decided anew it is replayed."""
    for key, action in ((passed_over(engine), PURGE), (not_known(engine, "evt_2"), PROPOSE_RELEASE)):
        before = engine.decisions(key)
        command(engine, action, target(engine, key))
        assert decided(engine).decision is Decision.IGNORED, action
        assert engine.decisions(key) == before
    assert engine.freed == []


def test_an_order_of_much_takes_two_people_also_for_unknown_events(engine: Engine) -> None:
    keys = [not_known(engine, f"evt_{number}") for number in range(101)]
    command(engine, PURGE, *(target(engine, key) for key in keys))
    row = decided(engine)
    assert row.decision is Decision.IGNORED and "another person must approve it" in str(row.reason)
    assert last(engine, keys[0]).decision is Decision.UNKNOWN


def test_the_journals_promises_hold_over_what_was_closed(tmp_path: Path) -> None:
    """Closed at once, and after it was taken up again; a second closing is found."""
    engine = Engine(tmp_path / "engine")
    keys = [not_known(engine, f"evt_{number}") for number in range(3)]
    order(engine, PURGE, keys[0])
    order(engine, "replay", keys[1])
    engine.advance(0)
    order(engine, RESOLVE, keys[1])
    names = ("items_close_once", "reprocessed_were_ignored", "one_effect_per_event_key")
    (tmp_path / "duckdb").mkdir()
    with duckdb_engine(tmp_path / "duckdb", "500m") as duckdb:
        name_rows(duckdb, engine.journal.rows)
        assert offenders(duckdb, *names) == []
        again = replace(last(engine, keys[0]), seq=engine.journal.rows[-1].seq + 1)
        name_rows(duckdb, [*engine.journal.rows, again])
        assert [one["item_seq"] for one in offenders(duckdb, "items_close_once")] == [1]
