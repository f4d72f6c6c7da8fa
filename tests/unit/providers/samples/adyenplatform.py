"""Adyen's platform webhooks: what they are called and book."""

from __future__ import annotations

import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import adyenplatform as samples_of
from load.samples import sign
from providers import ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.table import (
    Comparison,
    MoneySequence,
    Webhook,
    each,
    fails,
    moves_nothing,
    unreadable,
)
from tests.unit.providers.shapes import NOW, changed

SETTINGS = {"adyen": {"platforms": {"SamplePlatform": "SampleShop"}}}


def payout(**more: Any) -> bytes:
    about = {"transfer": "3JWKA1", "sequence": 3, "account": "BA1", "amount_minor": 22_700, "currency": "EUR"}
    return samples_of.payout_event(**{**about, "created": NOW, **more})


def of_data(*path: str, to: Any, body: bytes = b"") -> bytes:
    return changed(body or payout(), "data", *path, to=to)


def transfer(status: str, category: str, direction: str, kind: str) -> bytes:
    body = of_data("category", to=category, body=payout(status=status))
    return of_data("type", to=kind, body=of_data("direction", to=direction, body=body))


def share(kind: str, status: str) -> bytes:
    """One balance account's share of a payment."""
    about: dict[str, Any] = {"transfer": "T1", "sequence": 2, "payment": "PSP1", "account": "BA1", "amount_minor": 900}
    return samples_of.platform_payment_event(**about, currency="EUR", created=NOW, kind=kind, status=status)


def updated(**data: Any) -> bytes:
    return json.dumps({"data": {"balancePlatform": "Platform", **data}, "type": "balancePlatform.x.updated"}).encode()


CREATED = {
    "data": {"id": "EVJN1", "status": "booked", "balanceAccount": {"id": "BA1"}},
    "type": "balancePlatform.transaction.created",
}
HOLDER = {"id": "AH1", "legalEntityId": "LE1", "status": "active"}
CONCERNED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"balanceAccount": {"id": "BA1"}, "accountHolder": HOLDER}, "BA1"),
    ({"balanceAccountId": "BA1"}, "BA1"),
    ({"accountId": "BA1", "sweep": {"id": "SWPC1"}}, "BA1"),
    ({"paymentInstrument": {"id": "PI1", "balanceAccountId": "BA1"}}, "BA1"),
    ({"mandate": {"id": "MNDT1", "balanceAccountId": "BA1"}}, "BA1"),
    ({"liableBalanceAccountId": "BA1", "accountHolder": {"id": "AH1"}}, "BA1"),
    ({"accountHolder": HOLDER}, "AH1"),
    ({"accountHolderId": "AH1", "id": "SC1"}, "AH1"),
    ({"legalEntity": {"id": "LE1"}}, "LE1"),
    ({"legalEntityId": "LE1", "id": "X1"}, "LE1"),
    ({"merchantAccount": "Main", "storedPaymentMethodId": "M5N7TQ4TG5PFWR50"}, "Main"),
    ({"merchantId": "Main", "id": "PM1"}, "Main"),
    ({"id": "NWTK1", "paymentInstrumentId": "PI1"}, "Platform"),
    ({"id": "DISP1", "accountHolder": {}}, "Platform"),
)
OTHERWISE = (
    ("bank", "incoming", "bankTransfer"),
    ("bank", "incoming", "bankDirectDebit"),
    ("bank", "outgoing", "bankDirectDebit"),
    ("topUp", "incoming", "bankTransfer"),
    ("card", "outgoing", "cardTransfer"),
    ("issuedCard", "outgoing", "capture"),
    ("issuedCard", "incoming", "refund"),
    ("internal", "incoming", "grant"),
    ("internal", "outgoing", "repayment"),
)
"""What leaves or reaches Adyen otherwise than by a payout."""
NOT_MOVED = ("received", "authorised", "pendingApproval", "capturePending", "refused", "cancelled")
UNTRUSTED = each(
    *(None, {}, {"value": 10}, {"value": "10", "currency": "EUR"}, {"value": 10.0, "currency": "EUR"}),
    *({"value": True, "currency": "EUR"}, {"value": 10, "currency": "EURO"}, {"value": 150, "currency": "CLP"}),
    *({"value": -10, "currency": "EUR"}, {"value": 10**17, "currency": "EUR"}),
)
PAID = "3JWKA1:payout_paid 22700 EUR"
IN_DOLLARS = [{"currency": "USD", "received": 0, "reserved": 0, "balance": -24_900}]
WEBHOOKS = [
    Webhook(
        "a payout has all its names",
        payout(),
        key="3JWKA1:3:balancePlatform.transfer.updated",
        entity="BA1:3JWKA1",
        account="BA1",
        at="2026-01-31T12:00:01+00:00",
        mode="live",
        books=PAID,
        holder="adyen:SampleShop",
    ),
    Webhook("a payout of an older version, which tells no balances", of_data("balances", to=...), books=PAID),
    Webhook("a payout of an older version, which tells no type", of_data("type", to=...), books=PAID),
    Webhook("a payout's earlier webhook", payout(sequence=1), key="3JWKA1:1:balancePlatform.transfer.updated"),
    Webhook("order is kept for the balance account", payout(), entity="BA1", settings={"entity": "merchant"}),
    *(
        row
        for data, account in CONCERNED
        for row in (
            Webhook(f"whom {list(data)} concerns: {account}", updated(**data), account=account),
            Webhook(
                f"order is kept for whom {list(data)} concerns: {account}",
                updated(**data),
                entity=account,
                settings={"entity": "merchant"},
            ),
        )
    ),
    Webhook(
        "what is created is so once",
        json.dumps(CREATED).encode(),
        key="EVJN1:created:balancePlatform.transaction.created",
        entity="BA1:EVJN1",
    ),
    *(
        Webhook(
            f"the signed environment, {mode}, at the {endpoint} endpoint",
            payout(live=mode == "live"),
            endpoint=endpoint,
            mode=mode,
        )
        for mode in ("live", "test")
        for endpoint in ("live", "test")
    ),
    Webhook("no environment", changed(payout(), "environment", to=...), endpoint="test", mode="test"),
    Webhook("the time is when it was queued", payout(queued_s=90), at="2026-01-31T12:01:30+00:00"),
    Webhook("else when it happened", changed(payout(), "timestamp", to=...), at="2026-01-31T12:00:00+00:00"),
    *unreadable(
        *(b"", b"[]", b"{}", b'{"type":"x"}', b'{"type":"x","data":[]}', b'{"type":"","data":{}}'),
        *(b'{"type":1,"data":{}}', b'{"type":"x","data":{"id":1}}', b'{"type":"x","data":{},"environment":"beta"}'),
        b'{"type":"x","data":{},"environment":true}',
        b'{"type":"x","data":{"balanceAccount":{"id":7}}}',
        b'{"type":"x","data":{},"data":{}}',
    ),
    Webhook(
        "a payout that comes back",
        payout(status="returned"),
        books="3JWKA1:payout_failed 22700 EUR",
        holder="adyen:SampleShop",
    ),
    *(
        Webhook(
            f"{value} of {code} in minor units of ISO 4217",
            payout(amount_minor=value, currency=code),
            books=f"3JWKA1:payout_paid {minor} {code}",
        )
        for code, value, minor in (
            *(("EUR", 150, 150), ("JPY", 150, 150), ("BHD", 1_500, 1_500), ("CLP", 100_000, 1_000)),
            *(("ISK", 50_000, 500), ("CVE", 500, 50_000), ("IDR", 500, 50_000)),
        )
    ),
    *moves_nothing(
        *(
            (f"a payout that is {status}", payout(status=status))
            for status in ("received", "authorised", "pendingApproval", "refused", "cancelled")
        ),
        (
            "a transfer of an unknown category that isn't booked yet",
            of_data("category", to="something_new", body=payout(status="received")),
        ),
        *(
            (f"a {kind} within Adyen", transfer("booked", category, "outgoing", kind))
            for category, kind in (
                *(
                    ("internal", "internalTransfer"),
                    ("internal", "internalDirectDebit"),
                    ("internal", "cashoutFunding"),
                ),
                *(("platformPayment", "secondChargeback"), ("platformPayment", "paymentCost")),
            )
        ),
        ("a transfer within Adyen that failed", transfer("failed", "internal", "outgoing", "internalTransfer")),
        (
            "a transfer within Adyen of an older version, which tells no type",
            of_data("type", to=..., body=transfer("booked", "internal", "outgoing", "")),
        ),
        (
            "a correction within Adyen that isn't booked yet",
            transfer("manualCorrectionPending", "internal", "outgoing", "manualCorrection"),
        ),
        *(
            (kind, changed(payout(), "type", to=kind))
            for kind in (
                "balancePlatform.transaction.created",
                "balancePlatform.payment.created",
                "balancePlatform.outgoingTransfer.updated",
            )
        ),
        *(
            (f"a {status} {kind}, {category} {direction}", transfer(status, category, direction, kind))
            for category, direction, kind in OTHERWISE
            for status in NOT_MOVED
        ),
    ),
    *(  # left to the standard webhook of the whole
        Webhook(f"a share of a {kind}", share(kind, status), books=None, entity="BA1:PSP1")
        for kind, status in (
            *(("capture", "captured"), ("refund", "refunded"), ("chargeback", "chargeback")),
            ("captureReversal", "captureReversed"),
        )
    ),
    *fails(
        MoneyInvalid,
        *(
            (
                f"a {status} {kind}, {category} {direction}",
                transfer(status, category, direction, kind),
                f"balancePlatform.transfer.updated.*{category}.*{kind}.*manual entry",
            )
            for category, direction, kind in OTHERWISE
            for status in ("booked", "captured", "returned", "refunded", "failed")
        ),
        ("a payout of no balance account", of_data("balanceAccount", to=...), "balance account"),
    ),
    *fails(
        MovementUnknown,
        ("an unknown status", of_data("status", to="something_new"), "the status 'something_new'"),
        ("an unknown category", of_data("category", to="something_new"), "the category 'something_new'"),
        ("a transfer without a category", of_data("category", to=...), "the category"),
        ("an unknown direction", of_data("direction", to="sideways"), "the direction 'sideways'"),
        ("a transfer without a direction", of_data("direction", to=...), "the direction"),
        *(
            (f"a {kind} to a bank account", of_data("type", to=kind), f"the data.type '{kind}'")
            for kind in ("something_new", "manualCorrection", "leftover")
        ),
        *(
            (
                f"a {kind} within Adyen, {category}",
                transfer(status, category, "incoming", kind),
                f"the data.type '{kind}'",
            )
            for category in ("internal", "platformPayment")
            for kind, status in (
                *(("manualCorrection", "manuallyCorrected"), ("balanceAdjustment", "booked")),
                *(("depositCorrection", "depositCorrection"), ("reserveAdjustment", "reserveAdjustment")),
                *(("chargebackCorrection", "booked"), ("something_new", "booked")),
            )
        ),
        (
            "a type that no table has",
            changed(payout(), "type", to="balancePlatform.transfer.something_new"),
            "the type",
        ),
        *(
            (
                f"a payout in another currency than its balance, {status}",
                of_data("balances", to=IN_DOLLARS, body=payout(status=status)),
                "the balances.currency 'USD'",
            )
            for status in ("booked", "returned")
        ),
    ),
    *fails(
        MoneyInvalid,
        (
            "a payout of a platform that no setting names waits",
            payout(),
            "providers.adyen.platforms lacks .*SamplePlatform.*replay",
        ),
        settings={"adyen": {}},
    ),
    *fails(
        (MoneyInvalid, Unparseable),
        *((f"an amount of {amount}", of_data("amount", to=amount)) for amount in UNTRUSTED),
        ("no status", of_data("status", to=...)),
        ("no id", of_data("id", to=...)),
    ),
]
ON_PLATFORM = {"adyen": {"platforms": {"SamplePlatform": "Shop"}}}
TRANSFERRED, RETURNED = (payout(sequence=number, status=status) for number, status in ((2, "booked"), (3, "returned")))
FAILED = payout(sequence=3, status="failed")
SEQUENCES = [
    MoneySequence(case, webhooks, holds, settings=ON_PLATFORM)
    for case, webhooks, holds in (
        ("a payout", [TRANSFERRED], {"clearing": -22_700, "payouts": 22_700}),
        ("a payout that the bank returned", [TRANSFERRED, RETURNED], {}),
        ("a payout that failed after it was booked", [TRANSFERRED, FAILED], {}),
        ("a payout that was returned, and whose booking was never told", [RETURNED], {}),
        *(
            (f"a payout that was credited, {what}", [*told, payout(sequence=4, status="credited")], holds)
            for what, told, holds in (
                ("and whose booking was never told", [], {"clearing": -22_700, "payouts": 22_700}),
                ("and whose booking was told", [TRANSFERRED], {"clearing": -22_700, "payouts": 22_700}),
                ("and came back", [TRANSFERRED, RETURNED], {}),
            )
        ),
    )
]
COMPARISONS = [
    Comparison("two webhooks of a transfer", payout(sequence=1), payout(sequence=2), key=False, entity=True),
    Comparison("a redelivery that was queued later", payout(), payout(queued_s=3_600), key=True, content=True),
    Comparison(
        "the same number, another currency of the balance",
        payout(),
        of_data("balances", to=IN_DOLLARS),
        key=True,
        content=False,
    ),
    Comparison("the same number, another amount", payout(), payout(amount_minor=2), key=True, content=False),
    Comparison("a payout that is tracked on after it was booked", payout(), payout(sequence=4), fact=True),
]
KEY = "AB" * 32
BAD_SECRETS = ("", "ABC", "XY" * 32, "AB " * 32, "０１" * 32)
ANSWER = (200, b"[accepted]", "text/plain")
HEADERS = sign(build_adapters(ProvidersSettings())["adyenplatform"], payout(), KEY, NOW).headers
SIGNED = Request(payout(), [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()])
