"""A person closes an event that nobody knows the meaning of, with a reason, and it is closed for good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.decision import Decision
from ledger.verify.duckdb_engine import duckdb_engine
from operations.command import PURGE, RELEASE, RESOLVE
from operations.frozen import PortionResult
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.decide.test_reprocessing import knows, of_key, passed_over
from tests.unit.processor.fakes import unknown
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import approved_run, close, command, last, order, run_order, send_run, target

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
    portion = close(engine, action, key).portion
    before, closed = of_key(engine, key)
    assert (before.decision, closed.decision) == (Decision.UNKNOWN, CLOSED[action])
    assert portion is not None
    assert (closed.cause_seq, closed.actor, closed.reason) == (portion.seq, "ada", "garbage")
    assert (closed.postings, closed.blocking, closed.due_at) == (None, False, None)
    assert engine.index.open_count() == 0
    assert engine.dead_letters.published == []


@pytest.mark.parametrize("keeps_index", [True, False])
def test_what_was_closed_is_not_taken_up_again_and_its_key_stays_held(engine: Engine, keeps_index: bool) -> None:
    key = not_known(engine)
    seen = target(engine, key)
    close(engine, PURGE, key)
    engine.start(keeps_index=keeps_index)
    knows(engine)
    for action in ("replay", PURGE, RESOLVE):
        assert "has moved on since row 1" in run_order(engine, action, seen).refusals, action
        assert close(engine, action, key).refusals, action
    assert engine.post("evt_1", "e1") == key
    engine.batch()
    assert engine.decisions(key) == ["unknown", "purged", "duplicate"]


def test_what_was_taken_up_again_meanwhile_is_not_closed(engine: Engine) -> None:
    key = not_known(engine)
    seen = target(engine, key)
    order(engine, "replay", key)
    engine.advance(0)
    assert "has moved on since row 1" in run_order(engine, PURGE, seen).refusals
    assert engine.decisions(key) == ["unknown", "replayed", "unknown"]
    close(engine, PURGE, key)
    assert engine.decisions(key) == ["unknown", "replayed", "unknown", "purged"]


def test_two_orders_of_one_batch_close_it_once(engine: Engine) -> None:
    key = not_known(engine)
    for actor in ("ada", "bob"):
        send_run(engine, PURGE, target(engine, key), actor=actor)
    engine.batch()
    [*_, last_portion] = [row for row in engine.batch() if row.decision is Decision.PORTION]
    [refusal] = PortionResult.of_headers(last_portion.headers).refused
    assert "item 1 has moved on since row 1" in refusal.why_refused
    assert engine.decisions(key) == ["unknown", "purged"]


def test_an_order_to_replay_and_one_to_close_in_one_batch_do_one_of_both(engine: Engine) -> None:
    key = not_known(engine)
    send_run(engine, PURGE, target(engine, key))
    engine.batch()
    command(engine, "replay", target(engine, key), actor="bob")
    [*_, portion] = [row for row in engine.batch() if row.decision is Decision.PORTION]
    [refusal] = PortionResult.of_headers(portion.headers).refused
    assert "item 1 has moved on since row 1" in refusal.why_refused
    engine.advance(0)
    assert engine.decisions(key) == ["unknown", "replayed", "unknown"]


def test_an_ignored_event_is_not_closed_and_no_key_of_an_unknown_one_is_freed(engine: Engine) -> None:
    """What is ignored has ended. To have an unknown event decided anew it is replayed."""
    for key, action in ((passed_over(engine), PURGE), (not_known(engine, "evt_2"), RELEASE)):
        before = engine.decisions(key)
        assert "is not open" in approved_run(engine, action, target(engine, key)).refusals, action
        assert engine.decisions(key) == before
    assert engine.freed == []


def test_an_order_of_much_takes_two_people_also_for_unknown_events(engine: Engine) -> None:
    keys = [not_known(engine, f"evt_{number}") for number in range(101)]
    decided = close(engine, PURGE, *keys)
    assert decided.begun.decision is Decision.IGNORED and "another person must approve it" in decided.refusals
    assert last(engine, keys[0]).decision is Decision.UNKNOWN


def test_the_journals_promises_hold_over_what_was_closed(tmp_path: Path) -> None:
    """Closed at once, and after it was taken up again; a second closing is found."""
    engine = Engine(tmp_path / "engine")
    keys = [not_known(engine, f"evt_{number}") for number in range(3)]
    close(engine, PURGE, keys[0])
    order(engine, "replay", keys[1])
    engine.advance(0)
    close(engine, RESOLVE, keys[1])
    names = ("items_close_once", "reprocessed_were_ignored", "one_effect_per_event_key")
    (tmp_path / "duckdb").mkdir()
    with duckdb_engine(tmp_path / "duckdb", "500m") as duckdb:
        name_rows(duckdb, engine.journal.rows)
        assert offenders(duckdb, *names) == []
        again = replace(last(engine, keys[0]), seq=engine.journal.rows[-1].seq + 1)
        name_rows(duckdb, [*engine.journal.rows, again])
        assert [one["item_seq"] for one in offenders(duckdb, "items_close_once")] == [1]
