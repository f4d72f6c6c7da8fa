"""Mollie's next-gen webhooks: what their events are called and book, and which signatures prove."""

from __future__ import annotations

import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import mollie as samples_of
from providers import Request
from tests.unit.providers.samples.table import (
    Comparison,
    MoneySequence,
    Refusal,
    Webhook,
    books,
    each,
    fails,
    moves_nothing,
    unreadable,
)
from tests.unit.providers.shapes import NOW, changed

MONEY: dict[str, Any] = {"currency": "EUR", "created": NOW}
CAPTURE_EVENTS = {"mollie": {"capture_events": True}}
LEFT_TO_A_PERSON = (
    *("business-account-transfer.processed", "business-account-transfer.returned"),
    "connect-balance-transfer.succeeded",
)


def event(event_type: str, snapshot: dict[str, Any] | None, event_id: str = "whe_1") -> bytes:
    entity = snapshot["id"] if snapshot else "tr_1"
    return samples_of.nextgen_event(event_type, event_id=event_id, entity=entity, created=NOW, snapshot=snapshot)


def payment(**more: Any) -> dict[str, Any]:
    made = {name: more.pop(name) for name in ("method", "details", "settlementAmount") if name in more}
    if "settled_minor" in more:
        made["settlementAmount"] = samples_of.money(more.pop("settled_minor"), "EUR")
    return samples_of.payment("tr_1", **{"amount_minor": 1_000, **MONEY, **more}) | made


def refund(reference: str = "re_1", **more: Any) -> dict[str, Any]:
    return samples_of.refund(reference, of="tr_1", amount_minor=400, **MONEY) | more


def chargeback() -> dict[str, Any]:
    return samples_of.chargeback("chb_1", of="tr_1", amount_minor=700, **MONEY)


def capture(reference: str = "cpt_1", amount_minor: int = 600) -> dict[str, Any]:
    return samples_of.capture(reference, of="tr_1", amount_minor=amount_minor, **MONEY)


def payout(reference: str = "payout_1") -> dict[str, Any]:
    return samples_of.payout(reference, amount_minor=9_000, **MONEY)


def paid(value: object, currency: str = "EUR") -> bytes:
    return event("payment.paid", payment() | {"amount": {"value": value, "currency": currency}})


TAKEN_BACK = [{"source": {"organizationId": "org_1"}, "amount": samples_of.money(300, "EUR")}]
"""What a refund of a payment that was split takes back from another organization."""
PAYMENT_URL = "https://api.mollie.com/v2/payments/tr_1"


def followed(body: bytes, **of_payment: Any) -> Request:
    """A webhook, and the payment that Mollie's API tells of the refund in it."""
    return Request(body, [], views={PAYMENT_URL: json.dumps(payment(**of_payment)).encode()})


ROUTED = payment() | {"routing": [{"resource": "route", "id": "rt_1", "amount": samples_of.money(700, "EUR")}]}
REMAINDER = {"remainderAmount": samples_of.money(700, "EUR")}
PAID, REFUNDED = event("payment.paid", payment()), event("refund.refunded", refund())
BY_HAND = event("payment.paid", payment(manual=True, captured_minor=600))


def stacked(listed: str, minors: list[int], remainder_minor: int) -> dict[str, Any]:
    """Details that list gift cards or vouchers with their amounts, and what iDEAL paid."""
    remainder = {"remainderAmount": samples_of.money(remainder_minor, "EUR"), "remainderMethod": "ideal"}
    parts = [{"issuer": "vvv", "amount": samples_of.money(minor, "EUR")} for minor in minors]
    return {listed: parts, **(remainder if remainder_minor else {})}


WAYS_OF_PAYING: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("PayPal", {"method": "paypal"}, ", 1000 outside:paypal"),
    ("PayPal, which Mollie settles", {"method": "paypal", "settled_minor": 1_000}, ""),
    ("gift card", {"method": "giftcard"}, ", 1000 outside:giftcard"),
    ("voucher", {"method": "voucher"}, ", 1000 outside:voucher"),
    ("gift card, and 700 by iDEAL", {"method": "giftcard", "settled_minor": 700}, ", 300 outside:giftcard"),
    (
        "gift card, and 700 by iDEAL as its details say",
        {"method": "giftcard", "details": {"remainderMethod": "ideal", **REMAINDER}},
        ", 300 outside:giftcard",
    ),
    (
        "iDEAL, and 300 by gift card",
        {"method": "ideal", "settled_minor": 700, "details": {"giftcards": [{"issuer": "vvv"}]}},
        ", 300 outside:giftcard",
    ),
    *(
        (
            f"iDEAL, and 300 by {what} as its details say, {way}",
            {"method": "ideal", "details": {listed: [{"issuer": "vvv"}], **REMAINDER, **more}},
            f", 300 outside:{method}",
        )
        for what, listed, method in (
            ("gift card", "giftcards", "giftcard"),
            ("voucher", "vouchers", "voucher"),
        )
        for way, more in (("by name", {"remainderMethod": "ideal"}), ("without a name", {}))
    ),
    (
        "two gift cards, and 700 by iDEAL",
        {"method": "giftcard", "details": stacked("giftcards", [100, 200], 700)},
        ", 300 outside:giftcard",
    ),
    (
        "gift cards for all of it",
        {"method": "giftcard", "details": stacked("giftcards", [400, 600], 0)},
        ", 1000 outside:giftcard",
    ),
    ("iDEAL, whose details list no gift card", {"method": "ideal", "details": {"giftcards": []}}, ""),
    ("Blik", {"method": "blik", "settled_minor": 1_000}, ""),
    ("card in another currency", {"settlementAmount": samples_of.money(1_100, "USD")}, ""),
)
"""What a payment's fields say, and what of it is outside of Mollie."""
OTHER_TYPES = (
    *("payment.authorized", "payment.failed", "payment.expired", "payment.canceled", "payment.pending"),
    *("payment-link.paid", "sales-invoice.paid", "refund.queued", "refund.pending"),
    *("refund.canceled", "payout.initiated", "business-account-transfer.requested"),
    *("business-account-transfer.blocked", "connect-balance-transfer.failed"),
)
TIME = "2026-01-31T12:00:00+00:00"
WEBHOOKS = [
    Webhook("a payment has all its names", PAID, key="whe_1:payment.paid", entity=":tr_1", at=TIME),
    Webhook("a refund is of its payment's entity", REFUNDED, key="whe_1:refund.refunded", entity=":tr_1", at=TIME),
    Webhook(
        "a chargeback is of its payment's entity",
        event("chargeback.received", chargeback(), "whe_3"),
        key="whe_3:chargeback.received",
        entity=":tr_1",
        at=TIME,
    ),
    Webhook(
        "a payout is an entity of its own",
        event("payout.completed", payout()),
        key="whe_1:payout.completed",
        entity=":payout_1",
        at=TIME,
    ),
    Webhook("order is kept for all of Mollie", PAID, entity="", settings={"entity": "merchant"}),
    Webhook("a capture is of its payment's entity", event("capture.succeeded", capture()), entity=":tr_1"),
    *(
        Webhook(
            f"the signed mode {mode} routes at the {endpoint} endpoint",
            event("payment.paid", payment(mode=mode)),
            endpoint=endpoint,
            mode=mode,
        )
        for mode in ("live", "test")
        for endpoint in ("live", "test")
    ),
    *(
        Webhook(f"no mode at the {mode} endpoint", event("profile.blocked", None), endpoint=mode, mode=mode)
        for mode in ("live", "test")
    ),
    *unreadable(
        *(b"", b"[]", b"{}", b"id=tr_1", b'{"id":"whe_1","type":"payment.paid"}'),
        b'{"id":"","type":"payment.paid","entityId":"tr_1"}',
        b'{"id":1,"type":"payment.paid","entityId":"tr_1"}',
        b'{"id":"whe_1","type":["payment.paid"],"entityId":"tr_1"}',
        b'{"id":"whe_1","id":"whe_2","type":"payment.paid","entityId":"tr_1"}',
        b'{"id":"whe_1","type":"x","entityId":"tr_1","_embedded":{"entity":{"mode":"beta"}}}',
        b'{"id":"whe_1","type":"x","entityId":"tr_1","_embedded":{"entity":{"paymentId":7}}}',
    ),
    *books(
        ("payment.paid", PAID, "tr_1:capture 1000 EUR of tr_1"),
        (
            "a payment of which a part is captured",
            event("payment.paid", payment(captured_minor=600)),
            "tr_1:capture 600 EUR of tr_1",
        ),
        ("refund.processing", event("refund.processing", refund()), "re_1:refund 400 EUR of tr_1"),
        ("refund.refunded", REFUNDED, "re_1:refund 400 EUR of tr_1"),
        ("a second refund", event("refund.refunded", refund("re_2")), "re_2:refund 400 EUR of tr_1"),
        ("refund.failed", event("refund.failed", refund()), "re_1:refund_failed 400 EUR of tr_1"),
        ("chargeback.received", event("chargeback.received", chargeback()), "chb_1:dispute_opened 700 EUR of tr_1"),
        ("chargeback.reversed", event("chargeback.reversed", chargeback()), "chb_1:dispute_won 700 EUR of tr_1"),
        ("payout.completed", event("payout.completed", payout()), "payout_1:payout_paid 9000 EUR"),
        ("payout.failed", event("payout.failed", payout()), "payout_1:payout_failed 9000 EUR"),
        *(
            (f"{value} {currency} in minor units", paid(value, currency), f"tr_1:capture {minor} {currency} of tr_1")
            for value, currency, minor in (
                *(("10.00", "EUR", 1_000), ("0.01", "EUR", 1), ("10", "EUR", 1_000), ("500", "JPY", 500)),
                *(("500.00", "JPY", 500), ("1.234", "KWD", 1_234), ("10.00", "ISK", 10)),
            )
        ),
    ),
    *books(
        *(
            (f"a payment by {case}", event("payment.paid", payment(**more)), f"tr_1:capture 1000 EUR of tr_1{outside}")
            for case, more, outside in WAYS_OF_PAYING
        ),
        (
            "a refund that PayPal makes",
            event("refund.refunded", refund(settlementAmount=samples_of.money(0, "EUR"))),
            "re_1:refund 400 EUR of tr_1, 400 outside:paypal",
        ),
        (
            "a refund that Mollie makes",
            event("refund.refunded", refund(settlementAmount={"value": "-4.00", "currency": "EUR"})),
            "re_1:refund 400 EUR of tr_1",
        ),
    ),
    *books(
        ("a capture", event("capture.succeeded", capture()), "cpt_1:capture 600 EUR of tr_1"),
        ("another capture", event("capture.succeeded", capture("cpt_2", 400)), "cpt_2:capture 400 EUR of tr_1"),
        (
            "a payment that is captured by hand, whose captures are told",
            event("payment.paid", payment(manual=True, captured_minor=1_000)),
            None,
        ),
        *(
            (f"a payment by {method}, whose captures are told", event("payment.paid", payment(method=method)), None)
            for method in ("klarna", "klarnapaylater", "klarnasliceit", "billie", "billink", "riverty")
        ),
        ("a payment that is captured later", event("payment.paid", payment() | {"captureDelay": "8 hours"}), None),
        ("a payment that isn't captured by hand", PAID, "tr_1:capture 1000 EUR of tr_1"),
        ("a capture that failed", event("capture.failed", capture()), None),
        settings=CAPTURE_EVENTS,
    ),
    *(
        Webhook(f"{kind} names its pair", event(kind, snapshot), pair=pair)
        for kind, snapshot, pair in (
            ("refund.processing", refund(), "re_1:refund"),
            ("refund.failed", refund(), "re_1:refund"),
            ("chargeback.received", chargeback(), "chb_1:dispute_opened"),
            ("chargeback.reversed", chargeback(), "chb_1:dispute_opened"),
            ("payment.paid", payment(), None),
            ("payout.completed", payout(), "payout_1:payout_paid"),
            ("payout.failed", payout(), "payout_1:payout_paid"),
        )
    ),
    *moves_nothing(
        *((kind, event(kind, payment())) for kind in OTHER_TYPES),
        *((f"{kind} without a snapshot", event(kind, None)) for kind in OTHER_TYPES),
    ),
    *fails(
        MovementUnknown,
        ("a payment of which a part goes to another organization", event("payment.paid", ROUTED), "routing"),
        *(
            (
                f"a refund, {kind}, of which a part is taken back from another organization",
                event(f"refund.{kind}", refund(routingReversals=TAKEN_BACK)),
                "routingReversals",
            )
            for kind in ("processing", "refunded", "failed")
        ),
        (
            "a refund that is all taken back from other organizations",
            event("refund.refunded", refund(reverseRouting=True)),
            "reverseRouting",
        ),
        (
            "a payout of all that there was, which failed",
            event("payout.failed", payout() | {"amount": None, "status": "failed"}),
            "the amount 'None'",
        ),
    ),
    *fails(
        MovementUnknown,
        (
            "a capture of all that there was",
            event("capture.succeeded", capture() | {"amount": None}),
            "the amount 'None'",
        ),
        settings=CAPTURE_EVENTS,
    ),
    *(
        Webhook(
            f"a refund of which nothing is taken back: {none!r}",
            event("refund.refunded", refund(routingReversals=none, reverseRouting=False)),
            books="re_1:refund 400 EUR of tr_1",
        )
        for none in each(None, [])
    ),
    *(
        Webhook(
            f"a payment of which nothing goes to another: {none!r}",
            event("payment.paid", payment() | {"routing": none}),
            books="tr_1:capture 1000 EUR of tr_1",
        )
        for none in each(None, [])
    ),
    *fails(
        MovementUnknown,
        *((f"{kind}, which no table has", event(kind, payment())) for kind in ("dispute.created", "x")),
        ("a payment by hand without the captures' events", BY_HAND, r"providers\.mollie\.capture_events"),
        (
            "a payment by Klarna without the captures' events",
            event("payment.paid", payment(method="klarna", captured_minor=1_000)),
            r"providers\.mollie\.capture_events",
        ),
        ("a method that no table has", event("payment.paid", payment(method="shells")), "method 'shells'"),
        (
            "a part that nobody is said to settle",
            event("payment.paid", payment(settled_minor=700)),
            "settlementAmount",
        ),
        *(
            (
                f"iDEAL and {listed}, of which it isn't said how much",
                event("payment.paid", payment(method="ideal", details={listed: [{"issuer": "vvv"}]})),
                listed,
            )
            for listed in ("giftcards", "vouchers")
        ),
        *(
            (
                f"{listed} of {minors} by {method}, of 1000 of which {remainder} remain",
                event("payment.paid", payment(method=method, details=stacked(listed, minors, remainder))),
                rf"details\.{listed}",
            )
            for method, listed, minors, remainder in (
                ("giftcard", "giftcards", [300], 0),
                ("giftcard", "giftcards", [300, 300], 700),
                ("voucher", "vouchers", [200], 700),
                ("ideal", "giftcards", [200], 700),
            )
        ),
        *(
            (
                f"a refund of 400 of which Mollie deducts {minor}",
                event("refund.refunded", refund(settlementAmount=samples_of.money(minor, "EUR"))),
                "settlementAmount",
            )
            for minor in (-100, -500)
        ),
        *(
            (
                f"a chargeback that is {kind}, {what}",
                made(event(f"chargeback.{kind}", chargeback() | more)),
                says,
            )
            for kind in ("received", "reversed")
            for what, made, more, says in (
                (
                    "of which Mollie deducts nothing",
                    lambda body: body,
                    {"settlementAmount": samples_of.money(0, "EUR")},
                    "settlementAmount",
                ),
                (
                    "of which Mollie deducts a part",
                    lambda body: body,
                    {"settlementAmount": samples_of.money(-300, "EUR")},
                    "settlementAmount",
                ),
                ("of a payment by PayPal", lambda body: followed(body, method="paypal"), {}, "method 'paypal'"),
            )
        ),
        (
            "a remainder that isn't Mollie's either",
            event("payment.paid", payment(method="giftcard", details={"remainderMethod": "paypal", **REMAINDER})),
            "remainderMethod",
        ),
    ),
    *fails(
        MoneyInvalid,
        (
            "a capture whose events nobody announced",
            event("capture.succeeded", capture()),
            r"providers\.mollie\.capture_events",
        ),
        *(
            (f"{kind} is for a person{what}", event(kind, snapshot), f"{kind} .* manual entry")
            for kind in LEFT_TO_A_PERSON
            for what, snapshot in (("", payout("batr_1")), (", without a snapshot", None))
        ),
        *(
            (f"{kind} without a snapshot", event(kind, None), "full payload")
            for kind in ("payment.paid", "refund.refunded", "chargeback.reversed", "payout.completed")
        ),
        ("a snapshot of something else", changed(PAID, "entityId", to="tr_2"), "entity"),
    ),
    *fails(
        MovementUnknown,
        *(
            (
                f"{kind} of a {snapshot['resource']}, of kind {other!r}",
                event(kind, snapshot | {"resource": other}),
                "resource",
            )
            for kind, snapshot in (
                ("payment.paid", payment(method="paypal")),
                ("refund.refunded", refund(settlementAmount=samples_of.money(0, "EUR"))),
                ("chargeback.received", chargeback()),
                ("payout.completed", payout()),
            )
            for other in each(None, "order")
        ),
        *(
            (
                f"a paid payment of status {status!r}",
                event("payment.paid", payment(captured_minor=600, status=status)),
                "status",
            )
            for status in each("authorized", "new")
        ),
    ),
    *fails(
        (MoneyInvalid, Unparseable),
        *(
            (f"an amount of {amount!r}", event("payment.paid", payment() | {"amount": amount}))
            for amount in each(None, "10.00", {}, {"value": "10.00"}, {"value": "10.00", "currency": "€"})
        ),
        *(
            (f"a value of {value!r} {currency}", paid(value, currency))
            for value, currency in (
                *((10, "EUR"), (10.0, "EUR"), (True, "EUR"), ("10,00", "EUR"), ("1e3", "EUR"), (" 10.00", "EUR")),
                *(("١٠", "EUR"), ("NaN", "EUR"), ("10.001", "EUR"), ("0.50", "JPY"), ("9" * 17, "EUR")),
            )
        ),
        key="whe_1:payment.paid",
    ),
]
WEBHOOKS += [
    *(
        Webhook(
            f"{kind} of a payment by {way}, which was asked for",
            followed(event(kind, refund()), **of_payment),
            type=kind,
            key=f"whe_1:{kind}",
            entity=":tr_1",
            books=f"re_1:{movement} 400 EUR of tr_1{outside}",
            pair="re_1:refund",
        )
        for kind, movement in (
            ("refund.processing", "refund"),
            ("refund.refunded", "refund"),
            ("refund.failed", "refund_failed"),
        )
        for way, of_payment, outside in (
            ("PayPal", {"method": "paypal"}, ", 400 outside:paypal"),
            ("PayPal, which Mollie settles", {"method": "paypal", "settled_minor": 1_000}, ""),
            ("card", {}, ""),
            ("gift card and card", {"method": "giftcard", "settled_minor": 700}, ""),
        )
    ),
]
WEBHOOKS += [
    Webhook(
        f"{kind} of a payment by {way}, which was asked for",
        followed(event(kind, chargeback()), **of_payment),
        key=f"whe_1:{kind}",
        entity=":tr_1",
        books=f"chb_1:{movement} 700 EUR of tr_1",
        pair="chb_1:dispute_opened",
    )
    for kind, movement in (("chargeback.received", "dispute_opened"), ("chargeback.reversed", "dispute_won"))
    for way, of_payment in (
        ("card", {}),
        ("PayPal, which Mollie settles", {"method": "paypal", "settled_minor": 1_000}),
    )
]
WITH_FEE = payment() | {"applicationFee": {"amount": samples_of.money(320, "EUR"), "description": "platform"}}
PAYPALS_FEE = {"paypalReference": "9AL35361CF606152E", "paypalFee": samples_of.money(55, "EUR")}
WEBHOOKS += [
    Webhook(f"fees of {case}", body, fees=fees)
    for case, body, fees in (
        (
            "a payment by PayPal",
            event("payment.paid", payment(method="paypal", details=PAYPALS_FEE)),
            ["tr_1:paypal_fee 55 EUR of tr_1, 55 outside:paypal"],
        ),
        (
            "a payment by PayPal that Mollie settles",
            event("payment.paid", payment(method="paypal", settled_minor=1_000, details=PAYPALS_FEE)),
            [],
        ),
        (
            "a payment by PayPal with an application's fee",
            event(
                "payment.paid",
                payment(method="paypal", details=PAYPALS_FEE) | {"applicationFee": WITH_FEE["applicationFee"]},
            ),
            ["tr_1:application_fee 320 EUR of tr_1", "tr_1:paypal_fee 55 EUR of tr_1, 55 outside:paypal"],
        ),
        (
            "a payment by PayPal of which no fee is told",
            event("payment.paid", payment(method="paypal", details={})),
            [],
        ),
        ("a payment without them", PAID, []),
        ("a payment", event("payment.paid", WITH_FEE), ["tr_1:application_fee 320 EUR of tr_1"]),
        (
            "a payment that is booked by its captures",
            event("payment.paid", WITH_FEE | {"method": "klarna"}),
            ["tr_1:application_fee 320 EUR of tr_1"],
        ),
        ("a payment that is authorized", event("payment.authorized", WITH_FEE), []),
        ("a refund", REFUNDED, []),
    )
]

BALANCE = "balance-transaction.created"


def balance_transaction(
    kind: object = "payment", deducted_minor: int = 0, *, details: dict[str, int] | None = None, **more: Any
) -> bytes:
    """A movement of 10.00 on Mollie's balance, and what was deducted of it."""
    amounts = {name: samples_of.money(minor, "EUR") for name, minor in (details or {}).items()}
    told = {
        "resource": "balance-transaction",
        "id": "baltr_1",
        "type": kind,
        "initialAmount": samples_of.money(1_000, "EUR"),
        "resultAmount": samples_of.money(1_000 + deducted_minor, "EUR"),
        "deductions": samples_of.money(deducted_minor, "EUR") if deducted_minor else None,
        "context": {"paymentId": "tr_1", "paymentDescription": "an order"},
    }
    return event(BALANCE, told | ({"deductionDetails": amounts} if details else {}) | more, "whe_balance")


TOLD_BY_THEMSELVES = (
    *("payment", "capture", "refund", "returned-refund", "chargeback", "chargeback-reversal", "outgoing-transfer"),
    *("canceled-outgoing-transfer", "canceled-transfer", "outgoing-custom-amount-transfer", "returned-transfer"),
)
TOLD_ALONE = ("application-fee", "balance-correction", "invoice-compensation", "topup", "split-payment", "loan", "new")
WEBHOOKS += [
    *moves_nothing(*((f"a balance's {kind}", balance_transaction(kind)) for kind in TOLD_BY_THEMSELVES)),
    Webhook(
        "a balance's payment of which a fee and an application's were deducted",
        balance_transaction("payment", -349, details={"fees": -29, "commissions": -320}),
        type=BALANCE,
        books=None,
        fees=["baltr_1:fee 29 EUR of tr_1"],
    ),
    Webhook(
        "a balance's refund that comes back with its fee",
        balance_transaction("returned-refund", 25, details={"fees": 25}),
        books=None,
        fees=["baltr_1:fee -25 EUR of tr_1"],
    ),
    *fails(
        MovementUnknown,
        *(
            (f"a balance's {kind}, which nothing else tells", balance_transaction(kind), f"'{kind}'")
            for kind in TOLD_ALONE
        ),
        ("a balance's transaction of no type", balance_transaction(None), "balance-transaction.type"),
        ("what was deducted, and not for what", balance_transaction("payment", -29), "deductionDetails"),
        (
            "what was deducted for a loan",
            balance_transaction("payment", -129, details={"fees": -29, "repayments": -100}),
            "deductionDetails.repayments",
        ),
        (
            "what was deducted, of which a part has no name",
            balance_transaction("payment", -50, details={"fees": -29}),
            "deductionDetails",
        ),
    ),
    *fails(MoneyInvalid, ("a balance's transaction without a snapshot", event(BALANCE, None), "full payload")),
]

TRANSFERRED, RETURNED = event("payout.completed", payout()), event("payout.failed", payout(), "whe_2")
SEQUENCES = [
    MoneySequence(
        "a payment by PayPal, a part of which PayPal gives back, and another of which comes back",
        [
            event("payment.paid", payment(method="paypal")),
            *(
                followed(event(kind, refund(reference), f"whe_{reference}_{kind}"), method="paypal")
                for kind, reference in (
                    *(("refund.processing", "re_1"), ("refund.refunded", "re_1")),
                    *(("refund.refunded", "re_2"), ("refund.failed", "re_2")),
                )
            ),
        ],
        {"outside:paypal:clearing": 600, "refunds": 400},
    ),
    MoneySequence("a payout that the bank returned", [PAID, TRANSFERRED, RETURNED], {"clearing": 1_000}),
    MoneySequence(
        "a payment, of which a fee and an application's were deducted, and the payout of the rest",
        [
            event("payment.paid", WITH_FEE),
            balance_transaction("payment", -349, details={"fees": -29, "commissions": -320}),
            event("payout.completed", payout() | {"amount": samples_of.money(651, "EUR")}),
        ],
        {"payouts": 651, "fees": 349},
    ),
    MoneySequence("a payout whose transfer was never told", [PAID, RETURNED], {"clearing": 1_000}),
]
COMPARISONS = [
    Comparison("links may change between deliveries", PAID, changed(PAID, "_links", to={}), key=True, content=True),
    Comparison(
        "a refund whose payment was asked for, and one whose wasn't",
        followed(REFUNDED, method="paypal"),
        REFUNDED,
        key=True,
        content=True,
        entity=True,
    ),
    Comparison("amounts may not", PAID, event("payment.paid", payment(amount_minor=1_001)), key=True, content=False),
    Comparison("a payment and its refund", PAID, event("refund.refunded", refund(), "whe_2"), key=False, entity=True),
]
SECRET = "sec_sample"
SMALL = b'{"resource":"event","id":"whe_1"}'
SMALL_SIGNED = b"fe913c5675b4cee7c5c697dc2ef2cd45b8b074e10b117d270f31fc16250cea4a"
"""By ``openssl dgst -sha256 -hmac sec_sample``."""
REFUSALS = [
    Refusal(f"a signature of {header!r}", Request(SMALL, [(b"x-mollie-signature", header)]), reason, (SECRET,))
    for header, reason in (
        (SMALL_SIGNED, None),
        (b"sha256=" + SMALL_SIGNED, None),
        (b"sha256=", "mismatch"),
        (b"sha1=" + SMALL_SIGNED, "mismatch"),
        (b"SHA256=" + SMALL_SIGNED, "mismatch"),
        (b"sha256=sha256=" + SMALL_SIGNED, "mismatch"),
        (SMALL_SIGNED + b"," + SMALL_SIGNED, "mismatch"),
    )
]
