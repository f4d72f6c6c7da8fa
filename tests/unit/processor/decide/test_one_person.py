"""What is tried again is money too: beyond a day's limits it takes two people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from operations.command import PROPOSE_RUN, ReplayMode
from operations.limits import AloneLimits
from processor.decide.two_people import HAVE_IT_APPROVED
from tests.unit.processor.fakes import ignored
from tests.unit.processor.harness import CONTROL, Engine
from tests.unit.processor.ordering import (
    RunDecision,
    approve_run,
    approved_run,
    close,
    command,
    decided,
    last,
    order,
    run_order,
    send_run,
    target,
)

BUG = ZeroDivisionError("division by zero")
EACH_MINOR = 400


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """One person may have 1,000 minor units of EUR tried again, which are two events."""
    engine = Engine(tmp_path)
    limited(engine, replay_amounts_minor_max={"EUR": 1_000})
    return engine


def limited(engine: Engine, **limits: Any) -> None:
    engine.limit_one_person(AloneLimits(**limits))
    engine.start()


def moves(engine: Engine, event_id: str) -> None:
    money = Money(EACH_MINOR, "EUR")
    engine.adapter.facts[event_id.encode()] = MoneyFact(f"f-{event_id}", Movement.CAPTURE, "acct", "pay", money)


def dead(engine: Engine, count: int) -> list[str]:
    keys = []
    for number in range(count):
        key = engine.post(f"evt_{number}", f"of {number}")
        engine.handler.fails(key, BUG, times=1)
        moves(engine, f"evt_{number}")
        keys.append(key)
    engine.batch()
    return keys


def passed_over(engine: Engine, event_id: str) -> str:
    """An event that was ignored, and of which the adapter now says what it moved."""
    key = engine.post(event_id, f"of {event_id}")
    engine.handler.script[key] = ignored
    moves(engine, event_id)
    engine.batch()
    engine.handler.script.clear()
    return key


def by_two(engine: Engine, keys: list[str], approver: str = "bob", **options: Any) -> RunDecision:
    """Replayed as ada proposed and another person approved."""
    return approved_run(engine, "replay", *(target(engine, key) for key in keys), by=approver, **options)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("limit", [{"replay_items_max": 2}, {"replay_amounts_minor_max": {"EUR": 1_000}}])
def test_replays_count_over_a_day_however_they_are_split(
    engine: Engine, restarts: bool, together: bool, limit: dict[str, Any]
) -> None:
    limited(engine, **limit)
    keys = dead(engine, 3)
    rows = []
    for key in keys:
        command(engine, "replay", target(engine, key))
        if not together:
            rows.append(decided(engine))
            if restarts:
                engine.start(keeps_index=False)
    rows = rows or [row for row in engine.batch() if row.topic == CONTROL]
    assert [row.decision for row in rows] == [Decision.REPLAYED, Decision.REPLAYED, Decision.IGNORED]
    assert "replayed in the last 24 hours" in str(rows[-1].reason)
    assert HAVE_IT_APPROVED in str(rows[-1].reason)
    assert last(engine, keys[2]).decision is Decision.DEAD
    assert order(engine, "replay", keys[2], actor=" ADA ").decision is Decision.IGNORED
    assert order(engine, "replay", keys[2], actor="bob").decision is Decision.REPLAYED


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("act", ["replay", "purge", "resolve"])
def test_each_account_has_a_day_of_its_own(engine: Engine, act: str, restarts: bool) -> None:
    limited(engine, items_max=2, replay_items_max=2)
    keys = dead(engine, 4)
    rows = []
    for actor, key in zip(("ada", "ada", " ADA ", "bob"), keys, strict=True):
        rows.append(close(engine, act, key, actor=actor))
        if restarts:
            engine.start(keeps_index=False)
    assert [row.begun.decision is not Decision.IGNORED for row in rows] == [True, True, False, True]
    done = "replayed" if act == "replay" else "closed"
    assert f"1 item after 2 {done} in the last 24 hours" in rows[2].refusals


def test_a_row_notes_what_one_account_did_alone(engine: Engine) -> None:
    row = order(engine, "replay", *dead(engine, 1))
    assert row.headers == '{"replayed_alone":{"items":1,"amounts_minor":{"EUR":400}}}'


def test_a_day_later_it_counts_no_more(engine: Engine) -> None:
    keys = dead(engine, 3)
    assert order(engine, "replay", *keys[:2]).decision is Decision.REPLAYED
    engine.advance(86_399)
    assert order(engine, "replay", keys[2]).decision is Decision.IGNORED
    engine.advance(2)
    assert order(engine, "replay", keys[2]).decision is Decision.REPLAYED


def test_replays_and_purges_have_limits_of_their_own(engine: Engine) -> None:
    limited(engine, items_max=1, amounts_minor_max={"EUR": EACH_MINOR}, replay_items_max=2)
    one, two, three, four = dead(engine, 4)
    close(engine, "purge", one)
    assert last(engine, one).decision is Decision.PURGED
    assert order(engine, "replay", two, three).decision is Decision.REPLAYED
    assert "after 1 closed" in close(engine, "purge", four).refusals
    assert order(engine, "replay", four).decision is Decision.IGNORED


def test_what_two_people_replay_does_not_count(engine: Engine) -> None:
    keys = dead(engine, 5)
    assert by_two(engine, keys[:3]).refusals == ""
    for name, key in (("ada", keys[3]), ("bob", keys[4])):
        assert order(engine, "replay", key, actor=name).decision is Decision.REPLAYED


def test_a_replay_that_is_refused_leaves_its_items_to_the_next_command_of_the_batch(engine: Engine) -> None:
    keys = dead(engine, 3)
    for names in (keys[::-1], keys[:1]):
        command(engine, "replay", *(target(engine, key) for key in names))
    rows = [row for row in engine.batch() if row.topic == CONTROL]
    assert [row.decision for row in rows] == [Decision.IGNORED, Decision.REPLAYED]
    engine.advance(0)
    assert [last(engine, key).decision for key in keys] == [Decision.APPLIED, Decision.DEAD, Decision.DEAD]


def test_another_content_whose_replay_is_refused_still_may_take_the_key(engine: Engine) -> None:
    first, *others = dead(engine, 4)
    held = target(engine, first)
    engine.post("evt_0", "of 0", content="better")
    engine.batch()
    better = target(engine, first)
    assert last(engine, first).error_class == "EventConflict"
    run_order(engine, "purge", held)
    command(engine, "replay", *(target(engine, key) for key in others), better)
    command(engine, "replay", better)
    rows = [row for row in engine.batch() if row.topic == CONTROL and row.first]
    assert [row.decision for row in rows] == [Decision.IGNORED, Decision.REPLAYED]


@pytest.mark.parametrize("mode", [ReplayMode.ALONE, ReplayMode.WITH_FOLLOWERS])
def test_more_is_replayed_by_two_as_it_was_proposed(engine: Engine, mode: ReplayMode) -> None:
    keys = dead(engine, 3)
    assert order(engine, "replay", *keys).decision is Decision.IGNORED
    decided_run = by_two(engine, keys, mode=mode, force=True)
    assert (decided_run.begun.decision, decided_run.refusals) == (Decision.REPLAYED, "")
    assert decided_run.portion is not None
    assert "replayed_alone" not in str(decided_run.portion.headers)
    engine.advance(1)
    assert {last(engine, key).decision for key in keys} == {Decision.APPLIED}


def test_a_proposal_tries_nothing(engine: Engine) -> None:
    keys = dead(engine, 2)
    assert close(engine, "replay", *keys, action=PROPOSE_RUN).begun.decision is Decision.RESOLVED
    engine.advance(0)
    assert {last(engine, key).decision for key in keys} == {Decision.DEAD}


@pytest.mark.parametrize("change", [{"force": True}, {"mode": ReplayMode.WITH_FOLLOWERS}, {"per_s": 5.0}])
def test_an_approval_of_another_replay_than_was_proposed_is_refused(engine: Engine, change: dict[str, Any]) -> None:
    keys = dead(engine, 3)
    proposed = send_run(engine, "replay", *(target(engine, key) for key in keys), action=PROPOSE_RUN)
    decided(engine)
    refused = approve_run(engine, replace(proposed, **change), "bob")
    assert (refused.begun.decision, "no proposal" in refused.refusals) == (Decision.IGNORED, True)


@pytest.mark.parametrize("came", ["dead", "ignored"])
@pytest.mark.parametrize("approver", ["ada", " ADA "])
def test_who_proposed_does_not_approve_it(engine: Engine, came: str, approver: str) -> None:
    keys = dead(engine, 3) if came == "dead" else [passed_over(engine, "evt_9")]
    refused = by_two(engine, keys, approver=approver)
    assert (refused.begun.decision, "another person must approve it" in refused.refusals) == (Decision.IGNORED, True)


def test_ignored_events_count_with_dead_ones(engine: Engine) -> None:
    keys, ignored_one = dead(engine, 2), passed_over(engine, "evt_9")
    assert order(engine, "replay", *keys).decision is Decision.REPLAYED
    refused = order(engine, "replay", ignored_one)
    assert (refused.decision, last(engine, ignored_one).decision) == (Decision.IGNORED, Decision.IGNORED)
    assert HAVE_IT_APPROVED in str(refused.reason)
    assert by_two(engine, [ignored_one]).refusals == ""
    engine.advance(0)
    assert last(engine, ignored_one).decision is Decision.APPLIED
