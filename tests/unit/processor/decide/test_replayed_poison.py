"""Replayed poison: a mended adapter names it, and it comes in as anyone's event does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import Unparseable
from core.event import Dedupe, Event, Mode, poison_event, to_headers
from load.samples.stripe import stripe_event
from processor.decide import rereads
from providers import Request
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from tests.unit.processor.fakes import Crash
from tests.unit.processor.harness import EVENTS, NOW, Engine
from tests.unit.processor.ordering import last, order


class BrokenStripe(StripeAdapter):
    """Fails on every body, as an adapter with a bug does."""

    def events(self, request: Request, mode: Mode) -> list[Event]:
        raise KeyError("account")


MENDED = StripeAdapter(ProvidersSettings())
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
[REAL] = MENDED.events(Request(BODY, ()), "live")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path)
    engine.adapters["stripe"] = BrokenStripe(ProvidersSettings())
    return engine


def poisoned(engine: Engine, body: bytes = BODY, **context: Any) -> str:
    poison = poison_event("stripe", body, "live", "the adapter failed: KeyError")
    engine.send(EVENTS, body, to_headers(poison, NOW, Dedupe.CLAIMED))
    engine.batch()
    return poison.event_key


def replayed(engine: Engine, key: str) -> None:
    order(engine, "replay", key)
    engine.advance(0)


def mend(engine: Engine) -> None:
    engine.adapters["stripe"] = MENDED


def test_a_broken_adapter_and_then_the_mended_one(engine: Engine) -> None:
    key = poisoned(engine)
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision.value, row.error_class, row.error_message) == (
        "dead",
        "Poison",
        "the adapter failed: KeyError",
    )
    mend(engine)
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision.value, row.reason) == (
        "resolved",
        f"its adapter reads it now; published as {REAL.event_key}",
    )
    engine.batch()
    real = last(engine, REAL.event_key)
    assert (real.decision.value, real.entity_key, real.content_sha256, real.received_at) == (
        "applied",
        REAL.entity_key,
        REAL.content_sha256,
        NOW,
    )
    assert f'"reread_of":"ledger/{row.item_seq}"' in str(real.headers)
    assert engine.handler.calls == [REAL.event_key]
    assert engine.index.open_count() == 0


def test_it_goes_to_the_end_of_its_real_entity(engine: Engine) -> None:
    key = poisoned(engine)
    head = engine.post("evt_9", REAL.entity_key)
    engine.handler.fails(head, ZeroDivisionError("division by zero"))
    engine.batch()
    mend(engine)
    replayed(engine, key)
    engine.batch()
    assert last(engine, REAL.event_key).decision.value == "parked"


def test_what_was_applied_meanwhile_is_a_duplicate_that_is_seen(engine: Engine) -> None:
    key = poisoned(engine)
    engine.send(EVENTS, BODY, to_headers(REAL, NOW, Dedupe.CLAIMED))
    engine.batch()
    mend(engine)
    replayed(engine, key)
    engine.batch()
    assert engine.decisions(REAL.event_key) == ["applied", "duplicate"]
    assert engine.handler.calls == [REAL.event_key]
    assert REAL.event_key in str(last(engine, key).reason)


@pytest.mark.parametrize("crash", ["before", "after"])
def test_a_crash_between_publication_and_commit_takes_effect_once(engine: Engine, crash: str) -> None:
    key = poisoned(engine)
    mend(engine)
    order(engine, "replay", key)
    engine.journal.crash = crash
    with pytest.raises(Crash):
        engine.advance(0)
    engine.arrive()
    engine.start(keeps_index=True)
    for _ in range(3):
        engine.batch()
    assert engine.decisions(key) == ["dead", "replayed", "resolved"]
    assert engine.decisions(REAL.event_key) == (["applied", "duplicate"] if crash == "before" else ["applied"])


def test_while_kafka_is_away_it_waits(engine: Engine) -> None:
    key = poisoned(engine)
    mend(engine)
    engine.kafka_is_down = "broker down"
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision.value, row.attempt, row.reason) == (
        "parked",
        0,
        "its events aren't published yet: broker down",
    )
    engine.kafka_is_down = ""
    engine.advance(rereads.AGAIN_S)
    engine.batch()
    assert engine.decisions(REAL.event_key) == ["applied"]


def test_a_stream_that_reads_no_topic_says_so(engine: Engine) -> None:
    key = poisoned(engine)
    mend(engine)
    engine.rereads.republish = None
    replayed(engine, key)
    assert last(engine, key).error_message == "this stream reads no topic that its events could be published to"


def test_a_provider_without_an_adapter_says_so(engine: Engine) -> None:
    key = poisoned(engine)
    engine.adapters.clear()
    replayed(engine, key)
    assert last(engine, key).error_message == "there is no adapter for stripe"


def test_what_holds_no_event_after_all_is_resolved(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    key = poisoned(engine)
    monkeypatch.setattr(BrokenStripe, "events", lambda self, request, mode: [])
    replayed(engine, key)
    assert (last(engine, key).decision.value, last(engine, key).reason) == (
        "resolved",
        "its adapter reads it now, and it holds no event",
    )


def test_more_poison_than_one_batch_reads_goes_on_in_the_next(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rereads, "PER_BATCH_MAX", 2)

    def unreadable(self: StripeAdapter, request: Request, mode: Mode) -> list[Event]:
        raise Unparseable(f"{len(request.body)} bytes")

    monkeypatch.setattr(BrokenStripe, "events", unreadable)
    keys = [poisoned(engine, b"x" * size) for size in (1, 2, 3)]
    order(engine, "replay", *keys)
    engine.advance(0)
    assert [last(engine, key).decision.value for key in keys] == ["dead", "dead", "parked"]
    engine.advance(0)
    assert last(engine, keys[2]).error_message == "3 bytes"


def test_poison_that_dies_after_each_replay_is_guarded_too(engine: Engine) -> None:
    key = poisoned(engine)
    for _ in range(5):
        replayed(engine, key)
    assert "was replayed 5 times and died each time" in str(order(engine, "replay", key).reason)
