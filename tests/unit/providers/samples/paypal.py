"""PayPal: what its events are called and book, and which deliveries prove."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import paypal as samples_of
from providers import ModeMismatch, Request
from tests.paypal_signer import LIVE_URL, SANDBOX_URL, delivery, headers_for
from tests.unit.providers.samples.table import (
    Comparison,
    MoneySequence,
    Refusal,
    Webhook,
    books,
    each,
    fails,
    moves_nothing,
)
from tests.unit.providers.shapes import NOW, changed

MONEY: dict[str, Any] = {"merchant": "M1", "value": "12.50", "currency": "EUR", "created": NOW}
LEFT_TO_A_PERSON = (
    *("INVOICING.INVOICE.PAID", "INVOICING.INVOICE.REFUNDED", "PAYMENT.REFERENCED-PAYOUT-ITEM.COMPLETED"),
    *(
        f"PAYMENT.PAYOUTS-ITEM.{what}"
        for what in ("SUCCEEDED", "UNCLAIMED", "HELD", "CANCELED", "REFUNDED", "RETURNED")
    ),
)


def capture(event_type: str = "PAYMENT.CAPTURE.COMPLETED", **more: Any) -> bytes:
    return samples_of.capture_event(event_type, event_id="WH-1", capture="C1", order="O1", **{**MONEY, **more})


def refund(event_type: str = "PAYMENT.CAPTURE.REFUNDED", **more: Any) -> bytes:
    return samples_of.refund_event(event_type, event_id="WH-2", refund="R1", capture="C1", **{**MONEY, **more})


def dispute(event_type: str, outcome: str | None = None) -> bytes:
    kind = f"CUSTOMER.DISPUTE.{event_type}"
    return samples_of.dispute_event(kind, event_id="WH-3", dispute="PP-D-1", capture="C1", outcome=outcome, **MONEY)


def payout_item(event_type: str) -> bytes:
    return samples_of.payout_item_event(
        event_type, event_id="WH-4", item="I1", batch="B1", value="5.00", currency="EUR", created=NOW
    )


def of_capture(*path: str, to: Any) -> bytes:
    return changed(capture(), "resource", *path, to=to)


def of_refund(*path: str, to: Any, body: bytes = b"") -> bytes:
    return changed(body or refund(), "resource", *path, to=to)


def v1(event_type: str, event_id: str, **resource: object) -> bytes:
    """An event as v1 writes it."""
    reported = {"resource_type": "sale", "event_type": event_type, "resource": resource}
    return json.dumps({"id": event_id, "create_time": "2026-01-31T12:00:00Z", **reported}).encode()


def v1_refund(**resource: object) -> bytes:
    """A refund of its sale or capture, below zero in the past."""
    amount = {"total": "-12.50", "currency": "EUR"}
    of_sale = {"id": "R1", "amount": amount, "state": "completed", "sale_id": "S1"}
    return v1("PAYMENT.SALE.REFUNDED", "WH-5", **{**of_sale, **resource})


def v1_sale(**resource: object) -> bytes:
    amount = {"total": "12.50", "currency": "EUR"}
    sale = {"id": "S1", "amount": amount, "state": "completed", "parent_payment": "PAY-1"}
    return v1("PAYMENT.SALE.COMPLETED", "WH-6", **{**sale, **resource})


def about(event_type: str, resource: dict[str, object], resource_type: str | None = None) -> bytes:
    """An event of that type around that resource."""
    of_refund = event_type.endswith((".REFUNDED", ".REVERSED")) or ".REFUND." in event_type
    body = changed(changed(capture(), "event_type", to=event_type), "resource", to=resource)
    return changed(body, "resource_type", to=resource_type or ("refund" if of_refund else "other"))


def movement(party: str, way: str, value: str, reason: str | None = "DISPUTE_SETTLEMENT") -> dict[str, object]:
    """What a dispute's movement of money says of a party."""
    amount = {"currency_code": "EUR", "value": value}
    said = {"affected_party": party, "type": way, "amount": amount, "reason": reason}
    return {name: text for name, text in said.items() if text is not None}


def resolved(*movements: dict[str, object]) -> bytes:
    """A dispute that was resolved for the seller."""
    return changed(dispute("RESOLVED", "RESOLVED_SELLER_FAVOUR"), "resource", "money_movements", to=movements)


def paid_to_seller(body: bytes) -> bytes:
    """The dispute, with how PayPal decided."""
    decided = [{"type": "PAYOUT_TO_SELLER", "adjudication_time": "2026-01-31T12:00:00.000Z"}]
    return changed(body, "resource", "adjudications", to=decided)


REFUND_FAILED = refund("PAYMENT.REFUND.FAILED")
FAILED_BY_ECHECK = of_refund("status_details", to={"reason": "ECHECK"}, body=REFUND_FAILED)
CREDIT, DEBIT = movement("SELLER", "CREDIT", "12.50"), movement("SELLER", "DEBIT", "12.50")
FEE = movement("SELLER", "DEBIT", "20.00", "DISPUTE_FEE")
CAPTURE, REFUND = "C1:capture 1250 EUR of C1", "R1:refund 1250 EUR of C1"
RELATED = {"related_ids": {"order_id": "O1", "authorization_id": "A1"}}
OF_CAPTURE = {"related_ids": {"capture_id": "C1"}}
TO_CAPTURE = [{"rel": "up", "href": "https://api.paypal.com/v2/payments/captures/C1"}]
TO_ITSELF = [{"rel": "self", "href": "https://api.paypal.com/v1/payments/refund/R1"}]
OF_C1 = {"seller_transaction_id": "C1"}
ONBOARDED: dict[str, object] = {"partner_client_id": "AXX1", "merchant_id": "M1", "tracking_id": "T1", "links": []}
EMAIL = {"email_address": "shop@example.com"}
ENTITIES: list[tuple[str, dict[str, object], str]] = [
    ("PAYMENT.CAPTURE.COMPLETED", {"id": "C1", "supplementary_data": RELATED, "parent_payment": "PAY-1"}, "C1"),
    ("PAYMENT.CAPTURE.DENIED", {"id": "C1", "parent_payment": "PAY-1"}, "C1"),
    ("PAYMENT.SALE.COMPLETED", {"id": "S1", "parent_payment": "PAY-1"}, "S1"),
    ("PAYMENT.CAPTURE.REFUNDED", {"id": "R1", "links": TO_CAPTURE, "supplementary_data": RELATED}, "C1"),
    ("PAYMENT.CAPTURE.REVERSED", {"id": "R1", "supplementary_data": OF_CAPTURE}, "C1"),
    ("PAYMENT.REFUND.PENDING", {"id": "R1", "links": TO_CAPTURE}, "C1"),
    ("PAYMENT.SALE.REFUNDED", {"id": "R1", "sale_id": "S1", "parent_payment": "PAY-1"}, "S1"),
    ("PAYMENT.CAPTURE.REFUNDED", {"id": "R1", "capture_id": "C1", "parent_payment": "PAY-1"}, "C1"),
    ("PAYMENT.CAPTURE.REFUNDED", {"id": "R1", "parent_payment": "PAY-1"}, "PAY-1"),
    ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": [OF_C1]}, "C1"),
    ("CUSTOMER.DISPUTE.UPDATED", {"dispute_id": "D1", "disputed_transactions": [OF_C1, OF_C1]}, "C1"),
    (
        "CUSTOMER.DISPUTE.RESOLVED",
        {"dispute_id": "D1", "disputed_transactions": [OF_C1, {"seller_transaction_id": "C2"}]},
        "D1",
    ),
    ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": []}, "D1"),
    ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": [{"seller": {}}]}, "D1"),
    ("CUSTOMER.DISPUTE.CREATED", {"dispute_id": "D1", "disputed_transactions": "none"}, "D1"),
    ("PAYMENT.AUTHORIZATION.CREATED", {"id": "A1", "supplementary_data": RELATED}, "O1"),
    ("PAYMENT.AUTHORIZATION.CREATED", {"id": "A1", "parent_payment": "PAY-1"}, "PAY-1"),
    ("CHECKOUT.ORDER.APPROVED", {"id": "O1"}, "O1"),
    ("X", {"order_id": "O1"}, "O1"),
    ("INVOICING.INVOICE.CREATED", {"invoice": {"id": "INV2-1"}}, "INV2-1"),
    ("MERCHANT.ONBOARDING.COMPLETED", {"merchant_id": "M1", "tracking_id": "T1"}, "M1"),
    ("X", {"links": "none", "supplementary_data": []}, "WH-1"),
    ("X", {}, "WH-1"),
]
SHARES_ORDER = [
    ("a capture", capture()),
    ("a refund", refund()),
    ("a reversal", refund("PAYMENT.CAPTURE.REVERSED")),
    *((f"a dispute, {what}", dispute(what)) for what in ("CREATED", "UPDATED", "RESOLVED")),
]
MOVES_NOTHING = (
    *("PAYMENT.PAYOUTS-ITEM.FAILED", "PAYMENT.PAYOUTS-ITEM.BLOCKED", "PAYMENT.PAYOUTSBATCH.SUCCESS"),
    *("PAYMENT.REFERENCED-PAYOUT-ITEM.FAILED", "INVOICING.INVOICE.CREATED"),
)
NO_AMOUNTS = each(
    *(("12.505", "EUR"), ("12.5", "JPY"), ("12.5", "HUF"), ("12.50", "TWD"), ("1e3", "EUR"), ("12,50", "EUR")),
    *(("", "EUR"), (".5", "EUR"), ("--5", "EUR"), ("NaN", "EUR"), ("\u0661\u0662", "EUR"), ("9" * 16, "EUR")),
    *(("12.50", "EURO"), ("12.50", ""), (12.5, "EUR"), (12, "EUR"), (True, "EUR"), (None, "EUR"), ("12.50", None)),
)
WEBHOOKS = [
    *(
        Webhook(f"order of {kind} with {resource}", about(kind, resource), entity=f":{entity}")
        for kind, resource, entity in ENTITIES
    ),
    *(Webhook(f"{what} shares its payment's order", body, entity=":C1", account="M1") for what, body in SHARES_ORDER),
    *(
        Webhook(f"order of {what} is kept for the merchant", body, entity="M1", settings={"entity": "merchant"})
        for what, body in (("a capture", capture()), ("a refund", refund()), ("a dispute", dispute("CREATED")))
    ),
    *(
        Webhook(f"{kind} names its merchant", about(kind, ONBOARDED, "merchant-onboarding"), account="M1", entity=":M1")
        for kind in (
            *("MERCHANT.ONBOARDING.COMPLETED", "MERCHANT.PARTNER-CONSENT.REVOKED"),
            *(
                "CUSTOMER.MERCHANT-INTEGRATION.CAPABILITY-UPDATED",
                "CUSTOMER.MERCHANT-INTEGRATION.SELLER-EMAIL-CONFIRMED",
            ),
        )
    ),
    Webhook(
        "the payer of a capture is no merchant",
        changed(of_capture("payee", to=...), "resource", "payer", to={"merchant_id": "CUSTOMER"}),
        account="",
    ),
    *(
        Webhook(f"v1 names no merchant in {what}", body, account="", **booked)
        for what, body, booked in each(
            ("a sale", v1_sale(), {"books": "S1:capture 1250 EUR of S1"}),
            ("a sale with a payee", v1_sale(payee={"merchant_id": "M1"}), {"books": "S1:capture 1250 EUR of S1"}),
            ("a refund", v1_refund(), {"books": "R1:refund 1250 EUR of S1"}),
            ("a refund with a payer", v1_refund(payer={"merchant_id": "M1"}), {"books": "R1:refund 1250 EUR of S1"}),
        )
    ),
    *(
        Webhook(f"poison: {field} is {to!r}", changed(capture(), field, to=to), refused=Unparseable)
        for field, to in each(("id", ...), ("id", ""), ("id", 7), ("event_type", ...), ("event_type", []))
    ),
    *books(
        ("a capture", capture(), CAPTURE),
        ("a capture that was refunded since", of_capture("status", to="REFUNDED"), CAPTURE),
        ("a refund", refund(), REFUND),
        ("a reversal", refund("PAYMENT.CAPTURE.REVERSED"), REFUND),
        ("a v1 refund of a payment", v1_refund(parent_payment="PAY-1"), "R1:refund 1250 EUR of S1"),
        (
            "a v1 refund of a payment's capture",
            v1_refund(parent_payment="PAY-1", sale_id=None, capture_id="C1"),
            REFUND,
        ),
        ("a v1 refund above zero", v1_refund(amount={"total": "12.50", "currency": "EUR"}), "R1:refund 1250 EUR of S1"),
        ("a v1 refund of a capture", v1_refund(sale_id=None, capture_id="C1"), REFUND),
        ("a v1 refund with a link", v1_refund(sale_id=None, links=TO_ITSELF), "R1:refund 1250 EUR of R1"),
        (
            "a v1 refund by its type",
            changed(v1_refund(sale_id=None), "resource_type", to="refund"),
            "R1:refund 1250 EUR of R1",
        ),
        *(
            (
                f"{what} of {value} {currency}",
                make(value=value, currency=currency),
                f"{reference}:{what} {minor} {currency.upper()} of C1",
            )
            for value, currency, minor in (
                *(("12.50", "EUR", 1_250), ("12.5", "EUR", 1_250), ("12", "EUR", 1_200), ("0.01", "USD", 1)),
                *(("1250", "JPY", 1_250), ("1250.00", "JPY", 1_250), ("1250", "HUF", 125_000)),
                *(("1250.00", "HUF", 125_000), ("1250", "TWD", 125_000), ("12.5000", "eur", 1_250)),
            )
            for what, reference, make in (("capture", "C1", capture), ("refund", "R1", refund))
        ),
    ),
    *moves_nothing(
        *((kind, capture(f"PAYMENT.CAPTURE.{kind}")) for kind in ("PENDING", "DECLINED", "DENIED")),
        *((f"a {status} refund", of_refund("status", to=status)) for status in ("PENDING", "FAILED", "CANCELLED")),
        ("a refund that is pending", refund("PAYMENT.REFUND.PENDING")),
        ("a refund that failed as its payment's eCheck didn't clear", FAILED_BY_ECHECK),
        *((f"a dispute that is {what}", dispute(what)) for what in ("CREATED", "UPDATED")),
        *(
            (f"a dispute that is {outcome}", dispute("RESOLVED", outcome))
            for outcome in (
                "RESOLVED_BUYER_FAVOUR",
                "RESOLVED_SELLER_FAVOUR",
                "CANCELED_BY_BUYER",
                "ACCEPTED",
                "DENIED",
            )
        ),
        (
            "a dispute that PayPal pays for",
            changed(
                dispute("RESOLVED", "RESOLVED_WITH_PAYOUT"),
                "resource",
                "money_movements",
                to=[movement("PAYMENT_PROCESSOR", "DEBIT", "12.50"), movement("BUYER", "CREDIT", "12.50")],
            ),
        ),
    ),
    *moves_nothing(*((kind, payout_item(kind)) for kind in MOVES_NOTHING), entity=":I1"),
    *fails(
        MoneyInvalid,
        *((f"{kind} is for a person", payout_item(kind), f"{kind}.*manual entry") for kind in LEFT_TO_A_PERSON),
        *(
            (f"an amount of {value!r} {currency}", of_capture("amount", to={"value": value, "currency_code": currency}))
            for value, currency in NO_AMOUNTS
        ),
        ("two amounts", of_capture("amount", to={"value": "1", "currency_code": "EUR", "total": "2"})),
        ("two currencies", of_capture("amount", to={"value": "1", "currency": "EUR", "currency_code": "EUR"})),
        ("no amount", of_capture("amount", to={})),
        ("a capture that its status denies", of_capture("status", to="DECLINED")),
        ("no status", of_capture("status", to=...)),
        ("a refund without a status", of_refund("status", to=...)),
        ("a capture that is told as a refund", changed(capture(), "event_type", to="PAYMENT.CAPTURE.REFUNDED")),
        ("a v1 refund that is the refunded sale", v1_refund(id="S1", sale_id=None)),
        *(
            (f"a payment could get a second merchant: {what}", body, "merchant_id.*manual entry")
            for what, body in (
                ("no payee", of_capture("payee", to=...)),
                ("a payee by mail", of_capture("payee", to=EMAIL)),
                ("a refund without payer", of_refund("payer", to=...)),
                ("a reversal by mail", of_refund("payer", to=EMAIL, body=refund("PAYMENT.CAPTURE.REVERSED"))),
            )
        ),
    ),
    *fails(
        MoneyInvalid,
        *(
            (f"a dispute that moved money several times: {what}", resolved(*moves), "several times.*manual entry")
            for what, moves in (("both ways", [CREDIT, DEBIT]), ("back twice", [CREDIT, CREDIT]))
        ),
    ),
    *books(("a refund that failed", REFUND_FAILED, "R1:refund_failed 1250 EUR of C1"), pair="R1:refund"),
    *fails(
        MovementUnknown,
        ("an unknown status", of_capture("status", to="VOIDED"), "the status 'voided'"),
        ("a refund that is REFUNDED", of_refund("status", to="REFUNDED"), "the status 'refunded'"),
        ("a type that no table has", capture("PAYMENT.CAPTURE.MADE-UP"), "the type"),
        ("a payout that is DENIED", payout_item("PAYMENT.PAYOUTS-ITEM.DENIED"), "the type"),
        *(
            (f"a dispute that is {outcome}, of which no money is told", dispute("RESOLVED", outcome), f"'{outcome}'")
            for outcome in ("RESOLVED_WITH_PAYOUT", "SETTLED_ANEW")
        ),
        *(
            (f"a dispute that was paid to the seller, {what}", paid_to_seller(body), "adjudications.type")
            for what, body in (
                ("of which no money is told", dispute("RESOLVED", "RESOLVED_SELLER_FAVOUR")),
                ("of which the buyer's is told", resolved(movement("BUYER", "CREDIT", "12.50"))),
            )
        ),
        (
            "a dispute's movement in no known direction",
            resolved({**CREDIT, "type": "SIDEWAYS"}),
            "money_movements.type",
        ),
        (
            "a dispute's movement for an unknown reason",
            resolved({**CREDIT, "reason": "SOMETHING_NEW"}),
            "money_movements.reason",
        ),
        (
            "a dispute's movement of an unknown party",
            resolved({**CREDIT, "affected_party": "SOMEBODY"}),
            "affected_party",
        ),
    ),
    *fails(
        Unparseable,
        ("no resource", changed(capture(), "resource", to=...)),
        ("a resource that is none", changed(capture(), "resource", to=[])),
        ("an amount that is none", of_capture("amount", to="12.50")),
        ("no id", of_capture("id", to=...)),
        ("an id that is a number", of_capture("id", to=7)),
        ("a status that is a number", of_capture("status", to=7)),
    ),
]
BREAKDOWN = {
    "paypal_fee": {"currency_code": "EUR", "value": "0.67"},
    "platform_fees": [{"amount": {"currency_code": "EUR", "value": value}} for value in ("1.00", "0.05")],
}
CONVERTED = {
    "paypal_fee": {"currency_code": "EUR", "value": "0.61"},
    "paypal_fee_in_receivable_currency": {"currency_code": "CNY", "value": "4.80"},
}
FEES_OF_CAPTURE = ["C1:fee 67 EUR of C1", "C1:platform_fee 100 EUR of C1", "C1:platform2_fee 5 EUR of C1"]
V1_OF_M1 = {"paypal": {"merchant_id": "M1"}}
WEBHOOKS += [
    Webhook(f"fees of {case}", body, fees=fees)
    for case, body, fees in (
        ("a capture without them", capture(), []),
        ("a capture", of_capture("seller_receivable_breakdown", to=BREAKDOWN), FEES_OF_CAPTURE),
        ("a capture that is pending", changed(capture(), "event_type", to="PAYMENT.CAPTURE.PENDING"), []),
        (
            "a refund, given back",
            of_refund("seller_payable_breakdown", to=BREAKDOWN),
            [
                "R1:fee -67 EUR of C1",
                "R1:platform_fee -100 EUR of C1",
                "R1:platform2_fee -5 EUR of C1",
            ],
        ),
        ("a refund that failed, of none", REFUND_FAILED, []),
        ("a sale", v1_sale(transaction_fee={"value": "0.67", "currency": "EUR"}), ["S1:fee 67 EUR of S1"]),
        (
            "a sale's refund",
            v1_refund(refund_from_transaction_fee={"value": "0.30", "currency": "EUR"}),
            ["R1:fee -30 EUR of S1"],
        ),
        (
            "a capture that PayPal converts, whose fee it takes afterwards",
            of_capture("seller_receivable_breakdown", to=CONVERTED),
            ["C1:fee 480 CNY of C1"],
        ),
        ("a dispute", resolved(FEE, FEE, CREDIT), ["PP-D-1:dispute_fee 4000 EUR of C1"]),
        (
            "a dispute, given back",
            resolved({**FEE, "type": "CREDIT", "reason": "CHARGEBACK_FEE"}),
            ["PP-D-1:chargeback_fee -2000 EUR of C1"],
        ),
        ("a dispute that the buyer pays", resolved({**FEE, "affected_party": "BUYER"}), []),
    )
]
WEBHOOKS += [
    Webhook(f"{case} of the merchant that the settings name", body, account="M1", entity=":S1", settings=V1_OF_M1)
    for case, body in (("a sale", v1_sale()), ("its refund", v1_refund()))
]

COMPARISONS = [
    Comparison("a refund of another type", refund(), refund("PAYMENT.CAPTURE.REVERSED"), key=False, fact=True),
    Comparison("a refund of another id", refund(), changed(refund(), "id", to="WH-9"), key=False, fact=True),
    Comparison("links to the event itself", refund(), changed(refund(), "links", to=[]), content=True),
    Comparison("another host", refund(), refund().replace(b"api.paypal.com", b"api-m.paypal.com"), content=True),
    Comparison("no link to what is refunded", refund(), of_refund("links", to=[]), content=False),
    Comparison(
        "another outcome",
        dispute("RESOLVED", "RESOLVED_SELLER_FAVOUR"),
        dispute("RESOLVED", "RESOLVED_WITH_PAYOUT"),
        key=True,
        content=False,
    ),
    Comparison("another reason for its failure", REFUND_FAILED, FAILED_BY_ECHECK, key=True, content=False),
    Comparison("another summary", refund(), changed(refund(), "summary", to="other"), key=True, content=True),
]
ALONE = "a dispute that gives back what was never taken here"
SEQUENCES = [
    *(
        MoneySequence(
            f"a refund of a part that fails, {what}, {status} by then",
            [capture(), *told, of_refund("status", to=status, body=refund("PAYMENT.REFUND.FAILED", value="5.00"))],
            {"clearing": 1_250},
        )
        for status in ("FAILED", "COMPLETED")
        for what, told in (
            ("told before", [refund(value="5.00")]),
            ("told before as pending, too", [refund("PAYMENT.REFUND.PENDING", value="5.00"), refund(value="5.00")]),
            ("untold", []),
        )
    ),
    MoneySequence(
        "a capture that is pending first, and a refund that is",
        [capture("PAYMENT.CAPTURE.PENDING"), capture(), of_refund("status", to="PENDING"), refund()],
        {"refunds": 1_250},
    ),
    MoneySequence(
        "a sale by v1 and two refunds of parts of it, with what they give back of its fee",
        [
            v1_sale(transaction_fee={"value": "0.67", "currency": "EUR"}),
            *(
                v1_refund(
                    id=name,
                    amount={"total": total, "currency": "EUR"},
                    refund_from_transaction_fee={"value": "0.10", "currency": "EUR"},
                )
                for name, total in (("R1", "-5.00"), ("R2", "2.50"))
            ),
        ],
        {"clearing": 1_250 - 750 - 47, "refunds": 750, "fees": 47},
    ),
    MoneySequence(ALONE, [capture(), resolved(CREDIT)], {"clearing": 1_250}),
    *(
        MoneySequence(
            f"a reversal, and a dispute that {what}",
            [capture(), refund("PAYMENT.CAPTURE.REVERSED"), resolved(*movements)],
            holds,
        )
        for what, movements, holds in (
            ("gives all back", [CREDIT], {"clearing": 1_250}),
            ("gives all back for no reason", [movement("SELLER", "CREDIT", "12.50", None)], {"clearing": 1_250}),
            ("gives all back but a fee", [CREDIT, FEE], {"clearing": -750, "fees": 2_000}),
            (
                "gives back what the processor pays",
                [movement("PAYMENT_PROCESSOR", "DEBIT", "12.50"), CREDIT],
                {"clearing": 1_250},
            ),
            ("gives back a part", [movement("SELLER", "CREDIT", "5.00")], {"clearing": 500, "refunds": 750}),
            ("lists nothing", [], {"refunds": 1_250}),
            ("takes what the reversal took", [DEBIT, FEE], {"clearing": -2_000, "refunds": 1_250, "fees": 2_000}),
            ("gives the buyer the money", [movement("BUYER", "CREDIT", "12.50")], {"refunds": 1_250}),
        )
    ),
]

# Which deliveries prove: the certificates are in a module of their own.

WEBHOOK_ID = "1AB23456CD789012E"
ID, TIME, SIGNATURE, URL, ALGORITHM = (
    b"paypal-transmission-id",
    b"paypal-transmission-time",
    b"paypal-transmission-sig",
    b"paypal-cert-url",
    b"paypal-auth-algo",
)
BODY = refund()
SIGNED = delivery(BODY, WEBHOOK_ID)
BAD_SECRETS = ("", "WEBHOOK_ID", "1AB|2", "1AB 2", "é", "x" * 51, "\u0661")
"""``WEBHOOK_ID`` is what PayPal's simulator signs with, for anybody."""


def header(name: bytes, *values: bytes) -> Request:
    """The signed delivery with these values of one header."""
    kept = [pair for pair in SIGNED.headers if pair[0] != name]
    return replace(SIGNED, headers=[*kept, *((name, value) for value in values)])


def value(name: bytes) -> bytes:
    found = SIGNED.one(name)
    assert found is not None
    return found


def shifted() -> Request:
    """With a ``|`` allowed, one signed text would stand for several deliveries."""
    signed = headers_for(BODY, WEBHOOK_ID, transmission_id="a|b", time="2026-01-31T11:59:58Z")
    return Request(
        BODY, [(name.lower().encode(), text.encode()) for name, text in signed.items()], fetched=SIGNED.fetched
    )


REFUSALS = [
    Refusal(case, request, reason, (WEBHOOK_ID,))
    for case, request, reason in (
        *((f"no {name.decode()}", header(name), "missing") for name in (ID, TIME, SIGNATURE, URL, ALGORITHM)),
        *(
            (f"two of {name.decode()}", header(name, value(name), value(name)), "several")
            for name in (ID, TIME, SIGNATURE, URL, ALGORITHM)
        ),
        *((f"an empty {name.decode()}", header(name, b""), "malformed") for name in (ID, TIME, SIGNATURE, ALGORITHM)),
        (f"an empty {URL.decode()}", header(URL, b""), "untrusted"),
        ("an id with a separator", header(ID, b"a|2026-01-31T11:59:58Z"), "malformed"),
        ("a long id", header(ID, b"x" * 51), "malformed"),
        ("an id beyond ASCII", header(ID, "é".encode()), "malformed"),
        ("a time with a separator", header(TIME, b"2026-01-31T11:59:58Z|1AB23456CD789012E"), "malformed"),
        ("a time with a blank", header(TIME, b"2026-01-31 11:59:58"), "malformed"),
        ("a signature beyond base64", header(SIGNATURE, b"!" * 344), "malformed"),
        ("a signature with a line end", header(SIGNATURE, value(SIGNATURE) + b"\n"), "malformed"),
        ("a signature without its end", header(SIGNATURE, value(SIGNATURE).rstrip(b"=")), "malformed"),
        ("a long signature", header(SIGNATURE, b"A" * 2_000), "malformed"),
        *(
            (f"the algorithm {algorithm.decode()}", header(ALGORITHM, algorithm), "malformed")
            for algorithm in (b"SHA1withRSA", b"NONEwithRSA", b"sha256withrsa")
        ),
        ("fields that are shifted into each other", shifted(), "malformed"),
        *(  # a delivery is taken while PayPal tries, and a day more
            (f"a time of {time}", delivery(BODY, WEBHOOK_ID, time=time), reason)
            for time, reason in (
                ("2026-01-28T12:00:00Z", None),
                ("2026-01-27T12:00:00Z", None),
                ("2026-01-27T11:59:59Z", "stale"),
                ("2025-01-31T12:00:00Z", "stale"),
                ("2026-01-31T12:05:00Z", None),
                ("2026-01-31T12:05:01Z", "future"),
                ("2026-01-31T12:05:01.500Z", "future"),
                ("12:00", "malformed"),
                ("2026-02-31T12:00:00Z", "malformed"),
                ("2026-01-31T12:00:00", "malformed"),
            )
        ),
    )
]
WEBHOOKS += [
    Webhook(f"a certificate of {url} at the {endpoint} endpoint", header(URL, url.encode()), endpoint=endpoint, **said)
    for url, endpoint, said in each(
        (LIVE_URL, "live", {"mode": "live"}),
        (SANDBOX_URL, "test", {"mode": "test"}),
        *(
            (url, endpoint, {"refused": ModeMismatch, "says": f"takes {endpoint} traffic, the request says {reported}"})
            for url, endpoint, reported in (
                (LIVE_URL, "test", "live"),
                (SANDBOX_URL, "live", "test"),
                ("https://API.SANDBOX.PAYPAL.COM/v1/notifications/certs/CERT-1", "live", "test"),
                ("https://api-m.sandbox.paypal.com/v1/notifications/certs/CERT-1", "live", "test"),
                ("https://api-m.paypal.com/v1/notifications/certs/CERT-1", "test", "live"),
            )
        ),
    )
]
