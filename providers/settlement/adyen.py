"""Adyen's Settlement details report.

Source: https://docs.adyen.com/reporting/settlement-reconciliation/transaction-level/settlement-details-report

How a line names its fact: ``Psp Reference`` is the payment's, which webhooks call originalReference; ``Modification
Reference`` is that of the capture, refund or dispute, which webhooks call pspReference; ``Type`` is what they call the
event code. Where the account captures immediately (``providers.adyen.capture``) the payment's own reference names the
capture.

Gross amounts are in the payment's currency, as in webhooks: a credit comes to us, a debit is taken. What else a batch
holds (fees, corrections, the payout of the batch to the bank) has no webhook that books.

A second chargeback is lost at once, of which its line doesn't tell: no event is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.keys import join_key
from core.money import Money, MoneyFact, Movement
from providers.adyen_money import DATED, MOVEMENTS, NAME, PAIRS, is_captured_at_once
from providers.fields import entity_key
from providers.money import PAYOUTS
from providers.settings import ProvidersSettings
from providers.settlement.report import TO_US, NotCompared, ReportLine, ReportRow, SettlementLine

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "account": ("merchant account",),
    "payment": ("psp reference",),
    "created": ("creation date",),
    "zone": ("timezone",),
    "method": ("payment method",),
    "type": ("type",),
    "modification": ("modification reference", "modification psp reference"),
    "currency": ("gross currency",),
    "debit": ("gross debit (gc)",),
    "credit": ("gross credit (gc)",),
    "net_currency": ("net currency",),
    "net_debit": ("net debit (nc)",),
    "net_credit": ("net credit (nc)",),
    "commission": ("commission (nc)",),
    "markup": ("markup (nc)",),
    "scheme_fees": ("scheme fees (nc)",),
    "interchange": ("interchange (nc)",),
}
_FEES = ("commission", "markup", "scheme_fees", "interchange")
"""Columns of what Adyen kept of a line, in the currency of the settlement: the first alone, or the others."""
_OPTIONAL = frozenset({"zone", "method", "net_currency", "net_debit", "net_credit", *_FEES})
_CODES: Mapping[str, str] = {
    "settled": "CAPTURE",
    "settledreversed": "SETTLED_REVERSED",
    "refunded": "REFUND",
    "refundedreversed": "REFUNDED_REVERSED",
    "chargeback": "CHARGEBACK",
    "chargebackreversed": "CHARGEBACK_REVERSED",
    "secondchargeback": "SECOND_CHARGEBACK",
    "paidout": "PAYOUT_THIRDPARTY",
    "paidoutreversed": "PAIDOUT_REVERSED",
}
"""The event code of the webhook that tells of the same movement, by the report's type."""
_TWO = "SECOND_CHARGEBACK"
"""The type whose webhook is two movements."""


class AdyenSettlement:
    """Each file is one batch, of one merchant account or several; each line names its own."""

    provider = NAME
    title = "Adyen's Settlement details report"
    names_account = True
    columns = _COLUMNS
    required = frozenset(_COLUMNS) - _OPTIONAL
    wanted_to_repair = (
        "a second chargeback is a loss too, which its line doesn't tell: have Adyen send its webhook again, or book it "
        "by an entry"
    )

    def __init__(self, settings: ProvidersSettings, account: str = "") -> None:
        self._entity = settings.entity
        self._adyen = settings.adyen
        self._only = account
        self._told: set[str] = set()

    def read(self, row: ReportRow) -> ReportLine:
        kind = row.text("type")
        code = _CODES.get(kind.lower())
        if code is None:
            return NotCompared(row.line, kind, _read_line_fee(row) if kind.lower() == "fee" else None)
        account = row.text("account")
        if self._only and account != self._only:
            return NotCompared(row.line, f"of the account {account}")
        movement, name = MOVEMENTS[code]
        payment = row.optional_text("payment") if movement in PAYOUTS else row.text("payment")
        reference = (
            payment if code == "CAPTURE" and self._is_captured_at_once(row, account) else row.text("modification")
        )
        fact = MoneyFact(
            fact_key=join_key(NAME, reference, name),
            movement=movement,
            account=account,
            payment=None if movement in PAYOUTS else payment,
            money=_read_money(row, movement),
            pair=join_key(NAME, reference, PAIRS[movement]) if movement in PAIRS else None,
        )
        entity = None if code == _TWO else entity_key(self._entity, NAME, account, payment or reference)
        is_further_round = code in DATED and fact.fact_key in self._told
        self._told.add(fact.fact_key)
        return SettlementLine(
            row.line,
            fact,
            row.parse_moment("created", row.parse_zone("zone")),
            entity,
            is_further_round,
            fee=_read_fee(row),
        )

    def _is_captured_at_once(self, row: ReportRow, account: str) -> bool:
        at_once = is_captured_at_once(self._adyen, account, row.optional_text("method") or None)
        if at_once is None:
            raise row.build_error("method", "is missing: providers.adyen.capture of the account depends on it")
        return at_once


def _read_fee(row: ReportRow) -> Money | None:
    parts = [row.money(name, "net_currency") for name in _FEES if row.optional_text(name)]
    kept = sum(part.amount_minor for part in parts)
    return Money(kept, parts[0].currency) if kept else None


def _read_line_fee(row: ReportRow) -> Money | None:
    for name, sign in (("net_debit", 1), ("net_credit", -1)):
        if row.optional_text(name):
            money = row.money(name, "net_currency")
            return Money(sign * money.amount_minor, money.currency) if money.amount_minor else None
    return None


def _read_money(row: ReportRow, movement: Movement) -> Money:
    """Returns the amount as the webhook gives it: above zero when it goes the movement's own way."""
    debit, credit = row.optional_text("debit"), row.optional_text("credit")
    if bool(debit) == bool(credit):
        raise row.build_error("credit", "expected either a debit or a credit, not both")
    is_credit = bool(credit)
    money = row.money("credit" if is_credit else "debit", "currency")
    own_way = is_credit == (movement in TO_US)
    return money if own_way else Money(-money.amount_minor, money.currency)
