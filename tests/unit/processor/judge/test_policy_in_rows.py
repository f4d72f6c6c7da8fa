"""The policy under which an event failed is written into its row, and a changed configuration leaves it alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import Decision
from journal.schema import JournalRow
from processor.judge.retry import parse_policy
from tests.unit.processor.harness import NOW, POLICY, Down, Engine, Stuck

OTHER = "fixed(60s x2)"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def configure(engine: Engine, policy: str) -> None:
    """The processor starts again with another policy."""
    engine.rules = replace(engine.rules, policy=parse_policy(policy))
    engine.start()


def wait_of(row: JournalRow) -> float:
    assert row.due_at is not None
    return (row.due_at - row.decided_at).total_seconds()


def test_the_row_of_a_failure_names_its_policy(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    [row] = engine.batch()
    assert (row.decision, row.retry_policy, row.attempt, wait_of(row)) == (Decision.RETRY, POLICY, 1, 1.0)


def test_what_is_parked_is_due_as_it_was_whatever_is_configured_then(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"), times=1)
    engine.batch()
    configure(engine, OTHER)
    assert engine.advance(0.9) == []
    [row] = engine.advance(0.2)
    assert (row.decision, row.retry_policy) == (Decision.APPLIED, POLICY)


def test_its_further_tries_follow_the_policy_that_it_began_with(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    engine.batch()
    configure(engine, OTHER)
    waits = []
    for seconds in (1, 2, 4, 8):
        [row] = engine.advance(seconds)
        assert row.retry_policy == POLICY
        waits.append(wait_of(row))
    assert waits == [2, 4, 8, 16]
    [dead] = engine.advance(16)
    assert (dead.decision, dead.retry_policy, dead.decided_at) == (Decision.DEAD, POLICY, NOW + timedelta(seconds=31))


def test_an_event_that_fails_for_the_first_time_follows_what_is_configured(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    engine.batch()
    configure(engine, OTHER)
    engine.handler.fails(engine.post("b", entity="e2"), Stuck("not yet"))
    [row] = engine.batch()
    assert (row.retry_policy, wait_of(row)) == (OTHER, 60)


def test_a_follower_that_never_failed_follows_what_is_configured(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"), times=1)
    engine.handler.fails(engine.post("b"), Stuck("not yet"))
    engine.batch()
    configure(engine, OTHER)
    first, follower = engine.advance(1)
    assert (first.decision, follower.retry_policy, wait_of(follower)) == (Decision.APPLIED, OTHER, 60)


def test_a_blocked_stream_does_not_make_an_event_forget_its_policy(engine: Engine) -> None:
    key = engine.post("a")
    engine.handler.fails(key, Stuck("not yet"))
    engine.batch()
    engine.handler.fails(key, Down("all of it"), times=1)
    [parked] = engine.advance(1)
    assert (parked.decision, parked.attempt, parked.retry_policy) == (Decision.PARKED, 1, POLICY)
    configure(engine, OTHER)
    engine.handler.fails(key, Stuck("not yet"))
    [row] = engine.advance(2)
    assert (row.decision, row.attempt, row.retry_policy, wait_of(row)) == (Decision.RETRY, 2, POLICY, 2)


def test_a_replay_is_another_round_under_what_is_configured(engine: Engine) -> None:
    configure(engine, "fixed(1s)")
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    [first] = engine.batch()
    [dead] = engine.advance(1)
    assert dead.decision is Decision.DEAD
    configure(engine, OTHER)
    engine.command(first.seq, dead.seq)
    engine.batch()
    [row] = engine.batch()
    assert (row.decision, row.attempt, row.retry_policy, wait_of(row)) == (Decision.RETRY, 1, OTHER, 60)
