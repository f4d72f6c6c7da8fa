"""Settlement reports of our own making, laid out as the providers document theirs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from core.money import MoneyFact, Movement, decimals_of
from ledger.reconciliations import KINDS, Reconciliation

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)

STRIPE_COLUMNS = (
    "balance_transaction_id",
    "created_utc",
    "available_on_utc",
    "currency",
    "gross",
    "fee",
    "net",
    "reporting_category",
    "source_id",
    "description",
    "customer_facing_amount",
    "customer_facing_currency",
    "charge_id",
    "payment_intent_id",
)
ADYEN_COLUMNS = (
    "Company Account",
    "Merchant Account",
    "Psp Reference",
    "Merchant Reference",
    "Payment Method",
    "Creation Date",
    "TimeZone",
    "Type",
    "Modification Reference",
    "Gross Currency",
    "Gross Debit (GC)",
    "Gross Credit (GC)",
    "Exchange Rate",
    "Net Currency",
    "Net Debit (NC)",
    "Net Credit (NC)",
    "Batch Number",
)
STRIPE_CATEGORIES = {
    Movement.CAPTURE: "charge",
    Movement.REFUND: "refund",
    Movement.REFUND_FAILED: "refund_failure",
    Movement.DISPUTE_OPENED: "dispute",
    Movement.DISPUTE_WON: "dispute_reversal",
    Movement.PAYOUT_PAID: "payout",
    Movement.PAYOUT_FAILED: "payout_reversal",
}
ADYEN_TYPES = {
    Movement.CAPTURE: "Settled",
    Movement.CAPTURE_FAILED: "SettledReversed",
    Movement.REFUND: "Refunded",
    Movement.REFUND_FAILED: "RefundedReversed",
    Movement.DISPUTE_OPENED: "Chargeback",
    Movement.DISPUTE_WON: "ChargebackReversed",
}
TO_US = (Movement.CAPTURE, Movement.REFUND_FAILED, Movement.DISPUTE_WON, Movement.PAYOUT_FAILED)

Line = Mapping[str, str]


def decimal(amount_minor: int, currency: str) -> str:
    """As reports write amounts: ``-12.34``, of yen ``-12``."""
    decimals = decimals_of(currency)
    whole, rest = divmod(abs(amount_minor), 10**decimals)
    return ("-" if amount_minor < 0 else "") + str(whole) + (f".{rest:0{decimals}d}" if decimals else "")


def as_csv(columns: Sequence[str], lines: Sequence[Line]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue().encode("utf-8")


def stripe_line(fact: MoneyFact, at: datetime = AT, /, **changes: str) -> dict[str, str]:
    """The line of a fact that the adapter names ``stripe:<object>:<movement>``."""
    source, currency = fact.fact_key.split(":")[1], fact.money.currency
    gross = fact.money.amount_minor if fact.movement in TO_US else -fact.money.amount_minor
    payout = fact.movement in (Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED)
    line = {
        "balance_transaction_id": f"txn_{source}",
        "created_utc": f"{at:%Y-%m-%d %H:%M:%S}",
        "currency": currency.lower(),
        "gross": decimal(gross, currency),
        "fee": "0.00",
        "net": decimal(gross, currency),
        "reporting_category": STRIPE_CATEGORIES[fact.movement],
        "source_id": source,
        "description": 'Order 1, "two\nlines"',
        "customer_facing_amount": "" if payout else decimal(gross, currency),
        "customer_facing_currency": "" if payout else currency.lower(),
        "payment_intent_id": fact.payment or "",
    }
    return {**line, **changes}


def stripe_csv(*lines: Line) -> bytes:
    return as_csv(STRIPE_COLUMNS, lines)


def adyen_line(fact: MoneyFact, at: datetime = AT, /, **changes: str) -> dict[str, str]:
    """The line of a fact that the adapter names ``adyen:<pspReference>:<what>``."""
    currency, amount = fact.money.currency, decimal(fact.money.amount_minor, fact.money.currency)
    line = {
        "Company Account": "Company",
        "Merchant Account": fact.account,
        "Psp Reference": fact.payment or "",
        "Merchant Reference": "order-1",
        "Payment Method": "visa",
        "Creation Date": f"{at:%Y-%m-%d %H:%M:%S}",
        "TimeZone": "UTC",
        "Type": ADYEN_TYPES[fact.movement],
        "Modification Reference": fact.fact_key.split(":")[1],
        "Gross Currency": currency,
        "Gross Credit (GC)" if fact.movement in TO_US else "Gross Debit (GC)": amount,
        "Exchange Rate": "1",
        "Net Currency": currency,
        "Batch Number": "7",
    }
    return {**line, **changes}


def adyen_csv(*lines: Line) -> bytes:
    return as_csv(ADYEN_COLUMNS, lines)


def make_run(at: datetime, **changes: Any) -> Reconciliation:
    """A comparison of one line of a report, which agrees with the ledger."""
    run = Reconciliation(
        run_id="20260131T120000Z-abcdef",
        at=at,
        provider="stripe",
        tenant=None,
        report_name="balance.csv",
        report_sha256="ab" * 32,
        since=at,
        until=at,
        lines=1,
        compared=1,
        agreed=1,
        counts=dict.fromkeys(KINDS, 0),
        not_compared={},
        journal_version=3,
        journal_seq=14,
        postings_version=2,
        seconds=0.1,
    )
    return replace(run, **changes)
