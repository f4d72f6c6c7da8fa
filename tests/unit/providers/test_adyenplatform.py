"""Adyen's platform webhooks: signature, identities and money."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import SettingError, Unparseable
from core.event import Mode
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from load.samples import adyenplatform as own
from providers import Adapter, ContentVersionUnknown, ProvidersSettings, Request, build_adapters
from tests.unit.providers.shapes import NO_MONEY, NOW, Row, changed, flips, money, only, refusal

Source = Callable[[str], dict[str, str]]

KEY = "AB" * 32
OLD = "CD" * 32


@pytest.fixture
def adapter(adapters: dict[str, Adapter]) -> Adapter:
    return adapters["adyenplatform"]


def payout(**told: Any) -> bytes:
    return own.payout_event(
        **{
            "transfer": "3JWKA1",
            "sequence": 3,
            "account": "BA1",
            "amount_minor": 22_700,
            "currency": "EUR",
            "created": NOW,
            **told,
        }
    )


def signed(adapter: Adapter, body: bytes, key: str = KEY) -> Request:
    headers = adapter.sign(body, key, NOW).headers
    return Request(body, [(name.lower().encode(), value.encode()) for name, value in headers.items()])


# --- signature


def vector(samples: Path, source_of: Source) -> tuple[bytes, bytes, str]:
    source = source_of("adyen/vector_php_banking_header.json")
    return (samples / source["file"]).read_bytes(), source["sig_value"].encode(), source["secret_or_key"]


def test_the_published_vector_proves_and_altered_by_one_bit_does_not(
    samples: Path, source_of: Source, adapter: Adapter
) -> None:
    body, signature, key = vector(samples, source_of)

    def holds(of: bytes, by: bytes) -> bool:
        return refusal(adapter, Request(of, [(b"hmacsignature", by)]), key) is None

    assert holds(body, signature)
    assert not any(holds(altered, signature) for altered in flips(body))
    assert not any(holds(body, altered) for altered in flips(signature))


def test_the_published_vector_does_not_prove_with_a_key_altered_by_one_bit(
    samples: Path, source_of: Source, adapter: Adapter
) -> None:
    body, signature, key = vector(samples, source_of)
    request = Request(body, [(b"hmacsignature", signature)])
    altered = [other.hex() for other in flips(bytes.fromhex(key))]
    assert refusal(adapter, request, *altered) == "mismatch"
    assert adapter.verify(request, [*altered, key.lower()], NOW) == len(altered)


def test_the_signature_made_for_the_published_vector_is_the_published_one(
    samples: Path, source_of: Source, adapter: Adapter
) -> None:
    body, signature, key = vector(samples, source_of)
    assert adapter.sign(body, key, NOW).headers["HmacSignature"] == signature.decode()


def test_the_old_key_proves_while_the_new_one_spreads_and_which_it_was_is_told(adapter: Adapter) -> None:
    assert adapter.verify(signed(adapter, payout(), KEY), [KEY, OLD], NOW) == 0
    assert adapter.verify(signed(adapter, payout(), OLD), [KEY, OLD], NOW) == 1


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "missing"),
        ([b""], "missing"),
        ([b" "], "mismatch"),
        ([b"AAAA"], "mismatch"),
        (["é".encode()], "mismatch"),
        ([b"\xff\x00"], "mismatch"),
        ([b"AAAA", b"AAAA"], "several"),
    ],
)
def test_a_bad_header_is_refused(adapter: Adapter, headers: list[bytes], reason: str) -> None:
    assert refusal(adapter, Request(payout(), [(b"hmacsignature", value) for value in headers]), KEY) == reason


@pytest.mark.parametrize("key", ["", "ABC", "XY" * 32, "AB " * 32, "０１" * 32])
def test_a_key_that_is_not_hexadecimal_is_a_setting_error_never_a_refusal(adapter: Adapter, key: str) -> None:
    with pytest.raises(SettingError):
        adapter.check_secret(key)
    with pytest.raises(SettingError):
        adapter.verify(signed(adapter, payout()), [key], NOW)


def test_adyen_wants_its_own_acknowledgement(adapter: Adapter) -> None:
    assert (adapter.accepted().status, adapter.accepted().body) == (200, b"[accepted]")


# --- identities

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


def test_a_payout_of_our_own_sample_is_named_and_books(adapter: Adapter) -> None:
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


def test_the_content_hash_of_a_newer_version_is_not_guessed(adapter: Adapter) -> None:
    with pytest.raises(ContentVersionUnknown):
        adapter.content_sha256(payout(), 2)


# --- money


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
    assert money(adapter, payout(status=status)) == expected


def test_a_payout_that_is_tracked_on_after_it_was_booked_is_still_one_fact(adapter: Adapter) -> None:
    booked, tracked = (money(adapter, payout(sequence=number)) for number in (3, 4))
    assert booked == tracked


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("data", "direction"), "incoming"),
        (("data", "direction"), ...),
        (("data", "category"), "internal"),
        (("data", "category"), "issuedCard"),
        (("data", "category"), "grants"),
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
