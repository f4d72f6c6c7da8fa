"""An ignored event is taken up again once a handler knows its type: in its place, once, and never without its body."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from core.decision import Decision
from core.event import Dedupe, Event, Mode, to_headers
from core.money import Money, MoneyFact, Movement
from journal.schema import JournalRow
from load.samples.stripe import stripe_event
from providers import Request
from providers.settings import ProvidersSettings
from providers.square import SquareAdapter
from providers.stripe import StripeAdapter
from tests.unit.processor.fakes import Crash, Stuck, ignored, unknown
from tests.unit.processor.harness import EVENTS, NOW, Engine
from tests.unit.processor.ordering import command, decided, last, order, send_run, target
from tests.unit.providers.samples.square import with_fees

BODY = stripe_event(
    "evt_1",
    "refund.created",
    payment="pi_1",
    account="acct_1",
    amount_minor=500,
    currency="EUR",
    created=NOW,
    object_id="re_1",
)
TODAY = StripeAdapter(ProvidersSettings())
[REAL] = TODAY.events(Request(BODY, ()), "live")


def passed_over(engine: Engine, event_id: str = "evt_1", entity: str = "e1", **more: Any) -> str:
    """An event whose type no handler knew."""
    key = engine.post(event_id, entity, **more)
    engine.handler.script[key] = ignored
    engine.batch()
    return key


def knows(engine: Engine, version: str = "test-2") -> None:
    """The handler's next version books everything."""
    engine.handler.script.clear()
    engine.handler.version = version


def of_key(engine: Engine, key: str) -> list[JournalRow]:
    return [row for row in engine.journal.rows if row.event_key == key]


def test_an_ignored_event_is_booked_by_the_handler_that_knows_its_type(engine: Engine) -> None:
    key = passed_over(engine)
    knows(engine)
    ordered = order(engine, "replay", key)
    engine.advance(0)
    before, opened, booked = of_key(engine, key)
    assert [row.decision.value for row in (before, opened, booked)] == ["ignored", "replayed", "applied"]
    assert [row.handler_version for row in (before, opened, booked)] == ["test-1", None, "test-2"]
    assert (opened.cause_seq, opened.actor, opened.reason) == (ordered.seq, "ada", "garbage")
    assert (ordered.decision, ordered.reason) == (Decision.REPLAYED, "1 of 1 accepted")
    assert booked.postings is not None
    assert engine.index.open_count() == 0


@pytest.mark.row("G1")
def test_an_unknown_event_is_kept_holds_back_nobody_and_is_booked_once_its_type_is_known(engine: Engine) -> None:
    key, later = engine.post("evt_1", "e1"), engine.post("evt_2", "e1")
    engine.handler.script[key] = unknown
    engine.batch()
    row = last(engine, key)
    assert (row.decision, row.error_code, row.reason) == (Decision.UNKNOWN, "type", "no table knows its type")
    assert (row.postings, row.error_kind, row.due_at, row.blocking) == (None, None, None, False)
    assert engine.decisions(later) == ["applied"]
    assert (engine.index.open_count(), engine.dead_letters.published) == (0, [])
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["unknown", "replayed", "unknown"]
    knows(engine)
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["unknown", "replayed", "unknown", "replayed", "applied"]
    assert last(engine, key).out_of_order


def test_the_same_command_again_has_no_second_effect_and_says_so(engine: Engine) -> None:
    key = passed_over(engine)
    knows(engine)
    given = command(engine, "replay", target(engine, key))
    decided(engine)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "applied"]
    again = replace(given, command_id="another")
    command(engine, "replay", *again.targets, actor="bob")
    row = decided(engine)
    engine.advance(0)
    assert (row.decision, row.reason) == (
        Decision.IGNORED,
        "0 of 1 accepted; refused: item 1 has moved on since row 1; look again",
    )
    assert engine.decisions(key) == ["ignored", "replayed", "applied"]


@pytest.mark.parametrize("keeps_index", [True, False])
def test_after_a_restart_it_is_known_too(engine: Engine, keeps_index: bool) -> None:
    key = passed_over(engine)
    knows(engine)
    seen = target(engine, key)
    order(engine, "replay", key)
    engine.start(keeps_index=keeps_index)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "applied"]
    engine.start(keeps_index=keeps_index)
    command(engine, "replay", seen)
    assert "has moved on since row 1" in str(decided(engine).reason)


def test_two_commands_of_one_batch_take_it_up_once(engine: Engine) -> None:
    key = passed_over(engine)
    knows(engine)
    for actor in ("ada", "bob"):
        command(engine, "replay", target(engine, key), actor=actor)
    row = decided(engine)
    engine.advance(0)
    assert "item 1 has moved on since row 1" in str(row.reason)
    assert engine.decisions(key) == ["ignored", "replayed", "applied"]


def test_what_is_ignored_again_may_be_taken_up_another_time_as_it_was_seen_then(engine: Engine) -> None:
    key = passed_over(engine)
    first = target(engine, key)
    engine.handler.version = "test-2"
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "ignored"]
    knows(engine, "test-3")
    command(engine, "replay", first)
    assert "has moved on since row 1" in str(decided(engine).reason)
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "ignored", "replayed", "applied"]
    assert last(engine, key).handler_version == "test-3"


def test_it_runs_behind_what_was_applied_since_and_says_so(engine: Engine) -> None:
    key = passed_over(engine)
    engine.post("evt_2")
    engine.batch()
    knows(engine)
    order(engine, "replay", key)
    engine.advance(0)
    opened, booked = of_key(engine, key)[1:]
    assert (opened.out_of_order, opened.blocking, booked.out_of_order) == (True, False, True)


def test_what_arrives_in_the_batch_of_the_command_and_is_applied_came_before_it(engine: Engine) -> None:
    key = passed_over(engine)
    knows(engine)
    engine.post("evt_2")
    order(engine, "replay", key)
    engine.advance(0)
    assert last(engine, key).out_of_order


def test_it_takes_its_place_before_what_waits_and_what_comes(engine: Engine) -> None:
    key = passed_over(engine)
    knows(engine)
    waiting = engine.post("evt_2")
    engine.handler.fails(waiting, Stuck("no answer"), times=1)
    engine.batch()
    order(engine, "replay", key)
    coming = engine.post("evt_3")
    engine.handler.calls.clear()
    engine.advance(2)
    engine.advance(2)
    assert engine.handler.calls == [key, waiting, coming]
    assert not any(row.out_of_order for row in engine.journal.rows)


def test_other_entities_do_not_make_it_late(engine: Engine) -> None:
    key = passed_over(engine)
    engine.post("evt_2", "e2")
    engine.batch()
    knows(engine)
    order(engine, "replay", key)
    engine.advance(0)
    assert not last(engine, key).out_of_order


def test_it_fails_dies_and_is_replayed_as_any_event(engine: Engine) -> None:
    key = passed_over(engine)
    knows(engine)
    engine.handler.fails(key, ZeroDivisionError("division by zero"), times=1)
    order(engine, "replay", key)
    engine.advance(0)
    assert last(engine, key).decision is Decision.DEAD
    assert [row.event_key for row in engine.dead_letters.published] == [key]
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "dead", "replayed", "applied"]


class Names(StripeAdapter):
    """Names every event as the test does."""

    def __init__(self, entity: str, fact: MoneyFact | None = None, key: str = "stripe:evt_1:charge.captured") -> None:
        super().__init__(ProvidersSettings())
        self._named = (entity, fact, key)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        entity, fact, key = self._named
        return [
            replace(
                REAL,
                event_key=key,
                entity_key=entity,
                mode=mode,
                body=request.body,
                fact_key=fact.fact_key if fact else None,
            )
        ]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return self._named[1]

    def content_sha256(self, body: bytes, version: int) -> str:
        raise AssertionError("its version hasn't changed")


FACT = MoneyFact("stripe:re_1:refund", Movement.REFUND, "acct_1", "pi_1", Money(5, "EUR"))


def test_its_fact_and_its_entity_are_named_by_todays_adapter(engine: Engine) -> None:
    """An adapter names no movement in a type that it doesn't know: without a name the fact could be booked twice."""
    key = passed_over(engine)
    engine.adapters["stripe"] = Names("e9", FACT)
    knows(engine)
    order(engine, "replay", key)
    engine.advance(0)
    row = last(engine, key)
    assert (row.decision, row.entity_key) == (Decision.APPLIED, "e9")
    assert (row.fact_key, row.fact_sha256) == (FACT.fact_key, FACT.sha256)
    assert engine.index.known_fact(FACT.fact_key) is not None


def test_a_fact_that_was_booked_under_another_event_is_not_booked_again(engine: Engine) -> None:
    key = passed_over(engine)
    engine.post("evt_2", fact=FACT.fact_key, fact_sha256=FACT.sha256)
    engine.batch()
    engine.adapters["stripe"] = Names("e1", FACT)
    knows(engine)
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "duplicate_fact"]


def test_tenants_facts_are_reported_apart(engine: Engine) -> None:
    body = b"evt_1"
    event = replace(
        REAL,
        event_key="shop~stripe:evt_1:charge.captured",
        entity_key="shop~e1",
        event_type="charge.captured",
        body=body,
        fact_key=None,
        fact_sha256=None,
        tenant="shop",
    )
    engine.send(EVENTS, body, to_headers(event, NOW, Dedupe.CLAIMED))
    engine.handler.script[event.event_key] = ignored
    engine.batch()
    engine.adapters["stripe"] = Names("e1", FACT)
    knows(engine)
    order(engine, "replay", event.event_key)
    engine.advance(0)
    row = last(engine, event.event_key)
    assert (row.decision, row.fact_key, row.entity_key) == (Decision.APPLIED, f"shop~{FACT.fact_key}", "shop~e1")


def test_an_event_that_has_another_name_today_keeps_its_key_and_gets_its_fact(engine: Engine) -> None:
    key = passed_over(engine)
    engine.adapters["stripe"] = Names("e1", FACT, key="stripe:evt_other:charge.captured")
    knows(engine)
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "applied"]
    assert last(engine, key).fact_key == FACT.fact_key


def test_what_is_ignored_by_todays_handler_too_stays_so(engine: Engine) -> None:
    key = passed_over(engine)
    order(engine, "replay", key)
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "ignored"]
    assert engine.index.open_count() == 0


def test_an_event_whose_body_is_gone_is_refused(engine: Engine) -> None:
    key, other = passed_over(engine), passed_over(engine, "evt_2", "e2")
    del engine.bodies.by_hash[last(engine, key).body_sha256 or ""]
    knows(engine)
    row = order(engine, "replay", key, other)
    engine.advance(0)
    assert row.reason == (
        "1 of 2 accepted; refused: the body of item 1 isn't kept: "
        "retention dropped it, it was redacted, or its file is lost"
    )
    assert (engine.decisions(key), engine.decisions(other)[-1]) == (["ignored"], "applied")


def test_a_body_that_goes_just_then_leaves_the_event_ignored(engine: Engine) -> None:
    """Retention and redactions look at the journal before they remove a body; this is decided in between."""
    key = passed_over(engine)
    knows(engine)
    order(engine, "replay", key)
    del engine.bodies.by_hash[last(engine, key).body_sha256 or ""]
    engine.start()
    engine.advance(0)
    row = last(engine, key)
    assert (row.decision, row.blocking) == (Decision.IGNORED, False)
    assert (
        row.reason == "its body was removed (by retention or a redaction) before it was handled again: it stays ignored"
    )
    assert engine.index.open_count() == 0


def test_a_body_that_only_the_index_lacks_is_fetched(engine: Engine) -> None:
    """That it was removed is said by the table of bodies alone."""
    key = engine.post("evt_1")
    engine.handler.fails(key, Stuck("409 try later"), times=1)
    engine.batch()
    engine.bodies.by_hash, kept = {}, engine.bodies.by_hash
    engine.start()
    engine.bodies.by_hash = kept
    engine.advance(5)
    assert engine.decisions(key)[-1] == "applied"


@pytest.mark.parametrize(
    ("item_seq", "seen_seq"),
    [
        pytest.param(1, 1, id="it was applied"),
        pytest.param(1, 2, id="the row is another item's"),
        pytest.param(7, 9, id="there is no such row"),
        pytest.param(3, 3, id="a command"),
    ],
)
def test_what_is_no_ignored_event_is_refused(engine: Engine, item_seq: int, seen_seq: int) -> None:
    engine.post("evt_1")
    engine.batch()
    passed_over(engine, "evt_2")
    command(engine, "replay", engine.target(2, 2))
    assert decided(engine).seq == 3
    command(engine, "replay", engine.target(item_seq, seen_seq))
    row = decided(engine)
    assert (row.decision, row.reason) == (Decision.IGNORED, f"0 of 1 accepted; refused: item {item_seq} is not open")


def test_one_at_a_time_at_a_rate(engine: Engine) -> None:
    keys = [passed_over(engine, f"evt_{number}", f"e{number}") for number in range(3)]
    knows(engine)
    send_run(engine, "replay", *(target(engine, key) for key in keys), per_s=2.0)
    engine.batch()
    engine.advance(1)
    due = [last(engine, key).due_at for key in keys]
    assert due == [engine.clock.now() + timedelta(seconds=0.5 * number) for number in range(3)]
    engine.advance(0.5)
    assert [last(engine, key).decision.value for key in keys] == ["applied", "applied", "replayed"]


SQUARE = SquareAdapter(ProvidersSettings())
PAYMENT = with_fees(290, 30)
TOLD = SQUARE.events(Request(PAYMENT, ()), "live")
"""A payment, its fee, and what was added to that."""


class EarlierSquare(SquareAdapter):
    """Knows nothing of the payment's state, so that it tells of no fees."""

    def events(self, request: Request, mode: Mode) -> list[Event]:
        return super().events(request, mode)[:1]


@pytest.fixture
def unknown_payment(engine: Engine) -> str:
    engine.adapters["square"] = EarlierSquare(ProvidersSettings())
    payment, *fees = TOLD
    assert len(fees) == 2
    engine.handler.script[payment.event_key] = unknown
    named = replace(payment, fact_key=None, fact_sha256=None)
    engine.send(EVENTS, PAYMENT, to_headers(named, NOW, Dedupe.CLAIMED))
    engine.batch()
    engine.adapters["square"] = SQUARE
    knows(engine)
    return payment.event_key


def decisions_of_told(engine: Engine) -> list[list[str]]:
    return [engine.decisions(event.event_key) for event in TOLD]


def test_fees_that_nobody_knew_of_come_in_with_the_replay(engine: Engine, unknown_payment: str) -> None:
    order(engine, "replay", unknown_payment)
    engine.advance(0)
    engine.batch()
    assert decisions_of_told(engine) == [["unknown", "replayed", "applied"], ["applied"], ["applied"]]
    fee = last(engine, TOLD[1].event_key)
    assert f'"reread_of":"ledger/{last(engine, unknown_payment).item_seq}"' in str(fee.headers)
    assert (fee.entity_key, fee.received_at) == (TOLD[1].entity_key, NOW)


def test_fees_that_came_in_already_are_left_alone(engine: Engine, unknown_payment: str) -> None:
    engine.send(EVENTS, PAYMENT, to_headers(TOLD[2], NOW, Dedupe.CLAIMED))
    engine.batch()
    order(engine, "replay", unknown_payment)
    engine.advance(0)
    engine.batch()
    assert decisions_of_told(engine) == [["unknown", "replayed", "applied"], ["applied"], ["applied"]]


def test_where_kafka_takes_no_fees_nothing_is_replayed(engine: Engine, unknown_payment: str) -> None:
    engine.kafka_is_down = "no answer"
    refused = order(engine, "replay", unknown_payment)
    assert (refused.decision, refused.reason) == (
        Decision.IGNORED,
        "0 of 1 accepted; refused: Kafka didn't take what else the body of item 1 tells (no answer): nothing is "
        "replayed; replay it again",
    )
    engine.kafka_is_down = ""
    order(engine, "replay", unknown_payment)
    engine.advance(0)
    engine.batch()
    assert decisions_of_told(engine) == [["unknown", "replayed", "applied"], ["applied"], ["applied"]]


@pytest.mark.parametrize(("crash", "again"), [("before", ["duplicate"]), ("after", [])])
def test_a_crash_behind_the_fees_books_them_once(
    engine: Engine, unknown_payment: str, crash: str, again: list[str]
) -> None:
    command(engine, "replay", target(engine, unknown_payment))
    engine.journal.crash = crash
    with pytest.raises(Crash):
        engine.batch()
    engine.arrive()
    engine.start(keeps_index=True)
    for _ in range(3):
        engine.advance(0)
        engine.batch()
    assert decisions_of_told(engine) == [["unknown", "replayed", "applied"], *[["applied", *again]] * 2]
