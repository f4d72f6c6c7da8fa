"""Purge and resolve: items end for good, who waited goes on, and much of it takes two people."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from journal.schema import JournalRow
from operations.limits import AloneLimits
from processor.decide.two_people import HAVE_IT_APPROVED
from processor.settings import DeadHead
from tests.unit.processor.fakes import Crash, Stuck
from tests.unit.processor.harness import CONTROL, Engine
from tests.unit.processor.ordering import approval, command, decided, last, order, target

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
    control = order(engine, act, key)
    row = last(engine, key)
    assert (row.decision.value, row.actor, row.reason, row.cause_seq) == (ACTS[act], "ada", "garbage", control.seq)
    assert (row.first, row.blocking, row.error_class, row.postings) == (False, False, None, None)
    assert (control.decision.value, control.reason) == (ACTS[act], f"1 of 1 {ACTS[act]}")
    assert (engine.index.open_count(), engine.index.dead_count()) == (0, 0)
    assert engine.batches.status()["dead"] == 0
    assert engine.advance(3600) == []


@pytest.mark.parametrize("act", ACTS)
def test_a_redelivery_of_what_was_closed_is_a_duplicate(engine: Engine, act: str) -> None:
    [key] = dead(engine, "evt_1")
    order(engine, act, key)
    engine.handler.script.clear()
    engine.post("evt_1", "of evt_1")
    engine.batch()
    assert engine.decisions(key) == ["dead", ACTS[act], "duplicate"]


def test_a_fact_whose_first_report_was_purged_is_booked_by_its_second(engine: Engine) -> None:
    first = engine.post("evt_1", "e1", fact="stripe:re_1:refund")
    engine.handler.fails(first, BUG)
    engine.batch()
    order(engine, "purge", first)
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
    control = order(engine, act, head)
    [wake] = [row for row in engine.journal.rows if row.seq > control.seq and row.event_key == waiting[0]]
    assert (wake.decision, wake.cause_seq, wake.due_at) == (Decision.PARKED, control.seq, engine.clock.now())
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
    order(engine, "purge", head)
    for _ in range(4):
        engine.advance(0)
    assert [engine.decisions(key)[-1] for key in waiting] == ["applied"] * 6
    assert [seen(engine, key) for key in waiting] == [[True]] * 6


def test_an_event_that_arrives_with_the_order_is_released_with_it(engine: Engine) -> None:
    head, *_ = dead(engine, "evt_1", entity="e1")
    late = engine.post("evt_2")
    order(engine, "purge", head)
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
    order(engine, "purge", first)
    engine.advance(0)
    assert [engine.decisions(key)[-1] for key in (second, third)] == ["dead", "parked"]
    order(engine, "resolve", second)
    engine.advance(0)
    assert engine.decisions(third)[-1] == "applied"


def test_closing_several_of_one_entity_at_once_wakes_the_first_that_is_left(engine: Engine) -> None:
    head, *_ = dead(engine, "evt_1", entity="e1")
    second, third = engine.post("evt_2"), engine.post("evt_3")
    engine.handler.fails(second, Stuck("no answer"))
    engine.batch()
    order(engine, "purge", head)
    engine.advance(0)
    assert engine.decisions(second)[-1] == "retry"
    order(engine, "purge", second)
    engine.advance(0)
    assert engine.decisions(third)[-1] == "applied"
    assert [row.attempt for row in engine.journal.rows if row.decision is Decision.PURGED and not row.first] == [0, 1]


def test_an_item_that_waits_for_its_replay_is_not_closed_and_one_that_was_never_tried_neither(engine: Engine) -> None:
    keys = dead(engine, "evt_1", "evt_2", entity="e1")
    other, *_ = dead(engine, "evt_3", "evt_4")
    command(engine, "replay", target(engine, keys[0]), target(engine, other), interval_us=30_000_000)
    engine.batch()
    assert "is being replayed" in str(order(engine, "purge", other).reason)
    assert last(engine, keys[1]).decision is Decision.PARKED
    row = order(engine, "purge", keys[1])
    number = last(engine, keys[1]).item_seq
    assert row.decision is Decision.IGNORED
    assert (
        row.reason == f"0 of 1 purged; refused: item {number} is parked and was never tried: act on what it waits for"
    )


def test_what_has_moved_on_or_is_closed_is_refused_and_the_rest_is_closed(engine: Engine) -> None:
    gone, moved, still = dead(engine, "evt_1", "evt_2", "evt_3")
    order(engine, "resolve", gone)
    stale = target(engine, moved)
    order(engine, "replay", moved)
    engine.advance(0)
    command(engine, "purge", target(engine, gone), stale, target(engine, still))
    row = decided(engine)
    assert row.decision is Decision.PURGED
    assert row.reason == (
        f"1 of 3 purged; refused: item 1 is not open; item 2 has moved on since row {stale.seen_seq}; look again"
    )
    assert [engine.decisions(key)[-1] for key in (gone, moved, still)] == ["resolved", "dead", "purged"]


def test_of_two_orders_in_one_batch_the_second_finds_the_item_moved(engine: Engine) -> None:
    [key] = dead(engine, "evt_1")
    command(engine, "purge", target(engine, key))
    command(engine, "replay", target(engine, key))
    rows = [row for row in engine.batch() if row.topic == CONTROL and row.first]
    assert [row.decision.value for row in rows] == ["purged", "ignored"]
    assert engine.decisions(key) == ["dead", "purged"]


def test_nobody_is_woken_behind_what_the_same_batch_replays_in_its_place(tmp_path: Path) -> None:
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    [passed] = dead(engine, "evt_1", entity="e1")
    head, behind = engine.post("evt_2"), engine.post("evt_3")
    engine.handler.fails(head, Stuck("no answer"))
    engine.batch()
    command(engine, "replay", target(engine, passed), interval_us=0)
    command(engine, "purge", target(engine, head))
    engine.batch()
    assert [engine.decisions(key)[-1] for key in (passed, head, behind)] == ["replayed", "purged", "parked"]
    assert last(engine, behind).due_at is None
    engine.handler.script.clear()
    engine.handler.calls.clear()
    engine.advance(0)
    assert engine.handler.calls == [passed, behind]


@pytest.mark.parametrize("crash", ["before", "after"])
def test_a_crash_at_the_commit_closes_once(engine: Engine, crash: str) -> None:
    head, *_ = dead(engine, "evt_1", entity="e1")
    behind = engine.post("evt_2")
    engine.batch()
    command(engine, "purge", target(engine, head))
    pending = list(engine._pending)
    engine.journal.crash = crash
    with pytest.raises(Crash):
        engine.batch()
    engine._pending[:] = pending
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


def approved(engine: Engine, act: str, keys: list[str], by: str = "bob") -> JournalRow:
    first = command(engine, f"propose_{act}", *(target(engine, key) for key in keys))
    engine.batch()
    command(engine, act, *first.targets, actor=by, proposal=approval(first))
    return decided(engine)


@pytest.mark.parametrize("act", ACTS)
def test_more_items_than_one_person_may_close_take_two(engine: Engine, act: str) -> None:
    small(engine, items_max=2)
    keys = dead(engine, "evt_1", "evt_2", "evt_3")
    alone = order(engine, act, *keys)
    assert alone.decision is Decision.IGNORED
    assert alone.reason == f"refused: needs approval: 3 items (limit 2 a day): {HAVE_IT_APPROVED}"
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}
    row = approved(engine, act, keys)
    assert row.decision.value == ACTS[act]
    assert str(row.reason).startswith(f"3 of 3 {ACTS[act]}, as ada proposed (propose_{act}-")
    assert {engine.decisions(key)[-1] for key in keys} == {ACTS[act]}
    assert {last(engine, key).actor for key in keys} == {"bob"}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_limit_counts_over_a_day_however_it_is_split(engine: Engine, restarts: bool, together: bool) -> None:
    small(engine, items_max=2)
    one, two, three, four = dead(engine, "evt_1", "evt_2", "evt_3", "evt_4")
    rows = []
    for key, act in ((one, "purge"), (two, "resolve"), (three, "purge")):
        command(engine, act, target(engine, key))
        if not together:
            rows.append(decided(engine))
            if restarts:
                engine.start(keeps_index=False)
    rows = rows or [row for row in engine.batch() if row.first]
    assert [row.decision for row in rows] == [Decision.PURGED, Decision.RESOLVED, Decision.IGNORED]
    reported = "needs approval: 1 item after 2 closed in the last 24 hours (limit 2 a day)"
    assert reported in str(rows[-1].reason)
    command(engine, "purge", target(engine, four), actor="bob")
    assert decided(engine).decision is Decision.PURGED, "another person has a day of their own"
    engine.advance(86_401)
    assert order(engine, "purge", three).decision is Decision.PURGED


def test_what_two_people_closed_does_not_count(engine: Engine) -> None:
    small(engine, items_max=1)
    one, two, three = dead(engine, "evt_1", "evt_2", "evt_3")
    assert approved(engine, "purge", [one, two], by="bob").decision is Decision.PURGED
    command(engine, "purge", target(engine, three), actor="bob")
    assert decided(engine).decision is Decision.PURGED


def test_a_proposal_alone_closes_nothing(engine: Engine) -> None:
    keys = dead(engine, "evt_1", "evt_2")
    row = order(engine, "propose_purge", *keys)
    assert (row.decision, row.reason) == (
        Decision.RESOLVED,
        "2 of 2 proposed to be purged, nothing is done yet: garbage",
    )
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}


def test_a_proposal_of_nothing_that_is_open_is_refused(engine: Engine) -> None:
    [key] = dead(engine, "evt_1")
    order(engine, "purge", key)
    row = order(engine, "propose_resolve", key)
    assert (row.decision, row.reason) == (Decision.IGNORED, "refused: item 1 is not open")


def test_nobody_approves_their_own_proposal(engine: Engine) -> None:
    keys = dead(engine, "evt_1", "evt_2")
    row = approved(engine, "purge", keys, by=" ADA ")
    assert row.decision is Decision.IGNORED
    assert "another person must approve it" in str(row.reason)
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}


def test_an_approval_of_other_items_than_were_proposed_is_refused(engine: Engine) -> None:
    proposed, other = dead(engine, "evt_1", "evt_2")
    first = command(engine, "propose_purge", target(engine, proposed))
    engine.batch()
    command(engine, "purge", target(engine, other), actor="bob", proposal=approval(first))
    assert "no proposal" in str(decided(engine).reason)
    assert engine.decisions(other) == ["dead"]


def test_a_proposal_to_resolve_is_no_leave_to_purge(engine: Engine) -> None:
    [key] = dead(engine, "evt_1")
    first = command(engine, "propose_resolve", target(engine, key))
    engine.batch()
    command(engine, "purge", *first.targets, actor="bob", proposal=approval(first))
    assert "no proposal" in str(decided(engine).reason)
    assert engine.decisions(key) == ["dead"]


def test_an_approval_is_good_once(engine: Engine) -> None:
    [key] = dead(engine, "evt_1")
    first = command(engine, "propose_purge", target(engine, key))
    engine.batch()
    rows = []
    for by in ("bob", "eve"):
        command(engine, "purge", *first.targets, actor=by, proposal=approval(first))
        rows.append(decided(engine))
    assert [row.decision for row in rows] == [Decision.PURGED, Decision.IGNORED]


def test_more_money_than_one_person_may_close_takes_two(engine: Engine) -> None:
    small(engine, amounts_minor_max={"EUR": 1_000, "*": 10})
    keys = dead(engine, "evt_1", "evt_2", "evt_3")
    for key, amount in zip(keys, (600, -401, 10), strict=True):
        body = key.split(":")[1].encode()
        money = Money(amount, "JPY" if amount == 10 else "EUR")
        engine.adapter.facts[body] = MoneyFact(f"f-{amount}", Movement.CAPTURE, "acct", "pay", money)
    row = order(engine, "purge", *keys)
    assert f"needs approval: 1,001 minor units of EUR (limit 1,000 a day): {HAVE_IT_APPROVED}" in str(row.reason)
    assert {engine.decisions(key)[-1] for key in keys} == {"dead"}
    assert order(engine, "purge", keys[0], keys[2]).decision is Decision.PURGED
    assert approved(engine, "purge", keys[1:2]).decision is Decision.PURGED


def test_money_of_an_unnamed_currency_without_a_limit_is_closed_by_one(engine: Engine) -> None:
    small(engine, amounts_minor_max={"EUR": 1})
    [key] = dead(engine, "evt_1")
    engine.adapter.facts[b"evt_1"] = MoneyFact("f", Movement.CAPTURE, "acct", "pay", Money(10**12, "JPY"))
    assert order(engine, "purge", key).decision is Decision.PURGED


def test_an_event_that_its_adapter_cannot_read_counts_as_no_money(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(engine, amounts_minor_max={"*": 0})
    [key] = dead(engine, "evt_1")

    def money(body: bytes, event_type: str) -> None:
        raise ZeroDivisionError(event_type, body)

    monkeypatch.setattr(engine.adapter, "money", money)
    assert order(engine, "purge", key).decision is Decision.PURGED
