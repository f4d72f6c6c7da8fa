"""PayPal's public samples: what each is called and what it moved, written down by hand from the payloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.money import MoneyInvalid
from providers import Adapter
from tests.unit.providers.shapes import NO_MONEY, Row, only, row

PAYOUTS_ITEM = "WH-68L35871MU875914X-8DM79009TB591331B"
AGREEMENT = "paypal::I-PE7JWXKGVN0R"

IDENTITIES: dict[str, Row] = {
    "billing.plan.created": (
        "paypal:WH-2N1678257S892762B-8MC99539P4557624Y:BILLING.PLAN.CREATED",
        "paypal::P-7LT50814996943336LSNDODY",
        *NO_MONEY,
        "2016-04-28T11:21:44+00:00",
    ),
    "billing.subscription.cancelled": (
        "paypal:WH-6TD369808N914414D-1YJ376786E892292F:BILLING.SUBSCRIPTION.CANCELLED",
        AGREEMENT,
        *NO_MONEY,
        "2016-04-28T11:53:10+00:00",
    ),
    "billing.subscription.re-activated": (
        "paypal:WH-8KT47529P7696805Y-3CS72897S14937140:BILLING.SUBSCRIPTION.RE-ACTIVATED",
        AGREEMENT,
        *NO_MONEY,
        "2016-04-28T11:41:01+00:00",
    ),
    "billing.subscription.updated": (
        "paypal:WH-7BW55401AV391063H-02P24463AR970092S:BILLING.SUBSCRIPTION.UPDATED",
        AGREEMENT,
        *NO_MONEY,
        "2016-04-28T11:43:08+00:00",
    ),
    "customer.dispute.created--ppra214": (  # its entity is the transaction that is disputed
        "paypal:WH-82963375VM412172U-5NX91127UN1954721:CUSTOMER.DISPUTE.CREATED",
        "paypal::45V487086B989905H",
        *NO_MONEY,
        "2016-06-09T20:39:36+00:00",
    ),
    "customer.dispute.resolved": (
        "paypal:WH-9M585274PE5867232-40C32040700472204:CUSTOMER.DISPUTE.RESOLVED",
        "paypal::6C589962JJ4368547",
        *NO_MONEY,
        "2016-06-07T22:56:55+00:00",
    ),
    "invoicing.invoice.cancelled": (
        "paypal:WH-0G571461Y8752214W-8RU19841BY148894W:INVOICING.INVOICE.CANCELLED",
        "paypal::INV2-K2KX-JDZ8-TX96-6VRW",
        *NO_MONEY,
        "2015-09-25T23:14:14+00:00",
    ),
    "invoicing.invoice.paid": (  # the sale that paid it is an event of its own
        "paypal:WH-0T490472X6099635W-7LJ29748BW389372K:INVOICING.INVOICE.PAID",
        "paypal::INV2-8FSD-3HT6-BRHR-UHYV",
        *NO_MONEY,
        "2015-09-25T23:14:14+00:00",
    ),
    "invoicing.invoice.updated": (
        "paypal:WH-0G571461Y8752214W-8RU19841BY148894W:INVOICING.INVOICE.UPDATED",
        "paypal::INV2-QEPQ-UGZS-EULS-UPUK",
        *NO_MONEY,
        "2017-02-27T23:14:14+00:00",
    ),
    "payment.authorization.created": (
        "paypal:WH-92123065SP038570G-5JU78737W6917341N:PAYMENT.AUTHORIZATION.CREATED",
        "paypal::PAY-7PD36489JY0066936KREEERQ",
        *NO_MONEY,
        "2014-10-22T23:48:34+00:00",
    ),
    "payment.capture.completed": (
        "paypal:WH-7Y7254563A4550640-11V2185806837105M:PAYMENT.CAPTURE.COMPLETED",
        "paypal::42311647XV020574X",
        "paypal:42311647XV020574X:capture",
        "capture",
        747,
        "USD",
        "2015-02-17T18:51:33+00:00",
    ),
    "payment.capture.pending": (
        "paypal:WH-0J4956174R483764T-3MK691094K212612H:PAYMENT.CAPTURE.PENDING",
        "paypal::0C90432034385860N",
        *NO_MONEY,
        "2015-05-11T21:45:16+00:00",
    ),
    "payment.capture.reversed": (  # it names neither payment nor capture; "-0.35"
        "paypal:WH-1AU92623778135205-93610030KK8353450:PAYMENT.CAPTURE.REVERSED",
        "paypal::1RJ65796SJ857301V",
        "paypal:1RJ65796SJ857301V:refund",
        "refund",
        35,
        "USD",
        "2014-10-22T23:50:33+00:00",
    ),
    "payment.order.created": (
        "paypal:WHPOC2017-9WY437509V4499423:PAYMENT.ORDER.CREATED",
        "paypal::PAY-8U555528BH195130VLCRUVPA",
        *NO_MONEY,
        "2017-02-14T18:28:16+00:00",
    ),
    **{
        f"payment.payouts-item.{what.lower()}": (
            f"paypal:{PAYOUTS_ITEM}:PAYMENT.PAYOUTS-ITEM.{what}",
            "paypal::AYNYWNCHBD8KS",
            *NO_MONEY,
            "2016-06-06T03:44:51+00:00",
        )
        for what in ("CANCELED", "FAILED", "REFUNDED", "SUCCEEDED")
    },
    "payment.payoutsbatch.denied": (
        "paypal:WH-1WS771625W821303N-0FG05488C6485202W:PAYMENT.PAYOUTSBATCH.DENIED",
        "paypal::CHDK9ANSPBWQU",
        *NO_MONEY,
        "2015-09-07T12:49:17+00:00",
    ),
    "payment.payoutsbatch.success": (
        "paypal:WH-83C777576Y8332450-2L845887S3616745G:PAYMENT.PAYOUTSBATCH.SUCCESS",
        "paypal::CQGA9SFAU8WSN",
        *NO_MONEY,
        "2015-09-07T12:46:46+00:00",
    ),
    "payment.sale.completed": (
        "paypal:WH-2WR32451HC0233532-67976317FL4543714:PAYMENT.SALE.COMPLETED",
        "paypal::80021663DE681814L",
        "paypal:80021663DE681814L:capture",
        "capture",
        48,
        "USD",
        "2014-10-23T17:23:52+00:00",
    ),
    "payment.sale.pending": (
        "paypal:WH-6W4482673W002281V-61985753LP2332451:PAYMENT.SALE.PENDING",
        "paypal::11139561TK568332L",
        *NO_MONEY,
        "2015-05-11T21:45:15+00:00",
    ),
    "payment.sale.reversed": (  # "-0.49"
        "paypal:WH-3EC545679X386831C-3D038940937933201:PAYMENT.SALE.REVERSED",
        "paypal::77689802DL785834G",
        "paypal:77689802DL785834G:refund",
        "refund",
        49,
        "USD",
        "2014-10-23T00:19:27+00:00",
    ),
    "spec_payment_authorization_created": (
        "paypal:8PT597110X687430LKGECATA:PAYMENT.AUTHORIZATION.CREATED",
        "paypal::PAY-36246664YD343335CKHFA4AY",
        *NO_MONEY,
        "2013-06-25T21:41:28+00:00",
    ),
    "vault.credit-card.created": (  # its field is called "id " with a blank: there is no id
        "paypal:WH-2WR32451HC0233532-67976317FL4543714:VAULT.CREDIT-CARD.CREATED",
        "paypal::WH-2WR32451HC0233532-67976317FL4543714",
        *NO_MONEY,
        "2015-07-20T21:41:28+00:00",
    ),
    "vault.credit-card.updated": (
        "paypal:WH-2WR32451HC0233532-67976317FL4543714:VAULT.CREDIT-CARD.UPDATED",
        "paypal::WH-2WR32451HC0233532-67976317FL4543714",
        *NO_MONEY,
        "2015-07-20T21:41:28+00:00",
    ),
    "vector_py_sale_completed_crc32": (
        "paypal:WH-0G2756385H040842W-5Y612302CV158622M:PAYMENT.SALE.COMPLETED",
        "paypal::4EU7004268015634R",
        "paypal:4EU7004268015634R:capture",
        "capture",
        2_000,
        "USD",
        "2015-05-18T15:45:13+00:00",
    ),
}

FOR_A_PERSON = {"invoicing.invoice.paid"} | {
    f"payment.payouts-item.{what}" for what in ("canceled", "refunded", "succeeded")
}
"""Samples of types that move money and aren't booked."""


@pytest.mark.parametrize(("name", "expected"), IDENTITIES.items())
def test_a_sample_is_named_and_books_as_written_down_by_hand(
    samples: Path, adapter: Adapter, name: str, expected: Row
) -> None:
    body = (samples / f"paypal/{name}.json").read_bytes()
    if name in FOR_A_PERSON:
        with pytest.raises(MoneyInvalid, match="manual entry"):
            row(adapter, body)
        event = only(adapter, body)
        assert event.occurred_at is not None
        assert (event.event_key, event.entity_key, *NO_MONEY, event.occurred_at.isoformat()) == expected
    else:
        assert row(adapter, body) == expected
