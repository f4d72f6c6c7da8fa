"""The fees that Stripe's events tell of.

What books, and why:

- What a dispute costs (the ``fee`` of its balance transactions) is a movement of its own, named by the transaction.
- What a platform takes of a charge (``application_fee``) is a movement of its own: the balance of the connected account
  pays it, and the platform's grows by it (https://docs.stripe.com/connect/direct-charges). The charge tells the one,
  once the fee's id is there, and ``application_fee.created`` the other, below zero. A charge on the platform itself
  (``transfer_data``, ``destination``) pays no fee: it is taken off what is transferred
  (https://docs.stripe.com/connect/destination-charges). Of a charge of which a part was captured it is unknown how much
  was taken. A fee that is refunded moves two accounts at once, and is left to a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown
from providers.fields import an_object, optional_list, optional_object, text
from providers.money import money_of, moved
from providers.pointed import find_event
from providers.stripe_objects import (
    MORE_DECIMALS,
    NAME,
    find_account,
    find_object,
    find_payment,
    read_id,
    read_object,
    read_thin_object,
)
from providers.stripe_types import THIN

APPLICATION_FEE = "application_fee.created"
_PAYOUTS = frozenset({"payout.failed", "payout.paid"})
_TELL_APPLICATION_FEES = frozenset({"charge.succeeded", "charge.captured", "charge.updated", APPLICATION_FEE})


def read_fees(document: Mapping[str, Any], event_type: str) -> list[MoneyFact]:
    """
    :param event_type: without `THIN`
    :raises MoneyInvalid, MovementUnknown: as `read_fact`
    """
    if event_type.startswith("charge.dispute."):
        return _read_dispute_fees(document)
    if event_type in _PAYOUTS and find_object(document).get("application_fee_amount"):
        raise MovementUnknown("application_fee_amount", "of a payout")
    return _read_application_fees(document, event_type) if event_type in _TELL_APPLICATION_FEES else []


def _read_dispute_fees(document: Mapping[str, Any]) -> list[MoneyFact]:
    """Reads what each of a dispute's balance transactions cost, in the currency of its settlement; below zero: given
    back (https://docs.stripe.com/api/balance_transactions/object#balance_transaction_object-fee).
    """
    dispute = find_object(document)
    listed = optional_list(dispute, "balance_transactions")
    transactions = [an_object(transaction, "a balance transaction") for transaction in listed]
    account, payment = find_account(find_event(document)), find_payment(dispute)
    fees = [
        moved(
            NAME,
            Movement.FEE,
            text(transaction, "id"),
            money_of(transaction["fee"], transaction.get("currency", dispute.get("currency")), MORE_DECIMALS),
            account=account,
            payment=payment,
        )
        for transaction in transactions
        if transaction.get("fee") is not None
    ]
    return [fee for fee in fees if fee.money.amount_minor]


def _read_application_fees(document: Mapping[str, Any], event_type: str) -> list[MoneyFact]:
    """Reads what a platform took of a charge on a connected account, or what came to the platform.

    :raises MovementUnknown: a part of the charge was captured, and how much of the fee was taken isn't said
    """
    event = find_event(document)
    reported, previous = read_thin_object(document) if text(event, "type").startswith(THIN) else read_object(document)
    if event_type == APPLICATION_FEE:
        fee_id, amount, sign, prefix = text(reported, "id"), reported.get("amount"), -1, "platform_"
    elif _has_platform_fee(reported, previous, event_type):
        fee_id = read_id(reported.get("application_fee")) or ""
        amount, sign, prefix = reported.get("application_fee_amount"), 1, "application_"
    else:
        return []
    money = money_of(amount, reported.get("currency"), MORE_DECIMALS)
    money = replace(money, amount_minor=sign * money.amount_minor)
    fee = moved(
        NAME, Movement.FEE, fee_id, money, account=find_account(event), payment=find_payment(reported), prefix=prefix
    )
    return [fee] if money.amount_minor else []


def _has_platform_fee(charge: Mapping[str, Any], previous: object, event_type: str) -> bool:
    if charge.get("application_fee") is None:
        return False
    if read_id(charge["application_fee"]) is None:
        raise MoneyInvalid("the 'application_fee' has no id")
    is_told = event_type != "charge.updated" or (isinstance(previous, dict) and "application_fee" in previous)
    is_of_platform = bool(optional_object(charge, "transfer_data") or read_id(charge.get("destination")))
    if not is_told or is_of_platform:
        return False
    if charge.get("captured") is False:
        return False
    if charge.get("amount_captured") != charge.get("amount"):
        raise MovementUnknown("application_fee_amount", "of a part")
    return True
