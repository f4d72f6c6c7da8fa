"""Adyen's standard notifications: what their items are called and book, and which requests prove."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from providers import ModeMismatch, Request
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

KEY = "AB" * 32
OTHER_KEY = "CD" * 32


def item(**changed: Any) -> dict[str, Any]:
    fields = {
        "pspReference": "PSP1",
        "originalReference": "ORIGINAL1",
        "merchantAccountCode": "Main",
        "merchantReference": "order-1",
        "amount": {"value": 1000, "currency": "EUR"},
        "eventCode": "CAPTURE",
        "success": "true",
        "eventDate": "2026-01-31T13:00:00+01:00",
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def signature(of: dict[str, Any], key: str = KEY) -> str:
    amount = of.get("amount") or {}
    value = amount.get("value")
    parts = [
        of.get("pspReference") or "",
        of.get("originalReference") or "",
        of.get("merchantAccountCode") or "",
        of.get("merchantReference") or "",
        "" if value is None else str(value),
        amount.get("currency") or "",
        of.get("eventCode") or "",
        of.get("success") or "",
    ]
    digest = hmac.new(bytes.fromhex(key), ":".join(parts).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def signed(of: dict[str, Any], key: str = KEY) -> dict[str, Any]:
    return {**of, "additionalData": {**of.get("additionalData", {}), "hmacSignature": signature(of, key)}}


def body(*items: dict[str, Any], live: Any = "true") -> bytes:
    wrapped = [{"NotificationRequestItem": one} for one in items]
    return json.dumps({"live": live, "notificationItems": wrapped}).encode()


def told(code: str, **changed: Any) -> bytes:
    """A request with one item of that event code."""
    return body(item(eventCode=code, **changed))


# What an item is called.

PAYMENT = item(pspReference="ORIGINAL1", originalReference=..., eventCode="AUTHORISATION")
REPORT = {"eventCode": "REPORT_AVAILABLE", "pspReference": "settlement_detail_report_batch_7.csv"}
CONTRACT = {"eventCode": "RECURRING_CONTRACT", "pspReference": "M5N7TQ4TG5PFWR50", "originalReference": "PAY1"}
SPOILT: tuple[dict[str, Any], ...] = (
    *({"pspReference": ...}, {"pspReference": ""}, {"eventCode": ...}, {"merchantAccountCode": ""}),
    *({"success": ...}, {"success": "TRUE"}),
)
PAYMENTS_CODES = (*("AUTHORISATION", "CAPTURE", "CANCELLATION", "REFUND", "CHARGEBACK", "OFFER_CLOSED", "NEW_CODE"),)
OTHERWISE_REPORTED = {"refused": ModeMismatch, "says": "other endpoint"}
NAMES = [
    Webhook(
        "an item with all its names",
        body(item()),
        id="PSP1",
        type="CAPTURE",
        key="PSP1:CAPTURE:true",
        entity="Main:ORIGINAL1",
        account="Main",
        mode="live",
        at="2026-01-31T12:00:00+00:00",
        books="PSP1:capture 1000 EUR of ORIGINAL1",
    ),
    Webhook(
        "a payment is its own entity and shares it with its modifications",
        body(PAYMENT, item(), item(originalReference="")),
        entity=["Main:ORIGINAL1", "Main:ORIGINAL1", "Main:PSP1"],
    ),
    Webhook("order is kept for the merchant", body(item()), entity="Main", settings={"entity": "merchant"}),
    Webhook(
        "success and failure of one reference are two events",
        body(item(), item(success="false")),
        key=["PSP1:CAPTURE:true", "PSP1:CAPTURE:false"],
    ),
    *(
        Webhook(f"a payment's {code}", told(code), key=[f"PSP1:{code}:true"], entity=["Main:ORIGINAL1"])
        for code in PAYMENTS_CODES
    ),
    Webhook(
        "a payment's SECOND_CHARGEBACK, which is lost",
        told("SECOND_CHARGEBACK"),
        key=["PSP1:SECOND_CHARGEBACK:true", "PSP1:SECOND_CHARGEBACK:true:lost"],
        books=["PSP1:second_dispute_opened 1000 EUR of ORIGINAL1", "PSP1:second_dispute_lost 1000 EUR of ORIGINAL1"],
    ),
    *(
        Webhook(
            f"a live flag of {live!r} at the {endpoint} endpoint", body(item(), live=live), endpoint=endpoint, **said
        )
        for live, endpoint, said in each(
            ("true", "live", {"mode": "live"}),
            ("false", "test", {"mode": "test"}),
            (True, "live", {"mode": "live"}),
            *(
                (live, endpoint, OTHERWISE_REPORTED)
                for live, endpoint in each(
                    *(("true", "test"), ("false", "live"), (None, "live"), ("yes", "live"), ("", "test"), (1, "live"))
                )
            ),
        )
    ),
    *(
        Webhook(
            f"an item with {changed} is poison and costs only itself",
            body(item(pspReference="A"), item(**changed), item(pspReference="B")),
            is_poison=[False, True, False],
        )
        for changed in SPOILT
    ),
    *unreadable(b'{"live":"true","notificationItems":[]}'),
    *(
        Webhook(
            f"{reported['eventCode']} is named by account and kind",
            body(first, {**first, "merchantAccountCode": "Other"}),
            key=[f"Main:{named}:true", f"Other:{named}:true"],
            entity=[f"Main:{named}", f"Other:{named}"],
        )
        for reported in (REPORT, CONTRACT)
        for named in (f"{reported['eventCode']}:{reported['pspReference']}",)
        for first in (item(**{"originalReference": ..., **reported}),)
    ),
    *(
        Webhook(
            f"order of {reported['eventCode']} is kept for the merchant",
            body(item(**{"originalReference": ..., **reported})),
            entity="Main",
            settings={"entity": "merchant"},
        )
        for reported in (REPORT, CONTRACT)
    ),
]

# What it books.

MOVES_NOTHING = (
    "AUTHORISATION",
    "CANCELLATION",
    "NOTIFICATION_OF_CHARGEBACK",
    "REPORT_AVAILABLE",
    "PAYOUT_DECLINE",
)
LEFT_TO_A_PERSON = ("VOID_PENDING_REFUND", "REFUND_NOT_CLEARED")
MOVEMENTS = {
    "CAPTURE": "capture 1000 EUR of ORIGINAL1",
    "CAPTURE_FAILED": "capture_failed 1000 EUR of ORIGINAL1",
    "SETTLED_REVERSED": "capture_failed 1000 EUR of ORIGINAL1",
    "REFUND": "refund 1000 EUR of ORIGINAL1",
    "REFUND_WITH_DATA": "refund 1000 EUR of ORIGINAL1",
    "REFUND_FAILED": "refund_failed 1000 EUR of ORIGINAL1",
    "REFUNDED_REVERSED": "refund_failed 1000 EUR of ORIGINAL1",
    "CHARGEBACK": "dispute_opened 1000 EUR of ORIGINAL1",
    "CHARGEBACK_REVERSED": "2026-01-31T13%3A00%3A00+01%3A00.dispute_won 1000 EUR of ORIGINAL1",
    "PAYOUT_THIRDPARTY": "payout_paid 1000 EUR",
    "PAIDOUT_REVERSED": "payout_failed 1000 EUR",
}
NO_AMOUNTS = each(
    *(None, {}, {"value": 1000}, {"value": "1000", "currency": "EUR"}, {"value": 10.0, "currency": "EUR"}),
    *({"value": True, "currency": "EUR"}, {"value": 1000, "currency": "E"}, {"value": 150, "currency": "CLP"}),
    {"value": 10**18, "currency": "EUR"},
)
MONEY = [
    *books(*((code, told(code), f"PSP1:{booked}") for code, booked in MOVEMENTS.items()), account="Main"),
    *moves_nothing(
        *((f"{code} without success", told(code, success="false")) for code in (*MOVEMENTS, "SECOND_CHARGEBACK"))
    ),
    *moves_nothing(
        *((f"{code} without success", told(code, success="false")) for code in LEFT_TO_A_PERSON),
        *((code, told(code)) for code in (*MOVES_NOTHING, "PAYOUT_EXPIRE")),
        (
            "a cancel or refund that was a cancel",
            told("CANCEL_OR_REFUND", additionalData={"modification.action": "cancel"}),
        ),
    ),
    *books(
        (
            "a cancel or refund that was a refund",
            told("CANCEL_OR_REFUND", additionalData={"modification.action": "refund"}),
            "PSP1:refund 1000 EUR of ORIGINAL1",
        ),
        *(
            (
                f"{value} of {code} in minor units of ISO 4217",
                told("CAPTURE", amount={"value": value, "currency": code}),
                f"PSP1:capture {minor} {code} of ORIGINAL1",
            )
            for code, value, minor in (
                *(("CLP", 100_000, 1_000), ("ISK", 50_000, 500), ("CVE", 500, 50_000), ("IDR", 500, 50_000)),
                *(("JPY", 500, 500), ("BHD", 1_500, 1_500)),
            )
        ),
    ),
    *fails(
        MoneyInvalid, *((f"{code} is for a person", told(code), f"{code}.* manual entry") for code in LEFT_TO_A_PERSON)
    ),
    *fails(
        (MoneyInvalid, Unparseable),
        *(
            (f"a cancel or refund that doesn't say which: {extra}", told("CANCEL_OR_REFUND", additionalData=extra))
            for extra in each({}, None)
        ),
    ),
    *fails(
        MovementUnknown,
        *(
            (f"a code that no table has, success {success}", told("X", success=success), "the type 'X'")
            for success in ("true", "false")
        ),
        (
            "a cancel or refund that was neither",
            told("CANCEL_OR_REFUND", additionalData={"modification.action": "both"}),
            "modification.action 'both'",
        ),
    ),
    *fails(
        (MoneyInvalid, Unparseable),
        *((f"an amount of {amount}", told("CAPTURE", amount=amount)) for amount in NO_AMOUNTS),
        key="PSP1:CAPTURE:true",
    ),
]

# How an account captures: at once, after a delay, or by hand.

AUTHORISED = item(
    pspReference="PAY1",
    originalReference=...,
    eventCode="AUTHORISATION",
    paymentMethod="visa",
    reason="033899:1111:03/2030",
)
CAPTURED = item(pspReference="CAP1", originalReference="PAY1", eventCode="CAPTURE", paymentMethod="visa")
CANCELLED = item(pspReference="CAN1", originalReference="PAY1", eventCode="CANCELLATION", paymentMethod="visa")
TECHNICALLY = {**CANCELLED, "eventCode": "TECHNICAL_CANCEL"}
CANCELLED_AS_ASKED = {**CANCELLED, "eventCode": "CANCEL_OR_REFUND", "additionalData": {"modification.action": "cancel"}}
EXPIRED = item(pspReference="PAY1", originalReference=..., eventCode="EXPIRE")
PART = {"value": 600, "currency": "EUR"}
REST = {"value": 400, "currency": "EUR"}
FAILED = {"success": "false"}
OTHER, THIRD = {"merchantAccountCode": "Other"}, {"merchantAccountCode": "Third"}
KLARNA, IDEAL = {"paymentMethod": "klarna"}, {"paymentMethod": "ideal"}


def without_method(of: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in of.items() if name != "paymentMethod"}


def captures(**accounts: str) -> dict[str, Any]:
    return {"adyen": {"capture": accounts}}


AT_ONCE = captures(Main="immediate")
BY_METHOD = captures(**{"Main": "immediate", "Main/klarna": "manual"})
CAPTURES = [
    *books(
        ("captured at once: the authorisation books", body(AUTHORISED), "PAY1:capture 1000 EUR of PAY1"),
        *(
            (f"captured at once: {of['eventCode']} without success", body({**of, **FAILED}), None)
            for of in (AUTHORISED, CANCELLED, CAPTURED)
        ),
        settings=AT_ONCE,
    ),
    *(
        Webhook(
            f"captured at once: {of['eventCode']} is a contradiction",
            body(of),
            fails=MoneyInvalid,
            says=f"{of['eventCode']}.*'immediate'.*manual entry",
            settings=AT_ONCE,
        )
        for of in (CAPTURED, CANCELLED, EXPIRED, TECHNICALLY, CANCELLED_AS_ASKED)
    ),
    *(
        Webhook(
            f"captured by method: {of['eventCode']} without one",
            body(without_method(of)),
            fails=MoneyInvalid,
            says="paymentMethod",
            settings=BY_METHOD,
        )
        for of in (AUTHORISED, CAPTURED)
    ),
    Webhook("captured by method: an expiry needs none", body(EXPIRED), books=None, settings=BY_METHOD),
]


def sequence(case: str, *items: dict[str, Any], clearing: int, **accounts: str) -> MoneySequence:
    return MoneySequence(case, [body(of) for of in items], {"clearing": clearing}, captures(**accounts))


OF_CAPTURES = [
    *(
        sequence(f"captured {mode}: {what}", AUTHORISED, *items, clearing=clearing, Main=mode)
        for mode in ("delayed", "manual")
        for what, items, clearing in (
            ("authorised", [], 0),
            ("captured", [CAPTURED], 1_000),
            ("captured in part", [{**CAPTURED, "amount": PART}], 600),
            ("the rest cancelled", [{**CAPTURED, "amount": PART}, {**CANCELLED, "amount": REST}], 600),
            ("a capture without success", [{**CAPTURED, **FAILED}], 0),
            ("cancelled", [CANCELLED], 0),
            ("cancelled technically", [TECHNICALLY], 0),
            ("a cancellation without success", [{**CANCELLED, **FAILED}, CAPTURED], 1_000),
            ("cancelled as asked", [CANCELLED_AS_ASKED], 0),
            ("expired", [EXPIRED], 0),
        )
    ),
    *(
        sequence(f"each account in its own way: {what}", *items, clearing=1_000, Main="immediate", Other="delayed")
        for what, items in (
            ("at once", [AUTHORISED]),
            ("delayed", [AUTHORISED | OTHER, CAPTURED | OTHER]),
            ("unnamed", [AUTHORISED | THIRD, CAPTURED | THIRD]),
        )
    ),
    *(
        sequence(f"by payment method: {what}", *items, clearing=clearing, **accounts)
        for what, items, clearing, accounts in (
            ("of the account", [AUTHORISED], 1_000, BY_METHOD["adyen"]["capture"]),
            (
                "captured by hand",
                [AUTHORISED | KLARNA, CAPTURED | KLARNA | {"amount": PART}],
                600,
                BY_METHOD["adyen"]["capture"],
            ),
            ("cancelled", [AUTHORISED | KLARNA, CANCELLED | KLARNA], 0, BY_METHOD["adyen"]["capture"]),
            ("at once", [AUTHORISED | IDEAL], 1_000, {"Main/ideal": "immediate"}),
            ("another method", [AUTHORISED, CAPTURED], 1_000, {"Main/ideal": "immediate"}),
            ("both by hand", [AUTHORISED, CAPTURED], 1_000, {"Main": "delayed", "Main/klarna": "manual"}),
            ("of another account", [AUTHORISED], 1_000, {"Main": "immediate", "Other/klarna": "manual"}),
        )
    ),
    *(
        sequence(f"what was undone since, {code}", CAPTURED, {**CAPTURED, "eventCode": code}, clearing=0)
        for code in ("CAPTURE_FAILED", "SETTLED_REVERSED")
    ),
]

# Disputes.


def disputed(
    code: str, status: str | None = "Lost", amount: int = 10_000, at: str = "2026-01-31T13:00:00+01:00"
) -> bytes:
    extra = {"chargebackReasonCode": "13.1", "chargebackSchemeCode": "visa"}
    return body(
        item(
            pspReference="DISPUTE1",
            originalReference="PAY1",
            eventCode=code,
            eventDate=at,
            amount={"value": amount, "currency": "EUR"},
            paymentMethod="visa",
            reason="Merchandise/Services Not Received",
            additionalData=extra if status is None else {**extra, "disputeStatus": status},
        )
    )


CHARGED_BACK, REVERSED = disputed("CHARGEBACK", "Undefended"), disputed("CHARGEBACK_REVERSED", "Pending")
SECOND = disputed("SECOND_CHARGEBACK")
OPEN = {"clearing": -10_000, "disputes": 10_000}
LOST = {"clearing": -10_000, "dispute_losses": 10_000}


def lost(amount: int) -> dict[str, int]:
    return {"clearing": -amount, "dispute_losses": amount}


OF_DISPUTES = [
    MoneySequence(f"a dispute: {what}", webhooks, holds)
    for what, webhooks, holds in (
        ("opened", [CHARGED_BACK], OPEN),
        ("announced and opened", [disputed("NOTIFICATION_OF_CHARGEBACK", "Undefended"), CHARGED_BACK], OPEN),
        *(
            (
                f"the period to defend it ended, {status}",
                [CHARGED_BACK, disputed("DISPUTE_DEFENSE_PERIOD_ENDED", status)],
                LOST,
            )
            for status in ("Lost", "Accepted", "Undefended", None)
        ),
        *((f"at once {status}", [disputed("CHARGEBACK", status)], LOST) for status in ("Lost", "Accepted")),
        (
            "at once Accepted, and the period ended",
            [disputed("CHARGEBACK", "Accepted"), disputed("DISPUTE_DEFENSE_PERIOD_ENDED")],
            LOST,
        ),
        ("reversed", [CHARGED_BACK, REVERSED], {}),
        (
            "reversed, and told so again in another zone's time",
            [CHARGED_BACK, REVERSED, disputed("CHARGEBACK_REVERSED", "Pending", at="2026-01-31T12:00:00Z")],
            {},
        ),
        ("reversed for good", [CHARGED_BACK, REVERSED, disputed("ISSUER_RESPONSE_TIMEFRAME_EXPIRED", "Won")], {}),
        ("reversed and charged back again", [CHARGED_BACK, REVERSED, SECOND], LOST),
        ("lost before arbitration", [CHARGED_BACK, disputed("PREARBITRATION_LOST")], LOST),
        (
            "won before arbitration",
            [CHARGED_BACK, disputed("PREARBITRATION_WON", "Won"), disputed("CHARGEBACK_REVERSED", "Won")],
            {},
        ),
        ("before arbitration", [CHARGED_BACK, REVERSED, disputed("PREARBITRATION_OPEN", "Undefended")], {}),
        (
            "accepted before arbitration",
            [CHARGED_BACK, REVERSED, disputed("PREARBITRATION_ACCEPTED", "Pending"), SECOND],
            LOST,
        ),
        ("declined before arbitration", [CHARGED_BACK, REVERSED, disputed("PREARBITRATION_DECLINED", "Pending")], {}),
        (
            "withdrawn before arbitration",
            [CHARGED_BACK, REVERSED, disputed("PREARBITRATION_ISSUER_WITHDRAWN", "Won")],
            {},
        ),
        (
            "won by arbitration after a second chargeback",
            [
                CHARGED_BACK,
                REVERSED,
                SECOND,
                disputed("SCHEME_ARBITRATION_WON", "Won"),
                disputed("CHARGEBACK_REVERSED", "Won", at="2026-05-31T13:00:00+02:00"),
            ],
            {"disputes": -10_000, "dispute_losses": 10_000},
        ),
        ("won by arbitration", [CHARGED_BACK, REVERSED, disputed("SCHEME_ARBITRATION_WON", "Won")], {}),
        (
            "lost by arbitration, with its costs",
            [CHARGED_BACK, REVERSED, disputed("SCHEME_ARBITRATION_LOST"), disputed("SECOND_CHARGEBACK", amount=16_000)],
            lost(16_000),
        ),
        (
            "charged back again in part",
            [CHARGED_BACK, REVERSED, disputed("SECOND_CHARGEBACK", amount=4_000)],
            lost(4_000),
        ),
    )
]
DISPUTES = [
    Webhook(
        "a chargeback that is lost at once is two events of the same bytes",
        SECOND,
        key=["DISPUTE1:SECOND_CHARGEBACK:true", "DISPUTE1:SECOND_CHARGEBACK:true:lost"],
        type=["SECOND_CHARGEBACK", "SECOND_CHARGEBACK.lost"],
        entity=["Main:PAY1", "Main:PAY1"],
        books=["DISPUTE1:second_dispute_opened 10000 EUR of PAY1", "DISPUTE1:second_dispute_lost 10000 EUR of PAY1"],
    ),
    Webhook("a chargeback that is undefended is one event", CHARGED_BACK, type=["CHARGEBACK"]),
    Webhook(
        "a loss that a later copy tells of is an event of its own",
        disputed("CHARGEBACK"),
        type=["CHARGEBACK", "CHARGEBACK.lost"],
    ),
    *(
        Webhook(
            f"{code} that is {status} doesn't say who has the money",
            disputed(code, status),
            fails=MovementUnknown,
            says=f"the disputeStatus '{status}'",
        )
        for code in ("DISPUTE_DEFENSE_PERIOD_ENDED", "PREARBITRATION_LOST")
        for status in ("Pending", "Won", "Expired")
    ),
    *moves_nothing(
        *(
            (
                f"{code} without success loses nothing",
                told(code, success="false", additionalData={"disputeStatus": "Lost"}),
            )
            for code in ("CHARGEBACK", "SECOND_CHARGEBACK", "DISPUTE_DEFENSE_PERIOD_ENDED")
        )
    ),
]
WEBHOOKS = [*NAMES, *MONEY, *CAPTURES, *DISPUTES]
BY_PAYPAL = {"paymentMethod": "paypal"}
WEBHOOKS += [
    *books(
        (
            "a payment by PayPal",
            told("CAPTURE", **BY_PAYPAL),
            "PSP1:capture 1000 EUR of ORIGINAL1, 1000 outside:paypal",
        ),
        ("its refund", told("REFUND", **BY_PAYPAL), "PSP1:refund 1000 EUR of ORIGINAL1, 1000 outside:paypal"),
        (
            "its dispute",
            told("CHARGEBACK", **BY_PAYPAL),
            "PSP1:dispute_opened 1000 EUR of ORIGINAL1, 1000 outside:paypal",
        ),
        (
            "nothing by PayPal",
            told("CAPTURE", amount={"value": 0, "currency": "EUR"}, **BY_PAYPAL),
            "PSP1:capture 0 EUR of ORIGINAL1",
        ),
        (
            "a payout to a PayPal account, out of Adyen's balance",
            told("PAYOUT_THIRDPARTY", **BY_PAYPAL),
            "PSP1:payout_paid 1000 EUR",
        ),
    ),
]
GIFT_CARDS = ("givex", "svs", "valuelink", "vvvgiftcard", "genericgiftcard", "vvvcadeaubon", "giftcard")
WEBHOOKS += [
    *books(
        *(
            (
                f"a part that was paid by {card}",
                told("AUTHORISATION", originalReference=..., paymentMethod=card),
                "PSP1:capture 1000 EUR of PSP1, 1000 outside:giftcard",
            )
            for card in GIFT_CARDS
        ),
        settings=AT_ONCE,
    ),
]
BY_GIFT_CARD = {"paymentMethod": "givex", "originalReference": "PAY1"}
SEQUENCES = [
    *OF_CAPTURES,
    sequence(
        "two captures of parts, one of which fails and is made again",
        {**CAPTURED, "amount": PART},
        {**CAPTURED, "pspReference": "CAP2", "amount": REST},
        {**CAPTURED, "pspReference": "CAP2", "amount": REST, "eventCode": "CAPTURE_FAILED"},
        {**CAPTURED, "pspReference": "CAP3", "amount": REST},
        clearing=1_000,
    ),
    sequence(
        "captured at once, refunded, the refund failed, and the payment never came",
        AUTHORISED,
        *({**CAPTURED, "pspReference": "R1", "eventCode": code} for code in ("REFUND", "REFUND_FAILED")),
        {**CAPTURED, "pspReference": "S1", "eventCode": "SETTLED_REVERSED"},
        clearing=0,
        Main="immediate",
    ),
    sequence(
        "an undo that didn't succeed",
        CAPTURED,
        {**CAPTURED, "eventCode": "CAPTURE_FAILED", **FAILED},
        {**CANCELLED, "eventCode": "CANCEL_OR_REFUND", "additionalData": {"modification.action": "refund"}, **FAILED},
        clearing=1_000,
    ),
    MoneySequence(
        "an order of 100, of which a gift card paid 30; 10 of those are given back, and 5 of these come back",
        [
            told("ORDER_OPENED", pspReference="ORDER1", originalReference=..., amount={"value": 0, "currency": "EUR"}),
            told("CAPTURE", pspReference="CAP1", amount={"value": 3_000, "currency": "EUR"}, **BY_GIFT_CARD),
            told("CAPTURE", pspReference="CAP2", amount={"value": 7_000, "currency": "EUR"}, paymentMethod="visa"),
            told(
                "ORDER_CLOSED",
                pspReference="ORDER1",
                originalReference=...,
                amount={"value": 10_000, "currency": "EUR"},
            ),
            *(
                told(code, pspReference=reference, amount={"value": 500, "currency": "EUR"}, **BY_GIFT_CARD)
                for code, reference in (("REFUND", "R1"), ("REFUND", "R2"), ("REFUND_FAILED", "R2"))
            ),
        ],
        {"clearing": 7_000, "outside:giftcard:clearing": 2_500, "refunds": 500},
    ),
    *OF_DISPUTES,
    MoneySequence(
        "a payment by PayPal, and two refunds of which one fails",
        [
            told("CAPTURE", pspReference="CAP1", **BY_PAYPAL),
            *(
                told(code, pspReference=reference, amount={"value": value, "currency": "EUR"}, **BY_PAYPAL)
                for code, reference, value in (
                    ("REFUND", "R1", 300),
                    ("REFUND", "R2", 200),
                    ("REFUND_FAILED", "R1", 300),
                )
            ),
        ],
        {"outside:paypal:clearing": 800, "refunds": 200},
    ),
]

# What is the same.

DETAILED = item(additionalData={"authCode": "1", "modification.action": "cancel"})
APPROVED = item(reason="", operations=["CAPTURE"], paymentMethod="visa", additionalData={"authCode": "1"})
COMPARISONS = [
    Comparison(
        "a redelivery under another date and key",
        body(signed(item(additionalData={"authCode": "1"}))),
        body(signed(item(additionalData={"authCode": "1"}, eventDate="2026-02-01T00:00:00+01:00"), OTHER_KEY)),
        key=True,
        content=True,
    ),
    Comparison(
        "two reversals of one dispute in one second are one that is sent again",
        REVERSED,
        disputed("CHARGEBACK_REVERSED", "Won"),
        key=True,
        content=True,
        fact=True,
    ),
    Comparison(
        "two reversals of one dispute in one second, of two amounts, contradict each other",
        REVERSED,
        disputed("CHARGEBACK_REVERSED", "Pending", amount=9_000),
        key=True,
        content=False,
        fact=False,
    ),
    Comparison(
        "two reversals of one dispute a second apart are two",
        REVERSED,
        disputed("CHARGEBACK_REVERSED", "Pending", at="2026-01-31T13:00:01+01:00"),
        key=False,
        fact=False,
    ),
    *(
        Comparison(f"other content: {changed}", body(DETAILED), body({**DETAILED, **changed}), key=True, content=False)
        for changed in each(
            {"amount": {"value": 1001, "currency": "EUR"}},
            {"amount": {"value": 1000, "currency": "USD"}},
            {"merchantAccountCode": "x"},
            {"originalReference": "x"},
            {"additionalData": {"authCode": "1", "modification.action": "refund"}},
        )
    ),
    *(
        Comparison(
            f"what a copy may tell otherwise: {changed}",
            body(APPROVED),
            body({name: value for name, value in {**APPROVED, **changed}.items() if value is not ...}),
            key=True,
            content=True,
        )
        for changed in each(
            {"operations": ["CANCEL", "CAPTURE"]},
            {"operations": ...},
            {"paymentMethod": "visa_applepay"},
            {"merchantReference": "order-2"},
            {"something_new": 1},
            {"amount": {"currency": "EUR", "value": 1000, "something_new": 1}},
            {"reason": "Approved"},
            {"reason": ...},
            {"additionalData": {"authCode": "2", "disputeStatus": "Lost"}},
            {"additionalData": {}},
            {"additionalData": None},
            {"additionalData": ...},
            {"eventDate": "2026-02-01T00:00:00+01:00"},
        )
    ),
    *(
        row
        for reason in ("Transaction Recaptured", "Transaction Auto-recaptured")
        for row in (
            # CAPTURE, CAPTURE_FAILED, CAPTURE: as a copy of the first the last would leave nothing booked, in silence
            Comparison(
                f"a repeated capture: {reason}",
                told("CAPTURE", reason=""),
                told("CAPTURE", reason=reason),
                key=True,
                content=False,
            ),
            Comparison(
                f"a refund's reason: {reason}", told("REFUND", reason=""), told("REFUND", reason=reason), content=True
            ),
        )
    ),
    Comparison("a capture comes back once", told("CAPTURE_FAILED"), told("SETTLED_REVERSED"), fact=True),
    Comparison("a capture and what undoes it", told("CAPTURE"), told("CAPTURE_FAILED"), fact=False, entity=True),
]

# Which requests prove: each item, by its signature.

SIGNED = Request(body(signed(item())), [])
BAD_SECRETS = ("", "ABC", "XY", "AB CD", "whsec_AB", "AB\n")
ANSWER = (200, b"[accepted]", "text/plain")
GENUINE = signed(item())
ANOTHER_FIELD: tuple[dict[str, Any], ...] = (
    *({"amount": {"value": "1000", "currency": "EUR"}}, {"amount": {"value": 1000.0, "currency": "EUR"}}),
    *({"amount": {"value": True, "currency": "EUR"}}, {"success": True}, {"pspReference": 1}),
    *({"merchantReference": ["order-1"]}, {"eventCode": "CAPTURE:"}),
)
SHIFTED = {**signed(item(merchantReference="order:1")), "merchantAccountCode": "Main:order", "merchantReference": "1"}
"""It has the same signed bytes as what Adyen signed: a colon shifts one field's text into its neighbour."""


def refusal(case: str, of: bytes, reason: str | None, *secrets: str) -> Refusal:
    return Refusal(case, Request(of, []), reason, secrets or (KEY,))


SIGNED_FIELDS = (
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
    "eventCode",
    "success",
)
MISSING = each({"originalReference": ...}, {"merchantReference": ...}, {"amount": ...}, {"amount": {}})
REFUSALS = [
    *(
        row
        for name in SIGNED_FIELDS
        for row in (
            refusal(f"another {name}", body({**GENUINE, name: GENUINE[name] + "x"}), "mismatch"),
            refusal(f"no {name}", body({key: value for key, value in GENUINE.items() if key != name}), "mismatch"),
        )
    ),
    *(
        refusal(f"an amount of {amount}", body({**GENUINE, "amount": amount}), "mismatch")
        for amount in each({"value": 1001, "currency": "EUR"}, {"value": 1000, "currency": "USD"}, {}, None)
    ),
    *(
        row
        for changed in MISSING
        for made in (signed(item(**changed)),)
        for row in (
            refusal(f"a missing field is signed as empty: {changed}", body(made), None),
            refusal(
                f"null is signed as empty: {changed}",
                body({**made, **{name: None for name, value in changed.items() if value is ...}}),
                None,
            ),
        )
    ),
    *(
        refusal(
            f"the merchant's reference {reference!r} is signed unescaped",
            body(signed(item(merchantReference=reference))),
            None,
        )
        for reference in (":", "a:b", "\\", "\\:", "/", "é:ü", "a\nb", '"')
    ),
    refusal("a reference with a colon", body(signed(item(merchantReference="order:1"))), None),
    refusal("a field's text shifted into its neighbour", body(SHIFTED), "malformed"),
    *(
        refusal(f"a signed field of another kind: {one}", body({**GENUINE, **one}), "malformed")
        for one in ANOTHER_FIELD
    ),
    *(
        refusal(f"a second item with {extra!r}", body(GENUINE, {**item(), "additionalData": extra}), reason)
        for extra, reason in each(
            (None, "missing"),
            ({}, "missing"),
            ({"hmacSignature": None}, "missing"),
            ({"hmacSignature": ""}, "missing"),
            ("text", "missing"),
            ({"hmacSignature": 1}, "malformed"),
            ({"hmacSignature": "é"}, "mismatch"),
            ({"hmacSignature": "\x00"}, "mismatch"),
            ({"hmacSignature": "x" * 44}, "mismatch"),
        )
    ),
    *(
        refusal(f"nothing to prove: {of!r}", of, "malformed")
        for of in (
            *(b"", b"{", b"[]", b"{}"),
            b'{"live":"true","notificationItems":[]}',
            b'{"live":"true","notificationItems":{}}',
            b'{"live":"true","notificationItems":[{}]}',
            b'{"live":"true","notificationItems":[{"NotificationRequestItem":[]}]}',
            b'{"live":"true","notificationItems":["text"]}',
        )
    ),
    refusal(
        "a field that comes twice",
        body(GENUINE).replace(b'"pspReference": "PSP1"', b'"pspReference": "PSP1", "pspReference": "PSP9"'),
        "malformed",
    ),
    refusal("more items than are read", body(*[GENUINE] * 257), "malformed"),
    refusal("a key in lower case", body(GENUINE), None, KEY.lower()),
]
