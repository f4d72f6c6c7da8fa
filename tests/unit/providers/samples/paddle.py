"""Paddle: what its events are called and book, and which signatures prove."""

from __future__ import annotations

import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import paddle as samples_of
from load.samples import sign
from providers import ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.table import (
    Comparison,
    MoneySequence,
    Refusal,
    Webhook,
    books,
    each,
    fails,
    moves_nothing,
    shown,
    unreadable,
)
from tests.unit.providers.shapes import NOW, NOW_S, changed

MONEY: dict[str, Any] = {"amount_minor": 1_250, "currency": "EUR", "occurred_at": NOW}


def transaction(event_type: str = "transaction.completed", **more: Any) -> bytes:
    about = {"event_id": "evt_1", "transaction": "txn_1", "delivery": 1, **MONEY, **more}
    return samples_of.transaction_event(event_type, **about)


def adjustment(event_type: str = "adjustment.updated", **more: Any) -> bytes:
    about = {"event_id": "evt_2", "transaction": "txn_1", "adjustment": "adj_1", **MONEY, "amount_minor": 400, **more}
    return samples_of.adjustment_event(event_type, **about)


def payout(event_type: str = "payout.paid") -> bytes:
    return samples_of.payout_event(event_type, event_id="evt_3", payout="pay_1", **{**MONEY, "amount_minor": 9_000})


def subscription(event_type: str, **more: Any) -> bytes:
    data = {"id": "sub_1", "status": "active", "customer_id": "ctm_1", "currency_code": "EUR", "items": [], **more}
    event = {"event_id": "evt_4", "event_type": event_type, "occurred_at": "2026-01-31T12:00:00.5Z", "data": data}
    return json.dumps({**event, "notification_id": "ntf_41"}).encode()


def of_details(*path: str, to: Any, body: bytes = b"") -> bytes:
    return changed(body or transaction(), "data", "details", *path, to=to)


def of_a_sale(**payout_totals: str) -> bytes:
    """120.00 with 20.00 of tax, of which Paddle keeps 6.50."""
    reported = {"total": "12000", "grand_total": "12000", "tax": "2000", "fee": "650", "earnings": "9350"}
    totals = {**reported, "subtotal": "10000", "currency_code": "EUR"}
    body = of_details("totals", to=totals)
    return of_details("payout_totals", to={**totals, **payout_totals} if payout_totals else None, body=body)


REFUNDED_TOTALS = {"total": "12000", "tax": "2000", "fee": "650", "earnings": "9350", "currency_code": "EUR"}
WITHOUT_PAYOUT_TOTALS = of_details("payout_totals", to=None)
CAPTURE, REFUND = "txn_1:capture 1084 EUR of txn_1", "adj_1:refund 367 EUR of txn_1"
NO_AMOUNTS = each(
    *(1250, 12.5, True, None, ["1250"]),
    *("", "12.50", "1250.0", "1e3", "+1250", " 1250", "1250\n", "1_250", "١٢٥٠", "nan", "9" * 17, "9" * 5_000),
)
WEBHOOKS = [
    Webhook("a transaction is an entity", transaction(), entity=":txn_1"),
    Webhook("an adjustment is of its transaction's entity", adjustment(), entity=":txn_1"),
    Webhook("order is kept for the merchant", transaction(), entity="", settings={"entity": "merchant"}),
    Webhook("order of payouts is kept for the merchant", payout(), entity="", settings={"entity": "merchant"}),
    Webhook(
        "a subscription's first event, which names its transaction, belongs to the subscription",
        subscription("subscription.created", transaction_id="txn_1"),
        entity=":sub_1",
        key="evt_4:subscription.created",
    ),
    Webhook("a subscription's later event", subscription("subscription.activated"), entity=":sub_1"),
    Webhook(
        "a payment method is an entity of its own",
        subscription("payment_method.saved", transaction_id="txn_1", id="paymtd_1"),
        entity=":paymtd_1",
    ),
    *unreadable(b"", b"[]", b"{}", b'{"event_id":1,"event_type":"x"}', b'{"event_id":"e"}', b"\xff"),
    *books(
        ("transaction.completed", transaction(), CAPTURE),
        ("adjustment.created", adjustment("adjustment.created"), REFUND),
        ("adjustment.updated", adjustment(), REFUND),
        (
            "a chargeback",
            adjustment("adjustment.created", action="chargeback"),
            "adj_1:dispute_opened 367 EUR of txn_1",
        ),
        (
            "a chargeback that is reversed",
            adjustment("adjustment.created", action="chargeback_reverse", adjustment="adj_2"),
            "adj_2:dispute_won 367 EUR of txn_1",
        ),
        ("a credit", adjustment(action="credit"), REFUND),
        ("a credit that is reversed", adjustment(action="credit_reverse"), "adj_1:refund_failed 367 EUR of txn_1"),
        *(
            (
                f"a {action} whose earnings are below zero",
                changed(adjustment(action=action), "data", "payout_totals", "earnings", to="-367"),
                f"adj_1:{movement} 367 EUR of txn_1",
            )
            for action, movement in (
                ("refund", "refund_failed"),
                ("credit", "refund_failed"),
                ("credit_reverse", "refund"),
                ("chargeback", "dispute_won"),
                ("chargeback_reverse", "dispute_opened"),
            )
        ),
        (
            "a prorated downgrade, whose earnings are below zero",
            of_details("payout_totals", "earnings", to="-1084"),
            "txn_1:capture_failed 1084 EUR of txn_1",
        ),
        ("payout.paid", payout(), "pay_1:payout_paid 9000 EUR"),
        ("a sale: neither Paddle's fee nor the tax is owed", of_a_sale(), "txn_1:capture 9350 EUR of txn_1"),
        (
            "a sale that is owed in the currency of the payouts",
            of_a_sale(earnings="10098", currency_code="USD", exchange_rate="1.08"),
            "txn_1:capture 10098 USD of txn_1",
        ),
        (
            "a refund takes what was earned and not the tax",
            changed(adjustment(), "data", "payout_totals", to={**REFUNDED_TOTALS, "chargeback_fee": None}),
            "adj_1:refund 9350 EUR of txn_1",
        ),
        *(
            (f"minor units of {code}", transaction(currency=code), f"txn_1:capture 1084 {code} of txn_1")
            for code in ("JPY", "KRW", "USD", "BHD")
        ),
        (
            "the largest amount is read to the last digit",
            of_details("payout_totals", "earnings", to="999999999999999"),
            "txn_1:capture 999999999999999 EUR of txn_1",
        ),
    ),
    *moves_nothing(
        *((kind, transaction(kind)) for kind in ("transaction.paid", "transaction.updated")),
        *(
            (f"an adjustment that is {status}", adjustment(status=status))
            for status in ("pending_approval", "rejected")
        ),
        ("a chargeback that is reversed later", adjustment(action="chargeback", status="reversed")),
        (
            "a chargeback's warning that costs nothing",
            changed(adjustment(action="chargeback_warning"), "data", "payout_totals", to=None),
        ),
        ("payout.created", payout("payout.created")),
    ),
    *fails(
        MovementUnknown,
        ("an unknown action", adjustment(action="something_new"), "the action 'something_new'"),
        *(
            (f"an adjustment that is {status}", adjustment(status=status), f"the status '{status}'")
            for status in ("something_new", "reversed")
        ),
        ("a type that no table has", transaction("made_up.funds_moved"), "the type 'made_up.funds_moved'"),
    ),
    *fails(
        MoneyInvalid,
        *(
            (f"a {action}", adjustment(action=action), "by hand")
            for action in ("chargeback_warning", "chargeback_warning_reverse")
        ),
        ("no currency", of_details("payout_totals", "currency_code", to=None), "currency"),
        ("no such currency", changed(payout(), "data", "currency_code", to="EURO"), "three letters"),
        *(
            (f"{what} of {shown(amount)}", changed(body, "data", *path, to=amount))
            for what, body, path in (
                ("a capture", transaction(), ("details", "payout_totals", "earnings")),
                ("a capture by its totals", WITHOUT_PAYOUT_TOTALS, ("details", "totals", "earnings")),
                ("a refund", adjustment(), ("payout_totals", "earnings")),
                ("a payout", payout(), ("amount",)),
            )
            for amount in NO_AMOUNTS
        ),
    ),
    *fails(
        Unparseable,
        *(
            (f"a movement without its {'.'.join(path)}", changed(of_details("payout_totals", to=...), *path, to=None))
            for path in (("data",), ("data", "details"), ("data", "details", "totals"), ("data", "id"))
        ),
    ),
]


def charged_back(action: str = "chargeback", **more: Any) -> bytes:
    """An adjustment that says what the chargeback costs."""
    fee = {"amount": "1680", "currency_code": "USD", "original": {"amount": "1500", "currency_code": "EUR"}}
    return changed(adjustment(action=action, **more), "data", "payout_totals", "chargeback_fee", to=fee)


WEBHOOKS += [
    Webhook(f"fees of {case}", body, fees=fees)
    for case, body, fees in (
        ("a chargeback", charged_back(), ["adj_1:chargeback_fee 1680 USD of txn_1"]),
        ("a chargeback without them", adjustment(action="chargeback"), []),
        ("a chargeback that isn't approved", changed(charged_back(), "data", "status", to="pending_approval"), []),
        ("a warning, which is for a person", charged_back("chargeback_warning"), []),
        ("a refund", charged_back("refund"), []),
        ("a transaction", transaction(), []),
    )
]


def with_retained(
    retained: object, earnings: str = "424", action: str = "refund", totals: str = "payout_totals"
) -> bytes:
    """An adjustment of 4.99, of whose fee of 0.75 Paddle keeps some."""
    told = {"total": "499", "tax": "0", "fee": "75", "earnings": earnings, "currency_code": "USD"}
    body = changed(adjustment(action=action), "data", "payout_totals", to=None)
    return changed(body, "data", totals, to={**told, "retained_fee": retained})


WEBHOOKS += [
    Webhook(f"fees of {case}", body, fees=fees)
    for case, body, fees in (
        *(
            (
                f"a {action} whose fee is kept",
                with_retained("75", action=action),
                ["adj_1:retained_fee 75 USD of txn_1"],
            )
            for action in ("refund", "credit", "chargeback")
        ),
        ("a refund by its totals", with_retained("75", totals="totals"), ["adj_1:retained_fee 75 USD of txn_1"]),
        ("a refund that says so in its earnings", with_retained("75", earnings="499"), []),
        *((f"a refund of which {kept!r} is kept", with_retained(kept), []) for kept in each("0", None)),
        (
            "a chargeback that costs something, and whose fee is kept",
            changed(
                with_retained("75", action="chargeback"),
                *("data", "payout_totals", "chargeback_fee"),
                to={"amount": "1500", "currency_code": "USD"},
            ),
            ["adj_1:chargeback_fee 1500 USD of txn_1", "adj_1:retained_fee 75 USD of txn_1"],
        ),
    )
]
UNREADABLE_FEES = [
    with_retained("75", earnings="450"),
    with_retained("75", action="chargeback_reverse"),
    with_retained("75", action="credit_reverse"),
    with_retained(75),
]

COMPARISONS = [
    Comparison("a delivery has an id of its own", transaction(), transaction(delivery=2), key=True, content=True)
]


def earning(earnings: str, body: bytes, *path: str) -> bytes:
    return changed(body, "data", *path, "payout_totals", "earnings", to=earnings)


def reversed_later(action: str) -> bytes:
    """The adjustment of its own that takes back another one."""
    return adjustment("adjustment.created", action=f"{action}_reverse", adjustment="adj_2", event_id="evt_9")


DETAILS_CURRENCY = ("data", "details", "payout_totals", "currency_code")
SALE = earning("9350", transaction(), "details")
CREDIT = earning("5000", adjustment("adjustment.created", action="credit"))
REVERSE, CREDIT_BACK = reversed_later("chargeback"), reversed_later("credit")
WEBHOOKS += [
    Webhook(f"{case} names its pair", body, pair=pair)
    for case, body, pair in (
        ("a chargeback", adjustment(action="chargeback"), "txn_1:chargeback"),
        ("a chargeback's reverse", REVERSE, "txn_1:chargeback"),
        ("a credit", CREDIT, "txn_1:credit"),
        ("a credit's reverse", CREDIT_BACK, "txn_1:credit"),
        ("a refund, which nothing undoes", adjustment(), None),
        ("a chargeback whose earnings are below zero", earning("-367", adjustment(action="chargeback")), None),
    )
]
SEQUENCES = [
    MoneySequence(
        "a sale that is given back, whose fee Paddle keeps",
        [changed(earning("424", transaction(), "details"), *DETAILS_CURRENCY, to="USD"), with_retained("75")],
        {"clearing": -75, "refunds": 424, "fees": 75},
    ),
    MoneySequence("a sale and a credit of a part of it", [CREDIT, SALE], {"clearing": 4_350, "refunds": 5_000}),
    MoneySequence(
        "the credit is reversed",
        [CREDIT, SALE, earning("5000", CREDIT_BACK)],
        {"clearing": 9_350},
    ),
    MoneySequence(
        "a chargeback that is reversed",
        [SALE, earning("9350", adjustment(action="chargeback")), earning("9350", REVERSE)],
        {"clearing": 9_350},
    ),
    *(
        MoneySequence(f"a {action} of what was never told", [SALE, earning("9350", body)], {"clearing": 9_350})
        for action, body in (("chargeback_reverse", REVERSE), ("credit_reverse", CREDIT_BACK))
    ),
    MoneySequence(
        "a credit of which a part is reversed: which one, Paddle doesn't say",
        [CREDIT, SALE, earning("2000", CREDIT_BACK)],
        {"clearing": 4_350, "refunds": 5_000},
    ),
    MoneySequence(
        "two credits of one amount, one of which is reversed",
        [CREDIT, changed(CREDIT, "data", "id", to="adj_9"), SALE, earning("5000", CREDIT_BACK)],
        {"clearing": 4_350, "refunds": 5_000},
    ),
    MoneySequence(
        "a refund whose tax is adjusted, which gives earnings back",
        [SALE, earning("5000", adjustment()), earning("-200", adjustment(adjustment="adj_2"))],
        {"clearing": 4_550, "refunds": 4_800},
    ),
    MoneySequence(
        "a sale and a prorated downgrade, a transaction of its own",
        [SALE, earning("-1000", transaction(transaction="txn_2"), "details")],
        {"clearing": 8_350},
    ),
]

# Which signatures prove.

SECRET, OLD_SECRET = "pdl_ntfset_new_of_the_tests", "pdl_ntfset_old_of_the_tests"


def signed(secret: str = SECRET) -> bytes:
    adapter = build_adapters(ProvidersSettings())["paddle"]
    return sign(adapter, transaction(), secret, NOW).headers["Paddle-Signature"].encode()


GOOD = signed()
TS, H1 = GOOD.split(b";")
OTHER = b"h1=" + b"0" * 64
OLD = signed(OLD_SECRET).split(b";")[1]
REFUSALS = [
    Refusal(
        f"with headers {shown(headers)}",
        Request(transaction(), [(b"paddle-signature", header) for header in headers]),
        reason,
        (SECRET, OLD_SECRET),
    )
    for reason, several in (
        ("missing", [[], [TS], [TS + b";h2=" + H1[3:]]]),
        ("several", [[GOOD, GOOD]]),
        (
            "malformed",
            [
                *([b""], [b"="], [b";;;"], [H1], [b"t=%d;" % NOW_S + H1], [TS + b";" + GOOD], [TS + b";ts=1;" + H1]),
                *([b"ts=;" + H1], [b"ts= %d;" % NOW_S + H1], [b"ts=1_769860800;" + H1]),
                *([b"ts=+769860800;" + H1], [b"ts=%d.0;" % NOW_S + H1], ["ts=١٧٦٩٨٦٠٨٠٠;".encode() + H1]),
                *([b"ts=nan;" + H1], [b"ts=%d000;" % NOW_S + H1], [TS + b"," + H1]),
                [TS + b";" + b";".join([OTHER] * 17)],
            ],
        ),
        (
            "mismatch",
            [
                *([TS + b";h1="], [TS + b";" + H1 + b"=x"], [TS + b";h1=" + H1[3:].upper()]),
                *([TS + b";h1=\xff"], [TS + b";h1=" + "é".encode()]),
            ],
        ),
        (
            None,
            [
                *([GOOD], [TS + b";" + OTHER + b";" + H1], [TS + b";" + H1 + b";" + OTHER], [H1 + b";" + TS]),
                *([GOOD + b";h2=new"], [TS + b";" + OLD + b";" + H1]),
                *([TS + b"; " + H1], [b"ts=%d ;" % NOW_S + H1], [GOOD + b" "]),
            ],
        ),
    )
    for headers in several
]
