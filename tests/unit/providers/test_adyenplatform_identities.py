"""Adyen's platform webhooks: what its events are called."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unparseable
from core.event import Mode
from providers import Adapter, ProvidersSettings, Request, build_adapters
from providers.settings import AdyenSettings
from tests.unit.providers.adyenplatform_payouts import payout
from tests.unit.providers.shapes import NO_MONEY, Row, changed, only

SWEEP = "1ecf8386f355e6f5aa5a37aea1b6a08855bc697e0441924b931168929219e39e"
BALANCE = "7b8f1d11fc74e265e59f6fbbf87f6e78461d08d7f0eb285c6fdb4aecafd26533"
ACH = "c6c012382cc2db459402fa109e8abe160a9733a7ad6b1f8cf18bc7e0fab615b2"
EFT = "03b408a99a52ba5e9c354462c45bab60a93dfc5901fdc1bf3d884d465a8ebce4"
IDENTITIES: dict[str, tuple[str, str, str | None, str | None, int | None, str | None, str | None]] = {
    "bp_transfer-updated": (
        "adyenplatform:01234:2:balancePlatform.transfer.updated",
        "adyenplatform:BA1234567890:PSP01234",
        *NO_MONEY,
        "2025-06-02T11:46:28.635000+00:00",
    ),
    "bp_balanceplatform-balanceAccount-balance-updated": (
        f"adyenplatform:BWHS00000000000000000000000001:{BALANCE}:balancePlatform.balanceAccount.balance.updated",
        "adyenplatform:BWHS00000000000000000000000001:BWHS00000000000000000000000001",
        *NO_MONEY,
        "2025-01-19T11:37:38+00:00",
    ),
    "vector_php_banking_header": (
        f"adyenplatform:SWPC42272223222H5HVKV6H8C64DP5:{SWEEP}:balancePlatform.balanceAccountSweep.updated",
        "adyenplatform:BA32272223222H5HVKTBK4MLB:SWPC42272223222H5HVKV6H8C64DP5",
        *NO_MONEY,
        None,
    ),
    "oas_ach_notification_of_change": (
        f"adyenplatform:QFQTPCQ8HXSKGK82:{ACH}:ach.notificationOfChange",
        "adyenplatform::QFQTPCQ8HXSKGK82",
        *NO_MONEY,
        "2021-01-01T00:00:00+00:00",
    ),
    "oas_eft_notice_of_change": (
        f"adyenplatform:QFQTPCQ8HXSKGK82:{EFT}:eft.notificationOfChange",
        "adyenplatform::QFQTPCQ8HXSKGK82",
        *NO_MONEY,
        "2021-01-01T00:00:00+00:00",
    ),
}
"""Event and entity key, fact, movement, amount, currency and time; the long hashes are of the documents' content."""


@pytest.mark.parametrize(("name", "row"), IDENTITIES.items())
def test_each_sample_is_named_and_books_as_written_down(
    samples: Path, adapter: Adapter, name: str, row: tuple[Any, ...]
) -> None:
    body = (samples / f"adyen/{name}.json").read_bytes()
    event = only(adapter, body)
    occurred = event.occurred_at.isoformat() if event.occurred_at else None
    assert (event.event_key, event.entity_key, event.fact_key, None, None, None, occurred) == row
    assert adapter.money(body, event.event_type) is None
    assert (event.body, event.mode) == (body, "test")
    assert event.content_sha256 == adapter.content_sha256(body, event.content_version)


def test_the_hash_that_names_a_webhook_without_a_number_is_of_its_content(samples: Path, adapter: Adapter) -> None:
    """Keys sorted, no blanks: how it is spelled doesn't matter."""
    body = (samples / "adyen/vector_php_banking_header.json").read_bytes()
    canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(canonical).hexdigest() == SWEEP
    again = json.dumps(json.loads(body), indent=4).encode()
    assert only(adapter, again).event_key == only(adapter, body).event_key
    other = changed(body, "data", "sweep", "status", to="inactive")
    assert only(adapter, other).event_key != only(adapter, body).event_key
    assert only(adapter, other).entity_key == only(adapter, body).entity_key


def test_a_payout_of_our_own_sample_is_named_and_books() -> None:
    settings = ProvidersSettings(adyen=AdyenSettings(platforms={"SamplePlatform": "SampleShop"}))
    adapter = build_adapters(settings)["adyenplatform"]
    event = only(adapter, payout())
    fact = adapter.money(event.body, event.event_type)
    row: Row = (
        "adyenplatform:3JWKA1:3:balancePlatform.transfer.updated",
        "adyenplatform:BA1:3JWKA1",
        "adyenplatform:3JWKA1:payout_paid",
        "payout_paid",
        22_700,
        "EUR",
        "2026-01-31T12:00:01+00:00",
    )
    assert fact is not None
    assert event.occurred_at is not None
    moved = (fact.fact_key, fact.movement.value, fact.money.amount_minor, fact.money.currency)
    assert (event.event_key, event.entity_key, *moved, event.occurred_at.isoformat()) == row
    assert (event.account, event.mode) == ("BA1", "live")


def test_each_webhook_of_a_transfer_is_an_event_of_its_own_and_one_entity(adapter: Adapter) -> None:
    first, second = (only(adapter, payout(sequence=number)) for number in (1, 2))
    assert first.event_key != second.event_key
    assert first.entity_key == second.entity_key


def test_a_redelivery_may_be_queued_later_and_is_the_same(adapter: Adapter) -> None:
    first, again = (only(adapter, payout(queued_s=seconds)) for seconds in (1, 3_600))
    assert (first.event_key, first.content_sha256) == (again.event_key, again.content_sha256)
    assert first.body != again.body


def test_the_same_number_with_other_content_is_a_conflict_not_a_new_event(adapter: Adapter) -> None:
    first, other = (only(adapter, payout(amount_minor=amount)) for amount in (1, 2))
    assert first.event_key == other.event_key
    assert first.content_sha256 != other.content_sha256


HOLDER = {"id": "AH1", "legalEntityId": "LE1", "status": "active"}


@pytest.mark.parametrize(
    ("data", "account"),
    [
        ({"balanceAccount": {"id": "BA1"}, "accountHolder": HOLDER}, "BA1"),
        ({"balanceAccountId": "BA1"}, "BA1"),
        ({"accountId": "BA1", "sweep": {"id": "SWPC1"}}, "BA1"),
        ({"paymentInstrument": {"id": "PI1", "balanceAccountId": "BA1"}}, "BA1"),
        ({"mandate": {"id": "MNDT1", "balanceAccountId": "BA1"}}, "BA1"),
        ({"liableBalanceAccountId": "BA1", "accountHolder": {"id": "AH1"}}, "BA1"),
        ({"accountHolder": HOLDER}, "AH1"),
        ({"accountHolderId": "AH1", "id": "SC1"}, "AH1"),
        ({"legalEntity": {"id": "LE1"}}, "LE1"),
        ({"legalEntityId": "LE1", "id": "X1"}, "LE1"),
        ({"merchantAccount": "Main", "storedPaymentMethodId": "M5N7TQ4TG5PFWR50"}, "Main"),
        ({"merchantId": "Main", "id": "PM1"}, "Main"),
        ({"id": "NWTK1", "paymentInstrumentId": "PI1"}, "Platform"),
        ({"id": "DISP1", "accountHolder": {}}, "Platform"),
    ],
)
def test_an_event_names_whom_it_concerns(adapter: Adapter, data: dict[str, Any], account: str) -> None:
    body = json.dumps({"data": {"balancePlatform": "Platform", **data}, "type": "balancePlatform.x.updated"}).encode()
    event = only(adapter, body)
    assert event.account == account
    assert event.entity_key.split(":")[1] == account
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["adyenplatform"]
    assert only(merchant, body).entity_key == f"adyenplatform:{account}"


def test_who_is_concerned_is_no_part_of_an_events_key(adapter: Adapter) -> None:
    """Redeliveries across an upgrade stay duplicates."""
    data = b'{"accountHolder":{"legalEntityId":"LE1"},"balancePlatform":"Platform"}'
    body = b'{"data":%b,"type":"balancePlatform.x.updated"}' % data
    named = hashlib.sha256(json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert only(adapter, body).event_key == f"adyenplatform::{named}:balancePlatform.x.updated"


def test_what_is_created_is_so_once(adapter: Adapter) -> None:
    body = json.dumps(
        {
            "data": {"id": "EVJN1", "status": "booked", "balanceAccount": {"id": "BA1"}},
            "type": "balancePlatform.transaction.created",
        }
    ).encode()
    event = only(adapter, body)
    assert event.event_key == "adyenplatform:EVJN1:created:balancePlatform.transaction.created"
    assert event.entity_key == "adyenplatform:BA1:EVJN1"


@pytest.mark.parametrize(("live", "mode"), [(True, "live"), (False, "test")])
@pytest.mark.parametrize("endpoint", ["live", "test"])
def test_the_signed_environment_routes(adapter: Adapter, live: bool, mode: Mode, endpoint: Mode) -> None:
    assert only(adapter, payout(live=live), mode=endpoint).mode == mode


def test_without_an_environment_the_endpoint_decides(adapter: Adapter) -> None:
    assert only(adapter, changed(payout(), "environment", to=...), mode="test").mode == "test"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type":"x"}',
        b'{"type":"x","data":[]}',
        b'{"type":"","data":{}}',
        b'{"type":1,"data":{}}',
        b'{"type":"x","data":{"id":1}}',
        b'{"type":"x","data":{},"environment":"beta"}',
        b'{"type":"x","data":{},"environment":true}',
        b'{"type":"x","data":{"balanceAccount":{"id":7}}}',
        b'{"type":"x","data":{},"data":{}}',
    ],
)
def test_what_cannot_be_read_is_said_to_be(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        adapter.events(Request(body, []), "live")


def test_order_may_be_kept_for_the_balance_account() -> None:
    adapter = build_adapters(ProvidersSettings(entity="merchant"))["adyenplatform"]
    assert only(adapter, payout()).entity_key == "adyenplatform:BA1"
