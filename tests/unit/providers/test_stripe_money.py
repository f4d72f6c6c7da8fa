"""Stripe: which reports move money, each movement once, whoever reports it first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from providers import Adapter, Request
from providers.settings import ProvidersSettings, StripeSettings
from providers.stripe import LEFT_TO_A_PERSON, StripeAdapter

CHARGE = {
    "id": "ch_1",
    "object": "charge",
    "amount": 1000,
    "amount_captured": 1000,
    "amount_refunded": 0,
    "captured": True,
    "currency": "usd",
    "payment_intent": "pi_1",
}
REFUND = {
    "id": "re_1",
    "object": "refund",
    "amount": 400,
    "balance_transaction": "txn_1",
    "charge": "ch_1",
    "created": 1,
    "currency": "usd",
    "failure_balance_transaction": None,
    "payment_intent": "pi_1",
    "status": "succeeded",
}
DISPUTE = {
    "id": "dp_1",
    "object": "dispute",
    "amount": 1000,
    "balance_transactions": [{"id": "txn_d", "amount": -1000}],
    "charge": "ch_1",
    "currency": "usd",
    "payment_intent": "pi_1",
    "status": "needs_response",
}
PAYOUT = {"id": "po_1", "object": "payout", "amount": 5000, "currency": "usd", "status": "paid"}


def body(event_type: str, reported: Any, previous: Any = None) -> bytes:
    data = {"object": reported} if previous is None else {"object": reported, "previous_attributes": previous}
    return json.dumps({"id": "evt_1", "type": event_type, "account": "acct_1", "data": data}).encode()


def money(adapter: Adapter, event_type: str, reported: Any, previous: Any = None) -> MoneyFact | None:
    made = body(event_type, reported, previous)
    fact = adapter.money(made, event_type)
    (event,) = adapter.events(Request(made, []), "live")
    assert event.fact_key == (fact.fact_key if fact else None)
    assert event.fact_sha256 == (fact.sha256 if fact else None)
    return fact


def moved(adapter: Adapter, event_type: str, reported: Any, previous: Any = None) -> tuple[str, Movement, int]:
    fact = money(adapter, event_type, reported, previous)
    assert fact is not None
    assert fact.account == "acct_1"
    assert fact.money.currency == "USD"
    return fact.fact_key, fact.movement, fact.money.amount_minor


def test_a_charge_that_is_captured_as_it_succeeds_books(adapter: Adapter) -> None:
    assert moved(adapter, "charge.succeeded", CHARGE) == ("stripe:ch_1:capture", Movement.CAPTURE, 1000)


def test_an_uncaptured_charge_moves_nothing(adapter: Adapter) -> None:
    held = {**CHARGE, "captured": False, "amount_captured": 0}
    assert money(adapter, "charge.succeeded", held) is None


def test_a_later_capture_books_what_was_captured(adapter: Adapter) -> None:
    part = {**CHARGE, "amount_captured": 600}
    assert moved(adapter, "charge.captured", part) == ("stripe:ch_1:capture", Movement.CAPTURE, 600)


def test_three_reports_around_one_capture_book_once(adapter: Adapter) -> None:
    intent = {
        "id": "pi_1",
        "object": "payment_intent",
        "amount_received": 1000,
        "currency": "usd",
        "latest_charge": "ch_1",
    }
    facts = [
        money(adapter, "charge.succeeded", CHARGE),
        money(adapter, "charge.captured", CHARGE),
        money(adapter, "payment_intent.succeeded", intent),
    ]
    assert len({(fact.fact_key, fact.sha256) for fact in facts if fact}) == 1
    assert facts[2] is None


def test_the_captured_amount_is_never_guessed(adapter: Adapter) -> None:
    """Old API versions don't say it; only a charge that succeeds captured is captured whole."""
    old = {name: value for name, value in CHARGE.items() if name != "amount_captured"}
    assert moved(adapter, "charge.succeeded", old)[2] == 1000
    with pytest.raises(MoneyInvalid, match="API version"):
        adapter.money(body("charge.captured", old), "charge.captured")


REFUND_REPORTS = ["refund.created", "refund.updated", "charge.refund.updated"]


@pytest.mark.parametrize("event_type", REFUND_REPORTS)
def test_each_report_of_a_refund_is_of_one_fact(adapter: Adapter, event_type: str) -> None:
    assert moved(adapter, event_type, REFUND) == ("stripe:re_1:refund", Movement.REFUND, 400)


def test_a_charge_that_carries_its_refunds_reports_the_same_fact(adapter: Adapter) -> None:
    listed = {name: value for name, value in REFUND.items() if name != "currency"}
    charge = {**CHARGE, "amount_refunded": 400, "refunds": {"data": [listed]}}
    facts = [
        money(adapter, "charge.refunded", charge, {"amount_refunded": 0}),
        money(adapter, "refund.created", REFUND),
    ]
    assert facts[0] == facts[1] is not None


@pytest.mark.parametrize("shape", [{}, {"refunds": None}, {"refunds": {"data": []}}, {"refunds": {"data": None}}])
@pytest.mark.parametrize("previous", [None, {"amount_refunded": 0}, {"amount_refunded": 100}, {"captured": True}])
def test_a_charge_without_its_refunds_is_never_passed_over_unless_the_refunds_are_reported(
    adapter: Adapter, shape: dict[str, Any], previous: dict[str, Any] | None
) -> None:
    charge = {**CHARGE, "amount_refunded": 400, **shape}
    with pytest.raises(MoneyInvalid, match="subscribe to refund.created"):
        adapter.money(body("charge.refunded", charge, previous), "charge.refunded")
    reported = StripeAdapter(ProvidersSettings(stripe=StripeSettings(refund_events=True)))
    assert money(reported, "charge.refunded", charge, previous) is None


def test_a_charge_whose_refunds_did_not_grow_moves_nothing(adapter: Adapter) -> None:
    charge = {**CHARGE, "amount_refunded": 400}
    assert money(adapter, "charge.refunded", charge, {"amount_refunded": 400}) is None
    assert money(adapter, "charge.refunded", CHARGE) is None


def test_the_newest_refund_of_a_charge_is_the_one_reported(adapter: Adapter) -> None:
    older, newer = {**REFUND, "created": 1}, {**REFUND, "id": "re_2", "created": 2}
    for listed in ([newer, older], [older, newer]):
        charge = {**CHARGE, "amount_refunded": 800, "refunds": {"data": listed}}
        assert moved(adapter, "charge.refunded", charge)[0] == "stripe:re_2:refund"
    same_second = [{**newer, "created": 1}, older]
    charge = {**CHARGE, "amount_refunded": 800, "refunds": {"data": same_second}}
    assert moved(adapter, "charge.refunded", charge, {"amount_refunded": 400})[0] == "stripe:re_2:refund"


def test_a_refund_that_came_in_between_is_not_mistaken_for_the_reported_one(adapter: Adapter) -> None:
    """The charge may show a newer refund already; the total says which one this event is about."""
    listed = [{**REFUND, "id": "re_2", "amount": 100, "created": 2}, REFUND]
    charge = {**CHARGE, "amount_refunded": 400, "refunds": {"data": listed}}
    assert moved(adapter, "charge.refunded", charge, {"amount_refunded": 0}) == (
        "stripe:re_1:refund",
        Movement.REFUND,
        400,
    )
    with pytest.raises(MoneyInvalid, match="none of the charge's refunds"):
        adapter.money(
            body("charge.refunded", {**charge, "amount_refunded": 450}, {"amount_refunded": 0}), "charge.refunded"
        )


def test_two_partial_refunds_of_a_charge_are_two_facts(adapter: Adapter) -> None:
    keys = {moved(adapter, "refund.created", {**REFUND, "id": name})[0] for name in ("re_1", "re_2")}
    assert keys == {"stripe:re_1:refund", "stripe:re_2:refund"}


@pytest.mark.parametrize("status", ["pending", "requires_action"])
def test_an_unsettled_refund_counts_once_stripe_has_taken_the_money(adapter: Adapter, status: str) -> None:
    assert money(adapter, "refund.created", {**REFUND, "status": status, "balance_transaction": None}) is None
    assert moved(adapter, "refund.created", {**REFUND, "status": status})[1] is Movement.REFUND
    assert moved(adapter, "refund.updated", REFUND)[1] is Movement.REFUND


def test_an_authorisation_that_is_released_gives_nothing_back(adapter: Adapter) -> None:
    """Until API version 2025-03-31 it is reported as a refund, which has no balance transaction."""
    release = {**REFUND, "amount": 1000, "balance_transaction": None}
    voided = {**CHARGE, "captured": False, "amount_captured": 0, "amount_refunded": 1000}
    before = {"amount_refunded": 0, "refunded": False}
    assert money(adapter, "charge.refunded", {**voided, "refunds": {"data": [release]}}, before) is None
    assert money(adapter, "charge.refunded", voided, before) is None
    for event_type in REFUND_REPORTS:
        assert money(adapter, event_type, release) is None


@pytest.mark.parametrize("previous", [{"amount_refunded": 0}, None])
def test_what_a_partial_capture_releases_gives_nothing_back(adapter: Adapter, previous: dict[str, Any] | None) -> None:
    """The older API versions list it among the refunds, with a balance transaction of its own."""
    release, refund = {**REFUND, "id": "re_0", "amount": 600, "created": 1}, {**REFUND, "amount": 150, "created": 2}
    captured = {**CHARGE, "amount_captured": 400, "amount_refunded": 600, "refunds": {"data": [release]}}
    assert moved(adapter, "charge.captured", captured)[2] == 400
    assert money(adapter, "charge.refunded", captured, previous) is None
    refunded = {**captured, "amount_refunded": 750, "refunds": {"data": [refund, release]}}
    expected = ("stripe:re_1:refund", Movement.REFUND, 150)
    assert moved(adapter, "charge.refunded", refunded, previous and {"amount_refunded": 600}) == expected


def test_each_capture_of_a_charge_books_its_part(adapter: Adapter) -> None:
    def captured(event_type: str, before: int, after: int) -> tuple[str, Movement, int]:
        charge = {**CHARGE, "amount_captured": after, "balance_transaction": f"txn_{after}"}
        previous = {"amount_captured": before, "balance_transaction": f"txn_{before}" if before else None}
        return moved(adapter, event_type, charge, previous)

    first = ("stripe:ch_1:capture", Movement.CAPTURE, 300)
    assert captured("charge.captured", 0, 300) == captured("charge.updated", 0, 300) == first
    for event_type in ("charge.updated", "charge.captured"):
        assert captured(event_type, 300, 800) == ("stripe:txn_800:capture", Movement.CAPTURE, 500)


def test_an_update_of_a_charge_that_captures_nothing_books_nothing(adapter: Adapter) -> None:
    for previous in (None, {"description": "before"}, {"balance_transaction": None}):
        assert money(adapter, "charge.updated", CHARGE, previous) is None


def test_a_further_capture_without_its_balance_transaction_is_for_a_person(adapter: Adapter) -> None:
    with pytest.raises(MoneyInvalid, match="a further capture"):
        adapter.money(body("charge.updated", CHARGE, {"amount_captured": 300}), "charge.updated")


@pytest.mark.parametrize("status", ["failed", "canceled"])
@pytest.mark.parametrize("event_type", [*REFUND_REPORTS, "refund.failed"])
def test_a_failed_refund_gives_the_money_back_as_a_fact_of_its_own(
    adapter: Adapter, event_type: str, status: str
) -> None:
    failed = {**REFUND, "status": status, "failure_balance_transaction": "txn_2"}
    assert moved(adapter, event_type, failed) == ("stripe:re_1:refund_failed", Movement.REFUND_FAILED, 400)


def test_a_refund_that_failed_before_any_money_moved_moves_none(adapter: Adapter) -> None:
    failed = {**REFUND, "status": "failed", "balance_transaction": None}
    assert money(adapter, "refund.failed", failed) is None


@pytest.mark.parametrize("event_type", ["charge.dispute.created", "charge.dispute.funds_withdrawn"])
def test_a_dispute_takes_the_money_once(adapter: Adapter, event_type: str) -> None:
    expected = ("stripe:dp_1:dispute_opened", Movement.DISPUTE_OPENED, 1000)
    assert moved(adapter, event_type, DISPUTE) == expected


@pytest.mark.parametrize("change", [{"status": "warning_needs_response"}, {"balance_transactions": []}])
def test_an_inquiry_takes_no_money_until_it_is_withdrawn(adapter: Adapter, change: dict[str, Any]) -> None:
    inquiry = {**DISPUTE, **change}
    assert money(adapter, "charge.dispute.created", inquiry) is None
    assert moved(adapter, "charge.dispute.funds_withdrawn", inquiry)[1] is Movement.DISPUTE_OPENED


def test_a_dispute_gives_the_money_back_or_makes_the_loss_final(adapter: Adapter) -> None:
    won = moved(adapter, "charge.dispute.funds_reinstated", {**DISPUTE, "status": "won"})
    lost = moved(adapter, "charge.dispute.closed", {**DISPUTE, "status": "lost"})
    assert won == ("stripe:dp_1:dispute_won", Movement.DISPUTE_WON, 1000)
    assert lost == ("stripe:dp_1:dispute_lost", Movement.DISPUTE_LOST, 1000)


def transaction(name: str, amount: int, created: int, currency: str = "usd") -> dict[str, Any]:
    return {"id": name, "amount": amount, "created": created, "currency": currency, "fee": 1500}


WITHDRAWN, BACK, AGAIN = transaction("txn_1", -1000, 1), transaction("txn_2", 1000, 2), transaction("txn_3", -1000, 3)


def booked(adapter: Adapter, *reports: tuple[str, str, list[dict[str, Any]]]) -> tuple[int, int]:
    """What is left on clearing and on disputes after a capture of 1,000 and these reports of its dispute, and that no
    fact is named twice with another amount."""
    facts: dict[str, MoneyFact] = {}
    for event_type, status, listed in reports:
        fact = money(adapter, event_type, {**DISPUTE, "status": status, "balance_transactions": listed})
        if fact is not None:
            assert facts.setdefault(fact.fact_key, fact) == fact
    sums = dict.fromkeys(Movement, 0)
    for fact in facts.values():
        sums[fact.movement] += fact.money.amount_minor
    opened, won, lost = (sums[one] for one in (Movement.DISPUTE_OPENED, Movement.DISPUTE_WON, Movement.DISPUTE_LOST))
    return 1000 - opened + won, opened - won - lost


CREATED, TAKEN = "charge.dispute.created", "charge.dispute.funds_withdrawn"
GIVEN, CLOSED = "charge.dispute.funds_reinstated", "charge.dispute.closed"


def test_a_dispute_of_a_partly_refunded_charge_costs_what_was_not_given_back(adapter: Adapter) -> None:
    """Of 1,000, 300 were refunded before: they come back, and 700 are lost."""
    part = transaction("txn_2", 300, 2)
    reports = [
        (CREATED, "needs_response", [WITHDRAWN]),
        (TAKEN, "needs_response", [WITHDRAWN]),
        (GIVEN, "under_review", [part, WITHDRAWN]),
        (CLOSED, "lost", [part, WITHDRAWN]),
    ]
    assert booked(adapter, *reports) == (300, 0)


def test_a_dispute_that_is_won_withdrawn_again_and_lost_costs_all(adapter: Adapter) -> None:
    reports = [
        (CREATED, "needs_response", []),
        (TAKEN, "needs_response", [WITHDRAWN]),
        (GIVEN, "won", [BACK, WITHDRAWN]),
        (CLOSED, "won", [BACK, WITHDRAWN]),
        (TAKEN, "needs_response", [AGAIN, BACK, WITHDRAWN]),
    ]
    assert booked(adapter, *reports) == (0, 1000)
    assert booked(adapter, *reports, (CLOSED, "lost", [AGAIN, BACK, WITHDRAWN])) == (0, 0)
    again = {**DISPUTE, "balance_transactions": [AGAIN, BACK, WITHDRAWN]}
    assert moved(adapter, TAKEN, again)[0] == "stripe:txn_3:dispute_opened"


def test_where_the_account_settles_in_another_currency_the_disputes_own_amount_counts(adapter: Adapter) -> None:
    whole, back = transaction("txn_1", -910, 1, "eur"), transaction("txn_2", 910, 2, "eur")
    assert booked(adapter, (TAKEN, "needs_response", [whole])) == (0, 1000)
    assert booked(adapter, (TAKEN, "needs_response", [whole]), (GIVEN, "won", [back, whole])) == (1000, 0)
    part = {**DISPUTE, "balance_transactions": [transaction("txn_2", 300, 2, "eur"), whole]}
    with pytest.raises(MoneyInvalid, match="by hand"):
        adapter.money(body(GIVEN, part), GIVEN)


def test_a_dispute_whose_transaction_has_no_amount_is_not_guessed(adapter: Adapter) -> None:
    with pytest.raises(MoneyInvalid, match="no whole 'amount'"):
        adapter.money(body(TAKEN, {**DISPUTE, "balance_transactions": [{"id": "txn_1"}]}), TAKEN)


@pytest.mark.parametrize(
    "change", [{"status": "won"}, {"status": "warning_closed"}, {"status": "lost", "balance_transactions": []}]
)
def test_a_dispute_that_closes_otherwise_moves_nothing(adapter: Adapter, change: dict[str, Any]) -> None:
    assert money(adapter, "charge.dispute.closed", {**DISPUTE, **change}) is None


def test_a_payout_goes_out_and_comes_back(adapter: Adapter) -> None:
    paid = moved(adapter, "payout.paid", PAYOUT)
    failed = moved(adapter, "payout.failed", {**PAYOUT, "status": "failed"})
    assert paid == ("stripe:po_1:payout_paid", Movement.PAYOUT_PAID, 5000)
    assert failed == ("stripe:po_1:payout_failed", Movement.PAYOUT_FAILED, 5000)
    fact = adapter.money(body("payout.paid", PAYOUT), "payout.paid")
    assert fact is not None
    assert (fact.payment, fact.pair) == (None, "stripe:po_1:payout_failed")
    undo = adapter.money(body("payout.failed", PAYOUT), "payout.failed")
    assert undo is not None and undo.pair == "stripe:po_1:payout_paid"


@pytest.mark.parametrize("event_type", sorted(LEFT_TO_A_PERSON))
def test_what_moves_money_and_is_not_booked_is_for_a_person(adapter: Adapter, event_type: str) -> None:
    made = body(event_type, {"id": "tr_1", "amount": 1, "currency": "usd"})
    with pytest.raises(MoneyInvalid, match="book it by a manual entry"):
        adapter.money(made, event_type)
    (event,) = adapter.events(Request(made, []), "live")
    assert event.fact_key is None


@pytest.mark.parametrize(
    "event_type", ["charge.failed", "payment_intent.succeeded", "invoice.paid", "payout.created", "x"]
)
def test_other_types_move_nothing(adapter: Adapter, event_type: str) -> None:
    assert money(adapter, event_type, CHARGE) is None


@pytest.mark.parametrize(
    "change",
    [
        {"amount_captured": "1000"},
        {"amount_captured": 10.5},
        {"amount_captured": True},
        {"amount_captured": None},
        {"amount_captured": 10**16},
        {"currency": "us"},
        {"currency": None},
        {"currency": "dollars"},
        {"id": ""},
        {"id": 7},
    ],
)
def test_money_that_cannot_be_trusted_loses_no_event_and_books_nothing(
    adapter: Adapter, change: dict[str, Any]
) -> None:
    made = body("charge.succeeded", {**CHARGE, **change})
    (event,) = adapter.events(Request(made, []), "live")
    assert (event.event_key, event.fact_key) == ("stripe:evt_1:charge.succeeded", None)
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(made, "charge.succeeded")


@pytest.mark.parametrize("data", [None, [], {}, {"object": None}, {"object": "ch_1"}])
def test_a_money_type_without_its_object_books_nothing(adapter: Adapter, data: Any) -> None:
    made = json.dumps({"id": "evt_1", "type": "charge.succeeded", "data": data}).encode()
    (event,) = adapter.events(Request(made, []), "live")
    assert event.fact_key is None
    with pytest.raises(Unparseable):
        adapter.money(made, "charge.succeeded")


@pytest.mark.parametrize(
    ("currency", "amount", "expected"),
    [
        ("jpy", 500, Money(500, "JPY")),
        ("kwd", 1500, Money(1500, "KWD")),
        ("isk", 50000, Money(500, "ISK")),
        ("ugx", 50000, Money(500, "UGX")),
        ("mga", 500, Money(50000, "MGA")),
    ],
)
def test_amounts_become_minor_units_of_iso_4217(adapter: Adapter, currency: str, amount: int, expected: Money) -> None:
    fact = money(adapter, "charge.succeeded", {**CHARGE, "amount_captured": amount, "currency": currency})
    assert fact is not None
    assert fact.money == expected


def test_an_amount_with_more_decimals_than_the_currency_has_is_not_rounded(adapter: Adapter) -> None:
    with pytest.raises(MoneyInvalid, match="whole number"):
        adapter.money(
            body("charge.succeeded", {**CHARGE, "amount_captured": 50050, "currency": "isk"}), "charge.succeeded"
        )
