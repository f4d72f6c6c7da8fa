"""Whatever providers send, in whatever order and however often: the books balance, and each movement is booked once.

Real adapters, the ledger's real handler and the engine's real batches; Kafka, Delta and Spark stand in as lists.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from core.event import Dedupe, Event, to_headers
from core.money import UNDOS, MoneyFact
from ledger.postings import flatten_postings
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.stripe import stripe_event
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.examples import examples
from tests.unit.ledger.delivered import RealHandler
from tests.unit.processor.harness import EVENTS, NOW, Engine

ADAPTERS = build_adapters(ProvidersSettings())
STRIPE_TYPES = (
    "charge.succeeded",
    "charge.captured",
    "charge.refunded",
    "refund.created",
    "refund.failed",
    "charge.dispute.created",
    "charge.dispute.closed",
    "payout.paid",
    "payout.failed",
    "customer.updated",
)
ADYEN_CODES = (
    "AUTHORISATION",
    "CAPTURE",
    "CAPTURE_FAILED",
    "REFUND",
    "REFUND_FAILED",
    "CHARGEBACK",
    "CHARGEBACK_REVERSED",
)


@dataclass(frozen=True)
class SentEvent:
    """One event of a provider: ``number`` tells the ids apart."""

    provider: str
    kind: str
    payment: int
    amount_minor: int
    currency: str
    number: int

    def events(self) -> list[Event]:
        return ADAPTERS[self.provider].events(Request(self.body(), ()), "live")

    def facts(self) -> list[MoneyFact]:
        adapter = ADAPTERS[self.provider]
        found = [adapter.money(event.body, event.event_type) for event in self.events() if event.fact_key is not None]
        return [fact for fact in found if fact is not None]

    def body(self) -> bytes:
        if self.provider == "stripe":
            return stripe_event(
                f"evt_{self.number}",
                self.kind,
                payment=f"pi_{self.payment}",
                account="acct_1",
                amount_minor=self.amount_minor,
                currency=self.currency,
                created=NOW,
            )
        item = AdyenItem(
            f"PSP{self.number}", f"PAY{self.payment}", "Shop", "order", self.kind, self.amount_minor, self.currency, NOW
        )
        return adyen_notification([item])


def sent(number: int, provider: str) -> st.SearchStrategy[SentEvent]:
    kinds = st.sampled_from(STRIPE_TYPES if provider == "stripe" else ADYEN_CODES)
    amounts, currencies = st.integers(0, 10_000), st.sampled_from(("EUR", "JPY", "KWD"))
    return st.builds(SentEvent, st.just(provider), kinds, st.integers(1, 3), amounts, currencies, st.just(number))


@st.composite
def sequences(draw: st.DrawFn) -> list[SentEvent]:
    """Events of both providers, some delivered again, in any order."""
    count = draw(st.integers(1, 12))
    once = [draw(sent(number, draw(st.sampled_from(("stripe", "adyen"))))) for number in range(count)]
    again = draw(st.lists(st.sampled_from(once), max_size=6))
    return draw(st.permutations(once + again))


class LedgerEngine(Engine):
    def start(self, *, keeps_index: bool = False) -> None:
        self.handler = RealHandler(ADAPTERS)
        super().start(keeps_index=keeps_index)

    def deliver(self, every: list[SentEvent], per_batch: int) -> None:
        for at in range(0, len(every), per_batch):
            for one in every[at : at + per_batch]:
                for event in one.events():
                    self.send(EVENTS, event.body, to_headers(event, self.clock.now(), Dedupe.CLAIMED))
            self.batch()

    def lines(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = flatten_postings(self.journal.rows).to_pylist()
        return found


def balance(lines: list[dict[str, object]]) -> Counter[object]:
    """Debits minus credits by currency."""
    found: Counter[object] = Counter()
    for line in lines:
        amount = line["amount_minor"]
        assert isinstance(amount, int) and amount > 0
        found[line["currency"]] += amount if line["side"] == "debit" else -amount
    return found


@given(sequences(), st.data())
@settings(max_examples=examples(30), deadline=None)
def test_debits_equal_credits_and_a_second_delivery_of_everything_changes_nothing(
    every: list[SentEvent], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = LedgerEngine(Path(folder))
        engine.deliver(every, data.draw(st.integers(1, len(every))))
        booked = engine.lines()
        assert not any(balance(booked).values())
        facts = Counter(line["fact_key"] for line in booked if line["line"] == 0)
        assert all(count == 1 for count in facts.values())
        engine.start(keeps_index=data.draw(st.booleans()))
        engine.deliver(data.draw(st.permutations(every)), data.draw(st.integers(1, len(every))))
        assert engine.lines() == booked
        engine.index.close()


@given(sequences())
@settings(max_examples=examples(30), deadline=None)
def test_the_order_changes_no_balance_of_movements_that_agree(every: list[SentEvent]) -> None:
    """One event a fact, so that no provider says two things of one movement: then every order books the same."""
    agreeing: list[SentEvent] = []
    named: set[str] = set()
    for one in every:
        names = {event.fact_key for event in one.events() if event.fact_key}
        if names and not names & named:
            agreeing.append(one)
            named |= names
    with tempfile.TemporaryDirectory() as folder:
        there, back = LedgerEngine(Path(folder) / "there"), LedgerEngine(Path(folder) / "back")
        there.deliver(agreeing, 3)
        back.deliver(agreeing[::-1], 2)
        assert _balances(there) == _balances(back)
        told = [fact for one in agreeing if one.amount_minor > 0 for fact in one.facts()]
        undone = {fact.pair_key for fact in told if fact.movement in UNDOS}
        left = {fact.fact_key for fact in told if fact.pair_key is None or fact.pair_key not in undone}
        assert left <= {line["fact_key"] for line in there.lines()}
        for engine in (there, back):
            engine.index.close()


def _balances(engine: LedgerEngine) -> dict[tuple[object, object], int]:
    """By account and currency. An undo and its movement cancel each other out, or book neither."""
    found: Counter[tuple[object, object]] = Counter()
    for line in engine.lines():
        amount = line["amount_minor"]
        assert isinstance(amount, int)
        found[line["account"], line["currency"]] += amount if line["side"] == "debit" else -amount
    return {account: sum_minor for account, sum_minor in found.items() if sum_minor}


def test_the_same_movement_under_two_ids_is_booked_once(tmp_path: Path) -> None:
    first = SentEvent("stripe", "charge.succeeded", 1, 500, "EUR", 1)
    engine = LedgerEngine(tmp_path)
    engine.deliver([first, replace(first, number=2)], 1)
    assert [row.decision.value for row in engine.journal.rows] == ["applied", "duplicate_fact"]
    assert len(engine.lines()) == 2
    engine.index.close()
