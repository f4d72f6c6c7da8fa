"""Adyen: which notifications move money."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from providers import Adapter, Request
from providers.adyen import LEFT_TO_A_PERSON


def wrapper(code: str, **changed: Any) -> bytes:
    fields = {
        "pspReference": "PSP1",
        "originalReference": "ORIGINAL1",
        "merchantAccountCode": "Main",
        "amount": {"value": 1000, "currency": "EUR"},
        "eventCode": code,
        "success": "true",
        **changed,
    }
    return json.dumps({"NotificationRequestItem": fields}).encode()


def money(adapter: Adapter, code: str, **changed: Any) -> MoneyFact | None:
    made = wrapper(code, **changed)
    fact = adapter.money(made, code)
    events = adapter.events(Request(b'{"live":"true","notificationItems":[' + made + b"]}", []), "live")
    event = events[0]
    assert (event.body, event.event_type) == (made, code)
    assert event.fact_key == (fact.fact_key if fact else None)
    assert event.fact_sha256 == (fact.sha256 if fact else None)
    return fact


@pytest.mark.parametrize(
    ("code", "movement", "fact_key"),
    [
        ("CAPTURE", Movement.CAPTURE, "adyen:PSP1:capture"),
        ("CAPTURE_FAILED", Movement.CAPTURE_FAILED, "adyen:PSP1:capture_failed"),
        ("SETTLED_REVERSED", Movement.CAPTURE_FAILED, "adyen:PSP1:capture_failed"),
        ("REFUND", Movement.REFUND, "adyen:PSP1:refund"),
        ("REFUND_WITH_DATA", Movement.REFUND, "adyen:PSP1:refund"),
        ("REFUND_FAILED", Movement.REFUND_FAILED, "adyen:PSP1:refund_failed"),
        ("REFUNDED_REVERSED", Movement.REFUND_FAILED, "adyen:PSP1:refund_failed"),
        ("CHARGEBACK", Movement.DISPUTE_OPENED, "adyen:PSP1:dispute_opened"),
        ("CHARGEBACK_REVERSED", Movement.DISPUTE_WON, "adyen:PSP1:dispute_won"),
        ("SECOND_CHARGEBACK", Movement.DISPUTE_OPENED, "adyen:PSP1:second_dispute_opened"),
        ("PAYOUT_THIRDPARTY", Movement.PAYOUT_PAID, "adyen:PSP1:payout_paid"),
        ("PAIDOUT_REVERSED", Movement.PAYOUT_FAILED, "adyen:PSP1:payout_failed"),
    ],
)
def test_a_modification_books_under_its_own_reference_once_it_succeeded(
    adapter: Adapter, code: str, movement: Movement, fact_key: str
) -> None:
    payout = movement in (Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED)
    expected = MoneyFact(fact_key, movement, "Main", None if payout else "ORIGINAL1", Money(1000, "EUR"))
    assert money(adapter, code) == expected
    assert money(adapter, code, success="false") is None


def test_all_of_a_disputes_events_share_a_reference_and_are_facts_of_their_own(adapter: Adapter) -> None:
    facts = [money(adapter, code) for code in ("CHARGEBACK", "CHARGEBACK_REVERSED", "SECOND_CHARGEBACK")]
    assert len({fact.fact_key for fact in facts if fact}) == 3


@pytest.mark.parametrize("moved", ["true", "false"])
@pytest.mark.parametrize("code", sorted(LEFT_TO_A_PERSON))
def test_what_moves_money_and_is_not_booked_is_for_a_person_and_says_so(
    adapter: Adapter, code: str, moved: str
) -> None:
    if moved == "false":
        assert money(adapter, code, success=moved) is None
        return
    with pytest.raises(MoneyInvalid, match=rf"{code}.* manual entry"):
        money(adapter, code)


@pytest.mark.parametrize(
    "code",
    [
        "AUTHORISATION",
        "CANCELLATION",
        "NOTIFICATION_OF_CHARGEBACK",
        "REPORT_AVAILABLE",
        "PAYOUT_DECLINE",
        "PAYOUT_EXPIRE",
        "X",
    ],
)
def test_other_events_move_nothing(adapter: Adapter, code: str) -> None:
    assert money(adapter, code) is None


@pytest.mark.parametrize(("action", "books"), [("refund", True), ("cancel", False)])
def test_a_cancel_or_refund_says_which_it_was(adapter: Adapter, action: str, books: bool) -> None:
    fact = money(adapter, "CANCEL_OR_REFUND", additionalData={"modification.action": action})
    assert (fact is not None) == books
    assert fact is None or fact.fact_key == "adyen:PSP1:refund"


@pytest.mark.parametrize("extra", [{}, {"modification.action": "both"}, None])
def test_a_cancel_or_refund_that_does_not_say_is_for_a_person(adapter: Adapter, extra: Any) -> None:
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(wrapper("CANCEL_OR_REFUND", additionalData=extra), "CANCEL_OR_REFUND")


def test_a_capture_that_fails_in_the_end_undoes_the_capture_of_the_same_reference(adapter: Adapter) -> None:
    """Adyen gives CAPTURE_FAILED the capture's own reference: one capture, two facts."""
    captured, failed = money(adapter, "CAPTURE"), money(adapter, "CAPTURE_FAILED")
    assert captured is not None
    assert failed is not None
    assert (captured.payment, captured.money) == (failed.payment, failed.money)
    assert captured.fact_key != failed.fact_key


def test_a_capture_comes_back_once_however_adyen_calls_it(adapter: Adapter) -> None:
    failed, reversed_ = money(adapter, "CAPTURE_FAILED"), money(adapter, "SETTLED_REVERSED")
    assert failed == reversed_


@pytest.mark.parametrize(
    ("currency", "value", "expected"),
    [
        ("CLP", 100_000, Money(1000, "CLP")),
        ("ISK", 50_000, Money(500, "ISK")),
        ("CVE", 500, Money(50_000, "CVE")),
        ("IDR", 500, Money(50_000, "IDR")),
        ("JPY", 500, Money(500, "JPY")),
        ("BHD", 1500, Money(1500, "BHD")),
    ],
)
def test_amounts_become_minor_units_of_iso_4217(adapter: Adapter, currency: str, value: int, expected: Money) -> None:
    fact = money(adapter, "CAPTURE", amount={"value": value, "currency": currency})
    assert fact is not None
    assert fact.money == expected


@pytest.mark.parametrize(
    "amount",
    [
        None,
        {},
        {"value": 1000},
        {"value": "1000", "currency": "EUR"},
        {"value": 10.0, "currency": "EUR"},
        {"value": True, "currency": "EUR"},
        {"value": 1000, "currency": "E"},
        {"value": 150, "currency": "CLP"},
        {"value": 10**18, "currency": "EUR"},
    ],
)
def test_money_that_cannot_be_trusted_loses_no_event_and_books_nothing(adapter: Adapter, amount: Any) -> None:
    made = wrapper("CAPTURE", amount=amount)
    (event,) = adapter.events(Request(b'{"live":"true","notificationItems":[' + made + b"]}", []), "live")
    assert (event.event_key, event.fact_key) == ("adyen:PSP1:CAPTURE:true", None)
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(made, "CAPTURE")


def test_the_type_that_is_asked_for_is_the_items_own(adapter: Adapter) -> None:
    with pytest.raises(Unparseable, match="eventCode"):
        adapter.money(wrapper("CAPTURE"), "REFUND")
