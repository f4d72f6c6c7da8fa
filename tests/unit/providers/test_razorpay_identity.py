"""Razorpay: an event is named by what is signed, whatever the unsigned id beside it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import Unparseable
from core.event import Event
from load.samples import razorpay as samples_of
from providers import Adapter, ProvidersSettings, build_adapters
from tests.unit.providers.shapes import NO_MONEY, NOW, NOW_S, Row, changed, row
from tests.unit.providers.shapes import only as only_of

BODY = samples_of.payment_event(
    "payment.captured", payment="pay_SampleA1", account="acc_Sample", amount_minor=125_000, currency="INR", created=NOW
)


def only(adapter: Adapter, body: bytes, *ids: bytes) -> Event:
    """The event, sent with these in its unsigned id header."""
    return only_of(adapter, body, *((b"x-razorpay-event-id", reported) for reported in ids))


IDENTITIES: dict[str, Row] = {
    "docs_order.paid": (
        "razorpay:acc_BFQ7uQEaa7j2z7:1567674606:order_DESlLckIVRkHWj,pay_DESlfW9H8K9uqM:order.paid",
        "razorpay:acc_BFQ7uQEaa7j2z7:order_DESlLckIVRkHWj",
        *NO_MONEY,
        "2019-09-05T09:10:06+00:00",
    ),
    "docs_payment.authorized": (
        "razorpay:acc_BFQ7uQEaa7j2z7:1567674606:pay_DESlfW9H8K9uqM:payment.authorized",
        "razorpay:acc_BFQ7uQEaa7j2z7:order_DESlLckIVRkHWj",
        *NO_MONEY,
        "2019-09-05T09:10:06+00:00",
    ),
    "docs_payment.dispute.created": (
        "razorpay:acc_CFvOKjkTwf3GQy:1589907977:disp_EsIAlDcoUr8CaQ,pay_EFtmUsbwpXwBHI:payment.dispute.created",
        "razorpay:acc_CFvOKjkTwf3GQy:order_EFtkA6f5jdkfud",
        "razorpay:disp_EsIAlDcoUr8CaQ:dispute_opened",
        "dispute_opened",
        39_000,
        "INR",
        "2020-05-19T17:06:17+00:00",
    ),
    "docs_payment.downtime.started": (
        "razorpay:acc_CWX291oykl9aZA:1591935238:down_F1Zppa6lcVheSE:payment.downtime.started",
        "razorpay:acc_CWX291oykl9aZA:down_F1Zppa6lcVheSE",
        *NO_MONEY,
        "2020-06-12T04:13:58+00:00",
    ),
    "docs_payment.failed": (
        "razorpay:acc_BFQ7uQEaa7j2z7:1567610215:pay_DEAU825sJlCbGa:payment.failed",
        "razorpay:acc_BFQ7uQEaa7j2z7:order_DEATVTRRctwEGb",
        *NO_MONEY,
        "2019-09-04T15:16:55+00:00",
    ),
    "docs_payment_link.paid": (
        "razorpay:acc_OU2H3nkLn9jDVo:1749618314:QflczVVaNJciLq,pay_Qfldmt5StKZFCB,plink_QflcnnZqCekuvL"
        ":payment_link.paid",
        "razorpay:acc_OU2H3nkLn9jDVo:order_QflczVVaNJciLq",
        *NO_MONEY,
        "2025-06-11T05:05:14+00:00",
    ),
    "docs_payout_link.issued": (
        "razorpay:acc_BFQ7uQEaa7j2z7:1596122515:poutlk_FKkrBbaVLrr72C:payout_link.issued",
        "razorpay:acc_BFQ7uQEaa7j2z7:poutlk_FKkrBbaVLrr72C",
        *NO_MONEY,
        "2020-07-30T15:21:55+00:00",
    ),
    "docs_refund.created": (
        "razorpay:acc_E7OQJcEANmBHTC:1597734071:pay_FPoJKWQQ8lK13n,rfnd_FS8TWyPrCsa0OB:refund.created",
        "razorpay:acc_E7OQJcEANmBHTC:order_FPoIeimWki9j8A",
        "razorpay:rfnd_FS8TWyPrCsa0OB:refund",
        "refund",
        50_000,
        "INR",
        "2020-08-18T07:01:11+00:00",
    ),
    "docs_virtual_account.credited": (
        "razorpay:acc_BFQ7uQEaa7j2z7:1567675984:pay_DETA2KrOlhqQzF,ut_DzZjcnY8n3oU65,va_DzYPeYqvsYEdNq"
        ":virtual_account.credited",
        "razorpay:acc_BFQ7uQEaa7j2z7:pay_DETA2KrOlhqQzF",
        *NO_MONEY,
        "2019-09-05T09:33:04+00:00",
    ),
    "vector_payment_authorized": (
        "razorpay::1400826760:pay_6koWN7bvxujzxM:payment.authorized",
        "razorpay::order_100000000order",
        *NO_MONEY,
        "2014-05-23T06:32:40+00:00",
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_public_sample_is_named_and_booked_as_read_by_hand(samples: Path, adapter: Adapter, name: str) -> None:
    assert row(adapter, (samples / f"razorpay/{name}.json").read_bytes()) == IDENTITIES[name]


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        samples_of.payment_event(
            "payment.failed", payment="pay_B", account="acc_S", amount_minor=1, currency="INR", created=NOW
        ),
    ],
    ids=["moves money", "moves none"],
)
def test_a_signed_body_replayed_under_another_unsigned_id_is_the_same_event(adapter: Adapter, body: bytes) -> None:
    """Money or not: what an event is can't be changed by who can't sign."""
    first = only(adapter, body, b"Gb5kMCdcAZ8jJ8")
    for ids in ((b"ForgedForgedFo",), (), (b"a", b"b"), (b"\xff",), (b"",), (b"x" * 200,), (b"a b",), (b"a\r\nX: 1",)):
        again = only(adapter, body, *ids)
        assert (again.event_key, again.content_sha256, again.fact_key) == (
            first.event_key,
            first.content_sha256,
            first.fact_key,
        )


def test_the_id_header_is_reported_where_it_can_be_one(adapter: Adapter) -> None:
    assert only(adapter, BODY, b"Gb5kMCdcAZ8jJ8").event_id == "Gb5kMCdcAZ8jJ8"
    for ids in ((), (b"a", b"b"), (b"\xff",), (b"a b",), (b"a\r\nX: 1",), (b"x" * 200,)):
        assert only(adapter, BODY, *ids).event_id == "pay_SampleA1"


def test_one_event_with_another_amount_is_a_conflict_not_a_new_event(adapter: Adapter) -> None:
    more = changed(BODY, "payload", "payment", "entity", "amount", to=125_001)
    first, other = only(adapter, BODY), only(adapter, more)
    assert first.event_key == other.event_key
    assert first.content_sha256 != other.content_sha256


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("account_id",), "acc_Other"),
        (("created_at",), NOW_S + 1),
        (("payload", "payment", "entity", "id"), "pay_Other"),
        (("event",), "payment.failed"),
    ],
)
def test_each_part_of_the_identity_tells_events_apart(adapter: Adapter, path: tuple[str, ...], to: Any) -> None:
    assert only(adapter, BODY).event_key != only(adapter, changed(BODY, *path, to=to)).event_key


def test_ids_that_would_join_to_the_same_text_stay_apart(adapter: Adapter) -> None:
    def body(*ids: str) -> bytes:
        payload = {f"kind{number}": {"entity": {"id": one}} for number, one in enumerate(ids)}
        return json.dumps({"event": "x", "created_at": 1, "payload": payload}).encode()

    assert len({only(adapter, body(*ids)).event_key for ids in (("a", "b"), ("a,b",), ("a%2Cb",))}) == 3


@pytest.mark.parametrize("spoilt", [("created_at",), ("payload", "payment", "entity", "id")])
def test_what_has_no_time_or_no_id_is_named_by_its_content(adapter: Adapter, spoilt: tuple[str, ...]) -> None:
    bare = changed(BODY, *spoilt, to=...)
    spaced = json.dumps(json.loads(bare), indent=2).encode()
    event = only(adapter, bare)
    assert event.event_key == f"razorpay:acc_Sample:{event.content_sha256}:payment.captured"
    assert only(adapter, spaced).event_key == event.event_key
    assert only(adapter, changed(bare, "payload", "payment", "entity", "amount", to=1)).event_key != event.event_key


def test_order_is_kept_for_the_order_that_all_tries_to_pay_share(adapter: Adapter) -> None:
    failed = changed(BODY, "payload", "payment", "entity", "id", to="pay_Other")
    assert only(adapter, BODY).entity_key == only(adapter, failed).entity_key == "razorpay:acc_Sample:order_SampleA1"
    alone = changed(BODY, "payload", "payment", "entity", "order_id", to=None)
    assert only(adapter, alone).entity_key == "razorpay:acc_Sample:pay_SampleA1"
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["razorpay"]
    assert only(merchant, BODY).entity_key == "razorpay:acc_Sample"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"event":7}', b'{"event":""}', b"\xff", b'{"event":"a","event":"b"}']
)
def test_what_is_no_event_is_unparseable(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        only(adapter, body)


def test_a_token_is_an_entity_of_its_own_whatever_payment_made_it(adapter: Adapter) -> None:
    token = {"entity": {"id": "token_1", "entity": "token", "method": "card", "recurring": True}}
    body = changed(changed(BODY, "event", to="token.confirmed"), "payload", "token", to=token)
    assert only(adapter, body).entity_key == "razorpay:acc_Sample:token_1"
    assert only(adapter, changed(body, "payload", "payment", to=...)).entity_key == "razorpay:acc_Sample:token_1"
