"""Adyen's public samples: what each is called and what it moved, written down by hand from the payloads."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from core.errors import Unparseable
from core.event import Event
from providers import Adapter, ProvidersSettings, Request, SignatureInvalid, build_adapters
from tests.unit.providers.shapes import NO_MONEY, Row

AUTHORISED = (
    "adyen:123456789:AUTHORISATION:true",
    "adyen:MagentoMerchantTest2:123456789",
    *NO_MONEY,
    "2017-01-19T15:42:03+00:00",
)
FOUR = (
    (
        "adyen:T7FD4VM4D3RZNN82:AUTHORISATION:true",
        "adyen:AntoniStroinski:T7FD4VM4D3RZNN82",
        *NO_MONEY,
        "2023-01-09T15:27:29+00:00",
    ),
    (
        "adyen:M8NB66SBZSGLNK82:AUTHORISATION:true",
        "adyen:AntoniStroinski:M8NB66SBZSGLNK82",
        *NO_MONEY,
        "2023-01-10T12:40:54+00:00",
    ),
    (
        "adyen:X3GWNS6KJ8NKGK82:AUTHORISATION:true",
        "adyen:AntoniStroinski:X3GWNS6KJ8NKGK82",
        *NO_MONEY,
        "2023-01-10T12:37:30+00:00",
    ),
    (
        "adyen:ZVWN7D3WSMK2WN82:AUTHORISATION:true",
        "adyen:AntoniStroinski:ZVWN7D3WSMK2WN82",
        *NO_MONEY,
        "2023-01-10T12:42:29+00:00",
    ),
)
DJADYEN = (
    "adyen:NC6HT9CRT65ZGN82:AUTHORISATION:true",
    "adyen:Djadyen_merchant_account:NC6HT9CRT65ZGN82",
    *NO_MONEY,
    "2021-09-13T12:10:22+00:00",
)
NEW_YEAR = "2021-01-01T00:00:00+00:00"
ORIGINAL = "adyen:YOUR_MERCHANT_ACCOUNT:9913140798220028"
ITSELF = "adyen:YOUR_MERCHANT_ACCOUNT:QFQTPCQ8HXSKGK82"
MAGENTO = "adyen:MagentoMerchantTest2:ORIGINAL_PSP"

IDENTITIES: dict[str, tuple[Row, ...]] = {
    "derived_batch_4_valid": FOUR,
    "derived_batch_second_item_forged": FOUR,
    "djadyen_multiple_3items_identical": (DJADYEN, DJADYEN, DJADYEN),
    "djadyen_no_hmac": (DJADYEN,),
    "java_authorisation-true": (AUTHORISED,),
    "java_authorisation-true-additional-attribute": (AUTHORISED,),
    "java_cancellation-true": (
        (
            "adyen:8412534564722331:CANCELLATION:true",
            "adyen:YOUR_MERCHANT_ACCOUNT:8313547924770610",
            *NO_MONEY,
            "2018-03-05T08:08:05+00:00",
        ),
    ),
    "java_capture-false": (("adyen:PSP_REFERENCE:CAPTURE:false", MAGENTO, *NO_MONEY, "2017-01-25T17:08:19+00:00"),),
    "java_capture-true": (
        (
            "adyen:PSP_REFERENCE:CAPTURE:true",
            MAGENTO,
            "adyen:PSP_REFERENCE:capture",
            "capture",
            23_623,
            "USD",
            "2017-01-25T17:08:19+00:00",
        ),
    ),
    "java_chargeback": (
        (
            "adyen:9915555555555555:CHARGEBACK:true",
            "adyen:TestMerchant:9913333333333333",
            "adyen:9915555555555555:dispute_opened",
            "dispute_opened",
            1_000,
            "EUR",
            "2018-03-23T12:55:31+00:00",
        ),
    ),
    "java_offer-closed": (
        (
            "adyen:8532565401975321:OFFER_CLOSED:true",
            "adyen:TestMerchant:8532565401975321",
            *NO_MONEY,
            "2019-04-29T12:05:30+00:00",
        ),
    ),
    "java_refund-false": (("adyen:PSP_REFERENCE:REFUND:false", MAGENTO, *NO_MONEY, "2017-02-17T10:04:07+00:00"),),
    "java_refund-true": (
        (
            "adyen:PSP_REFERENCE:REFUND:true",
            MAGENTO,
            "adyen:PSP_REFERENCE:refund",
            "refund",
            1_500,
            "EUR",
            "2017-02-17T10:11:44+00:00",
        ),
    ),
    "oas_autorescue": (("adyen:QFQTPCQ8HXSKGK82:AUTORESCUE:true", ORIGINAL, *NO_MONEY, NEW_YEAR),),
    "oas_cancel_or_refund": (("adyen:QFQTPCQ8HXSKGK82:CANCEL_OR_REFUND:true", ORIGINAL, *NO_MONEY, NEW_YEAR),),
    "oas_chargeback": (
        (
            "adyen:QFQTPCQ8HXSKGK82:CHARGEBACK:true",
            ORIGINAL,
            "adyen:QFQTPCQ8HXSKGK82:dispute_opened",
            "dispute_opened",
            1_000,
            "EUR",
            NEW_YEAR,
        ),
    ),
    "oas_information_supplied": (
        (
            "adyen:9915555555555555:INFORMATION_SUPPLIED:true",
            "adyen:YOUR_MERCHANT_ACCOUNT:9914444444444444",
            *NO_MONEY,
            "2025-05-17T07:35:14+00:00",
        ),
    ),
    "oas_manual_review_accept": (("adyen:QFQTPCQ8HXSKGK82:MANUAL_REVIEW_ACCEPT:true", ORIGINAL, *NO_MONEY, NEW_YEAR),),
    "oas_notification_of_fraud": (
        ("adyen:QFQTPCQ8HXSKGK82:NOTIFICATION_OF_FRAUD:true", ORIGINAL, *NO_MONEY, NEW_YEAR),
    ),
    "oas_order_opened": (("adyen:QFQTPCQ8HXSKGK82:ORDER_OPENED:true", ITSELF, *NO_MONEY, NEW_YEAR),),
    "oas_payout_expire": (("adyen:QFQTPCQ8HXSKGK82:PAYOUT_EXPIRE:true", ORIGINAL, *NO_MONEY, NEW_YEAR),),
    "oas_prearbitration_lost": (
        (
            "adyen:QFQTPCQ8HXSKGK82:PREARBITRATION_LOST:true",
            ITSELF,
            "adyen:QFQTPCQ8HXSKGK82:dispute_lost",
            "dispute_lost",
            1_000,
            "EUR",
            NEW_YEAR,
        ),
    ),
    "oas_refund": (("adyen:QFQTPCQ8HXSKGK82:REFUND:false", ORIGINAL, *NO_MONEY, NEW_YEAR),),
    "oas_refund_with_data": (
        (
            "adyen:QFQTPCQ8HXSKGK82:REFUND_WITH_DATA:true",
            ORIGINAL,
            "adyen:QFQTPCQ8HXSKGK82:refund",
            "refund",
            1_000,
            "EUR",
            NEW_YEAR,
        ),
    ),
    "oas_second_chargeback": (
        (
            "adyen:QFQTPCQ8HXSKGK82:SECOND_CHARGEBACK:true",
            ITSELF,
            "adyen:QFQTPCQ8HXSKGK82:second_dispute_opened",
            "dispute_opened",
            1_000,
            "EUR",
            NEW_YEAR,
        ),
        (
            "adyen:QFQTPCQ8HXSKGK82:SECOND_CHARGEBACK:true:lost",
            ITSELF,
            "adyen:QFQTPCQ8HXSKGK82:second_dispute_lost",
            "dispute_lost",
            1_000,
            "EUR",
            NEW_YEAR,
        ),
    ),
    "vector_py_backslash": FOUR[:1],
    "vector_py_colon": FOUR[1:2],
    "vector_py_forwardslash": FOUR[2:3],
    "vector_py_mixed": FOUR[3:],
    "vector_py_nested_item": (
        (
            "adyen:7914073381342284:AUTHORISATION:true",
            "adyen:TestMerchant:7914073381342284",
            *NO_MONEY,
            "2019-05-06T15:15:34.121000+00:00",
        ),
    ),
}
PLATFORMS = {
    "bp_balanceplatform-balanceAccount-balance-updated",
    "bp_transfer-updated",
    "oas_ach_notification_of_change",
    "oas_eft_notice_of_change",
    "vector_php_banking_header",
}
"""Samples without items: the platform adapter's."""
LIVE = {"java_chargeback", "oas_information_supplied", "oas_prearbitration_lost"}


def delivered(samples: Path, name: str) -> bytes:
    """The request's body; the published vectors are single items."""
    body = (samples / f"adyen/{name}.json").read_bytes()
    if not name.startswith("vector_py_"):
        return body
    return b'{"live":"false","notificationItems":[{"NotificationRequestItem":' + body.strip() + b"}]}"


def reported(adapter: Adapter, event: Event) -> Row:
    fact = adapter.money(event.body, event.event_type)
    assert event.occurred_at is not None
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    moved = (fact.fact_key, fact.movement.value, fact.money.amount_minor, fact.money.currency) if fact else NO_MONEY
    return event.event_key, event.entity_key, *moved, event.occurred_at.isoformat()


@pytest.mark.parametrize(("name", "rows"), IDENTITIES.items())
def test_each_sample_is_named_and_books_as_written_down(
    samples: Path, adapter: Adapter, name: str, rows: tuple[Row, ...]
) -> None:
    request = Request(delivered(samples, name), [])
    events = adapter.events(request, "live" if name in LIVE else "test")
    assert tuple(reported(adapter, event) for event in events) == rows
    assert all(event.body in request.body for event in events)


def test_with_automatic_capture_an_authorisation_books_what_it_says(samples: Path) -> None:
    adapter = build_adapters(
        ProvidersSettings.model_validate({"adyen": {"capture": {"MagentoMerchantTest2": "immediate"}}})
    )["adyen"]
    (event,) = adapter.events(Request(delivered(samples, "java_authorisation-true"), []), "test")
    assert reported(adapter, event) == (
        "adyen:123456789:AUTHORISATION:true",
        "adyen:MagentoMerchantTest2:123456789",
        "adyen:123456789:capture",
        "capture",
        10_100,
        "EUR",
        "2017-01-19T15:42:03+00:00",
    )


def test_identical_items_of_one_request_are_one_event_several_times(samples: Path, adapter: Adapter) -> None:
    body = (samples / "adyen/djadyen_multiple_3items_identical.json").read_bytes()
    events = adapter.events(Request(body, []), "test")
    assert len(events) == 3
    assert len({(event.event_key, event.content_sha256, event.body) for event in events}) == 1


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_what_is_no_standard_notification_is_neither_proven_nor_read(
    samples: Path, adapter: Adapter, now: datetime, name: str
) -> None:
    request = Request((samples / f"adyen/{name}.json").read_bytes(), [])
    with pytest.raises(SignatureInvalid):
        adapter.verify(request, ["AB" * 32], now)
    with pytest.raises(Unparseable):
        adapter.events(request, "test")
