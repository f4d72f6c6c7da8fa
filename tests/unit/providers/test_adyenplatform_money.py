"""Adyen's platform webhooks: the money that moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from load.samples import adyenplatform as own
from load.samples.adyen import AdyenItem, adyen_notification
from providers import Adapter, ProvidersSettings, build_adapters
from providers.settings import AdyenSettings
from tests.unit.providers.adyenplatform_payouts import payout
from tests.unit.providers.shapes import NOW, changed, money, only


@pytest.fixture
def adapter() -> Adapter:
    platforms = {"SamplePlatform": "SampleShop"}
    return build_adapters(ProvidersSettings(adyen=AdyenSettings(platforms=platforms)))["adyenplatform"]


@pytest.mark.parametrize(
    ("status", "movement"),
    [
        ("booked", Movement.PAYOUT_PAID),
        ("returned", Movement.PAYOUT_FAILED),
        ("received", None),
        ("authorised", None),
        ("pendingApproval", None),
        ("refused", None),
        ("failed", None),
        ("cancelled", None),
    ],
)
def test_a_payout_books_when_it_is_booked_and_comes_back_when_it_is_returned(
    adapter: Adapter, status: str, movement: Movement | None
) -> None:
    expected = movement and MoneyFact(f"adyenplatform:3JWKA1:{movement}", movement, "BA1", None, Money(22_700, "EUR"))
    found = money(adapter, payout(status=status))
    assert found == (expected and replace(expected, holder=("adyen", "SampleShop")))


def test_a_payout_that_is_tracked_on_after_it_was_booked_is_still_one_fact(adapter: Adapter) -> None:
    booked, tracked = (money(adapter, payout(sequence=number)) for number in (3, 4))
    assert booked == tracked


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("data", "direction"), ...),
        (("data", "category"), "internal"),
        (("data", "category"), "platformPayment"),
        (("type",), "balancePlatform.transaction.created"),
        (("type",), "balancePlatform.payment.created"),
        (("type",), "balancePlatform.outgoingTransfer.updated"),
    ],
)
def test_only_transfers_to_a_bank_account_are_payouts(adapter: Adapter, path: tuple[str, ...], to: Any) -> None:
    assert money(adapter, changed(payout(), *path, to=to)) is None


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("capture", "captured"),
        ("refund", "refunded"),
        ("chargeback", "chargeback"),
        ("captureReversal", "captureReversed"),
    ],
)
def test_a_share_of_a_payment_is_left_to_the_standard_webhook_of_the_whole(
    adapter: Adapter, kind: str, status: str
) -> None:
    body = own.platform_payment_event(
        transfer="T1",
        sequence=2,
        payment="PSP1",
        account="BA1",
        amount_minor=900,
        currency="EUR",
        created=NOW,
        kind=kind,
        status=status,
    )
    assert money(adapter, body) is None
    assert only(adapter, body).entity_key == "adyenplatform:BA1:PSP1"


@pytest.mark.parametrize(
    ("currency", "value", "expected"),
    [
        ("EUR", 150, 150),
        ("JPY", 150, 150),
        ("BHD", 1_500, 1_500),
        ("CLP", 100_000, 1_000),
        ("ISK", 50_000, 500),
        ("CVE", 500, 50_000),
        ("IDR", 500, 50_000),
    ],
)
def test_amounts_become_minor_units_of_iso_4217(adapter: Adapter, currency: str, value: int, expected: int) -> None:
    fact = money(adapter, payout(amount_minor=value, currency=currency))
    assert fact is not None
    assert fact.money == Money(expected, currency)


@pytest.mark.parametrize(
    "amount",
    [
        None,
        {},
        {"value": 10},
        {"value": "10", "currency": "EUR"},
        {"value": 10.0, "currency": "EUR"},
        {"value": True, "currency": "EUR"},
        {"value": 10, "currency": "EURO"},
        {"value": 150, "currency": "CLP"},
        {"value": -10, "currency": "EUR"},
        {"value": 10**17, "currency": "EUR"},
    ],
)
def test_an_amount_that_cannot_be_trusted_loses_no_event_and_books_nothing(adapter: Adapter, amount: Any) -> None:
    body = changed(payout(), "data", "amount", to=amount)
    assert only(adapter, body).fact_key is None
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(body, "balancePlatform.transfer.updated")


def test_a_transfer_without_a_status_or_an_id_books_nothing(adapter: Adapter) -> None:
    for name in ("status", "id"):
        body = changed(payout(), "data", name, to=...)
        with pytest.raises((MoneyInvalid, Unparseable)):
            money(adapter, body)


def test_the_time_is_when_it_was_queued_else_when_it_happened(adapter: Adapter) -> None:
    assert only(adapter, payout(queued_s=90)).occurred_at == NOW + timedelta(seconds=90)
    without = changed(payout(), "timestamp", to=...)
    assert only(adapter, without).occurred_at == datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("category", "direction", "kind"),
    [
        ("bank", "incoming", "bankTransfer"),
        ("bank", "incoming", "bankDirectDebit"),
        ("topUp", "incoming", "bankTransfer"),
        ("card", "outgoing", "cardTransfer"),
        ("issuedCard", "outgoing", "capture"),
        ("issuedCard", "incoming", "refund"),
        ("internal", "incoming", "grant"),
        ("internal", "outgoing", "repayment"),
    ],
)
def test_what_leaves_or_reaches_adyen_otherwise_is_for_a_person_once_it_moved(
    adapter: Adapter, category: str, direction: str, kind: str
) -> None:
    def transfer(status: str) -> bytes:
        body = changed(payout(status=status), "data", "category", to=category)
        return changed(changed(body, "data", "direction", to=direction), "data", "type", to=kind)

    for status in ("received", "authorised", "pendingApproval", "capturePending", "refused", "failed", "cancelled"):
        assert money(adapter, transfer(status)) is None
    for status in ("booked", "captured", "returned", "refunded"):
        with pytest.raises(MoneyInvalid, match=f"balancePlatform.transfer.updated.*{category}.*{kind}.*manual entry"):
            money(adapter, transfer(status))


def test_a_payout_of_no_balance_account_is_for_a_person(adapter: Adapter) -> None:
    with pytest.raises(MoneyInvalid, match="balance account"):
        money(adapter, changed(payout(), "data", "balanceAccount", to=...))


def test_its_balance_is_the_one_that_the_standard_notifications_fill(adapter: Adapter) -> None:
    item = AdyenItem("P1", "R1", "SampleShop", "order-1", "CAPTURE", 700, "EUR", NOW)
    adyen = build_adapters(ProvidersSettings())["adyen"]
    standard = only(adyen, adyen_notification([item], live=True))
    captured = adyen.money(standard.body, "CAPTURE")
    paid = money(adapter, payout(status="booked"))
    assert captured is not None and paid is not None and paid.holder is not None
    assert paid.holder == ("adyen", captured.account)


def test_a_payout_of_a_platform_that_no_setting_names_waits(adapters: dict[str, Adapter]) -> None:
    with pytest.raises(MoneyInvalid, match="providers.adyen.platforms lacks .*SamplePlatform.*replay"):
        money(adapters["adyenplatform"], payout())
