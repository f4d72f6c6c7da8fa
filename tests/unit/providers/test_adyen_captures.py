"""Adyen: what an account that captures at once, after a delay, or by hand leaves in the books."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from pydantic import ValidationError

from core.money import Money, MoneyFact, MoneyInvalid, Movement
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.adyen_items import body, item

AUTHORISED = item(
    pspReference="PAY1",
    originalReference=...,
    eventCode="AUTHORISATION",
    paymentMethod="visa",
    reason="033899:1111:03/2030",
)
CAPTURED = item(pspReference="CAP1", originalReference="PAY1", eventCode="CAPTURE", paymentMethod="visa")
CANCELLED = item(pspReference="CAN1", originalReference="PAY1", eventCode="CANCELLATION", paymentMethod="visa")
EXPIRED = item(pspReference="PAY1", originalReference=..., eventCode="EXPIRE")
PART = {"value": 600, "currency": "EUR"}


def adapter_of(**capture: str) -> Adapter:
    return build_adapters(ProvidersSettings.model_validate({"adyen": {"capture": capture}}))["adyen"]


def fact_of(adapter: Adapter, of: dict[str, Any]) -> MoneyFact | None:
    [event] = adapter.events(Request(body(of), []), "live")
    try:
        fact = adapter.money(event.body, event.event_type)
    except MoneyInvalid:
        assert event.fact_key is None
        raise
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    return fact


def held(adapter: Adapter, *items: dict[str, Any]) -> int:
    facts = [fact for fact in (fact_of(adapter, one) for one in items) if fact is not None]
    assert all(fact.movement is Movement.CAPTURE for fact in facts)
    return sum(fact.money.amount_minor for fact in facts)


@pytest.mark.parametrize("mode", ["delayed", "manual"])
@pytest.mark.parametrize(
    ("items", "clearing"),
    [
        ([AUTHORISED], 0),
        ([AUTHORISED, CAPTURED], 1_000),
        ([AUTHORISED, {**CAPTURED, "amount": PART}], 600),
        ([AUTHORISED, {**CAPTURED, "amount": PART}, {**CANCELLED, "amount": {"value": 400, "currency": "EUR"}}], 600),
        ([AUTHORISED, {**CAPTURED, "success": "false"}], 0),
        ([AUTHORISED, CANCELLED], 0),
        ([AUTHORISED, {**CANCELLED, "eventCode": "TECHNICAL_CANCEL"}], 0),
        ([AUTHORISED, {**CANCELLED, "success": "false"}, CAPTURED], 1_000),
        (
            [
                AUTHORISED,
                {**CANCELLED, "eventCode": "CANCEL_OR_REFUND", "additionalData": {"modification.action": "cancel"}},
            ],
            0,
        ),
        ([AUTHORISED, EXPIRED], 0),
    ],
)
def test_what_was_cancelled_or_left_over_is_not_captured_in_whatever_order_it_is_reported(
    mode: str, items: list[dict[str, Any]], clearing: int
) -> None:
    for order in permutations(items):
        assert held(adapter_of(Main=mode), *order) == clearing


def test_an_account_that_captures_at_once_books_the_authorisation() -> None:
    adapter = adapter_of(Main="immediate")
    assert fact_of(adapter, AUTHORISED) == MoneyFact(
        "adyen:PAY1:capture", Movement.CAPTURE, "Main", "PAY1", Money(1_000, "EUR")
    )
    assert fact_of(adapter, {**AUTHORISED, "success": "false"}) is None
    assert fact_of(adapter, {**CANCELLED, "success": "false"}) is None
    assert fact_of(adapter, {**CAPTURED, "success": "false"}) is None


@pytest.mark.parametrize(
    "contradiction",
    [
        CAPTURED,
        CANCELLED,
        EXPIRED,
        {**CANCELLED, "eventCode": "TECHNICAL_CANCEL"},
        {**CANCELLED, "eventCode": "CANCEL_OR_REFUND", "additionalData": {"modification.action": "cancel"}},
    ],
)
def test_what_an_account_that_captures_at_once_cannot_do_is_for_a_person(contradiction: dict[str, Any]) -> None:
    with pytest.raises(MoneyInvalid, match=f"{contradiction['eventCode']}.*'immediate'.*manual entry"):
        fact_of(adapter_of(Main="immediate"), contradiction)


def test_each_account_captures_in_its_own_way() -> None:
    adapter = adapter_of(Main="immediate", Other="delayed")
    other = {"merchantAccountCode": "Other"}
    third = {"merchantAccountCode": "Third"}
    assert held(adapter, AUTHORISED) == 1_000
    assert held(adapter, AUTHORISED | other, CAPTURED | other) == 1_000
    assert held(adapter, AUTHORISED | third, CAPTURED | third) == 1_000


def test_a_payment_method_may_be_captured_in_another_way_than_its_account() -> None:
    adapter = adapter_of(**{"Main": "immediate", "Main/klarna": "manual"})
    klarna = {"paymentMethod": "klarna"}
    assert held(adapter, AUTHORISED) == 1_000
    assert held(adapter, AUTHORISED | klarna, CAPTURED | klarna | {"amount": PART}) == 600
    assert held(adapter, AUTHORISED | klarna, CANCELLED | klarna) == 0
    by_hand = adapter_of(**{"Main/ideal": "immediate"})
    assert held(by_hand, AUTHORISED | {"paymentMethod": "ideal"}) == 1_000
    assert held(by_hand, AUTHORISED, CAPTURED) == 1_000


@pytest.mark.parametrize("of", [AUTHORISED, CAPTURED])
def test_without_a_payment_method_that_decides_it_cannot_be_known(of: dict[str, Any]) -> None:
    unnamed = {name: value for name, value in of.items() if name != "paymentMethod"}
    with pytest.raises(MoneyInvalid, match="paymentMethod"):
        fact_of(adapter_of(**{"Main": "immediate", "Main/klarna": "manual"}), unnamed)
    assert held(adapter_of(**{"Main": "delayed", "Main/klarna": "manual"}), AUTHORISED, CAPTURED) == 1_000
    assert held(adapter_of(**{"Main": "immediate", "Other/klarna": "manual"}), AUTHORISED) == 1_000
    assert fact_of(adapter_of(**{"Main": "immediate", "Main/klarna": "manual"}), EXPIRED) is None


def test_only_adyens_own_words_are_taken() -> None:
    with pytest.raises(ValidationError):
        adapter_of(Main="automatic")
    with pytest.raises(ValidationError):
        ProvidersSettings.model_validate({"adyen_auto_capture": True})
