"""Razorpay: what its events are called and book. They are named by what is signed, whatever the unsigned id says."""

from __future__ import annotations

import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import razorpay as samples_of
from providers import Request
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
from tests.unit.providers.shapes import NOW, NOW_S, changed

ABOUT: dict[str, Any] = {"account": "acc_1", "created": NOW}
OF_PAYMENT: dict[str, Any] = {"payment": "pay_1", "currency": "INR", **ABOUT}
OTHER_TYPES = (
    *("payout.downtime.started", "payout.downtime.resolved", "account.funds_hold", "account.funds_unhold"),
    *("account.app.authorization_revoked", "token.cancelled", "token.service_provider.activated"),
    *("notification.delivered", "product.payment_links.needs_clarification", "transfers.failed"),
)
LEFT_TO_A_PERSON = ("settlement.vpa_completed", "transfer.processed")


def payment(event_type: str = "payment.captured", amount: int = 1_250, currency: str = "INR") -> bytes:
    return samples_of.payment_event(event_type, amount_minor=amount, **{**OF_PAYMENT, "currency": currency})


def refund(event_type: str = "refund.created") -> bytes:
    return samples_of.refund_event(event_type, refund="rfnd_1", amount_minor=400, paid_minor=1_250, **OF_PAYMENT)


def dispute(event_type: str = "created", phase: str = "chargeback") -> bytes:
    kind = f"payment.dispute.{event_type}"
    return samples_of.dispute_event(kind, dispute="disp_1", amount_minor=1_250, phase=phase, **OF_PAYMENT)


def payout(event_type: str) -> bytes:
    return samples_of.payout_event(event_type, payout="pout_1", amount_minor=9_000, currency="INR", **ABOUT)


def transfer(event_type: str) -> bytes:
    entity = {"id": "trf_1", "entity": "transfer", "source": "pay_1", "recipient": "acc_2", "amount": 700}
    payload = {"transfer": {"entity": {**entity, "currency": "INR", "amount_reversed": 0, "on_hold": False}}}
    event = {"entity": "event", "account_id": "acc_1", "event": event_type, "contains": ["transfer"]}
    return json.dumps({**event, "payload": payload, "created_at": NOW_S}).encode()


def validation(status: str = "completed", minor: int | None = 127) -> bytes:
    entity = {"id": "fav_1", "entity": "fund_account.validation", "status": status, "amount": minor, "currency": "INR"}
    event = {"event": f"fund_account.validation.{status}", "payload": {"fund_account.validation": {"entity": entity}}}
    return json.dumps(event | {"account_id": "acc_1", "created_at": NOW_S}).encode()


def transaction(source: str | None) -> bytes:
    entity = {"id": "txn_1", "amount": 100, "credit": 100, "currency": "INR", "source": {"entity": source}}
    return json.dumps({"event": "transaction.created", "payload": {"transaction": {"entity": entity}}}).encode()


def of(kind: str, *path: str, to: Any, body: bytes) -> bytes:
    return changed(body, "payload", kind, "entity", *path, to=to)


def of_payment(*path: str, to: Any) -> bytes:
    return of("payment", *path, to=to, body=payment())


def of_dispute(*path: str, to: Any, event_type: str = "created") -> bytes:
    return of("dispute", *path, to=to, body=dispute(event_type))


def sent(body: bytes, *ids: bytes) -> Request:
    """The body with these in its unsigned id header."""
    return Request(body, [(b"x-razorpay-event-id", reported) for reported in ids])


def with_ids(*ids: str) -> bytes:
    payload = {f"kind{number}": {"entity": {"id": one}} for number, one in enumerate(ids)}
    return json.dumps({"event": "x", "created_at": 1, "payload": payload}).encode()


def of_payout(event_type: str, fees: object) -> bytes:
    return of("payout", "fees", to=fees, body=payout(event_type))


SETTLEMENT = samples_of.settlement_event(settlement="setl_1", amount_minor=9_000, **ABOUT)
TOKEN = {"entity": {"id": "token_1", "entity": "token", "method": "card", "recurring": True}}
OF_TOKEN = changed(changed(payment(), "event", to="token.confirmed"), "payload", "token", to=TOKEN)
NO_IDS: tuple[tuple[bytes, ...], ...] = ((), (b"a", b"b"), (b"\xff",), (b"a b",), (b"a\r\nX: 1",), (b"x" * 200,))
CAPTURE, REFUND = "pay_1:capture 1250 INR of pay_1", "rfnd_1:refund 400 INR of pay_1"
OPENED = "disp_1:dispute_opened 1250 INR of pay_1"
LOST = "disp_1:dispute_lost 1250 INR of pay_1"
PAID_OUT, CAME_BACK = "pout_1:payout_paid 9000 INR", "pout_1:payout_failed 9000 INR"
WEBHOOKS = [
    Webhook("an id header is the event's id", sent(payment(), b"Gb5kMCdcAZ8jJ8"), id="Gb5kMCdcAZ8jJ8"),
    *(
        Webhook(f"id headers of {ids}: the payment's is the event's", sent(payment(), *ids), id="pay_1")
        for ids in NO_IDS
    ),
    Webhook("order is kept for the order that all tries to pay share", payment(), entity="acc_1:order_1"),
    Webhook("another try to pay the order", of_payment("id", to="pay_Other"), entity="acc_1:order_1"),
    Webhook("a payment of no order", of_payment("order_id", to=None), entity="acc_1:pay_1"),
    Webhook("order is kept for the merchant", payment(), entity="acc_1", settings={"entity": "merchant"}),
    Webhook("a token is an entity of its own", OF_TOKEN, entity="acc_1:token_1"),
    Webhook("a token without its payment", changed(OF_TOKEN, "payload", "payment", to=...), entity="acc_1:token_1"),
    *unreadable(b"", b"[]", b"{}", b'{"event":7}', b'{"event":""}', b"\xff", b'{"event":"a","event":"b"}'),
    *books(
        ("payment.captured", payment(), CAPTURE),
        ("refund.created", refund(), REFUND),
        ("refund.processed", refund("refund.processed"), REFUND),
        ("refund.failed", refund("refund.failed"), "rfnd_1:refund_failed 400 INR of pay_1"),
        ("a dispute", dispute(), OPENED),
        ("a won dispute", dispute("won"), "disp_1:dispute_won 1250 INR of pay_1"),
        ("a lost dispute", dispute("lost"), LOST),
        (
            "a dispute's next phase",
            dispute("created", "pre_arbitration"),
            "disp_1:pre_arbitration_dispute_opened 1250 INR of pay_1",
        ),
        ("a settlement", SETTLEMENT, "setl_1:payout_paid 9000 INR"),
        *((kind, payout(kind), PAID_OUT) for kind in ("payout.initiated", "payout.processed")),
        *((kind, payout(kind), CAME_BACK) for kind in ("payout.reversed", "payout.failed")),
        *(  # three decimals for KWD, BHD and OMR (99.99 KWD is 99990), none for JPY: as ISO 4217 has them
            (f"minor units of {code}", payment(amount=amount, currency=code), f"pay_1:capture {amount} {code} of pay_1")
            for code, amount in (("KWD", 99_990), ("BHD", 10_500), ("OMR", 1_230), ("JPY", 295))
        ),
    ),
    *books(
        ("a settlement in the currency that is set", SETTLEMENT, "setl_1:payout_paid 9000 MYR"),
        (
            "a settlement that names its currency",
            of("settlement", "currency", to="SGD", body=SETTLEMENT),
            "setl_1:payout_paid 9000 SGD",
        ),
        settings={"razorpay": {"settlement_currency": "MYR"}},
    ),
    *(
        Webhook(f"{case} names its pair", body, pair=pair)
        for case, body, pair in (
            ("a refund", refund(), "rfnd_1:refund"),
            ("a refund that failed", refund("refund.failed"), "rfnd_1:refund"),
            ("a dispute", dispute(), "disp_1:dispute_opened"),
            ("a won dispute", dispute("won"), "disp_1:dispute_opened"),
            ("an arbitration", dispute("created", "arbitration"), "disp_1:arbitration_dispute_opened"),
            ("a won arbitration", dispute("won", "arbitration"), "disp_1:arbitration_dispute_opened"),
            ("payout.initiated", payout("payout.initiated"), "pout_1:payout_paid"),
            ("payout.processed", payout("payout.processed"), "pout_1:payout_paid"),
            ("payout.reversed", payout("payout.reversed"), "pout_1:payout_paid"),
            ("payout.failed", payout("payout.failed"), "pout_1:payout_paid"),
            ("a payment", payment(), None),
            ("a lost dispute", dispute("lost"), "disp_1:dispute_opened"),
            ("a settlement", SETTLEMENT, None),
        )
    ),
    Webhook(
        "a loss is told with the debit before it",
        dispute("lost", "arbitration"),
        type=["payment.dispute.lost.withheld", "payment.dispute.lost"],
        books=[
            "disp_1:arbitration_dispute_opened 1250 INR of pay_1",
            "disp_1:arbitration_dispute_lost 1250 INR of pay_1",
        ],
        pair=["disp_1:arbitration_dispute_opened"] * 2,
    ),
    Webhook("a won arbitration is one event", dispute("won", "arbitration"), type=["payment.dispute.won"]),
    Webhook("a lost inquiry is one event", dispute("lost", "fraud"), type=["payment.dispute.lost"], books=[None]),
    *(
        Webhook(
            f"a part of the amount in a dispute {kind}",
            of_dispute("amount_deducted", to=700, event_type=kind),
            books=booked,
        )
        for kind, booked in (
            ("created", "disp_1:dispute_opened 700 INR of pay_1"),
            ("won", "disp_1:dispute_won 700 INR of pay_1"),
            ("lost", "disp_1:dispute_lost 700 INR of pay_1"),
        )
    ),
    *fails(
        MovementUnknown,
        *(
            (
                f"a dispute that doesn't say what was deducted: {deducted!r}",
                of_dispute("amount_deducted", to=deducted),
                "None",
            )
            for deducted in (None, ...)
        ),
        ("a lost dispute of which nothing is deducted", of_dispute("amount_deducted", to=0, event_type="lost"), "'0'"),
        *(
            (
                f"a {phase} dispute, {kind}, of which something is deducted",
                of("dispute", "amount_deducted", to=700, body=dispute(kind, phase)),
                "amount_deducted '700'",
            )
            for phase in ("retrieval", "fraud")
            for kind in ("created", "won", "lost", "closed")
        ),
        ("a captured payment that says it isn't", of_payment("captured", to=False), "captured 'False'"),
        *(
            (f"the validation of {what}, which costs something", validation(minor=minor), "verification charge")
            for what, minor in (("a bank account", 127), ("an address of UPI", None))
        ),
    ),
    *moves_nothing(
        *((kind, payment(kind)) for kind in ("payment.authorized", "payment.failed")),
        *((kind, changed(payment(), "event", to=kind)) for kind in ("order.paid", "subscription.charged")),
        ("a refund of an uncaptured payment", of("payment", "captured", to=False, body=refund())),
        ("a failed refund of an uncaptured payment", of("payment", "captured", to=False, body=refund("refund.failed"))),
        ("refund.speed_changed", changed(refund(), "event", to="refund.speed_changed")),
        *((f"a {phase} dispute", dispute("created", phase)) for phase in ("retrieval", "fraud")),
        *(
            (
                f"a {phase} dispute that doesn't say what is deducted: {nothing!r}",
                of("dispute", "amount_deducted", to=nothing, body=dispute("created", phase)),
            )
            for phase in ("retrieval", "fraud")
            for nothing in each(None, ...)
        ),
        ("a fraud dispute that closes", dispute("closed", "fraud")),
        ("a dispute of which nothing is deducted yet", of_dispute("amount_deducted", to=0)),
        ("payment.dispute.under_review", changed(dispute(), "event", to="payment.dispute.under_review")),
        ("payout.updated", changed(payout("payout.processed"), "event", to="payout.updated")),
        ("payout.queued", payout("payout.queued")),
        ("transfer.failed", transfer("transfer.failed")),
        ("a validation that failed, whose charge is reversed", validation("failed")),
        *((kind, changed(payment(), "event", to=kind)) for kind in OTHER_TYPES),
        *((f"a transaction that its {source} tells of", transaction(source)) for source in ("payout", "reversal")),
    ),
    *fails(
        MoneyInvalid,
        ("money added by bank transfer", transaction("bank_transfer"), "added to the RazorpayX account"),
        *((f"{kind} is for a person", transfer(kind), f"{kind} .* manual entry") for kind in LEFT_TO_A_PERSON),
        ("a dispute that closes", dispute("closed"), "by hand"),
        *(
            (
                f"more than the amount in a dispute {kind}",
                of_dispute("amount_deducted", to=1_251, event_type=kind),
                "more",
            )
            for kind in ("created", "won", "lost")
        ),
        ("a refund without its payment", changed(refund(), "payload", "payment", to=...), "captured"),
        ("no currency", of_payment("currency", to=None), "currency"),
        *(
            (f"an amount of {amount!r}", of_payment("amount", to=amount))
            for amount in each(12.5, 1250.0, "1250", True, None, [1250], {"value": 1250}, 10**16)
        ),
    ),
    *fails(
        MovementUnknown,
        ("money added by nobody knows what", transaction(None), "transaction.source"),
        *(
            (f"an unknown phase of a dispute {kind}", dispute(kind, "second_thoughts"), "the phase")
            for kind in ("created", "won", "lost", "closed")
        ),
        ("no phase", of_dispute("phase", to=...), "the phase"),
        ("a phase that is no text", of_dispute("phase", to=["fraud"]), "the phase"),
        ("a type that no table has", payment("made_up.funds_moved"), "the type 'made_up.funds_moved'"),
    ),
    *fails(Unparseable, ("a movement without its own id", of_payment("id", to=...))),
]
CAME_BACK_BY = ("payout.reversed", "payout.failed")
FORGED: tuple[tuple[bytes, ...], ...] = ((b"ForgedForgedFo",), (b"",), *NO_IDS)
WEBHOOKS += [
    Webhook(f"fees of {case}", body, fees=fees)
    for case, body, fees in (
        ("a payment", payment(), ["pay_1:fee 25 INR of pay_1"]),
        ("a payment that is authorized", payment("payment.authorized"), []),
        ("a payment without them", of_payment("fee", to=None), []),
        ("a payment, of zero", of_payment("fee", to=0), []),
        (
            "a payment in another currency than the account's",
            of("payment", "base_currency", to="INR", body=payment(currency="USD")),
            ["pay_1:fee 25 INR of pay_1"],
        ),
        ("a refund", refund(), []),
        *((kind, payout(kind), ["pout_1:fee 590 INR"]) for kind in ("payout.initiated", "payout.processed")),
        ("a payout that is free", of_payout("payout.processed", 0), []),
        ("a payout that came back, and was free", of_payout("payout.reversed", 0), []),
        *(
            (f"a payout that came back, {kind}", payout(kind), ["pout_1:reversed_fee -590 INR"])
            for kind in CAME_BACK_BY
        ),
    )
]


def by_wallet(wallet: str, body: bytes = b"") -> bytes:
    """An event about a payment that was made by that wallet."""
    return of("payment", "wallet", to=wallet, body=of("payment", "method", to="wallet", body=body or payment()))


WEBHOOKS += books(
    (
        "a payment by PayPal, which Razorpay doesn't settle",
        by_wallet("paypal"),
        "pay_1:capture 1250 INR of pay_1, 1250 outside:paypal",
    ),
    ("its refund", by_wallet("paypal", refund()), "rfnd_1:refund 400 INR of pay_1, 400 outside:paypal"),
    (
        "a payment by PayPal that says its wallet alone",
        of("payment", "method", to=None, body=by_wallet("paypal")),
        "pay_1:capture 1250 INR of pay_1, 1250 outside:paypal",
    ),
    ("a payment by another wallet", by_wallet("amazonpay"), "pay_1:capture 1250 INR of pay_1"),
    ("a payment whose method isn't said", of_payment("method", to=None), "pay_1:capture 1250 INR of pay_1"),
)
WEBHOOKS += books(
    (
        "a payment on delivery, which Razorpay doesn't collect",
        of_payment("method", to="cod"),
        "pay_1:capture 1250 INR of pay_1, 1250 outside:cod",
    ),
)
WEBHOOKS += fails(MovementUnknown, ("a method that no table has", of_payment("method", to="shells"), "'shells'"))

COMPARISONS = [
    *(
        Comparison(
            f"{what}, replayed under the unsigned id {ids}",
            sent(body, b"Gb5kMCdcAZ8jJ8"),
            sent(body, *ids),
            key=True,
            content=True,
            fact=True,
        )
        for what, body in (("what moves money", payment()), ("what moves none", payment("payment.failed")))
        for ids in FORGED
    ),
    Comparison("another amount", payment(), payment(amount=1_251), key=True, content=False),
    *(
        Comparison(f"another {'.'.join(path)}", payment(), changed(payment(), *path, to=to), key=False)
        for path, to in (
            (("account_id",), "acc_Other"),
            (("created_at",), NOW_S + 1),
            (("payload", "payment", "entity", "id"), "pay_Other"),
            (("event",), "payment.failed"),
        )
    ),
    *(
        Comparison(f"ids that would join to the same text: {one}, {other}", with_ids(*one), with_ids(*other), key=False)
        for one, other in ((("a", "b"), ("a,b",)), (("a", "b"), ("a%2Cb",)), (("a,b",), ("a%2Cb",)))
    ),
    *(
        Comparison(f"a payout, {done} and {again}", payout(done), payout(again), fact=True)
        for done, again in (("payout.failed", "payout.reversed"), ("payout.initiated", "payout.processed"))
    ),
    Comparison("a refund, told twice", refund(), refund("refund.processed"), fact=True),
]
PAID = of("payment", "amount", to=39_000, body=of_payment("currency", to="MYR"))


def undeducted(event_type: str, deducted: int = 0) -> bytes:
    """A dispute of that payment; its amount is deducted when it is lost, not when it is opened."""
    body = of("dispute", "amount", to=39_000, body=of_dispute("currency", to="MYR", event_type=event_type))
    return of("dispute", "amount_deducted", to=deducted, body=body)


SENT_OUT = payout("payout.initiated"), payout("payout.processed")
SEQUENCES = [
    MoneySequence(
        "a dispute of which a part is lost",
        [PAID, undeducted("created"), undeducted("lost", 9_000)],
        {"clearing": 30_000 - 25, "fees": 25, "dispute_losses": 9_000},
    ),
    MoneySequence(
        "a payout, told twice, and what it costs",
        [payout("payout.initiated"), payout("payout.processed")],
        {"clearing": -9_590, "payouts": 9_000, "fees": 590},
    ),
    *(
        MoneySequence(f"a payout that came back, {kind}, with what it costs", [*SENT_OUT, payout(kind)], {})
        for kind in CAME_BACK_BY
    ),
    MoneySequence(
        "a payout that failed, and whose money then came back",
        [*SENT_OUT, payout("payout.failed"), payout("payout.reversed")],
        {},
    ),
    MoneySequence(
        "a payout that failed before it was sent, and came back for free",
        [*SENT_OUT, of_payout("payout.failed", 0)],
        {"clearing": -590, "fees": 590},
    ),
    MoneySequence("a payout that came back, and was never told", [payout("payout.reversed")], {}),
    MoneySequence(
        "a dispute whose amount isn't deducted", [PAID, undeducted("created")], {"clearing": 38_975, "fees": 25}
    ),
    MoneySequence(
        "it is won: there is nothing to give back",
        [PAID, undeducted("created"), undeducted("won")],
        {"clearing": 38_975, "fees": 25},
    ),
    MoneySequence(
        "it is lost: now it is deducted",
        [PAID, undeducted("created"), undeducted("lost", 39_000)],
        {"clearing": -25, "fees": 25, "dispute_losses": 39_000},
    ),
    *(
        MoneySequence(
            f"a lost dispute, {told}",
            [*before, *[dispute("lost", "arbitration")] * 2],
            {"clearing": -1_250, "dispute_losses": 1_250},
        )
        for told, before in (("its opening told", [dispute("created", "arbitration")]), ("its opening untold", []))
    ),
]
