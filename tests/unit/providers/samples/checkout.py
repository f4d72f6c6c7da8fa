"""Checkout.com: what its events are called and book, and which signatures prove."""

from __future__ import annotations

import itertools
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import checkout as samples_of
from providers import ModeMismatch
from tests.unit.providers.samples.table import (
    Comparison,
    MoneySequence,
    Webhook,
    books,
    each,
    fails,
    moves_nothing,
    unreadable,
)
from tests.unit.providers.shapes import NOW, changed

ABOUT: dict[str, Any] = {"payment": "pay_1", "amount_minor": 1_250, "currency": "EUR", "created": NOW}
POINTED = {"checkout": {"account": "/data/processing_channel_id"}}
LEFT_TO_A_PERSON = ("dispute_arbitration_won", "payment_paid", "payment_returned")


def payment(event_type: str = "payment_captured", **more: Any) -> bytes:
    return samples_of.payment_event(event_type, **{"event_id": "evt_1", "action": "act_1", **ABOUT, **more})


def dispute(event_type: str = "dispute_evidence_required", **more: Any) -> bytes:
    return samples_of.dispute_event(event_type, **{"event_id": "evt_2", "dispute": "dsp_1", **ABOUT, **more})


def of_data(*path: str, to: Any, body: bytes = b"") -> bytes:
    return changed(body or payment(), "data", *path, to=to)


CAPTURE, REFUND = "act_1:capture 1250 EUR of pay_1", "act_1:refund 1250 EUR of pay_1"
OPENED = "dsp_1:dispute_opened 1250 EUR of pay_1"
WON, LOST = "dsp_1:dispute_won 1250 EUR of pay_1", "dsp_1:dispute_lost 1250 EUR of pay_1"
LOSSES = ("dispute_lost", "dispute_expired", "dispute_accepted", "dispute_arbitration_lost")
OF_CHANNEL = of_data("processing_channel_id", to="pc_1")
WEBHOOKS = [
    Webhook("a payment is an entity of no account", payment(), entity=":pay_1", account=""),
    Webhook("a dispute is of the payment's entity and account", dispute(), entity=":pay_1", account=""),
    Webhook(
        "an account where the settings say",
        OF_CHANNEL,
        account="pc_1",
        entity="pc_1:pay_1",
        books=CAPTURE,
        settings=POINTED,
    ),
    Webhook("an account that is no text", of_data("processing_channel_id", to=7), account="", settings=POINTED),
    Webhook("order is kept for the account", OF_CHANNEL, entity="pc_1", settings={**POINTED, "entity": "merchant"}),
    Webhook(
        "an older event has its time under another name",
        changed(changed(payment(), "created_on", to=...), "timestamp", to="2023-05-24T09:12:32.357+00:00"),
        at="2023-05-24T09:12:32.357000+00:00",
    ),
    *(
        Webhook(
            f"from {link} at the {endpoint} endpoint",
            changed(payment(), "_links", "self", "href", to=link),
            endpoint=endpoint,
            **(
                {"mode": endpoint}
                if reported in (None, endpoint)
                else {"refused": ModeMismatch, "says": f"takes {endpoint} traffic, the request says {reported}"}
            ),
        )
        for link, reported in (
            ("https://api.checkout.com/workflows/events/evt_1", "live"),
            ("https://prefix.api.checkout.com/workflows/events/evt_1", "live"),
            ("https://api.sandbox.checkout.com/workflows/events/evt_1", "test"),
            ("https://prefix.api.sandbox.checkout.com/workflows/events/evt_1", "test"),
            ("https://api.checkout.com.attacker.example/", None),
            ("https://attacker.example/api.checkout.com/", None),
            ("http://api.checkout.com/", None),
            (None, None),
            (7, None),
        )
        for endpoint in ("live", "test")
    ),
    *unreadable(b"", b"[]", b"{}", b'{"id":1,"type":"x"}', b'{"id":"e"}', b"\xff"),
    *books(
        ("a captured payment", payment(), CAPTURE),
        ("a second capture", payment(action="act_2"), "act_2:capture 1250 EUR of pay_1"),
        ("a refunded payment", payment("payment_refunded"), REFUND),
        ("a second refund", payment("payment_refunded", action="act_2"), "act_2:refund 1250 EUR of pay_1"),
        ("a dispute", dispute(), OPENED),
        *((kind, dispute(kind), WON) for kind in ("dispute_won", "dispute_canceled", "dispute_resolved")),
        *((kind, dispute(kind), LOST) for kind in LOSSES),
        (
            "a dispute that is resolved by an earlier refund",
            of_data("resolved_reason", to="already_refunded", body=dispute("dispute_resolved")),
            WON,
        ),
        *(
            (
                f"{amount} of {currency} in minor units of ISO 4217",
                payment(amount_minor=amount, currency=currency),
                f"act_1:capture {minor} {currency} of pay_1",
            )
            for currency, amount, minor in (
                ("JPY", 100, 100),
                ("BHD", 100_000, 100_000),
                ("KWD", 1_310, 1_310),
                ("CLP", 10_000, 100),
                ("CLF", 10_000, 1_000_000),
                ("UYI", 10_000, 100),
                ("UYW", 10_000, 1_000_000),
                ("ISK", 500, 500),
            )
        ),
    ),
    *moves_nothing(
        *(
            (kind, payment(kind))
            for kind in ("payment_approved", "payment_declined", "payment_voided", "payment_refund_declined")
        ),
        ("payment_capture_declined", payment("payment_capture_declined")),
        *(
            (kind, dispute(kind))
            for kind in ("dispute_received", "dispute_evidence_submitted", "dispute_arbitration_sent_to_scheme")
        ),
    ),
    *(
        Webhook(
            f"{kind} is told with the debit before it",
            dispute(kind),
            type=[f"{kind}.withheld", kind],
            key=[f"evt_2:{kind}.withheld", f"evt_2:{kind}"],
            entity=[":pay_1", ":pay_1"],
            books=[OPENED, LOST],
        )
        for kind in LOSSES
    ),
    *fails(
        MoneyInvalid,
        *(
            (
                f"a dispute resolved for the reason {reason!r}",
                of_data("resolved_reason", to=reason, body=dispute("dispute_resolved")),
                "manual entry",
            )
            for reason in ("rapid_dispute_resolution", "negative_amount")
        ),
        *((f"{kind} is for a person", payment(kind), f"{kind} .* manual entry") for kind in LEFT_TO_A_PERSON),
        *(
            (f"an amount of {amount!r}", of_data("amount", to=amount))
            for amount in each(12.5, 1250.0, "1250", True, None, [1250], {"value": 1250}, 10**16)
        ),
        ("no currency", of_data("currency", to=None)),
        ("no such currency", of_data("currency", to="EURO")),
        ("centavos of a peso", payment(amount_minor=10_050, currency="CLP"), "whole number"),
    ),
    *fails(
        MovementUnknown,
        *(
            (
                f"a dispute resolved for the unknown reason {reason!r}",
                of_data("resolved_reason", to=reason, body=dispute("dispute_resolved")),
                "the resolved_reason",
            )
            for reason in each("something_new", 7)
        ),
        ("a type that no table has", payment("made_up_funds_moved"), "the type 'made_up_funds_moved'"),
    ),
    *fails(Unparseable, ("no action", of_data("action_id", to=...)), ("no data", changed(payment(), "data", to=None))),
]
COMPARISONS = [
    Comparison("what became of earlier deliveries", payment(), payment(delivery=2), key=True, content=True),
    *(
        Comparison(
            f"two parts of one payment, {kind}",
            payment(kind, action="act_1"),
            payment(kind, action="act_2"),
            fact=False,
            entity=True,
        )
        for kind in ("payment_captured", "payment_refunded")
    ),
]
DEBIT = dispute()
LOSS = {"clearing": -1_250, "dispute_losses": 1_250}
ALREADY_REFUNDED = of_data("resolved_reason", to="already_refunded", body=dispute("dispute_resolved"))
SEQUENCES = [
    MoneySequence(
        "two captures of parts, a refund that was pending, and one that was declined",
        [
            payment(action="act_1", amount_minor=500),
            payment(action="act_2", amount_minor=750),
            payment("payment_refund_pending", action="act_3", amount_minor=250),
            payment("payment_refunded", action="act_3", amount_minor=250),
            payment("payment_refund_declined", action="act_4", amount_minor=250),
        ],
        {"clearing": 1_000, "refunds": 250},
    ),
    MoneySequence(
        "two disputes of parts of one payment, one won and one accepted at once",
        [
            payment(),
            dispute(amount_minor=500),
            dispute("dispute_won", amount_minor=500),
            dispute("dispute_accepted", dispute="dsp_2", amount_minor=300),
        ],
        {"clearing": 950, "dispute_losses": 300},
    ),
    *(
        MoneySequence(
            f"a dispute of a payment that was refunded before, {told}",
            [payment(), payment("payment_refunded", action="act_2"), *debits, ALREADY_REFUNDED],
            {"refunds": 1_250},
        )
        for told, debits in (("its debit untold", []), ("its debit told", [DEBIT]))
    ),
    *(
        MoneySequence(f"{first} and {second}, {told}", [dispute(first), dispute(second), *debits], LOSS)
        for first, second in itertools.combinations(LOSSES, 2)
        for told, debits in (("the debit untold", []), ("the debit told", [DEBIT]))
    ),
    *(
        MoneySequence(f"{end}, {told}", [dispute("dispute_received"), dispute(end), *debits], {})
        for end in ("dispute_won", "dispute_canceled", "dispute_resolved")
        for told, debits in (("the debit untold", []), ("the debit told", [DEBIT]))
    ),
]
