"""Mollie's next-gen webhooks: signature, identities and money."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unparseable
from core.event import Mode
from core.money import MoneyInvalid
from load.samples import mollie as own
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from providers.mollie import LEFT_TO_A_PERSON
from tests.unit.providers.shapes import NO_MONEY, NOW, Row, changed, money, moved, only, refusal, row

SECRET = "sec_sample"
SMALL = b'{"resource":"event","id":"whe_1"}'
SMALL_SIGNED = b"fe913c5675b4cee7c5c697dc2ef2cd45b8b074e10b117d270f31fc16250cea4a"
"""By ``openssl dgst -sha256 -hmac sec_sample``."""


def event(event_type: str, snapshot: dict[str, Any] | None, event_id: str = "whe_1") -> bytes:
    entity = snapshot["id"] if snapshot else "tr_1"
    return own.nextgen_event(event_type, event_id=event_id, entity=entity, created=NOW, snapshot=snapshot)


def payment(**reported: Any) -> dict[str, Any]:
    return own.payment("tr_1", **{"amount_minor": 1_000, "currency": "EUR", "created": NOW, **reported})


def refund(**reported: Any) -> dict[str, Any]:
    return own.refund("re_1", **{"of": "tr_1", "amount_minor": 400, "currency": "EUR", "created": NOW, **reported})


def chargeback(**reported: Any) -> dict[str, Any]:
    return own.chargeback("chb_1", **{"of": "tr_1", "amount_minor": 700, "currency": "EUR", "created": NOW, **reported})


def sent(signature: bytes, body: bytes = SMALL) -> Request:
    return Request(body, [(b"x-mollie-signature", signature)])


# --- signature


def test_a_signature_made_elsewhere_proves_with_and_without_its_prefix(adapter: Adapter) -> None:
    assert adapter.verify(sent(SMALL_SIGNED), [SECRET], NOW) == 0
    assert adapter.verify(sent(b"sha256=" + SMALL_SIGNED), [SECRET], NOW) == 0
    assert sign(adapter, SMALL, SECRET, NOW).headers["X-Mollie-Signature"] == "sha256=" + SMALL_SIGNED.decode()


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([b"sha256="], "mismatch"),
        ([b"sha1=" + SMALL_SIGNED], "mismatch"),
        ([b"SHA256=" + SMALL_SIGNED], "mismatch"),
        ([b"sha256=sha256=" + SMALL_SIGNED], "mismatch"),
        ([SMALL_SIGNED + b"," + SMALL_SIGNED], "mismatch"),
    ],
)
def test_a_bad_header_is_refused(adapter: Adapter, headers: list[bytes], reason: str) -> None:
    request = Request(SMALL, [(b"x-mollie-signature", value) for value in headers])
    assert refusal(adapter, request, SECRET) == reason


def test_a_classic_delivery_is_not_taken_for_a_signed_one(samples: Path, adapter: Adapter) -> None:
    body = (samples / "mollie/classic_payment.form").read_bytes()
    assert (
        refusal(adapter, Request(body, [(b"content-type", b"application/x-www-form-urlencoded")]), SECRET) == "missing"
    )


# --- identities

IDENTITIES: dict[str, Row] = {
    "nextgen_payment-link.paid_full": (
        "mollie:whe_gQMMaGqAVA:payment-link.paid",
        "mollie::pl_4Y0eZitmBnQ5jsBYZIBw",
        *NO_MONEY,
        "2023-12-25T10:30:54+00:00",
    ),
}


@pytest.mark.parametrize(("name", "expected"), IDENTITIES.items())
def test_each_sample_is_named_and_books_as_written_down(
    samples: Path, adapter: Adapter, name: str, expected: Row
) -> None:
    assert row(adapter, (samples / f"mollie/{name}.json").read_bytes()) == expected


TIME = "2026-01-31T12:00:00+00:00"
OWN: dict[str, tuple[Callable[[], dict[str, Any]], Row]] = {
    "payment.paid": (
        payment,
        ("mollie:whe_1:payment.paid", "mollie::tr_1", "mollie:tr_1:capture", "capture", 1_000, "EUR", TIME),
    ),
    "refund.refunded": (
        refund,
        ("mollie:whe_1:refund.refunded", "mollie::tr_1", "mollie:re_1:refund", "refund", 400, "EUR", TIME),
    ),
    "chargeback.received": (
        chargeback,
        (
            "mollie:whe_1:chargeback.received",
            "mollie::tr_1",
            "mollie:chb_1:dispute_opened",
            "dispute_opened",
            700,
            "EUR",
            TIME,
        ),
    ),
    "payout.completed": (
        lambda: own.payout("payout_1", amount_minor=9_000, currency="EUR", created=NOW),
        (
            "mollie:whe_1:payout.completed",
            "mollie::payout_1",
            "mollie:payout_1:payout_paid",
            "payout_paid",
            9_000,
            "EUR",
            TIME,
        ),
    ),
}


@pytest.mark.parametrize(("event_type", "made", "expected"), [(name, *reported) for name, reported in OWN.items()])
def test_our_own_samples_are_named_and_book(
    adapter: Adapter, event_type: str, made: Callable[[], dict[str, Any]], expected: Row
) -> None:
    assert row(adapter, event(event_type, made())) == expected


def test_a_payment_its_refund_and_its_chargeback_are_one_entity_and_three_events(adapter: Adapter) -> None:
    reported = [
        only(adapter, event("payment.paid", payment(), "whe_1")),
        only(adapter, event("refund.refunded", refund(), "whe_2")),
        only(adapter, event("chargeback.received", chargeback(), "whe_3")),
    ]
    assert {one.entity_key for one in reported} == {"mollie::tr_1"}
    assert len({one.event_key for one in reported}) == 3


def test_links_may_change_between_deliveries_and_amounts_may_not(adapter: Adapter) -> None:
    body = event("payment.paid", payment())
    first = only(adapter, body)
    again = only(adapter, changed(body, "_links", to={}))
    other = only(adapter, event("payment.paid", payment(amount_minor=1_001)))
    assert (again.event_key, again.content_sha256) == (first.event_key, first.content_sha256)
    assert other.event_key == first.event_key
    assert other.content_sha256 != first.content_sha256


@pytest.mark.parametrize("mode", ["live", "test"])
@pytest.mark.parametrize("endpoint", ["live", "test"])
def test_the_signed_mode_routes(adapter: Adapter, mode: Mode, endpoint: Mode) -> None:
    assert only(adapter, event("payment.paid", payment(mode=mode)), mode=endpoint).mode == mode


@pytest.mark.parametrize("endpoint", ["live", "test"])
def test_where_no_mode_is_said_the_endpoint_decides(adapter: Adapter, endpoint: Mode) -> None:
    assert only(adapter, event("profile.blocked", None), mode=endpoint).mode == endpoint


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"id=tr_1",
        b'{"id":"whe_1","type":"payment.paid"}',
        b'{"id":"","type":"payment.paid","entityId":"tr_1"}',
        b'{"id":1,"type":"payment.paid","entityId":"tr_1"}',
        b'{"id":"whe_1","type":["payment.paid"],"entityId":"tr_1"}',
        b'{"id":"whe_1","id":"whe_2","type":"payment.paid","entityId":"tr_1"}',
        b'{"id":"whe_1","type":"x","entityId":"tr_1","_embedded":{"entity":{"mode":"beta"}}}',
        b'{"id":"whe_1","type":"x","entityId":"tr_1","_embedded":{"entity":{"paymentId":7}}}',
    ],
)
def test_what_cannot_be_read_is_said_to_be(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        adapter.events(Request(body, []), "live")


def test_order_may_be_kept_for_all_of_mollie() -> None:
    adapter = build_adapters(ProvidersSettings(entity="merchant"))["mollie"]
    assert only(adapter, event("payment.paid", payment())).entity_key == "mollie:"


# --- money


@pytest.mark.parametrize(
    ("event_type", "snapshot", "expected"),
    [
        ("payment.paid", payment(), ("mollie:tr_1:capture", "capture", 1_000, "EUR", "tr_1")),
        ("payment.paid", payment(captured_minor=600), ("mollie:tr_1:capture", "capture", 600, "EUR", "tr_1")),
        ("refund.processing", refund(), ("mollie:re_1:refund", "refund", 400, "EUR", "tr_1")),
        ("refund.refunded", refund(), ("mollie:re_1:refund", "refund", 400, "EUR", "tr_1")),
        ("refund.failed", refund(), ("mollie:re_1:refund_failed", "refund_failed", 400, "EUR", "tr_1")),
        ("chargeback.received", chargeback(), ("mollie:chb_1:dispute_opened", "dispute_opened", 700, "EUR", "tr_1")),
        ("chargeback.reversed", chargeback(), ("mollie:chb_1:dispute_won", "dispute_won", 700, "EUR", "tr_1")),
    ],
)
def test_what_moves_money_books_under_its_own_id(
    adapter: Adapter, event_type: str, snapshot: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert moved(adapter, event(event_type, snapshot)) == expected


@pytest.mark.parametrize(
    "event_type",
    [
        "payment.authorized",
        "payment.failed",
        "payment.expired",
        "payment.canceled",
        "payment.pending",
        "payment-link.paid",
        "sales-invoice.paid",
        "balance-transaction.created",
        "refund.queued",
        "refund.pending",
        "refund.canceled",
        "payout.failed",
        "payout.initiated",
        "business-account-transfer.requested",
        "business-account-transfer.blocked",
        "connect-balance-transfer.failed",
        "dispute.created",
        "x",
    ],
)
def test_other_types_move_nothing(adapter: Adapter, event_type: str) -> None:
    assert moved(adapter, event(event_type, payment())) is None
    assert moved(adapter, event(event_type, None)) is None


def capture(reference: str = "cpt_1", amount_minor: int = 600) -> dict[str, Any]:
    return own.capture(reference, of="tr_1", amount_minor=amount_minor, currency="EUR", created=NOW)


@pytest.fixture
def of_captures() -> Adapter:
    """An adapter whose webhook takes capture.succeeded."""
    settings = ProvidersSettings.model_validate({"mollie": {"capture_events": True}})
    return build_adapters(settings)["mollie"]


def test_captures_made_by_hand_book_each_and_their_payment_does_not(of_captures: Adapter) -> None:
    captures = [("cpt_1", 600), ("cpt_2", 400)]
    reported = [moved(of_captures, event("capture.succeeded", capture(*one))) for one in captures]
    assert reported == [
        ("mollie:cpt_1:capture", "capture", 600, "EUR", "tr_1"),
        ("mollie:cpt_2:capture", "capture", 400, "EUR", "tr_1"),
    ]
    assert only(of_captures, event("capture.succeeded", capture())).entity_key == "mollie::tr_1"
    by_hand = event("payment.paid", payment(manual=True, captured_minor=1_000))
    assert moved(of_captures, by_hand) is None
    assert moved(of_captures, event("payment.paid", payment())) is not None
    assert moved(of_captures, event("capture.failed", capture())) is None


def test_without_the_captures_events_the_payment_books_and_a_capture_is_not_passed_over(adapter: Adapter) -> None:
    by_hand = event("payment.paid", payment(manual=True, captured_minor=600))
    assert moved(adapter, by_hand) == ("mollie:tr_1:capture", "capture", 600, "EUR", "tr_1")
    with pytest.raises(MoneyInvalid, match=r"providers\.mollie\.capture_events"):
        moved(adapter, event("capture.succeeded", capture()))


@pytest.mark.parametrize(
    ("done", "undone"),
    [
        (event("refund.processing", refund()), event("refund.failed", refund())),
        (event("chargeback.received", chargeback()), event("chargeback.reversed", chargeback())),
    ],
)
def test_what_gives_back_and_what_it_gives_back_name_each_other(adapter: Adapter, done: bytes, undone: bytes) -> None:
    first, second = money(adapter, done), money(adapter, undone)
    assert first is not None
    assert second is not None
    assert (first.pair, second.pair) == (second.fact_key, first.fact_key)


def test_what_nothing_gives_back_names_no_other(adapter: Adapter) -> None:
    paid_out = own.payout("payout_1", amount_minor=9_000, currency="EUR", created=NOW)
    for body in (event("payment.paid", payment()), event("payout.completed", paid_out)):
        fact = money(adapter, body)
        assert fact is not None
        assert fact.pair is None


@pytest.mark.parametrize("event_type", sorted(LEFT_TO_A_PERSON))
def test_a_transfer_is_for_a_person(adapter: Adapter, event_type: str) -> None:
    for snapshot in (own.payout("batr_1", amount_minor=9_000, currency="EUR", created=NOW), None):
        with pytest.raises(MoneyInvalid, match=f"{event_type} .* manual entry"):
            money(adapter, event(event_type, snapshot))


def test_the_types_left_to_a_person_are_these() -> None:
    transfers = {f"business-account-transfer.{action}" for action in ("processed", "returned")}
    assert transfers | {"connect-balance-transfer.succeeded"} == LEFT_TO_A_PERSON


def test_two_partial_refunds_of_a_payment_are_two_facts(adapter: Adapter) -> None:
    second = refund() | {"id": "re_2"}
    facts = [moved(adapter, event("refund.refunded", one)) for one in (refund(), second)]
    assert [fact and fact[0] for fact in facts] == ["mollie:re_1:refund", "mollie:re_2:refund"]


@pytest.mark.parametrize("event_type", ["payment.paid", "refund.refunded", "chargeback.reversed", "payout.completed"])
def test_money_without_a_snapshot_is_for_a_person_and_never_passed_over(adapter: Adapter, event_type: str) -> None:
    with pytest.raises(MoneyInvalid, match="full payload"):
        moved(adapter, event(event_type, None))


def test_a_snapshot_of_something_else_books_nothing(adapter: Adapter) -> None:
    body = changed(event("payment.paid", payment()), "entityId", to="tr_2")
    with pytest.raises(MoneyInvalid, match="entity"):
        moved(adapter, body)


@pytest.mark.parametrize(
    ("value", "currency", "expected"),
    [
        ("10.00", "EUR", 1_000),
        ("0.01", "EUR", 1),
        ("10", "EUR", 1_000),
        ("500", "JPY", 500),
        ("500.00", "JPY", 500),
        ("1.234", "KWD", 1_234),
        ("10.00", "ISK", 10),
    ],
)
def test_decimal_texts_become_minor_units_without_a_float(
    adapter: Adapter, value: str, currency: str, expected: int
) -> None:
    snapshot = payment() | {"amount": {"value": value, "currency": currency}}
    fact = moved(adapter, event("payment.paid", snapshot))
    assert fact is not None
    assert fact[2:4] == (expected, currency)


@pytest.mark.parametrize(
    "amount",
    [
        None,
        "10.00",
        {},
        {"value": "10.00"},
        {"value": 10, "currency": "EUR"},
        {"value": 10.0, "currency": "EUR"},
        {"value": True, "currency": "EUR"},
        {"value": "10,00", "currency": "EUR"},
        {"value": "1e3", "currency": "EUR"},
        {"value": " 10.00", "currency": "EUR"},
        {"value": "١٠", "currency": "EUR"},
        {"value": "NaN", "currency": "EUR"},
        {"value": "10.001", "currency": "EUR"},
        {"value": "0.50", "currency": "JPY"},
        {"value": "9" * 17, "currency": "EUR"},
        {"value": "10.00", "currency": "€"},
    ],
)
def test_an_amount_that_cannot_be_trusted_loses_no_event_and_books_nothing(adapter: Adapter, amount: Any) -> None:
    body = event("payment.paid", payment() | {"amount": amount})
    assert only(adapter, body).event_key == "mollie:whe_1:payment.paid"
    with pytest.raises((MoneyInvalid, Unparseable)):
        moved(adapter, body)
