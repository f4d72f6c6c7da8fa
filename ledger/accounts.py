"""The chart of accounts, and which two of them each movement of money touches.

Every account is ``<owner kind>:<owner>:<what>``; owners are percent-encoded, so a name always splits into three.
What is owed to a merchant is the sum (credits minus debits) over the merchant's accounts:

| account | kind | what it holds |
|---|---|---|
| ``provider:<holder>:clearing`` | asset | money that the provider holds for us |
| ``merchant:<merchant>:payable`` | liability | captured for the merchant, less what the provider never got |
| ``merchant:<merchant>:refunds`` | liability, contra | given back to payers |
| ``merchant:<merchant>:disputes`` | receivable | withheld by the provider while a dispute is open |
| ``merchant:<merchant>:dispute_losses`` | liability, contra | disputes lost for good |
| ``merchant:<merchant>:payouts`` | liability, contra | paid out to the merchant's bank |
| ``merchant:<merchant>:fees`` | liability, contra | kept by the provider, or by a platform |
| ``outside:<method>:clearing`` | asset | money that a provider only reports: the payment method's owner has it |

A holder is one balance at a provider (`holder_of`): each tenant and each account there has its own. What is outside of
all providers goes by the payment method (``paypal``), for each tenant by itself (``shop-a~paypal``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from core.errors import PayhookError
from core.keys import join_key
from core.money import Money, MoneyFact, Movement, Outside
from core.routing import of_tenant
from core.work import Posting

CHART_VERSION = 3
"""Raised whenever a movement books otherwise than before; part of the handler's version."""


OUTSIDE = "outside"
"""The owner kind of accounts whose money no provider holds."""


class AccountRole(StrEnum):
    CLEARING = "clearing"
    PAYABLE = "payable"
    REFUNDS = "refunds"
    DISPUTES = "disputes"
    DISPUTE_LOSSES = "dispute_losses"
    PAYOUTS = "payouts"
    FEES = "fees"


BOOKINGS: Mapping[Movement, tuple[AccountRole, AccountRole]] = MappingProxyType(
    {
        #                          debit                credit
        Movement.CAPTURE: (AccountRole.CLEARING, AccountRole.PAYABLE),
        Movement.CAPTURE_FAILED: (AccountRole.PAYABLE, AccountRole.CLEARING),
        Movement.REFUND: (AccountRole.REFUNDS, AccountRole.CLEARING),
        Movement.REFUND_FAILED: (AccountRole.CLEARING, AccountRole.REFUNDS),
        Movement.DISPUTE_OPENED: (AccountRole.DISPUTES, AccountRole.CLEARING),
        Movement.DISPUTE_WON: (AccountRole.CLEARING, AccountRole.DISPUTES),
        Movement.DISPUTE_LOST: (AccountRole.DISPUTE_LOSSES, AccountRole.DISPUTES),
        Movement.PAYOUT_PAID: (AccountRole.PAYOUTS, AccountRole.CLEARING),
        Movement.PAYOUT_FAILED: (AccountRole.CLEARING, AccountRole.PAYOUTS),
        Movement.FEE: (AccountRole.FEES, AccountRole.CLEARING),
    }
)
"""Each movement's debit and credit. Any order of any facts balances, because each booking does."""

PAYOUTS = frozenset({Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED})
TURNED_BELOW_ZERO = PAYOUTS | {Movement.FEE}
"""Movements that go either way: an amount below zero swaps their sides."""


class AmountNotPositive(PayhookError):
    def __init__(self, fact_key: str, money: Money) -> None:
        self.fact_key = fact_key
        self.money = money
        super().__init__(
            f"{fact_key}: {money.amount_minor} {money.currency} can't be booked; ask the provider what was meant"
        )


def holder_of(provider: str, account: str, tenant: str | None = None) -> str:
    """Names who holds the money: ``stripe``, ``stripe/acct_1`` for an account, ``shop-a~stripe/acct_1`` for a
    tenant's.
    """
    return of_tenant(tenant, f"{provider}/{account}" if account else provider)


@functools.lru_cache(maxsize=4_096)
def account_name(role: AccountRole, holder: str, merchant: str) -> str:
    if role is AccountRole.CLEARING:
        return join_key("provider", holder, role.value)
    return join_key("merchant", merchant, role.value)


def outside_account(method: str, tenant: str | None = None) -> str:
    """Returns the clearing account of a payment method that its owner settles, not a provider."""
    return join_key(OUTSIDE, of_tenant(tenant, method), AccountRole.CLEARING.value)


def is_account(name: str) -> bool:
    parts = name.split(":")
    if len(parts) != 3 or not all(parts) or not name.isascii() or not name.isprintable():
        return False
    owner_kind, _, role = parts
    if owner_kind in ("provider", OUTSIDE):
        return role == AccountRole.CLEARING.value
    return owner_kind == "merchant" and role in _OF_MERCHANTS


_OF_MERCHANTS = frozenset(role.value for role in AccountRole) - {AccountRole.CLEARING.value}


def book_fact(fact: MoneyFact, holder: str, merchant: str, tenant: str | None = None) -> tuple[Posting, ...]:
    """Returns the balanced booking of one fact; empty for an amount of zero.

    A payout below zero (the provider takes from the bank account) and a fee that is given back are booked with their
    sides swapped. What is outside of the provider, all or a part, clears on the account of its payment method; a part
    is the third line. A movement that clears nothing (a lost dispute) is booked the same wherever its money is.

    :raises AmountNotPositive: any other movement below zero
    """
    debit, credit = BOOKINGS[fact.movement]
    money = fact.money
    if money.amount_minor == 0:
        return ()
    if money.amount_minor < 0:
        if fact.movement not in TURNED_BELOW_ZERO:
            raise AmountNotPositive(fact.fact_key, money)
        debit, credit, money = credit, debit, Money(-money.amount_minor, money.currency)
    lines = (
        Posting(account_name(debit, holder, merchant), "debit", money),
        Posting(account_name(credit, holder, merchant), "credit", money),
    )
    outside = fact.cleared_outside
    return lines if outside is None else _split_outside(lines, outside, tenant)


def _split_outside(lines: tuple[Posting, Posting], outside: Outside, tenant: str | None) -> tuple[Posting, ...]:
    clearing, other = lines if lines[0].account.startswith("provider:") else lines[::-1]
    part = replace(
        clearing,
        account=outside_account(outside.method, tenant),
        money=Money(outside.amount_minor, other.money.currency),
    )
    rest = other.money.amount_minor - outside.amount_minor
    if rest == 0:
        return tuple(part if line is clearing else line for line in lines)
    return replace(clearing, money=Money(rest, other.money.currency)), other, part


def merchant_of(name: str) -> str | None:
    """Returns the merchant whose account this is, as the name spells it; None for any other name.

    Handlers, and people who book by hand, may name accounts that the chart doesn't have.
    """
    return name.split(":")[1] if name.startswith("merchant:") else None


def merchants_of(accounts: Sequence[str]) -> list[str | None]:
    """Finds the merchant of each account of a booking; an account without one gets the first merchant among them."""
    owners = [merchant_of(name) for name in accounts]
    first = next((owner for owner in owners if owner is not None), None)
    return [first if owner is None else owner for owner in owners]
