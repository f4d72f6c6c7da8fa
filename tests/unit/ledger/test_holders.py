"""Who holds the money at the end, by what providers told: in any order, with each event once or three times.

Real adapters, the ledger's real handler, the engine's real batches and the promises about bookings; Kafka, Delta and
Spark stand in as lists.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from ledger.verify.duckdb_engine import DuckDb
from load.samples import mollie as mollie_samples
from processor.decide.handlers import EARLY_UNDO
from providers.port import Request
from tests.unit.ledger.delivered import PROMISES, Ledger, ProviderRequest
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.providers.samples import (
    adyen,
    braintree,
    mollie,
    mollieclassic,
    paddle,
    paypal,
    razorpay,
    square,
    stripe,
)
from tests.unit.providers.shapes import changed

ORDERS_MAX = 12
KLARNA = mollie.payment(method="klarna", captured_minor=1_000)
BY_PAYPAL = mollie.payment(method="paypal")
WHOLE_CAPTURE = mollie.capture("cpt_1", 1_000)


@dataclass(frozen=True)
class HoldersCase:
    """``holds``: debits less credits by account, in minor units, of all accounts but merchants'; what is left out holds
    nothing. ``fees``: what the merchant's account of fees has. ``unknown``: whether one event may be of unknown money.
    """

    name: str
    told: Sequence[ProviderRequest]
    holds: Mapping[str, int]
    fees: int = 0
    unknown: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def told_by(provider: str, *sent: bytes | Request) -> list[ProviderRequest]:
    """Webhooks of one provider, of which bytes are a body without headers."""
    return [ProviderRequest(provider, Request(one, ()) if isinstance(one, bytes) else one) for one in sent]


def nextgen(event_type: str, snapshot: dict[str, Any]) -> ProviderRequest:
    return told_by("mollie", mollie.event(event_type, snapshot, f"whe_{event_type}_{snapshot['id']}"))[0]


def classic(resource: dict[str, Any], **embedded: list[Any]) -> ProviderRequest:
    return told_by("mollieclassic", mollieclassic.about(resource, **embedded))[0]


def order(**embedded: list[Any]) -> ProviderRequest:
    return classic(mollieclassic.ORDER, **embedded)


AT_MOLLIE = "provider:mollie:clearing"
CASES = [
    HoldersCase(
        "a payout that the bank returned",
        [
            nextgen("payment.paid", mollie.payment(amount_minor=10_000)),
            nextgen("payout.completed", mollie.payout()),
            nextgen("payout.failed", mollie.payout() | {"status": "failed", "statusReason": {"code": "returned"}}),
        ],
        {AT_MOLLIE: 10_000},
    ),
    HoldersCase(
        "a payment by Klarna and its capture",
        [nextgen("payment.paid", KLARNA), nextgen("capture.succeeded", WHOLE_CAPTURE)],
        {AT_MOLLIE: 1_000},
        settings=mollie.CAPTURE_EVENTS,
    ),
    HoldersCase(
        "a payment that its order told and that is told with its captures",
        [order(payments=[mollie.payment()]), classic(mollie.payment(), captures=[WHOLE_CAPTURE])],
        {AT_MOLLIE: 1_000},
    ),
    HoldersCase(
        "a payment by Klarna that its order told and that is told with its captures",
        [order(payments=[KLARNA]), classic(KLARNA, captures=[WHOLE_CAPTURE])],
        {AT_MOLLIE: 1_000},
        unknown=True,
    ),
    HoldersCase(
        "a payment by Klarna that both APIs told, and its order",
        [
            nextgen("payment.paid", KLARNA),
            nextgen("capture.succeeded", WHOLE_CAPTURE),
            classic(KLARNA, captures=[WHOLE_CAPTURE]),
            order(payments=[KLARNA]),
        ],
        {AT_MOLLIE: 1_000},
        unknown=True,
        settings=mollie.CAPTURE_EVENTS,
    ),
    HoldersCase(
        "a payment by Riverty that is told when a part of it was captured, and when all was",
        [
            classic(mollie.payment(method="riverty", captured_minor=600), captures=[mollie.capture("cpt_1", 600)]),
            classic(
                mollie.payment(method="riverty", captured_minor=1_000),
                captures=[mollie.capture("cpt_1", 600), mollie.capture("cpt_2", 400)],
            ),
        ],
        {AT_MOLLIE: 1_000},
    ),
    *(
        HoldersCase(f"a payment by PayPal that {api} told", [told], {"outside:paypal:clearing": 1_000})
        for api, told in (
            ("mollie", nextgen("payment.paid", mollie.payment(method="paypal"))),
            ("mollieclassic", classic(mollie.payment(method="paypal"))),
        )
    ),
    HoldersCase(
        "a payment by PayPal that is given back by PayPal",
        [
            nextgen("payment.paid", mollie.payment(method="paypal")),
            nextgen("refund.refunded", mollie.refund(settlementAmount=mollie_samples.money(0, "EUR"))),
        ],
        {"outside:paypal:clearing": 600},
    ),
    *(
        HoldersCase(
            f"a payment of which a gift card paid a part, that {api} told",
            [told],
            {AT_MOLLIE: 700, "outside:giftcard:clearing": 300},
        )
        for api, told in (
            ("mollie", nextgen("payment.paid", mollie.payment(method="giftcard", settled_minor=700))),
            ("mollieclassic", classic(mollie.payment(method="giftcard", settled_minor=700))),
        )
    ),
    HoldersCase(
        "a refund of a payment by PayPal that doesn't say who makes it, by the classic webhooks",
        [
            classic(BY_PAYPAL),
            classic(BY_PAYPAL, refunds=[mollie.refund(status="processing")]),
            classic(BY_PAYPAL, refunds=[mollie.refund()]),
            order(payments=[BY_PAYPAL], refunds=[mollie.refund()]),
        ],
        {"outside:paypal:clearing": 600},
    ),
    HoldersCase(
        "its refund that fails",
        [classic(BY_PAYPAL, refunds=[mollie.refund(status="failed")])],
        {"outside:paypal:clearing": 1_000},
    ),
    HoldersCase(
        "a refund of a payment by PayPal that Mollie settles, by the classic webhooks",
        [classic(mollie.payment(method="paypal", settled_minor=1_000), refunds=[mollie.refund()])],
        {AT_MOLLIE: 600},
    ),
    HoldersCase(
        "a refund of a payment of which a gift card paid a part, by the classic webhooks",
        [classic(mollie.payment(method="giftcard", settled_minor=700), refunds=[mollie.refund()])],
        {AT_MOLLIE: 300, "outside:giftcard:clearing": 300},
    ),
    HoldersCase(
        "a refund of which a part is taken back from another organization, by the classic webhooks",
        [classic(mollie.payment(), refunds=[mollie.refund(routingReversals=mollie.TAKEN_BACK)])],
        {AT_MOLLIE: 1_000},
        unknown=True,
    ),
    HoldersCase(
        "a payment by Billink and its captures",
        [
            nextgen("payment.paid", mollie.payment(method="billink", captured_minor=1_000)),
            nextgen("capture.succeeded", mollie.capture("cpt_1", 600)),
            nextgen("capture.succeeded", mollie.capture("cpt_2", 400)),
        ],
        {AT_MOLLIE: 1_000},
        settings=mollie.CAPTURE_EVENTS,
    ),
    HoldersCase(
        "a method that no table has",
        [nextgen("payment.paid", mollie.payment(method="shells"))],
        {},
        unknown=True,
    ),
    HoldersCase(
        "payments by the classic webhooks, a refund by both, and the payout by the next-gen ones",
        [
            classic(mollie.payment(), refunds=[mollie.refund()]),
            nextgen("refund.refunded", mollie.refund()),
            nextgen("payout.completed", mollie.payout() | {"amount": mollie_samples.money(600, "EUR")}),
        ],
        {},
    ),
]


CASES += [
    HoldersCase(
        f"a payment in {way} at Square, and a part of it given back",
        told_by(
            "square", square.payment(source_type=way.upper()), square.of_refund("destination_type", to=way.upper())
        ),
        {f"outside:{way}:clearing": 850},
        settings=square.SETTINGS,
    )
    for way in ("cash", "external")
]
CASES += [
    HoldersCase(
        "payments by PayPal and by card through Braintree, and one payout",
        told_by(
            "braintree",
            braintree.posted(braintree.transaction("transaction_settled", braintree.BY_PAYPAL)),
            braintree.posted(braintree.changed(braintree.charged(), (">tx1<", ">tx2<"))),
            braintree.posted(braintree.disbursement()),
        ),
        {"outside:paypal:clearing": 1_250},
    ),
]


PAYPAL_THROUGH_RAZORPAY = [
    changed(razorpay.by_wallet("paypal"), "payload", "payment", "entity", "fee", to=0),
    razorpay.by_wallet("paypal", razorpay.refund()),
]
AT_SQUARE = "provider:square/M1:clearing"
AN_ID = ("data", "object", "payment", "id")
FEE = square.with_fees(320, event_id="e-fee", amount=10_000, app_minor=1_000)
CASES += [
    HoldersCase(
        "a payment of 100, whose fee of 3.20 is told later, an application's of 10, and a payout of 86.80",
        told_by(
            "square",
            square.payment(amount=10_000),
            FEE,
            changed(square.payout("payout.paid", 8_680), "event_id", to="e-payout"),
        ),
        {},
        fees=1_320,
        settings=square.SETTINGS,
    ),
    HoldersCase(
        "a fee that is adjusted, and what a refund gives back of it",
        told_by(
            "square",
            FEE,
            square.with_fees(320, -20, event_id="e-adjusted", amount=10_000, app_minor=1_000),
            square.refund(fee_minor=-8),
        ),
        {AT_SQUARE: 10_000 - 1_320 + 20 - 400 + 8},
        fees=1_320 - 20 - 8,
        settings=square.SETTINGS,
    ),
    HoldersCase(
        "a payout that is sent at once, what that costs, and what a payment elsewhere costs there",
        told_by(
            "square",
            square.payment(amount=10_000),
            *(square.payout_with_fees(f"payout.{event}", *square.TRANSFER_FEES) for event in ("sent", "paid")),
            changed(changed(square.WITH_SOURCE_FEE, "event_id", to="e-elsewhere"), *AN_ID, to="PAYMENT2"),
        ),
        {"outside:external:clearing": 1_100},
        fees=300,
        settings=square.SETTINGS,
    ),
    HoldersCase(
        "a payment by PayPal through Razorpay, and a refund of it",
        told_by("razorpay", *PAYPAL_THROUGH_RAZORPAY),
        {"outside:paypal:clearing": 1_250 - 400},
    ),
    HoldersCase(
        "a payment by PayPal through Adyen, and a refund of it",
        told_by(
            "adyen",
            *(
                adyen.told(code, pspReference=code, amount={"value": minor, "currency": "EUR"}, **adyen.BY_PAYPAL)
                for code, minor in (("CAPTURE", 1_000), ("REFUND", 400))
            ),
        ),
        {"outside:paypal:clearing": 600},
    ),
    HoldersCase(
        "a payment by PayPal through Stripe that settles on PayPal, and a refund of it",
        told_by("stripe", stripe.BY_PAYPAL, stripe.BACK_BY_PAYPAL),
        {"outside:paypal:clearing": 1_000 - 400},
        settings=stripe.PAYPAL_OUTSIDE,
    ),
    HoldersCase(
        "a payment through Razorpay, less its fee",
        told_by("razorpay", razorpay.payment(), razorpay.refund()),
        {"provider:razorpay/acc_1:clearing": 1_250 - 25 - 400},
        fees=25,
    ),
    HoldersCase(
        "a payout of RazorpayX that comes back with what it cost",
        told_by("razorpay", razorpay.payment(amount=10_000), *razorpay.SENT_OUT, razorpay.payout("payout.reversed")),
        {"provider:razorpay/acc_1:clearing": 10_000 - 200},
        fees=200,
    ),
    HoldersCase(
        "a payout of RazorpayX that comes back, and was before the first day",
        told_by("razorpay", razorpay.payout("payout.reversed")),
        {},
    ),
    HoldersCase(
        "an application's fee that both of Mollie's APIs and an order tell",
        [
            nextgen("payment.paid", mollie.WITH_FEE),
            classic(mollie.WITH_FEE, refunds=[mollie.refund()]),
            order(payments=[mollie.WITH_FEE]),
        ],
        {AT_MOLLIE: 1_000 - 400 - 320},
        fees=320,
    ),
    HoldersCase(
        "an application's fee of a payment by PayPal, which Mollie takes from its balance",
        [nextgen("payment.paid", mollie.WITH_FEE | {"method": "paypal"})],
        {"outside:paypal:clearing": 1_000, AT_MOLLIE: -320},
        fees=320,
    ),
    HoldersCase(
        "a capture through PayPal, less its fees, and a refund that gives them back",
        told_by(
            "paypal",
            paypal.of_capture("seller_receivable_breakdown", to=paypal.BREAKDOWN),
            paypal.of_refund("seller_payable_breakdown", to=paypal.BREAKDOWN),
        ),
        {},
    ),
    HoldersCase(
        "a sale by PayPal's v1 and a capture by its v2 of one account",
        told_by("paypal", paypal.v1_sale(), paypal.capture(), paypal.v1_refund()),
        {"provider:paypal/M1:clearing": 1_250},
        settings=paypal.V1_OF_M1,
    ),
    HoldersCase(
        "a dispute at Stripe that is won and gives its fee back",
        told_by(
            "stripe",
            stripe.CAPTURED,
            stripe.disputed("created", "needs_response"),
            stripe.disputed("funds_withdrawn", "needs_response", stripe.WITHDRAWN),
            stripe.disputed("funds_reinstated", "won", stripe.WITHDRAWN, stripe.BACK | {"fee": -1_500}),
        ),
        {"provider:stripe/acct_1:clearing": 1_000},
    ),
    HoldersCase(
        "a chargeback at Paddle and what it costs",
        told_by("paddle", paddle.transaction(), paddle.charged_back()),
        {"provider:paddle:clearing": 1_084 - 367 - 1_680},
        fees=1_680,
    ),
]
CASES += [
    HoldersCase(
        f"a {action} at Paddle that is reversed",
        told_by("paddle", paddle.transaction(), paddle.adjustment(action=action), paddle.reversed_later(action)),
        {"provider:paddle:clearing": 1_084},
    )
    for action in ("chargeback", "credit")
]
CASES.append(
    HoldersCase(
        "a chargeback at Paddle that is reversed, and was before the first day",
        told_by("paddle", paddle.reversed_later("chargeback")),
        {},
    )
)
CASES.append(
    HoldersCase(
        "a dispute at Stripe that is withdrawn twice within one second",
        told_by(
            "stripe",
            stripe.CAPTURED,
            stripe.disputed("funds_withdrawn", "needs_response", stripe.free(stripe.SECOND_1)),
            stripe.named(
                "evt_2",
                stripe.disputed(
                    "funds_withdrawn", "needs_response", stripe.free(stripe.SECOND_3), stripe.free(stripe.SECOND_1)
                ),
            ),
        ),
        {"provider:stripe/acct_1:clearing": -1_000},
    )
)
PAID_THROUGH_BRAINTREE = braintree.posted(braintree.transaction("transaction_settled", braintree.BY_PAYPAL))
LOST_AT_BRAINTREE = braintree.disputed_by_paypal("lost")
CASES += [
    HoldersCase(
        "a dispute of a payment by PayPal through Braintree that is lost",
        told_by("braintree", PAID_THROUGH_BRAINTREE, braintree.disputed_by_paypal("opened"), LOST_AT_BRAINTREE),
        {},
    ),
    HoldersCase(
        "a dispute of a payment by PayPal through Braintree that is lost at once",
        told_by("braintree", PAID_THROUGH_BRAINTREE, LOST_AT_BRAINTREE),
        {},
    ),
    HoldersCase(
        "a dispute of a payment by PayPal through Stripe that is lost",
        told_by(
            "stripe",
            stripe.BY_PAYPAL,
            stripe.disputed_by_paypal("funds_withdrawn", "needs_response"),
            stripe.disputed_by_paypal("closed", "lost"),
        ),
        {},
        settings=stripe.PAYPAL_OUTSIDE,
    ),
]
CASES += [
    HoldersCase(
        "a local payment through Braintree, whose money PayPal has, told by two kinds",
        told_by(
            "braintree",
            braintree.posted(braintree.transaction("local_payment_funded", braintree.NO_INSTRUMENT)),
            braintree.posted(braintree.transaction("transaction_settled", braintree.by("local_payment"))),
        ),
        {"outside:paypal:clearing": 1_250},
    ),
    HoldersCase(
        "a payment at Adyen of which a gift card paid a part, and a refund to the card",
        told_by(
            "adyen",
            adyen.told("CAPTURE", pspReference="CAP1", **adyen.BY_GIFT_CARD),
            adyen.told("CAPTURE", pspReference="CAP2", paymentMethod="visa"),
            adyen.told("REFUND", pspReference="R1", **adyen.BY_GIFT_CARD),
        ),
        {"provider:adyen/Main:clearing": 1_000},
    ),
    HoldersCase(
        "a refund at PayPal that fails after it was completed",
        told_by("paypal", paypal.capture(), paypal.refund(), paypal.REFUND_FAILED),
        {"provider:paypal/M1:clearing": 1_250},
    ),
]


@pytest.mark.row("G2")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_it_holds_what_it_should_in_any_order(duckdb: DuckDb, case: HoldersCase, times: int) -> None:
    for told in islice(permutations(case.told), ORDERS_MAX):
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder), case.settings)
            for one in [*told] * times:
                ledger.deliver(one)
            balances = ledger.balances()
            ledger.index.close()
        others = {name: minor for name, minor in balances.items() if minor and not name.startswith("merchant:")}
        came = [row.event_key for row in ledger.journal.rows]
        assert others == case.holds, came
        assert balances["merchant:m-1:fees"] == case.fees, came
        rows = ledger.journal.rows
        # An undo may come before what it takes back.
        late = {row.decision for row in rows if row.error_code != EARLY_UNDO}
        decided = late - ({Decision.UNKNOWN} if case.unknown else set())
        ends = {Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE, Decision.DUPLICATE_FACT}
        assert decided <= ends, [(row.event_key, row.decision, row.reason, row.error_message) for row in rows]
    name_rows(duckdb, rows)
    assert offenders(duckdb, *PROMISES) == []
