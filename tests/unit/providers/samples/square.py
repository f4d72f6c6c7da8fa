"""Square: what its events are called and book, and which requests prove."""

from __future__ import annotations

import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import sign
from load.samples import square as samples_of
from providers import ModeMismatch, ProvidersSettings, Request, build_adapters
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

URLS = {
    "default": "https://hooks.example.com/webhooks/square",
    "sandbox": "https://hooks.example.com/webhooks/square/sandbox",
}
SETTINGS = {"square": {"notification_urls": URLS}}
ABOUT: dict[str, Any] = {"account": "M1", "currency": "USD", "created": NOW}
OF_PAYMENT: dict[str, Any] = {"payment": "PAYMENT1", **ABOUT}


def payment(event_type: str = "payment.updated", amount: int = 1_250, **more: Any) -> bytes:
    return samples_of.payment_event(event_type, event_id="e-1", amount_minor=amount, **{**OF_PAYMENT, **more})


def refund(event_type: str = "refund.updated", status: str = "COMPLETED", fee_minor: int | None = None) -> bytes:
    about = {"event_id": "e-REFUND1", "refund": "REFUND1", "amount_minor": 400, **OF_PAYMENT}
    return samples_of.refund_event(event_type, status=status, fee_minor=fee_minor, **about)


def dispute(event_type: str, state: str) -> bytes:
    return samples_of.dispute_event(
        event_type, event_id="e-1", dispute="DISPUTE1", amount_minor=1_250, state=state, **OF_PAYMENT
    )


def payout(event_type: str, amount: int = 9_000) -> bytes:
    return samples_of.payout_event(event_type, event_id="e-1", payout="po_1", amount_minor=amount, **ABOUT)


def of_payment(*path: str, to: Any, body: bytes = b"") -> bytes:
    return changed(body or payment(), "data", "object", "payment", *path, to=to)


def of_refund(*path: str, to: Any) -> bytes:
    return changed(refund(), "data", "object", "refund", *path, to=to)


def of_payout(*path: str, to: Any) -> bytes:
    return changed(payout("payout.paid"), "data", "object", "payout", "amount_money", *path, to=to)


def of_older_api(body: bytes) -> bytes:
    """A dispute as older versions of the API write it."""
    document = json.loads(body)
    reported = document["data"]["object"]["dispute"]
    reported["dispute_id"] = reported.pop("id")
    reported["reported_date"] = reported.pop("reported_at")
    return json.dumps(document).encode()


def onto(brand: object) -> bytes:
    """A refund onto a card of that brand."""
    details = {"card_details": {"card": {"card_brand": brand, "last_4": "0009"}, "entry_method": "KEYED"}}
    return of_refund("destination_details", to=details)


def by_gift_card(event_type: str) -> bytes:
    brand = ("card_details", "card", "card_brand")
    return of_payment(*brand, to="SQUARE_GIFT_CARD", body=payment(event_type))


CAPTURE, REFUND = "PAYMENT1:capture 1250 USD of PAYMENT1", "REFUND1:refund 400 USD of PAYMENT1"
OPENED = "DISPUTE1:dispute_opened 1250 USD of PAYMENT1"
WON = "DISPUTE1:dispute_won 1250 USD of PAYMENT1"
LOST = "DISPUTE1:dispute_lost 1250 USD of PAYMENT1"
STATES = {"EVIDENCE_REQUIRED": OPENED, "PROCESSING": OPENED, "WON": WON, "LOST": LOST, "ACCEPTED": LOST}
BOOKED = [
    ("payment.created, completed", payment("payment.created"), CAPTURE),
    ("payment.updated, completed", payment("payment.updated"), CAPTURE),
    ("a payment with a tip", payment(tip_minor=200), "PAYMENT1:capture 1450 USD of PAYMENT1"),
    ("refund.created, completed", refund("refund.created"), REFUND),
    ("refund.updated, completed", refund("refund.updated"), REFUND),
    *(
        (f"dispute.created, {state}", dispute("dispute.created", state), OPENED)
        for state in ("EVIDENCE_REQUIRED", "PROCESSING", "ACCEPTED")
    ),
    *(
        (f"{kind}, {state}", dispute(kind, state), booked)
        for kind in ("dispute.state.updated", "dispute.state.changed")
        for state, booked in STATES.items()
    ),
    ("payout.sent", payout("payout.sent"), "po_1:payout_paid 9000 USD"),
    ("payout.paid", payout("payout.paid"), "po_1:payout_paid 9000 USD"),
    ("a payout below zero", payout("payout.paid", -500), "po_1:payout_paid -500 USD"),
    ("payout.failed", payout("payout.failed"), "po_1:payout_failed 9000 USD"),
    ("the sale of a gift card", payment(amount=5_000), "PAYMENT1:capture 5000 USD of PAYMENT1"),
]
ALL = ("dispute.created", "dispute.state.updated", "dispute.state.changed")
WEBHOOKS = [
    *(
        row
        for what, body in (
            ("a payment", payment()),
            ("a refund", refund()),
            ("a dispute", dispute("dispute.created", "EVIDENCE_REQUIRED")),
        )
        for row in (
            Webhook(f"order is kept for the payment of {what}", body, entity="M1:PAYMENT1"),
            Webhook(f"order is kept for the merchant of {what}", body, entity="M1", settings={"entity": "merchant"}),
        )
    ),
    Webhook("about nothing: an entity of its own", b'{"event_id":"e-1","type":"x"}', entity=":e-1"),
    *unreadable(b"", b"[]", b"{}", b'{"event_id":1,"type":"x"}', b'{"event_id":"e"}', b"\xff"),
    *books(*BOOKED),
    *(
        Webhook(f"{case} names its pair", body, pair=pair)
        for case, body, pair in (
            ("a payout", payout("payout.paid"), "po_1:payout_paid"),
            ("a payout that failed", payout("payout.failed"), "po_1:payout_paid"),
            ("a dispute", dispute("dispute.created", "EVIDENCE_REQUIRED"), "DISPUTE1:dispute_opened"),
            ("a won dispute", dispute("dispute.state.updated", "WON"), "DISPUTE1:dispute_opened"),
            ("a payment", payment(), None),
            ("a refund", refund(), None),
            ("a lost dispute", dispute("dispute.state.updated", "LOST"), "DISPUTE1:dispute_opened"),
        )
    ),
    *(
        Webhook(
            f"a loss, {state}, is told with the debit before it",
            dispute("dispute.state.updated", state),
            type=["dispute.state.updated.withheld", "dispute.state.updated"],
            key=["e-1:dispute.state.updated.withheld", "e-1:dispute.state.updated"],
            books=[OPENED, LOST],
            pair=["DISPUTE1:dispute_opened"] * 2,
        )
        for state in ("LOST", "ACCEPTED")
    ),
    *(
        Webhook(f"a dispute that is {state} is one event", dispute("dispute.state.updated", state), books=[booked])
        for state, booked in (("WON", WON), ("INQUIRY_CLOSED", None))
    ),
    Webhook(
        "a loss whose amount can't be trusted is two events all the same",
        dispute("dispute.state.updated", "LOST").replace(b"1250", b'"x"'),
        type=["dispute.state.updated.withheld", "dispute.state.updated"],
        fails=MoneyInvalid,
    ),
    *moves_nothing(
        *((f"a payment that is {status}", payment(status=status)) for status in ("APPROVED", "PENDING", "CANCELED")),
        ("a payment that is FAILED", payment(status="FAILED")),
        *((f"a refund that is {status}", refund(status=status)) for status in ("PENDING", "REJECTED", "FAILED")),
        ("an inquiry", dispute("dispute.created", "INQUIRY_EVIDENCE_REQUIRED")),
        ("an inquiry that is processed", dispute("dispute.state.updated", "INQUIRY_PROCESSING")),
        ("an inquiry that is closed", dispute("dispute.state.updated", "INQUIRY_CLOSED")),
        ("invoice.payment_made", changed(payment(), "type", to="invoice.payment_made")),
        ("order.updated", changed(payment(), "type", to="order.updated")),
        ("a payment by gift card, created", by_gift_card("payment.created")),
        ("a payment by gift card, updated", by_gift_card("payment.updated")),
        ("a refund onto a gift card", onto("SQUARE_GIFT_CARD")),
    ),
    *books(
        *(
            (
                f"a payment in {source}",
                payment(source_type=source.upper()),
                f"PAYMENT1:capture 1250 USD of PAYMENT1, 1250 outside:{source}",
            )
            for source in ("cash", "external")
        ),
        ("a refund in cash", of_refund("destination_type", to="CASH"), f"{REFUND}, 400 outside:cash"),
        *(
            row
            for way in ("cash", "external")
            for row in (
                (
                    f"a payment that only its details call {way}",
                    of_payment(f"{way}_details", to={}, body=of_payment("source_type", to=None)),
                    f"PAYMENT1:capture 1250 USD of PAYMENT1, 1250 outside:{way}",
                ),
                (
                    f"a refund that only its details call {way}",
                    changed(
                        of_refund("destination_details", to={f"{way}_details": {}}),
                        *("data", "object", "refund", "destination_type"),
                        to=...,
                    ),
                    f"{REFUND}, 400 outside:{way}",
                ),
            )
        ),
        (
            "a refund whose details are null",
            changed(
                of_refund("destination_details", to={"cash_details": None, "external_details": None}),
                *("data", "object", "refund", "destination_type"),
                to=None,
            ),
            REFUND,
        ),
        *((f"a refund onto a card of brand {brand}", onto(brand), REFUND) for brand in ("VISA", None)),
        *(
            (f"a payment whose card isn't said: {nothing}", of_payment("card_details", to=nothing), CAPTURE)
            for nothing in each(None, {}, {"card": None})
        ),
        *(
            (f"a source that isn't said is not cash: {source}", of_payment("source_type", to=source), CAPTURE)
            for source in each(None)
        ),
        *(
            (f"minor units of {code}", payment(currency=code), f"PAYMENT1:capture 1250 {code} of PAYMENT1")
            for code in ("JPY", "USD", "BHD")
        ),
    ),
    *fails(
        MovementUnknown,
        *((f"{kind} to an unknown state", dispute(kind, "SOMETHING_NEW"), "the state 'SOMETHING_NEW'") for kind in ALL),
        ("an unknown status", payment(status="SOMETHING_NEW"), "the status"),
        ("an unknown status of a refund", refund(status="SOMETHING_NEW"), "the status"),
        *(
            (f"an unknown source: {source}", of_payment("source_type", to=source), "the source_type")
            for source in each(["CASH"], {}, 7, "STABLECOIN")
        ),
        ("a refund to an unknown destination", of_refund("destination_type", to="ELSEWHERE"), "the destination_type"),
        ("a type that no table has", changed(payment(), "type", to="made_up.funds_moved"), "the type"),
    ),
    *fails(
        MoneyInvalid,
        (
            "a dispute without a state",
            changed(dispute("dispute.created", "WON"), "data", "object", "dispute", "state", to=None),
            "isn't said",
        ),
        ("a payment whose status can't be read", of_payment("status", to=7), "isn't said"),
        ("a refund whose status can't be read", of_refund("status", to=["COMPLETED"]), "isn't said"),
        ("a payment without its total", of_payment("total_money", to=...), "no amount"),
        ("a payout of two currencies", of_payout("currency_code", to="EUR"), "two"),
        ("a payout without a currency", of_payout("currency", to=...), "currency"),
        ("a payout whose currency can't be read", of_payout("currency", to=["USD"]), "three"),
        *(
            (f"an amount of {amount!r}", of_payment("total_money", "amount", to=amount))
            for amount in each(12.5, 1250.0, "1250", True, None, [1250], {"value": 1250}, 10**16)
        ),
    ),
    *fails(
        Unparseable,
        ("a refund onto a card whose brand can't be read", onto(["SQUARE_GIFT_CARD"])),
        *(
            (f"a payment whose card can't be read: {broken}", of_payment("card_details", to=broken))
            for broken in each(7, [], {"card": {"card_brand": 7}})
        ),
        ("a payment without data", changed(payment(), "data", to=None)),
        ("a payment without an object", changed(payment(), "data", "object", to=None)),
        ("a payment without itself", of_payment(to=None)),
    ),
]


def from_environment(*values: bytes) -> Request:
    return Request(payment(), [(b"square-environment", value) for value in values])


WEBHOOKS += [
    *(
        Webhook(
            f"from environment {values} at the {endpoint} endpoint",
            from_environment(*values),
            endpoint=endpoint,
            refused=ModeMismatch,
            says=f"takes {endpoint} traffic, the request says {reported}",
        )
        for values, endpoint, reported in (
            ([b"Sandbox"], "live", "test"),
            ([b"Production"], "test", "live"),
            ([b"Production", b"Sandbox"], "live", "test"),
            ([b"elsewhere"], "live", "neither"),
            ([b""], "test", "neither"),
            ([b"\xff"], "live", "neither"),
        )
    ),
    *(
        Webhook(f"from environment {values}", from_environment(*values), mode="live")
        for values in ([], [b"Production"], [b"production"], [b"PRODUCTION", b"Production"], [b" Production\t"])
    ),
    Webhook("from no environment at the test endpoint", payment(), endpoint="test", mode="test"),
]

AGAIN = of_payment("refunded_money", to={"amount": 400, "currency": "USD"})
BRAND = ("card_details", "card", "card_brand")
GIFT_CARD_FEE = "PAYMENT1:fee 5 USD of PAYMENT1"


def with_fees(*fees_minor: int, app_minor: int | None = None, event_id: str = "e-9", **more: Any) -> bytes:
    """A payment with the first fee and its adjustments, and what an application takes."""
    document = json.loads(payment(**more))
    document["event_id"] = event_id
    reported = document["data"]["object"]["payment"]
    reported["processing_fee"] = [
        {
            "type": "ADJUSTMENT" if number else "INITIAL",
            "effective_at": f"2026-01-31T{13 + number}:00:00.000Z",
            "amount_money": {"amount": minor, "currency": "USD"},
        }
        for number, minor in enumerate(fees_minor)
    ]
    if app_minor is not None:
        reported["app_fee_money"] = {"amount": app_minor, "currency": "USD"}
    return json.dumps(document).encode()


def payout_with_fees(event_type: str, *fees: tuple[str | None, int]) -> bytes:
    """A payout of 98.50, and what it cost to send it at once."""
    listed = [{"type": kind, "amount_money": {"amount": minor, "currency": "USD"}} for kind, minor in fees]
    return changed(payout(event_type, 9_850), "data", "object", "payout", "payout_fee", to=listed)


TRANSFER_FEES = ("TRANSFER_FEE", 130), ("TAX_ON_TRANSFER_FEE", 20)
BY_A_PLATFORM = of_payment("source_type", to="EXTERNAL")
WITH_SOURCE_FEE = of_payment(
    "external_details", to={"source_fee_money": {"amount": 150, "currency": "USD"}}, body=BY_A_PLATFORM
)
WEBHOOKS += [
    Webhook(f"fees of {case}", body, fees=fees)
    for case, body, fees in (
        (
            "a payout that is sent at once",
            payout_with_fees("payout.sent", *TRANSFER_FEES),
            ["po_1:payout_fee 130 USD", "po_1:payout_tax_fee 20 USD"],
        ),
        ("a payment that was taken elsewhere", BY_A_PLATFORM, []),
        (
            "a payment that was taken elsewhere, by who took it",
            WITH_SOURCE_FEE,
            ["PAYMENT1:source_fee 150 USD of PAYMENT1, 150 outside:external"],
        ),
        ("a payment without them", payment(), []),
        ("a payment", with_fees(320), ["PAYMENT1:fee 320 USD of PAYMENT1"]),
        (
            "a payment with an application's",
            with_fees(320, app_minor=1_000),
            ["PAYMENT1:fee 320 USD of PAYMENT1", "PAYMENT1:app_fee 1000 USD of PAYMENT1"],
        ),
        ("a payment with an application's alone", with_fees(app_minor=50), ["PAYMENT1:app_fee 50 USD of PAYMENT1"]),
        (
            "a payment that were adjusted",
            with_fees(320, -20),
            [
                "PAYMENT1:fee 320 USD of PAYMENT1",
                "PAYMENT1:adjustment_2026-01-31T14%3A00%3A00.000Z_fee -20 USD of PAYMENT1",
            ],
        ),
        ("a payment, of zero", with_fees(0), []),
        ("a payment that isn't completed", with_fees(320, status="APPROVED"), []),
        ("a refund", refund(), []),
        ("a refund that gives them back", refund(fee_minor=-8), ["REFUND1:fee -8 USD of PAYMENT1"]),
        (
            "a refund to which the application adds",
            of_refund("app_fee_money", to={"amount": 100, "currency": "USD"}),
            ["REFUND1:app_fee -100 USD of PAYMENT1"],
        ),
        ("a payment by gift card", of_payment(*BRAND, to="SQUARE_GIFT_CARD", body=with_fees(5)), [GIFT_CARD_FEE]),
        ("a dispute", dispute("dispute.created", "PROCESSING"), []),
        ("a payout", payout("payout.paid"), []),
        ("a payment that can't be read either", with_fees(320, status="SOMETHING_NEW"), []),
    )
]
UNREADABLE_FEES = [
    of_payment("processing_fee", to=to, body=with_fees(320))
    for to in (
        7,
        [7],
        [{"type": "INITIAL"}],
        [{"type": "SOMETHING_NEW", "amount_money": {"amount": 1, "currency": "USD"}}],
        [{"type": "ADJUSTMENT", "amount_money": {"amount": 1, "currency": "USD"}}],
        [{"type": "INITIAL", "amount_money": {"amount": 1, "currency": "USD"}}] * 2,
    )
] + [
    payout_with_fees("payout.failed", *TRANSFER_FEES),
    payout_with_fees("payout.paid", ("SOMETHING_NEW", 1)),
    payout_with_fees("payout.paid", (None, 1)),
    payout_with_fees("payout.paid", ("TRANSFER_FEE", 1), ("TRANSFER_FEE", 1)),
]

COMPARISONS = [
    *(
        Comparison(f"{case}, under another event id", body, changed(body, "event_id", to="e-2"), key=False, fact=True)
        for case, body, _ in BOOKED
    ),
    *(
        Comparison(
            f"a dispute of an older API, {state}: both of Square's events tell of one change",
            of_older_api(dispute("dispute.state.changed", state)),
            dispute("dispute.state.updated", state),
            fact=True,
            entity=True,
        )
        for state in ("EVIDENCE_REQUIRED", "WON", "LOST", "ACCEPTED")
    ),
    Comparison("a payment that is told again after a refund", payment("payment.created"), AGAIN, fact=True),
]

SEQUENCES = [
    MoneySequence(
        f"a dispute that is {state}, {told}",
        [*before, *[dispute("dispute.state.updated", state)] * 2],
        {"clearing": -1_250, "dispute_losses": 1_250},
    )
    for state in ("LOST", "ACCEPTED")
    for told, before in (
        ("its opening told", [dispute("dispute.state.updated", "EVIDENCE_REQUIRED")]),
        ("its opening untold", []),
    )
]
SEQUENCES += [
    MoneySequence(
        "a payout that is sent at once, and what that costs",
        [payment(amount=10_000), *(payout_with_fees(f"payout.{event}", *TRANSFER_FEES) for event in ("sent", "paid"))],
        {"payouts": 9_850, "fees": 150},
    ),
    MoneySequence(
        "a payment that was taken elsewhere, and what that costs",
        [WITH_SOURCE_FEE],
        {"outside:external:clearing": 1_100, "fees": 150},
    ),
]

# Which requests prove: what is signed is the endpoint's notification URL and the raw body.

SECRET, HEADER, BODY = "new-signature-key", b"x-square-hmacsha256-signature", payment()


def signed(body: bytes, endpoint: str = "default", **urls: str) -> bytes:
    settings = ProvidersSettings.model_validate({"square": {"notification_urls": {**URLS, **urls}}})
    headers = sign(build_adapters(settings)["square"], body, SECRET, NOW, endpoint=endpoint).headers
    return headers["x-square-hmacsha256-signature"].encode()


GOOD, OF_SANDBOX = signed(BODY), signed(BODY, "sandbox")
ELSEWHERE = [(b"host", b"attacker.example"), (b"x-forwarded-host", b"a.example")]
FORGED = (HEADER, signed(BODY, default="https://attacker.example/webhooks/square"))
REFUSALS = [
    Refusal(case, request, reason, (SECRET,))
    for case, request, reason in (
        ("the older signature, which is HMAC-SHA1", Request(BODY, [(b"x-square-signature", GOOD)]), "missing"),
        ("signed for its endpoint", Request(BODY, [(HEADER, OF_SANDBOX)], "sandbox"), None),
        ("signed for the other endpoint", Request(BODY, [(HEADER, OF_SANDBOX)]), "mismatch"),
        ("signed for the default endpoint", Request(BODY, [(HEADER, GOOD)], "sandbox"), "mismatch"),
        ("signed for another host that the request names", Request(BODY, [FORGED, *ELSEWHERE]), "mismatch"),
        ("unsigned, at an endpoint without its URL", Request(BODY, [], "payouts"), "missing"),
    )
]
