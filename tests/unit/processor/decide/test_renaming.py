"""A replayed event is named again by the adapter of now: its receiver may have run another version."""

from __future__ import annotations

import pytest

from core.decision import Decision
from core.event import Dedupe, Event, Mode, to_headers
from core.money import Money, MoneyFact, Movement
from core.routing import scope_event
from ledger.handler import LedgerHandler
from providers import Request
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from tests.events import make_event
from tests.one_merchant import OneMerchant
from tests.unit.processor.harness import EVENTS, NOW, Engine
from tests.unit.processor.ordering import command, decided, last, order, target

CAPTURE = MoneyFact("stripe:ch_1:capture", Movement.CAPTURE, "acct_1", "pi_1", Money(500, "EUR"))
OLD_NAME = MoneyFact("stripe:pi_1:capture", Movement.CAPTURE, "acct_1", "pi_1", Money(500, "EUR"))


class RenamingAdapter(StripeAdapter):
    """Names each event by its body, an id, with the entity and the fact that its version gives."""

    def __init__(self, fact: MoneyFact | None, entity: str = "e1", key: str = "stripe:{}:charge.captured") -> None:
        super().__init__(ProvidersSettings())
        self.its_fact, self.its_entity, self.its_key = fact, entity, key

    def events(self, request: Request, mode: Mode) -> list[Event]:
        body = request.body
        fact = {"fact_key": self.its_fact.fact_key, "fact_sha256": self.its_fact.sha256} if self.its_fact else {}
        key = self.its_key.format(body.decode())
        return [make_event(body.decode(), event_key=key, entity_key=self.its_entity, body=body, mode=mode, **fact)]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return self.its_fact

    def content_sha256(self, body: bytes, version: int) -> str:
        raise AssertionError("its version hasn't changed")


def runs(engine: Engine, adapter: RenamingAdapter) -> None:
    """The processor's version from its next start on."""
    engine.adapters["stripe"] = adapter
    engine.handler = LedgerHandler({"stripe": adapter}, OneMerchant("main"), "ledger-test")  # type: ignore[assignment]
    engine.start()


def received(engine: Engine, adapter: RenamingAdapter, event_id: str = "evt_1", tenant: str | None = None) -> str:
    """An event as a receiver of that version names it; its key."""
    (event,) = adapter.events(Request(event_id.encode(), ()), "live")
    event = scope_event(event, tenant, None)
    engine.send(EVENTS, event.body, to_headers(event, NOW, Dedupe.CLAIMED))
    engine.batch()
    return event.event_key


def replayed(engine: Engine, key: str) -> None:
    order(engine, "replay", key)
    engine.advance(0)


@pytest.mark.parametrize("older", [None, OLD_NAME])
@pytest.mark.parametrize("tenant", [None, "shop-a"])
def test_an_event_of_an_older_receiver_is_booked_by_a_replay(
    engine: Engine, older: MoneyFact | None, tenant: str | None
) -> None:
    runs(engine, RenamingAdapter(CAPTURE))
    key = received(engine, RenamingAdapter(older), tenant=tenant)
    assert (last(engine, key).decision, last(engine, key).error_class) == (Decision.DEAD, "FactMismatch")
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision, row.fact_sha256) == (Decision.APPLIED, CAPTURE.sha256)
    assert row.fact_key == ("shop-a~" if tenant else "") + CAPTURE.fact_key
    assert engine.index.known_fact(row.fact_key) is not None
    assert engine.index.open_count() == 0


def test_an_event_of_a_newer_receiver_is_booked_by_a_replay_after_the_processors_upgrade(engine: Engine) -> None:
    runs(engine, RenamingAdapter(None))
    key = received(engine, RenamingAdapter(CAPTURE))
    assert last(engine, key).error_class == "FactMismatch"
    runs(engine, RenamingAdapter(CAPTURE))
    replayed(engine, key)
    assert (last(engine, key).decision, last(engine, key).fact_key) == (Decision.APPLIED, CAPTURE.fact_key)


def test_what_was_booked_meanwhile_is_not_booked_again(engine: Engine) -> None:
    """The same movement came under another event, by a receiver that was upgraded before."""
    runs(engine, RenamingAdapter(CAPTURE, entity="e1"))
    key = received(engine, RenamingAdapter(None, entity="e1"))
    other = received(engine, RenamingAdapter(CAPTURE, entity="e2"), "evt_2")
    assert last(engine, other).decision is Decision.APPLIED
    replayed(engine, key)
    assert (last(engine, key).decision, last(engine, key).postings) == (Decision.DUPLICATE_FACT, None)


def test_a_redelivery_to_the_upgraded_receiver_is_a_duplicate(engine: Engine) -> None:
    runs(engine, RenamingAdapter(CAPTURE))
    key = received(engine, RenamingAdapter(None))
    seen = target(engine, key)
    received(engine, RenamingAdapter(CAPTURE))
    command(engine, "replay", seen)
    decided(engine)
    engine.advance(0)
    assert engine.decisions(key) == ["dead", "duplicate", "replayed", "applied"]


def test_it_keeps_its_place_in_the_entity_that_it_still_belongs_to(engine: Engine) -> None:
    runs(engine, RenamingAdapter(CAPTURE))
    key = received(engine, RenamingAdapter(None))
    follower = received(engine, RenamingAdapter(CAPTURE), "evt_2")
    assert last(engine, follower).decision is Decision.PARKED
    replayed(engine, key)
    assert not last(engine, key).out_of_order
    assert [last(engine, one).decision for one in (key, follower)] == [Decision.APPLIED, Decision.DUPLICATE_FACT]


def test_in_its_real_entity_it_runs_behind_what_was_applied_there(engine: Engine) -> None:
    runs(engine, RenamingAdapter(CAPTURE, entity="e9"))
    key = received(engine, RenamingAdapter(None, entity="e1"))
    passing = MoneyFact("stripe:ch_2:capture", Movement.CAPTURE, "acct_1", "pi_1", Money(7, "EUR"))
    engine.handler = LedgerHandler({"stripe": RenamingAdapter(passing)}, OneMerchant("main"), "x")  # type: ignore[assignment]
    engine.start()
    assert last(engine, received(engine, RenamingAdapter(passing, entity="e9"), "evt_2")).decision is Decision.APPLIED
    runs(engine, RenamingAdapter(CAPTURE, entity="e9"))
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision, row.entity_key, row.out_of_order) == (Decision.APPLIED, "e9", True)


@pytest.mark.parametrize("keeps_index", [True, False])
def test_in_its_real_entity_it_goes_before_what_came_later_and_waits(engine: Engine, keeps_index: bool) -> None:
    runs(engine, RenamingAdapter(CAPTURE, entity="e9"))
    key = received(engine, RenamingAdapter(None, entity="e1"))
    waiting = received(engine, RenamingAdapter(OLD_NAME, entity="e9"), "evt_2")
    order(engine, "replay", key)
    engine.start(keeps_index=keeps_index)
    engine.advance(0)
    row = last(engine, key)
    assert (row.decision, row.entity_key, row.out_of_order) == (Decision.APPLIED, "e9", False)
    assert last(engine, waiting).decision is Decision.DEAD


def test_those_that_waited_behind_it_in_its_old_entity_go_on(engine: Engine) -> None:
    runs(engine, RenamingAdapter(CAPTURE, entity="e9"))
    key = received(engine, RenamingAdapter(None, entity="e1"))
    other = MoneyFact("stripe:ch_2:capture", Movement.CAPTURE, "acct_1", "pi_2", Money(7, "EUR"))
    followers = [received(engine, RenamingAdapter(other, entity="e1"), f"evt_{number}") for number in (2, 3)]
    assert [last(engine, one).decision for one in followers] == [Decision.PARKED] * 2
    replayed(engine, key)
    engine.advance(0)
    assert last(engine, key).decision is Decision.APPLIED
    # They are of another fact than the body gives: what matters is that they were tried.
    assert [last(engine, followers[0]).error_class, last(engine, followers[1]).decision] == [
        "FactMismatch",
        Decision.PARKED,
    ]
    woken = next(row for row in engine.journal.rows if row.event_key == followers[0] and row.due_at is not None)
    assert "was replayed as an event of e9" in str(woken.reason)


def test_an_event_with_another_key_by_now_keeps_its_key_and_gets_its_fact(engine: Engine) -> None:
    """Its key is held; under the new one its fact is known, so a redelivery books nothing."""
    now = RenamingAdapter(CAPTURE, entity="e9", key="stripe:{}:charge.captured:v2")
    runs(engine, now)
    key = received(engine, RenamingAdapter(None, entity="e1"))
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision, row.entity_key, row.fact_key) == (Decision.APPLIED, "e1", CAPTURE.fact_key)
    assert last(engine, received(engine, now)).decision is Decision.DUPLICATE_FACT


def test_an_event_that_todays_adapter_cannot_read_keeps_its_names(engine: Engine) -> None:
    class BrokenMoneyAdapter(RenamingAdapter):
        def money(self, body: bytes, event_type: str) -> MoneyFact | None:
            raise KeyError("amount")

    runs(engine, BrokenMoneyAdapter(CAPTURE))
    key = received(engine, RenamingAdapter(OLD_NAME))
    replayed(engine, key)
    row = last(engine, key)
    assert (row.decision, row.error_class, row.fact_key) == (Decision.DEAD, "KeyError", OLD_NAME.fact_key)
