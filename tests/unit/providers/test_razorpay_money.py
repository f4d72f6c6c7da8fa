"""Razorpay: which reports move money, each movement once, under its own id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from load.samples import razorpay as samples_of
from providers import Adapter, ProvidersSettings, build_adapters
from providers.razorpay import LEFT_TO_A_PERSON
from tests.unit.providers.shapes import NOW, NOW_S, changed, money, moved


def payment(event_type: str, amount: int = 1_250, currency: str = "INR") -> bytes:
    return samples_of.payment_event(
        event_type, payment="pay_1", account="acc_1", amount_minor=amount, currency=currency, created=NOW
    )


def refund(event_type: str, refund: str = "rfnd_1", amount: int = 400) -> bytes:
    return samples_of.refund_event(
        event_type,
        refund=refund,
        payment="pay_1",
        account="acc_1",
        amount_minor=amount,
        currency="INR",
        created=NOW,
        paid_minor=1_250,
    )


def dispute(event_type: str, phase: str = "chargeback") -> bytes:
    return samples_of.dispute_event(
        event_type,
        dispute="disp_1",
        payment="pay_1",
        account="acc_1",
        amount_minor=1_250,
        currency="INR",
        created=NOW,
        phase=phase,
    )


def payout(event_type: str) -> bytes:
    return samples_of.payout_event(
        event_type, payout="pout_1", account="acc_1", amount_minor=9_000, currency="INR", created=NOW
    )


SETTLEMENT = samples_of.settlement_event(settlement="setl_1", account="acc_1", amount_minor=9_000, created=NOW)


@pytest.mark.parametrize(
    ("body", "fact_key", "movement", "amount_minor", "of"),
    [
        (payment("payment.captured"), "razorpay:pay_1:capture", "capture", 1_250, "pay_1"),
        (refund("refund.created"), "razorpay:rfnd_1:refund", "refund", 400, "pay_1"),
        (refund("refund.processed"), "razorpay:rfnd_1:refund", "refund", 400, "pay_1"),
        (refund("refund.failed"), "razorpay:rfnd_1:refund_failed", "refund_failed", 400, "pay_1"),
        (dispute("payment.dispute.created"), "razorpay:disp_1:dispute_opened", "dispute_opened", 1_250, "pay_1"),
        (dispute("payment.dispute.won"), "razorpay:disp_1:dispute_won", "dispute_won", 1_250, "pay_1"),
        (dispute("payment.dispute.lost"), "razorpay:disp_1:dispute_lost", "dispute_lost", 1_250, "pay_1"),
        (
            dispute("payment.dispute.created", "pre_arbitration"),
            "razorpay:disp_1:pre_arbitration_dispute_opened",
            "dispute_opened",
            1_250,
            "pay_1",
        ),
        (SETTLEMENT, "razorpay:setl_1:payout_paid", "payout_paid", 9_000, None),
        (payout("payout.initiated"), "razorpay:pout_1:payout_paid", "payout_paid", 9_000, None),
        (payout("payout.processed"), "razorpay:pout_1:payout_paid", "payout_paid", 9_000, None),
        (payout("payout.reversed"), "razorpay:pout_1:payout_failed", "payout_failed", 9_000, None),
        (payout("payout.failed"), "razorpay:pout_1:payout_failed", "payout_failed", 9_000, None),
    ],
)
def test_each_movement_books_under_its_own_id(
    adapter: Adapter, body: bytes, fact_key: str, movement: str, amount_minor: int, of: str | None
) -> None:
    assert moved(adapter, body) == (fact_key, movement, amount_minor, "INR", of)


@pytest.mark.parametrize(
    "body",
    [
        payment("payment.authorized"),
        payment("payment.failed"),
        changed(payment("payment.captured"), "event", to="order.paid"),
        changed(payment("payment.captured"), "event", to="subscription.charged"),
        changed(refund("refund.created"), "payload", "payment", "entity", "captured", to=False),
        changed(refund("refund.failed"), "payload", "payment", "entity", "captured", to=False),
        changed(refund("refund.created"), "event", to="refund.speed_changed"),
        dispute("payment.dispute.created", "retrieval"),
        dispute("payment.dispute.created", "fraud"),
        dispute("payment.dispute.closed", "fraud"),
        changed(dispute("payment.dispute.created"), "event", to="payment.dispute.under_review"),
        changed(payout("payout.processed"), "event", to="payout.updated"),
        payout("payout.queued"),
    ],
)
def test_reports_of_something_else_move_nothing(adapter: Adapter, body: bytes) -> None:
    assert moved(adapter, body) is None


@pytest.mark.parametrize(
    ("done", "undone"),
    [
        (refund("refund.created"), refund("refund.failed")),
        (dispute("payment.dispute.created"), dispute("payment.dispute.won")),
        (dispute("payment.dispute.created", "arbitration"), dispute("payment.dispute.won", "arbitration")),
        (payout("payout.initiated"), payout("payout.reversed")),
        (payout("payout.processed"), payout("payout.failed")),
    ],
)
def test_what_gives_back_and_what_it_gives_back_name_each_other(adapter: Adapter, done: bytes, undone: bytes) -> None:
    first, second = money(adapter, done), money(adapter, undone)
    assert first is not None
    assert second is not None
    assert (first.pair, second.pair) == (second.fact_key, first.fact_key)


@pytest.mark.parametrize("body", [payment("payment.captured"), dispute("payment.dispute.lost"), SETTLEMENT])
def test_what_nothing_gives_back_names_no_other(adapter: Adapter, body: bytes) -> None:
    fact = money(adapter, body)
    assert fact is not None
    assert fact.pair is None


def test_a_payout_that_failed_and_was_reversed_came_back_once(adapter: Adapter) -> None:
    assert money(adapter, payout("payout.failed")) == money(adapter, payout("payout.reversed"))


def transfer(event_type: str) -> bytes:
    entity = {"id": "trf_1", "entity": "transfer", "source": "pay_1", "recipient": "acc_2", "amount": 700}
    payload = {"transfer": {"entity": {**entity, "currency": "INR", "amount_reversed": 0, "on_hold": False}}}
    event = {"entity": "event", "account_id": "acc_1", "event": event_type, "contains": ["transfer"]}
    return json.dumps({**event, "payload": payload, "created_at": NOW_S}).encode()


@pytest.mark.parametrize(
    ("source", "named"), [("bank_transfer", True), (None, True), ("payout", False), ("reversal", False)]
)
def test_money_that_is_added_is_for_a_person_and_a_payouts_transaction_is_reported_by_the_payout(
    adapter: Adapter, source: str | None, named: bool
) -> None:
    transaction = {"id": "txn_1", "amount": 100, "credit": 100, "currency": "INR", "source": {"entity": source}}
    body = json.dumps({"event": "transaction.created", "payload": {"transaction": {"entity": transaction}}}).encode()
    if named:
        with pytest.raises(MoneyInvalid, match="added to the RazorpayX account"):
            adapter.money(body, "transaction.created")
    else:
        assert adapter.money(body, "transaction.created") is None


@pytest.mark.parametrize("event_type", sorted(LEFT_TO_A_PERSON))
def test_what_moves_between_accounts_at_razorpay_is_for_a_person(adapter: Adapter, event_type: str) -> None:
    with pytest.raises(MoneyInvalid, match=f"{event_type} .* manual entry"):
        money(adapter, transfer(event_type))
    assert moved(adapter, transfer("transfer.failed")) is None


def test_the_types_left_to_a_person_are_these() -> None:
    assert frozenset({"settlement.vpa_completed", "transfer.processed"}) == LEFT_TO_A_PERSON


def test_both_reports_of_a_refund_agree(adapter: Adapter) -> None:
    first, second = (money(adapter, refund(event_type)) for event_type in ("refund.created", "refund.processed"))
    assert first == second


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (dispute("payment.dispute.closed"), "by hand"),
        (dispute("payment.dispute.created", "second_thoughts"), "phase"),
        (changed(dispute("payment.dispute.created"), "payload", "dispute", "entity", "phase", to=...), "phase"),
        (changed(dispute("payment.dispute.created"), "payload", "dispute", "entity", "phase", to=["fraud"]), "phase"),
        (
            changed(dispute("payment.dispute.lost"), "payload", "dispute", "entity", "amount_deducted", to=700),
            "less than the disputed",
        ),
        (changed(refund("refund.created"), "payload", "payment", to=...), "captured"),
        (changed(payment("payment.captured"), "payload", "payment", "entity", "currency", to=None), "currency"),
    ],
)
def test_what_can_not_be_reported_for_sure_is_not_booked(adapter: Adapter, body: bytes, problem: str) -> None:
    with pytest.raises(MoneyInvalid, match=problem):
        money(adapter, body)


@pytest.mark.parametrize("amount", [12.5, 1250.0, "1250", True, None, [1250], {"value": 1250}, 10**16])
def test_an_amount_is_an_integer_and_nothing_like_it(adapter: Adapter, amount: Any) -> None:
    with pytest.raises(MoneyInvalid):
        money(adapter, changed(payment("payment.captured"), "payload", "payment", "entity", "amount", to=amount))


@pytest.mark.parametrize(("currency", "amount"), [("KWD", 99_990), ("BHD", 10_500), ("OMR", 1_230), ("JPY", 295)])
def test_minor_units_are_those_of_the_currency(adapter: Adapter, currency: str, amount: int) -> None:
    """Three decimals for KWD, BHD and OMR (99.99 KWD is 99990), none for JPY: as ISO 4217 has them."""
    assert moved(adapter, payment("payment.captured", amount, currency)) == (
        "razorpay:pay_1:capture",
        "capture",
        amount,
        currency,
        "pay_1",
    )


def test_a_settlement_is_in_the_currency_that_is_set_unless_it_names_one() -> None:
    ringgit = build_adapters(ProvidersSettings.model_validate({"razorpay": {"settlement_currency": "MYR"}}))["razorpay"]
    named = changed(SETTLEMENT, "payload", "settlement", "entity", "currency", to="SGD")
    for body, currency in ((SETTLEMENT, "MYR"), (named, "SGD")):
        assert moved(ringgit, body) == ("razorpay:setl_1:payout_paid", "payout_paid", 9_000, currency, None)


def test_a_movement_without_its_own_id_is_not_booked(adapter: Adapter) -> None:
    with pytest.raises(Unparseable):
        money(adapter, changed(payment("payment.captured"), "payload", "payment", "entity", "id", to=...))
