"""Reads what moved on Mollie's balance.

``balance-transaction.created`` (https://docs.mollie.com/reference/webhooks-new) is sent where something is added to
the available balance (https://github.com/mollie/openapi, ``webhook-event-types``). Most of it other events tell and
book: `TOLD_BY_THEMSELVES`. What no other event tells, such as an application's fee that comes to the platform, a
correction, a top-up or a loan, is unknown.

Of what is added Mollie may keep a part (``deductions``). Its own fees are movements of their own, named by the
transaction. Commissions are the application's fee, which the payment tells. What else is kept, or isn't said by kind,
is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.money import MoneyFact, Movement, MovementUnknown
from providers.fields import names, object_at, text, text_at
from providers.mollie_money import ACCOUNT, LEDGER, money_at
from providers.money import moved

BALANCE_TYPE = "balance-transaction.created"
TOLD_BY_THEMSELVES = names(
    "payment capture refund returned-refund chargeback chargeback-reversal outgoing-transfer "
    "canceled-outgoing-transfer canceled-transfer outgoing-custom-amount-transfer returned-transfer"
)
"""Types of transactions that payments, captures, refunds, chargebacks and payouts tell."""
_FEES, _COMMISSIONS = "fees", "commissions"


def check_balance_transaction(transaction: Mapping[str, Any]) -> None:
    """
    :raises MovementUnknown: nothing else tells of it, or it doesn't say for what a part was deducted
    :raises MoneyInvalid, Unparseable: it can't be read
    """
    kind = transaction.get("type")
    if not isinstance(kind, str) or kind not in TOLD_BY_THEMSELVES:
        raise MovementUnknown("balance-transaction.type", kind)
    read_balance_fees(transaction)


def read_balance_fees(transaction: Mapping[str, Any]) -> list[MoneyFact]:
    """Reads what Mollie kept for itself; below zero it is given back.

    :raises MoneyInvalid, MovementUnknown, Unparseable: as `check_balance_transaction`
    """
    if transaction.get("deductions") is None:
        return []
    deducted = money_at(transaction["deductions"])
    listed = object_at(transaction, "deductionDetails")
    amounts = {name: money_at(amount) for name, amount in listed.items() if amount is not None}
    for name, amount in amounts.items():
        if name not in (_FEES, _COMMISSIONS) and amount.amount_minor:
            raise MovementUnknown(f"deductionDetails.{name}", amount.amount_minor)
    if deducted.amount_minor != sum(amount.amount_minor for amount in amounts.values()):
        raise MovementUnknown("deductionDetails", "of another amount than what was deducted")
    fees = amounts.get(_FEES)
    if fees is None or not fees.amount_minor:
        return []
    payment = text_at(transaction, "context", "paymentId") or text_at(
        transaction, "context", str(transaction.get("type")), "paymentId"
    )
    kept = replace(fees, amount_minor=-fees.amount_minor)
    return [moved(LEDGER, Movement.FEE, text(transaction, "id"), kept, account=ACCOUNT, payment=payment)]
