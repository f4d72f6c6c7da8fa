"""Stripe's balance transactions: the itemised balance-change report, or an export of the balance's history.

Sources: https://docs.stripe.com/reports/report-types/balance and https://docs.stripe.com/reports/reporting-categories

How a line names its fact: ``source_id`` is the object that moved the money, the same whose id the adapter takes, and
the category says which of its movements.

- Amounts are in the settlement currency. Where the payer saw another one (``customer_facing_…``), the webhook has that
  one, so it is what is compared. The sign is the settlement's.
- A charge that was captured in part is two lines: the whole authorisation, and a ``partial_capture_reversal`` of what
  wasn't captured. Their sum is what the webhook's ``amount_captured`` says.
- A payment by a bank debit has its line when it is begun, and another one, a ``charge_failure``, if it fails. Their sum
  is nothing, as is what webhooks say. Until then its line doesn't say that it may fail, so no event is made of it.
- A charge may be captured more than once, and a dispute's money go and come back. The adapter names the first by the
  charge or the dispute, each further one by its balance transaction: a line has both names.
- A dispute that is lost moves no balance again, so no line tells of it. Payouts are only in some files.
- ``fee`` is what Stripe kept of a line, in the settlement currency; ``net`` is gross less fee. What a platform earns by
  application fees is a fee below zero (``platform_earning``).
- Exports of the dashboard have Stripe's ``type`` in place of the category; an ``adjustment`` of a dispute is recognised
  by its source and its sign.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.keys import join_key
from core.money import Money, Movement
from providers.fields import entity_key
from providers.money import PAYOUTS, moved
from providers.settings import ProvidersSettings
from providers.settlement.report import TO_US, NotCompared, ReportLine, ReportRow, SettlementLine
from providers.stripe_objects import NAME

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("balance_transaction_id", "id"),
    "created": ("created_utc", "created (utc)", "created"),
    "category": ("reporting_category", "type"),
    "source": ("source_id", "source"),
    "gross": ("gross", "amount"),
    "currency": ("currency",),
    "fee": ("fee",),
    "facing_amount": ("customer_facing_amount", "customer facing amount"),
    "facing_currency": ("customer_facing_currency", "customer facing currency"),
    "charge": ("charge_id",),
    "payment": ("payment_intent_id",),
}
_REQUIRED = frozenset({"id", "created", "category", "source", "gross", "currency"})
_MOVEMENTS: Mapping[str, Movement] = {
    "charge": Movement.CAPTURE,
    "payment": Movement.CAPTURE,
    "refund": Movement.REFUND,
    "payment_refund": Movement.REFUND,
    "refund_failure": Movement.REFUND_FAILED,
    "dispute": Movement.DISPUTE_OPENED,
    "dispute_reversal": Movement.DISPUTE_WON,
    "payout": Movement.PAYOUT_PAID,
    "payout_reversal": Movement.PAYOUT_FAILED,
    "payout_failure": Movement.PAYOUT_FAILED,
    "payout_cancel": Movement.PAYOUT_FAILED,
}
"""By reporting category, and by the types of balance transactions that stand in its place."""
_FEES = frozenset(
    {"fee", "network_cost", "stripe_fee", "stripe_fx_fee", "tax", "tax_fee"}
    | {"platform_earning", "platform_earning_refund", "application_fee", "application_fee_refund"}
)
"""Categories (and types) of lines that are a fee themselves. What a platform takes of a charge is one below zero, as in
`providers.stripe_money`, and its refund one above."""
_PARTIAL = "partial_capture_reversal"
_FAILED = frozenset({"charge_failure", "payment_failure_refund"})
_NO_CARD = "py_"
"""How the ids of charges begin for payments that aren't by card."""
_DISPUTES = ("dp_", "du_")
_SEVERAL = frozenset({Movement.CAPTURE, Movement.DISPUTE_OPENED, Movement.DISPUTE_WON})
"""One object may move money so more than once."""


class StripeBalance:
    """Each file is of an account that it doesn't name: ``account`` is the connected account, empty for one's own."""

    provider = NAME
    title = "Stripe's itemised balance report"
    names_account = False
    columns = _COLUMNS
    required = _REQUIRED
    wanted_to_repair = (
        "its lines need the columns charge_id, payment_intent_id, customer_facing_amount and customer_facing_currency, "
        "and the last of them filled: else neither the payment nor the payer's currency is known. A payment that isn't "
        "by card (py_…) may still fail: have Stripe send its event again"
    )

    def __init__(self, settings: ProvidersSettings, account: str = "") -> None:
        self._entity = settings.entity
        self._account = account

    def read(self, row: ReportRow) -> ReportLine:
        category = row.text("category").lower()
        if category == _PARTIAL:
            return self._build_line(row, Movement.CAPTURE, row.text("charge"), adds=True)
        if category in _FAILED and row.optional_text("charge"):
            return self._build_line(row, Movement.CAPTURE, row.text("charge"), adds=True)
        movement = _MOVEMENTS.get(category) or _find_adjustment(row, category)
        if movement is None:
            return NotCompared(row.line, category, _read_fee(row, category))
        return self._build_line(row, movement, row.text("source"))

    def _build_line(self, row: ReportRow, movement: Movement, source: str, adds: bool = False) -> ReportLine:
        payment = row.optional_text("payment") or row.optional_text("charge") or source
        money, paired = _read_money(row, movement), movement is not Movement.CAPTURE
        fact = moved(NAME, movement, source, money, account=self._account, payment=payment, paired=paired)
        by_transaction = join_key(NAME, row.text("id"), movement.value) if movement in _SEVERAL else None
        entity = entity_key(self._entity, NAME, self._account, payment) if _is_complete(row, movement) else None
        return SettlementLine(row.line, fact, row.parse_moment("created"), entity, adds, by_transaction, _read_fee(row))


def _find_adjustment(row: ReportRow, category: str) -> Movement | None:
    if category != "adjustment" or not row.optional_text("source").startswith(_DISPUTES):
        return None
    withdrawn = row.money("gross", "currency").amount_minor < 0
    return Movement.DISPUTE_OPENED if withdrawn else Movement.DISPUTE_WON


def _read_money(row: ReportRow, movement: Movement) -> Money:
    """Returns the amount as the webhook gives it: in the payer's currency, above zero when it goes the movement's own
    way.
    """
    gross = row.money("gross", "currency")
    amount_minor, currency = gross.amount_minor, gross.currency
    facing = row.optional_text("facing_currency").upper()
    if facing and facing != currency and movement not in PAYOUTS:
        seen = row.money("facing_amount", "facing_currency")
        size, currency = abs(seen.amount_minor), seen.currency
        amount_minor = size if amount_minor >= 0 else -size
    return Money(amount_minor if movement in TO_US else -amount_minor, currency)


def _read_fee(row: ReportRow, category: str = "") -> Money | None:
    """Reads what Stripe kept of the line; of a line that is a fee, its gross too."""
    kept = row.money("fee", "currency") if row.optional_text("fee") else None
    if category in _FEES:
        gross = row.money("gross", "currency")
        kept = Money((0 if kept is None else kept.amount_minor) - gross.amount_minor, gross.currency)
    return kept if kept is not None and kept.amount_minor else None


def _is_complete(row: ReportRow, movement: Movement) -> bool:
    if movement in PAYOUTS:
        return True
    if movement is Movement.CAPTURE and row.text("source").startswith(_NO_CARD):
        return False
    return row.has_column("charge") and row.has_column("payment") and bool(row.optional_text("facing_currency"))
