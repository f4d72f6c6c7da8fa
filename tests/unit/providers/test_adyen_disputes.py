"""Adyen: what each way that a dispute can go leaves in the books, in whatever order its webhooks come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any, TypeAlias

import pytest

from core.event import Event
from core.money import MoneyFact, MoneyInvalid
from ledger.accounts import book
from providers import Adapter, Request
from tests.unit.providers.adyen_items import body, item

Step: TypeAlias = tuple[str, str | None, int]
"""An event code, its ``disputeStatus``, its amount."""

CHARGED_BACK = ("CHARGEBACK", "Undefended", 10_000)
REVERSED = ("CHARGEBACK_REVERSED", "Pending", 10_000)
AGAIN = ("SECOND_CHARGEBACK", "Lost", 10_000)
NEVER_DEFENDED = ("DISPUTE_DEFENSE_PERIOD_ENDED", "Lost", 10_000)
OPEN = {"clearing": -10_000, "disputes": 10_000}
LOST = {"clearing": -10_000, "dispute_losses": 10_000}


def notification(step: Step) -> bytes:
    code, status, amount = step
    reported: dict[str, Any] = {"additionalData": {"chargebackReasonCode": "13.1", "chargebackSchemeCode": "visa"}}
    if status is not None:
        reported["additionalData"]["disputeStatus"] = status
    return body(
        item(
            pspReference="DISPUTE1",
            originalReference="PAY1",
            eventCode=code,
            amount={"value": amount, "currency": "EUR"},
            paymentMethod="visa",
            reason="Merchandise/Services Not Received",
            **reported,
        )
    )


def events_of(adapter: Adapter, *steps: Step) -> list[Event]:
    return [event for step in steps for event in adapter.events(Request(notification(step), []), "live")]


def facts_of(adapter: Adapter, events: Sequence[Event]) -> dict[str, MoneyFact]:
    """By fact key: a fact is booked once, and two reports of one agree."""
    found: dict[str, MoneyFact] = {}
    for event in events:
        fact = adapter.money(event.body, event.event_type)
        assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
        if fact is not None:
            assert found.setdefault(fact.fact_key, fact).sha256 == fact.sha256
    return found


def books(adapter: Adapter, *steps: Step) -> dict[str, int]:
    """Debits less credits by what the account holds."""
    balances: Counter[str] = Counter()
    for fact in facts_of(adapter, events_of(adapter, *steps)).values():
        for posting in book(fact, "adyen", "m1"):
            sign = 1 if posting.side == "debit" else -1
            balances[posting.account.rpartition(":")[2]] += sign * posting.money.amount_minor
    return {name: amount for name, amount in balances.items() if amount}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([CHARGED_BACK], OPEN),
        ([("NOTIFICATION_OF_CHARGEBACK", "Undefended", 10_000), CHARGED_BACK], OPEN),
        ([CHARGED_BACK, NEVER_DEFENDED], LOST),
        ([CHARGED_BACK, ("DISPUTE_DEFENSE_PERIOD_ENDED", "Accepted", 10_000)], LOST),
        ([CHARGED_BACK, ("DISPUTE_DEFENSE_PERIOD_ENDED", "Undefended", 10_000)], LOST),
        ([CHARGED_BACK, ("DISPUTE_DEFENSE_PERIOD_ENDED", None, 10_000)], LOST),
        ([("CHARGEBACK", "Lost", 10_000)], LOST),
        ([("CHARGEBACK", "Accepted", 10_000)], LOST),
        ([("CHARGEBACK", "Accepted", 10_000), NEVER_DEFENDED], LOST),
        ([CHARGED_BACK, REVERSED], {}),
        ([CHARGED_BACK, REVERSED, ("ISSUER_RESPONSE_TIMEFRAME_EXPIRED", "Won", 10_000)], {}),
        ([CHARGED_BACK, REVERSED, AGAIN], LOST),
        ([CHARGED_BACK, ("PREARBITRATION_LOST", "Lost", 10_000)], LOST),
        ([CHARGED_BACK, ("PREARBITRATION_WON", "Won", 10_000), ("CHARGEBACK_REVERSED", "Won", 10_000)], {}),
        ([CHARGED_BACK, REVERSED, ("PREARBITRATION_OPEN", "Undefended", 10_000)], {}),
        ([CHARGED_BACK, REVERSED, ("PREARBITRATION_ACCEPTED", "Pending", 10_000), AGAIN], LOST),
        ([CHARGED_BACK, REVERSED, ("PREARBITRATION_DECLINED", "Pending", 10_000)], {}),
        ([CHARGED_BACK, REVERSED, ("PREARBITRATION_ISSUER_WITHDRAWN", "Won", 10_000)], {}),
        ([CHARGED_BACK, REVERSED, ("SCHEME_ARBITRATION_WON", "Won", 10_000)], {}),
        (
            [
                CHARGED_BACK,
                REVERSED,
                ("SCHEME_ARBITRATION_LOST", "Lost", 10_000),
                ("SECOND_CHARGEBACK", "Lost", 16_000),
            ],
            {"clearing": -16_000, "dispute_losses": 16_000},
        ),
        (
            [CHARGED_BACK, REVERSED, ("SECOND_CHARGEBACK", "Lost", 4_000)],
            {"clearing": -4_000, "dispute_losses": 4_000},
        ),
    ],
)
def test_the_books_say_what_adyen_holds_and_what_is_lost(
    adapter: Adapter, steps: list[Step], expected: dict[str, int]
) -> None:
    for order in permutations(steps):
        assert books(adapter, *order) == expected


def test_a_chargeback_that_is_lost_at_once_is_two_events_of_the_same_bytes(adapter: Adapter) -> None:
    opened, lost = events_of(adapter, AGAIN)
    assert (opened.event_key, opened.event_type) == ("adyen:DISPUTE1:SECOND_CHARGEBACK:true", "SECOND_CHARGEBACK")
    assert (lost.event_key, lost.event_type) == ("adyen:DISPUTE1:SECOND_CHARGEBACK:true:lost", "SECOND_CHARGEBACK.lost")
    assert (opened.body, opened.entity_key, opened.content_sha256) == (lost.body, lost.entity_key, lost.content_sha256)
    assert (opened.fact_key, lost.fact_key) == (
        "adyen:DISPUTE1:second_dispute_opened",
        "adyen:DISPUTE1:second_dispute_lost",
    )


def test_a_loss_that_a_later_copy_tells_of_is_an_event_of_its_own(adapter: Adapter) -> None:
    first, copy = (events_of(adapter, ("CHARGEBACK", status, 10_000)) for status in ("Undefended", "Lost"))
    assert (first[0].event_key, first[0].content_sha256) == (copy[0].event_key, copy[0].content_sha256)
    assert [event.event_type for event in (*first, *copy)] == ["CHARGEBACK", "CHARGEBACK", "CHARGEBACK.lost"]


@pytest.mark.parametrize("code", ["DISPUTE_DEFENSE_PERIOD_ENDED", "PREARBITRATION_LOST"])
@pytest.mark.parametrize("status", ["Pending", "Won", "Expired"])
def test_an_end_that_does_not_say_who_has_the_money_is_for_a_person(adapter: Adapter, code: str, status: str) -> None:
    [event] = events_of(adapter, (code, status, 10_000))
    assert event.fact_key is None
    with pytest.raises(MoneyInvalid, match=f"{code}.*{status}.*manual entry"):
        adapter.money(event.body, event.event_type)


@pytest.mark.parametrize("code", ["CHARGEBACK", "SECOND_CHARGEBACK", "DISPUTE_DEFENSE_PERIOD_ENDED"])
def test_what_did_not_succeed_loses_nothing(adapter: Adapter, code: str) -> None:
    made = body(item(eventCode=code, success="false", additionalData={"disputeStatus": "Lost"}))
    [event] = adapter.events(Request(made, []), "live")
    assert adapter.money(event.body, event.event_type) is None
