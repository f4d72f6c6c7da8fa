"""Purge and resolve: items end for good, who waited goes on, and much of it takes two people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from operations.command import PROPOSE_RUN
from operations.frozen import PortionResult
from operations.limits import AloneLimits
from processor.decide.two_people import HAVE_IT_APPROVED
from processor.settings import DeadHead
from tests.unit.processor.fakes import Crash
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import (
    RunDecision,
    approve_run,
    approved_run,
    close,
    decided_run,
    freeze,
    last,
    order,
    run_order,
    send_run,
    target,
)

BUG = ZeroDivisionError("division by zero")
ACTS = {"purge": "purged", "resolve": "resolved"}


def dead(engine: Engine, *ids: str, entity: str | None = None) -> list[str]:
    keys = []
    for event_id in ids:
        key = engine.post(event_id, entity or f"of {event_id}")
        engine.handler.fails(key, BUG)
        keys.append(key)
    engine.batch()
    return keys


def seen(engine: Engine, key: str) -> list[bool]:
    """Whether a dead one came before, by what the handler was given at each call."""
    return [call.previous_dead for call in engine.handler.log if call.event_key == key]


@pytest.mark.parametrize("act", ACTS)
def test_a_closed_item_says_who_ended_it_and_why(engine: Engine, act: str) -> None:
    [key] = dead(engine, "evt_1")
    decided = close(engine, act, key)
    row = last(engine, key)
    assert decided.portion is not None
    assert (row.decision.value, row.actor, row.reason, row.cause_seq) == (
        ACTS[act],
        "ada",
        "garbage",
        decided.portion.seq,
    )
    assert (row.first, row.blocking, row.error_class, row.postings) == (False, False, None, None)
    assert (decided.begun.decision.value, decided.refusals) == (ACTS[act], "")
    assert (engine.index.open_count(), engine.index.dead_count()) == (0, 0)
    assert engine.batches.status()["dead"] == 0
    assert [row for row in engine.advance(3600) if row.decision is not Decision.PORTION] == []


@pytest.mark.parametrize("act", ACTS)
def test_a_redelivery_of_what_was_closed_is_a_duplicate(engine: Engine, act: str) -> None:
    [key] = dead(engine, "evt_1")
    close(engine, act, key)
    engine.handler.script.clear()
    engine.post("evt_1", "of evt_1")
    engine.batch()
    assert engine.decisions(key) == ["dead", ACTS[act], "duplicate"]


def test_a_fact_whose_first_report_was_purged_is_booked_by_its_second(engine: Engine) -> None:
    first = engine.post("evt_1", "e1", fact="stripe:re_1:refund")
    engine.handler.fails(first, BUG)
    engine.batch()
    close(engine, "purge", first)
    second = engine.post("evt_2", "e2", fact="stripe:re_1:refund")
    engine.batch()
    assert engine.decisions(second) == ["applied"]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("restart", ["", "index kept", "index lost"])
def test_who_waited_behind_a_closed_head_goes_on_in_order_and_sees_it(engine: Engine, act: str, restart: str) -> None:
    head, *_ = dead(engine, "evt_1", entity="e1")
    waiting = [engine.post(f"evt_{number}") for number in (2, 3, 4)]
    engine.batch()
    engine.handler.calls.clear()
    portion = close(engine, act, head).portion
    assert portion is not None
    [wake] = [row for row in engine.journal.rows if row.seq > portion.seq and row.event_key == waiting[0]]
    assert (wake.decision, wake.cause_seq, wake.due_at) == (Decision.PARKED, portion.seq, engine.clock.now())
    assert f"item 1, which held it back, was {ACTS[act]}" == wake.reason
    if restart:
        engine.start(keeps_index=restart == "index kept")
    engine.advance(0)
    assert engine.handler.calls == waiting
    assert [seen(engine, key)[-1] for key in waiting] == [True, True, True]
    after = engine.post("evt_5")
    engine.batch()
    assert seen(engine, after) == [False]


def test_followers_beyond_one_batch_see_the_closed_head_too(tmp_path: Path) -> None:
    engine = Engine(tmp_path, drain_per_entity_max=2)
    head, *_ = dead(engine, "evt_1", entity="e1")
    waiting = [engine.post(f"evt_{number}") for number in range(2, 8)]
    engine.batch()
    close(engine, "purge", head)
    for _ in range(4):
        engine.advance(0)
    assert [engine.decisions(key)[-1] for key in waiting] == ["applied"] * 6
    assert [seen(engine, key) for key in waiting] == [[True]] * 6


def test_an_event_that_arrives_in_the_batch_of_the_closing_goes_on_after_it(engine: Engine) -> None:
    head, *_ = dead(engine, "evt_1", entity="e1")
    send_run(engine, "purge", target(engine, head))
    engine.batch()
    late = engine.post("evt_2")
    engine.batch()
    [parked] = [row for row in engine.journal.rows if row.event_key == late]
    assert (parked.decision, parked.due_at) == (Decision.PARKED, engine.clock.now())
    engine.advance(0)
    assert engine.decisions(late) == ["parked", "applied"]
    assert seen(engine, late) == [True]


def test_the_one_behind_is_not_released_while_another_dead_one_holds_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.WAIT)
    first, *_ = dead(engine, "evt_1", entity="e1")
    second, third = engine.post("evt_2"), engine.post("evt_3")
    engine.handler.fails(second, BUG)
    engine.batch()
    close(engine, "purge", first)
    engine.advance(0)
    assert [engine.decisions(key)[-1] for key in (second, third)] == ["dead", "parked"]
    close(engine, "resolve", second)
    engine.advance(0)
    assert engine.decisions(third)[-1] == "applied"


def two_heads(tmp_path: Path) -> tuple[Engine, list[str]]:
    """Two dead events of one entity, each of which holds back what comes after it, and one that waits."""
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    first, second = dead(engine, "evt_1", "evt_2", entity="e1")
    engine.configure(dead_head=DeadHead.WAIT)
    engine.start()
    for key in (second, first):
        order(engine, "replay", key)
        engine.advance(0)
    third = engine.post("evt_3")
    engine.batch()
    assert [(last(engine, key).decision, last(engine, key).blocking) for key in (first, second, third)] == [
        (Decision.DEAD, True),
        (Decision.DEAD, True),
        (Decision.PARKED, True),
    ]
    return engine, [first, second, third]


def test_closing_several_of_one_entity_at_once_wakes_the_first_that_is_left(tmp_path: Path) -> None:
    engine, (first, second, third) = two_heads(tmp_path)
    assert close(engine, "purge", first, second).refusals == ""
    engine.advance(0)
    assert [engine.decisions(key)[-1] for key in (first, second, third)] == ["purged", "purged", "applied"]


def test_nobody_is_woken_behind_what_the_same_batch_replays_in_its_place(tmp_path: Path) -> None:
    engine, (first, second, third) = two_heads(tmp_path)
    send_run(engine, "purge", target(engine, second))
    engine.batch()
    order(engine, "replay", first)
    assert [engine.decisions(key)[-1] for key in (first, second, third)] == ["replayed", "purged", "parked"]
    assert last(engine, third).due_at is None
    engine.handler.script.clear()
    engine.handler.calls.clear()
    engine.advance(0)
    assert engine.handler.calls == [first, third]


def test_what_has_moved_on_or_is_closed_is_refused_and_the_rest_is_closed(engine: Engine) -> None:
    gone, moved, still = dead(engine, "evt_1", "evt_2", "evt_3")
    close(engine, "resolve", gone)
    stale = target(engine, moved)
    order(engine, "replay", moved)
    engine.advance(0)
    decided = run_order(engine, "purge", target(engine, gone), stale, target(engine, still))
    assert decided.refusals == f"item 1 is not open; item 2 has moved on since row {stale.seen_seq}; look again"
    assert [engine.decisions(key)[-1] for key in (gone, moved, still)] == ["resolved", "dead", "purged"]


def test_what_does_not_lie_dead_is_not_closed(engine: Engine) -> None:
    dead(engine, "evt_1", entity="e1")
    behind = engine.post("evt_2")
    engine.batch()
    assert close(engine, "purge", behind).refusals == "item 2 is parked, not dead"
    assert engine.decisions(behind) == ["parked"]


def test_of_two_orders_in_one_batch_the_second_finds_the_item_moved(engine: Engine) -> None:
    [key] = dead(engine, "evt_1")
    seen = target(engine, key)
    runs = [send_run(engine, act, seen) for act in ("purge", "resolve")]
    engine.batch()
    rows = [row for row in engine.batch() if row.decision is Decision.PORTION]
    assert [row.entity_key for row in rows] == [f"payhook:{run.selection}" for run in runs]
    refused = [len(PortionResult.of_headers(row.headers).refused) for row in rows]
    assert refused == [0, 1]
    assert engine.decisions(key) == ["dead", "purged"]


@pytest.mark.parametrize("crash", ["before", "after"])
def test_a_crash_at_the_commit_closes_once(engine: Engine, crash: str) -> None:
    head, *_ = dead(engine, "evt_1", entity="e1")
    behind = engine.post("evt_2")
    engine.batch()
    send_run(engine, "purge", target(engine, head))
    engine.batch()
    engine.journal.crash = crash
    with pytest.raises(Crash):
        engine.batch()
    engine.start(keeps_index=True)
    engine.batch()
    engine.advance(0)
    assert engine.decisions(head) == ["dead", "purged"]
    assert engine.decisions(behind)[-1] == "applied"
    assert seen(engine, behind) == [True]


# Two people


def small(engine: Engine, **limits: object) -> None:
    engine.limit_one_person(AloneLimits(**limits))  # type: ignore[arg-type]
    engine.start()


def approved(engine: Engine, act: str, *keys: str, by: str = "bob") -> RunDecision:
    return approved_run(engine, act, *(target(engine, key) for key in keys), by=by)


@pytest.mark.parametrize("act", ACTS)
def test_more_items_than_one_person_may_close_take_two(engine: Engine, act: str) -> None:
    small(engine, items_max=2)
    keys = dead(engine, "evt_1", "evt_2", "evt_3")
    alone = close(engine, act, *keys)
    assert alone.begun.decision is Decision.IGNORED
    assert alone.refusals == f"needs approval: 3 items (limit 2 a day): {HAVE_IT_APPROVED}"
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}
    assert approved(engine, act, *keys).begun.decision.value == ACTS[act]
    assert {engine.decisions(key)[-1] for key in keys} == {ACTS[act]}
    assert {last(engine, key).actor for key in keys} == {"bob"}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_limit_counts_over_a_day_however_it_is_split(engine: Engine, restarts: bool, together: bool) -> None:
    """Runs that begin together are each within the limit; the portion that goes beyond it is refused."""
    small(engine, items_max=2)
    one, two, three, four = keys = dead(engine, "evt_1", "evt_2", "evt_3", "evt_4")
    runs = []
    for key, act in ((one, "purge"), (two, "resolve"), (three, "purge")):
        run = send_run(engine, act, target(engine, key))
        runs.append(run)
        if not together:
            refusals = decided_run(engine, run).refusals
            if restarts:
                engine.start(keeps_index=False)
    if together:
        engine.batch()
        rows = {row.entity_key: row for row in engine.batch() if row.decision is Decision.PORTION}
        [refusal] = PortionResult.of_headers(rows[f"payhook:{runs[-1].selection}"].headers).refused
        refusals = refusal.why_refused
    assert [engine.decisions(key)[-1] for key in keys] == ["purged", "resolved", "dead", "dead"]
    assert "needs approval: 1 item after 2 closed in the last 24 hours (limit 2 a day)" in refusals
    close(engine, "purge", four, actor="bob")
    assert engine.decisions(four)[-1] == "purged", "another person has a day of their own"
    engine.advance(86_401)
    close(engine, "purge", three)
    assert engine.decisions(three)[-1] == "purged"


def test_what_two_people_closed_does_not_count(engine: Engine) -> None:
    small(engine, items_max=1)
    one, two, three = keys = dead(engine, "evt_1", "evt_2", "evt_3")
    approved(engine, "purge", one, two)
    close(engine, "purge", three, actor="bob")
    assert [engine.decisions(key)[-1] for key in keys] == ["purged"] * 3


def test_a_proposal_alone_closes_nothing(engine: Engine) -> None:
    keys = dead(engine, "evt_1", "evt_2")
    decided = run_order(engine, "purge", *(target(engine, key) for key in keys), action=PROPOSE_RUN)
    assert (decided.begun.decision, decided.begun.reason, decided.portion) == (Decision.RESOLVED, "garbage", None)
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}


def test_nobody_approves_their_own_proposal(engine: Engine) -> None:
    keys = dead(engine, "evt_1", "evt_2")
    decided = approved(engine, "purge", *keys, by=" ADA ")
    assert decided.begun.decision is Decision.IGNORED
    assert "another person must approve it" in decided.refusals
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}


@pytest.mark.parametrize("change", ["items", "act", "proposer", "reason"])
def test_an_approval_of_anything_but_what_was_proposed_is_refused(engine: Engine, change: str) -> None:
    key, other = dead(engine, "evt_1", "evt_2")
    proposed = send_run(engine, "resolve", target(engine, key), action=PROPOSE_RUN)
    engine.batch()
    changes = {
        "items": {"selection": freeze(engine, [target(engine, other)])},
        "act": {"act": "purge"},
        "proposer": {"actor": "eve"},
        "reason": {"reason": "another one"},
    }[change]
    decided = approve_run(engine, replace(proposed, **changes), by="bob")  # type: ignore[arg-type]
    assert "no proposal" in decided.refusals
    assert [engine.decisions(name) for name in (key, other)] == [["dead"]] * 2


def test_an_approval_is_good_once(engine: Engine) -> None:
    [key] = dead(engine, "evt_1")
    proposed = send_run(engine, "purge", target(engine, key), action=PROPOSE_RUN)
    engine.batch()
    rows = [approve_run(engine, proposed, by=by).begun for by in ("bob", "eve")]
    assert [row.decision for row in rows] == [Decision.PURGED, Decision.DUPLICATE]


def test_more_money_than_one_person_may_close_takes_two(engine: Engine) -> None:
    """The run begins, because nobody knows its money then; each portion is held to what its events moved."""
    small(engine, amounts_minor_max={"EUR": 1_000, "*": 10})
    keys = dead(engine, "evt_1", "evt_2", "evt_3")
    for key, amount in zip(keys, (600, -401, 10), strict=True):
        body = key.split(":")[1].encode()
        money = Money(amount, "JPY" if amount == 10 else "EUR")
        engine.adapter.facts[body] = MoneyFact(f"f-{amount}", Movement.CAPTURE, "acct", "pay", money)
    reported = f"needs approval: 1,001 minor units of EUR (limit 1,000 a day): {HAVE_IT_APPROVED}"
    assert reported in close(engine, "purge", *keys).refusals
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}
    close(engine, "purge", keys[0], keys[2])
    approved(engine, "purge", keys[1])
    assert {engine.decisions(key)[-1] for key in keys} == {"purged"}


def test_money_of_an_unnamed_currency_without_a_limit_is_closed_by_one(engine: Engine) -> None:
    small(engine, amounts_minor_max={"EUR": 1})
    [key] = dead(engine, "evt_1")
    engine.adapter.facts[b"evt_1"] = MoneyFact("f", Movement.CAPTURE, "acct", "pay", Money(10**12, "JPY"))
    close(engine, "purge", key)
    assert engine.decisions(key)[-1] == "purged"


def test_an_event_that_its_adapter_cannot_read_counts_as_no_money(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(engine, amounts_minor_max={"*": 0})
    [key] = dead(engine, "evt_1")

    def money(body: bytes, event_type: str) -> None:
        raise ZeroDivisionError(event_type, body)

    monkeypatch.setattr(engine.adapter, "money", money)
    close(engine, "purge", key)
    assert engine.decisions(key)[-1] == "purged"
