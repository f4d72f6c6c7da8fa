"""Mollie's classic webhooks: a delivery says an id, and what Mollie answers about it is what the events are made of."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from core.errors import Unparseable
from core.event import POISON_TYPE
from core.money import MoneyInvalid, MovementUnknown
from load.samples import mollie as samples_of
from providers import Request
from providers.port import Fetched
from tests.unit.providers.samples.table import Comparison, Refusal, Webhook, each, shown
from tests.unit.providers.shapes import NOW

KEY = "live_" + "A1b2C3d4E5" * 3
LATER = NOW + timedelta(days=2)
TIME, LATER_TIME = "2026-01-31T12:00:00+00:00", "2026-02-02T12:00:00+00:00"
MONEY: dict[str, Any] = {"currency": "EUR", "created": NOW}
Object = dict[str, Any]


def payment(**more: Any) -> Object:
    return samples_of.payment("tr_1", **{"amount_minor": 1_000, **MONEY, **more})


def refund(reference: str = "re_1", status: str = "refunded", amount_minor: int = 400) -> Object:
    return samples_of.refund(
        reference, of="tr_1", amount_minor=amount_minor, currency="EUR", created=LATER, status=status
    )


def chargeback(reversed_at: datetime | None = None) -> Object:
    return samples_of.chargeback("chb_1", of="tr_1", amount_minor=700, reversed_at=reversed_at, **MONEY)


def capture(reference: str = "cpt_1", status: str = "succeeded") -> Object:
    return samples_of.capture(reference, of="tr_1", amount_minor=250, status=status, **MONEY)


def delivery(answer: bytes, reference: str = "tr_1", status: int = 200, bearer: int = 0) -> Request:
    return Request(samples_of.classic_delivery(reference), [], fetched=Fetched(status, answer, bearer))


def told(resource: Object | None = None, **embedded: list[Any]) -> Request:
    """The delivery about a payment, and what Mollie answers: the payment with what is embedded in it."""
    return about(payment() if resource is None else resource, **embedded)


def about(resource: Object, **embedded: list[Any]) -> Request:
    return delivery(samples_of.fetched(resource, **embedded), resource["id"])


def answered(**changed: Any) -> Request:
    return delivery(json.dumps(payment() | changed).encode())


def refunded(**changed: Any) -> Request:
    return told(refunds=[refund() | changed])


CAPTURE, REFUND = "tr_1:capture 1000 EUR of tr_1", "re_1:refund 400 EUR of tr_1"
OPENED, WON = "chb_1:dispute_opened 700 EUR of tr_1", "chb_1:dispute_won 700 EUR of tr_1"
BY_PAYPAL = payment() | {"method": "paypal"}
ORDER = samples_of.order("ord_1", amount_minor=1_000, **MONEY)
NO_RESOURCES = each(
    *(7, None, {}, {"resource": "refund", "id": "re_9"}, {"resource": "refund", "status": "refunded"}),
    {"resource": "refund", "id": 9, "status": "refunded"},
    {"resource": "terminal", "id": "term_1", "status": "active"},
    {"resource": "chargeback", "id": "chb_9", "reversedAt": 7},
    {"resource": "refund", "id": "re_9", "status": "refunded", "paymentId": 9},
)
NO_AMOUNTS = each(
    *(None, {}, "4.00", {"value": 4, "currency": "EUR"}, {"value": "4,00", "currency": "EUR"}),
    *({"value": "4.001", "currency": "EUR"}, {"value": "4.00", "currency": "EU"}),
)
WEBHOOKS = [
    Webhook(
        "a payment with all that can happen to it",
        told(
            refunds=[refund(), refund("re_2", "failed", 300), refund("re_3", "pending"), refund("re_4", "canceled")],
            chargebacks=[chargeback(LATER)],
        ),
        key=[
            *("tr_1:payment.paid", "re_1:refund.sent", "re_2:refund.sent", "re_2:refund.failed"),
            *("re_3:refund.pending", "re_4:refund.canceled", "chb_1:chargeback.received", "chb_1:chargeback.reversed"),
        ],
        books=[
            *(CAPTURE, REFUND, "re_2:refund 300 EUR of tr_1", "re_2:refund_failed 300 EUR of tr_1"),
            *(None, None, OPENED, WON),
        ],
        entity=[":tr_1"] * 8,
        at=[TIME, None, None, None, LATER_TIME, None, TIME, LATER_TIME],
    ),
    *(
        Webhook(
            f"a payment that is {status}",
            told(payment(status=status)),
            key=f"tr_1:payment.{status}",
            entity=":tr_1",
            at=at,
            books=None,
        )
        for status, at in (
            *(("open", TIME), ("authorized", TIME), ("canceled", TIME), ("expired", TIME), ("failed", TIME)),
            ("pending", None),
        )
    ),
    *(
        Webhook(f"a refund that is {status} is sent", refunded(status=status), key=["tr_1:payment.paid", *keys])
        for status, keys in (
            ("processing", ["re_1:refund.sent"]),
            ("refunded", ["re_1:refund.sent"]),
            ("failed", ["re_1:refund.sent", "re_1:refund.failed"]),
        )
    ),
    Webhook("a chargeback", told(chargebacks=[chargeback()]), key=["tr_1:payment.paid", "chb_1:chargeback.received"]),
    Webhook(
        "a chargeback first seen when it was reversed was received too",
        told(chargebacks=[chargeback(LATER)]),
        key=["tr_1:payment.paid", "chb_1:chargeback.received", "chb_1:chargeback.reversed"],
    ),
    *(
        Webhook(
            f"the mode {mode} that Mollie answers routes at the {endpoint} endpoint",
            told(payment(mode=mode), refunds=[refund()]),
            endpoint=endpoint,
            mode=mode,
            type=["payment.paid", "refund.sent"],
        )
        for mode in ("live", "test")
        for endpoint in ("live", "test")
    ),
    Webhook(
        "no mode at the test endpoint",
        told({name: value for name, value in payment().items() if name != "mode"}),
        endpoint="test",
        mode="test",
    ),
    Webhook(
        "order is kept for all of Mollie", told(refunds=[refund()]), entity=["", ""], settings={"entity": "merchant"}
    ),
    *(
        Webhook(
            f"a resource that can't be read costs only itself: {broken}",
            told(refunds=[refund("re_1"), broken, refund("re_2")]),
            type=["payment.paid", "refund.sent", POISON_TYPE, "refund.sent"],
            is_poison=[False, False, True, False],
        )
        for broken in NO_RESOURCES
    ),
    *(
        Webhook(
            f"parts that can't be told apart are kept whole: {changed}",
            answered(**changed),
            type=POISON_TYPE,
            is_poison=True,
            mode="live",
        )
        for changed in each({"_embedded": {"refunds": {}}}, {"_embedded": 7}, {"_embedded": ""}, {"mode": "beta"})
    ),
    *(
        Webhook(
            f"an answer that says it is of kind {kind!r}", answered(resource=kind), type=POISON_TYPE, is_poison=True
        )
        for kind in each(None, "", "refund", 7)
    ),
    *(
        Webhook(f"nothing embedded: {nothing}", answered(_embedded=nothing), key="tr_1:payment.paid")
        for nothing in each(None, {}, {"refunds": None}, {"refunds": []})
    ),
    Webhook(
        "a payment of which a part is captured", told(payment(captured_minor=600)), books="tr_1:capture 600 EUR of tr_1"
    ),
    Webhook(
        "a payment that is captured by hand is booked by its captures",
        told(
            payment(manual=True, captured_minor=500),
            captures=[capture("cpt_1"), capture("cpt_2"), capture("cpt_3", "pending"), capture("cpt_4", "failed")],
        ),
        key=[
            *("tr_1:payment.paid", "cpt_1:capture.succeeded", "cpt_2:capture.succeeded", "cpt_3:capture.pending"),
            "cpt_4:capture.failed",
        ],
        books=[None, "cpt_1:capture 250 EUR of tr_1", "cpt_2:capture 250 EUR of tr_1", None, None],
    ),
    Webhook(
        "a payment by Klarna is booked by its captures",
        told(payment() | {"method": "klarna"}, captures=[capture("cpt_1"), capture("cpt_2")]),
        books=[None, "cpt_1:capture 250 EUR of tr_1", "cpt_2:capture 250 EUR of tr_1"],
    ),
    Webhook(
        "a payment that books itself doesn't tell of its captures",
        told(payment(amount_minor=250), captures=[capture("cpt_1")]),
        books="tr_1:capture 250 EUR of tr_1",
        holder="mollie:",
    ),
    Webhook("a payment whose capture failed", told(captures=[capture("cpt_1", "failed")]), books=CAPTURE),
    *(
        Webhook(f"captures that {case}", delivered, fails=MovementUnknown, says="captures")
        for case, delivered in (
            ("don't add up to the payment", told(captures=[capture("cpt_1")])),
            ("book and that the view doesn't hold", answered(method="klarna")),
            ("book and are none", told(payment(manual=True), captures=[])),
            ("book, in an order", about(ORDER, payments=[payment() | {"method": "klarna"}])),
        )
    ),
    Webhook(
        "a payment of which a part goes to another organization",
        answered(routing=[{"resource": "route", "id": "rt_1"}]),
        fails=MovementUnknown,
        says="routing",
    ),
    Webhook(
        "a refund of a payment by PayPal that doesn't say who makes it",
        told(BY_PAYPAL, refunds=[refund()]),
        key=["tr_1:payment.paid", "re_1:refund.sent"],
        entity=[":tr_1"] * 2,
        books=[f"{CAPTURE}, 1000 outside:paypal", f"{REFUND}, 400 outside:paypal"],
        pair=[None, "re_1:refund"],
    ),
    Webhook(
        "a refund of a payment by PayPal that Mollie makes",
        told(BY_PAYPAL, refunds=[refund() | {"settlementAmount": {"value": "-4.00", "currency": "EUR"}}]),
        books=[f"{CAPTURE}, 1000 outside:paypal", REFUND],
    ),
    Webhook(
        "two partial refunds",
        told(refunds=[refund("re_1"), refund("re_2")]),
        books=[CAPTURE, REFUND, "re_2:refund 400 EUR of tr_1"],
    ),
    Webhook(
        "a failed refund names the refund that it gives back",
        refunded(status="failed"),
        books=[CAPTURE, REFUND, "re_1:refund_failed 400 EUR of tr_1"],
        pair=[None, "re_1:refund", "re_1:refund"],
    ),
    *(
        Webhook(
            f"an amount of {amount}",
            answered(amount=amount),
            key="tr_1:payment.paid",
            fails=(MoneyInvalid, Unparseable),
        )
        for amount in NO_AMOUNTS
    ),
    *(
        Webhook(
            f"a refund's amount of {amount}", refunded(amount=amount), key=["tr_1:payment.paid", "re_1:refund.sent"]
        )
        for amount in NO_AMOUNTS
    ),
    *(
        Webhook(f"an id that Mollie doesn't know: {status}", delivery(b'{"status":404}', status=status), key=[])
        for status in (404, 410)
    ),
    Webhook("no answer", Request(b"id=tr_1", []), refused=Unparseable),
]
CHANGED_SINCE = {"settlementId": "stl_1", "amountRefunded": samples_of.money(400, "EUR"), "metadata": None}
WITH_FEE = payment() | {"applicationFee": {"amount": samples_of.money(320, "EUR"), "description": "platform"}}
WEBHOOKS += [
    Webhook(f"a payment's fee, {case}", delivered, fees=["tr_1:application_fee 320 EUR of tr_1"])
    for case, delivered in (("by itself", told(WITH_FEE)), ("in its order", about(ORDER, payments=[WITH_FEE])))
]

COMPARISONS = [
    Comparison(
        "the same stage again, whatever else has changed",
        told(),
        told(payment() | CHANGED_SINCE, refunds=[], captures=[]),
        key=True,
        content=True,
        entity=True,
        fact=True,
        at=True,
    ),
    Comparison("another stage", told(payment(status="open")), told(), key=False, entity=True),
    Comparison(
        "the same stage with another amount", told(), told(payment(amount_minor=1_001)), key=True, content=False
    ),
    Comparison(
        "a payment that is booked by its captures, when a part of it was captured and when all was",
        told(payment(captured_minor=600) | {"method": "riverty"}),
        told(payment(captured_minor=1_000) | {"method": "riverty"}),
        key=True,
        content=True,
    ),
    Comparison(
        "a refund on its way and when it arrived",
        refunded(status="processing"),
        refunded(),
        key=True,
        content=True,
        fact=True,
    ),
    Comparison(
        "a refund by PayPal, before and after it says who makes it",
        told(BY_PAYPAL, refunds=[refund()]),
        told(BY_PAYPAL, refunds=[refund() | {"settlementAmount": samples_of.money(0, "EUR")}]),
        key=True,
        content=True,
        fact=True,
    ),
    Comparison(
        "an order tells of its payments and refunds as the payments do",
        about(ORDER, payments=[payment()], refunds=[refund()]),
        told(refunds=[refund()]),
        key=True,
        content=True,
        entity=True,
        fact=True,
    ),
]

# Which deliveries prove: those that Mollie answers to our key.

BAD_SECRETS = (
    *("", "live_", "live_short", "dHar4XY7LxsDOtmnkVtjNVWXLSlXsM", "live_" + "é" * 30, KEY + "\n", "Live_" + "a" * 30),
)
NO_IDS = (
    *(b"", b"id=", b"id=tr_", b"ID=tr_1", b"tr_1", b"id=tr_1\n", b"id=tr_1&id=tr_2", b"id=tr_1&x=1", b"x=1&id=tr_1"),
    *(b"id=tr_ 1", b"id=tr_1\x00", b"id=tr_1%00", b"id=tr_1%0A", b"id=tr_%FF", b"id=\xfftr_1", b"id=re_1", b"id=sub_1"),
    *(b"id=chb_1", b"id=pl_1", b"id=stl_1", b"id=TR_1", b'{"id":"tr_1"}', b"id=tr_" + b"x" * 253, b"id=..", b"id=tr"),
)
"""Deliveries that aren't a payment's or an order's id."""
IDS = {
    b"id=ord_1.6i4fed": "orders/ord_1.6i4fed",
    b"id=tr_1-2~3": "payments/tr_1-2~3",
    b"id=tr_%31": "payments/tr_1",
    b"id=tr_1/../../orders/ord_1": "payments/tr_1%2F..%2F..%2Forders%2Ford_1",
    b"id=tr_1%2F..": "payments/tr_1%2F..",
    b"id=tr_1?embed=x".replace(b"=x", b"%3Dx"): "payments/tr_1%3Fembed%3Dx",
    b"id=tr_1#": "payments/tr_1%23",
    b"id=tr_1%25": "payments/tr_1%25",
    b"id=tr_1+": "payments/tr_1%20",
    "id=tr_é".encode(): "payments/tr_%C3%A9",
    b"id=tr_%C3%A9": "payments/tr_%C3%A9",
    b"id=tr_" + b"x" * 252: "payments/tr_" + "x" * 252,
}
"""Deliveries of ids that look like none of Mollie's, and what is asked for below ``/v2``."""
SIGNED = told()
REFUSALS = [
    *(
        Refusal(f"a delivery of {shown(body)}", Request(body, [], fetched=SIGNED.fetched), "malformed", (KEY,))
        for body in NO_IDS
    ),
    Refusal("what Mollie answers to our key", SIGNED, None, (KEY,)),
    Refusal("no answer", Request(b"id=tr_1", []), "missing", (KEY,)),
    Refusal(
        "an answer to a key that isn't listed", delivery(samples_of.fetched(payment()), bearer=1), "missing", (KEY,)
    ),
    *(
        Refusal(f"an answer of {answer!r}", delivery(answer), reason, (KEY,))
        for answer, reason in (
            (b"", "malformed"),
            (b"<html>maintenance</html>", "malformed"),
            (b"[]", "malformed"),
            (b'{"resource":"payment","id":"tr_1","id":"tr_1"}', "malformed"),
            (b'{"resource":"payment","id":"tr_2"}', "mismatch"),
            (b'{"resource":"payment","id":"TR_1"}', "mismatch"),
            (b'{"resource":"order","id":"tr_1"}', "mismatch"),
            (b'{"resource":"payment"}', "mismatch"),
            (b'{"id":"tr_1"}', "mismatch"),
        )
    ),
    *(
        Refusal(f"an id that Mollie doesn't know: {status}", delivery(b'{"status":404}', status=status), None, (KEY,))
        for status in (404, 410)
    ),
]
