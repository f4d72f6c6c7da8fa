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

A holder is one balance at a provider (`holder_of`): each tenant and each account there has its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from core.errors import PayhookError
from core.keys import join_key
from core.money import Money, MoneyFact, Movement
from core.routing import of_tenant
from core.work import Posting

CHART_VERSION = 2
"""Raised whenever a movement books otherwise than before; part of the handler's version."""


class Role(StrEnum):
    """An account of the chart, of any owner."""

    CLEARING = "clearing"
    PAYABLE = "payable"
    REFUNDS = "refunds"
    DISPUTES = "disputes"
    DISPUTE_LOSSES = "dispute_losses"
    PAYOUTS = "payouts"


BOOKINGS: Mapping[Movement, tuple[Role, Role]] = MappingProxyType(
    {
        #                          debit                credit
        Movement.CAPTURE: (Role.CLEARING, Role.PAYABLE),
        Movement.CAPTURE_FAILED: (Role.PAYABLE, Role.CLEARING),
        Movement.REFUND: (Role.REFUNDS, Role.CLEARING),
        Movement.REFUND_FAILED: (Role.CLEARING, Role.REFUNDS),
        Movement.DISPUTE_OPENED: (Role.DISPUTES, Role.CLEARING),
        Movement.DISPUTE_WON: (Role.CLEARING, Role.DISPUTES),
        Movement.DISPUTE_LOST: (Role.DISPUTE_LOSSES, Role.DISPUTES),
        Movement.PAYOUT_PAID: (Role.PAYOUTS, Role.CLEARING),
        Movement.PAYOUT_FAILED: (Role.CLEARING, Role.PAYOUTS),
    }
)
"""Each movement's debit and credit. Any order of any facts balances, because each booking does."""

PAYOUTS = frozenset({Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED})


class AmountNotPositive(PayhookError):
    """A movement that can only go one way was reported with an amount below zero."""

    def __init__(self, fact_key: str, money: Money) -> None:
        self.fact_key = fact_key
        self.money = money
        super().__init__(
            f"{fact_key}: {money.amount_minor} {money.currency} can't be booked; ask the provider what was meant"
        )


def holder_of(provider: str, account: str, tenant: str | None = None) -> str:
    """Who holds the money: ``stripe``, ``stripe/acct_1`` for an account there, ``shop-a~stripe/acct_1`` a tenant's."""
    return of_tenant(tenant, f"{provider}/{account}" if account else provider)


@functools.lru_cache(maxsize=4_096)
def account(role: Role, holder: str, merchant: str) -> str:
    """The account of a role: the holder's for clearing, the merchant's for everything else."""
    if role is Role.CLEARING:
        return join_key("provider", holder, role.value)
    return join_key("merchant", merchant, role.value)


def is_account(name: str) -> bool:
    """Whether the chart has such an account, of any owner."""
    parts = name.split(":")
    if len(parts) != 3 or not all(parts) or not name.isascii() or not name.isprintable():
        return False
    owner_kind, _, role = parts
    if owner_kind == "provider":
        return role == Role.CLEARING.value
    return owner_kind == "merchant" and role in _OF_MERCHANTS


_OF_MERCHANTS = frozenset(role.value for role in Role) - {Role.CLEARING.value}


def book(fact: MoneyFact, holder: str, merchant: str) -> tuple[Posting, ...]:
    """The balanced booking of one fact; empty for an amount of zero.

    A payout below zero (the provider takes from the bank account) is booked with its sides swapped.

    :raises AmountNotPositive: any other movement below zero
    """
    debit, credit = BOOKINGS[fact.movement]
    money = fact.money
    if money.amount_minor == 0:
        return ()
    if money.amount_minor < 0:
        if fact.movement not in PAYOUTS:
            raise AmountNotPositive(fact.fact_key, money)
        debit, credit, money = credit, debit, Money(-money.amount_minor, money.currency)
    return (
        Posting(account(debit, holder, merchant), "debit", money),
        Posting(account(credit, holder, merchant), "credit", money),
    )


def merchant_of(name: str) -> str | None:
    """The merchant whose account this is, as the name spells it; None of any other name.

    Handlers, and people who book by hand, may name accounts that the chart doesn't have.
    """
    return name.split(":")[1] if name.startswith("merchant:") else None


def merchants_of(accounts: Sequence[str]) -> list[str | None]:
    """Of each account of a booking the merchant, as it spells it: its owner, and for any other account the first owner
    among them.
    """
    owners = [merchant_of(name) for name in accounts]
    first = next((owner for owner in owners if owner is not None), None)
    return [first if owner is None else owner for owner in owners]
