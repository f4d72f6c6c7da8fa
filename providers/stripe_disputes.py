"""The money that a Stripe dispute moved.

A dispute's money is what its ``balance_transactions`` say (https://docs.stripe.com/api/disputes/object): each one below
zero was withdrawn, each one above zero given back, which may be less
(https://docs.stripe.com/disputes#disputes-on-partially-refunded-payments), and ``closed`` as ``lost`` makes the loss of
what is still withheld final. That the money was withdrawn is certain then, whether or not it was told: a loss makes two
events of the same bytes, one of them for the first withdrawal (`providers.money.types_of`). A movement is named by its
transaction; the dispute's first withdrawal and first return by the dispute, because ``charge.dispute.created`` may not
list them yet; one that shares its second with another by its event. A return gives back the withdrawal of its round;
``closed`` as ``won`` tells it too, where it lists one. Where a dispute has no such list its own amount counts. An
inquiry (``warning_…``) takes nothing, nor does a dispute that was prevented
(https://docs.stripe.com/changelog/basil/2025-08-27/add-preventions-to-dispute), unless money was withdrawn to prevent
it: then it is lost as soon as it is closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from core.money import MoneyInvalid, Movement, MovementUnknown
from providers.fields import an_object, names, optional_list
from providers.stripe_objects import BY_EVENT, UNTOLD, ObjectMovement, read_created

_UNDECIDED = names(
    "charge_refunded needs_response prevented under_review warning_closed warning_needs_response "
    "warning_under_review won"
)
"""Statuses of a dispute, but for ``lost`` (https://docs.stripe.com/api/disputes/object#dispute_object-status);
``charge_refunded`` is of older API versions."""
_APPEALED = names("appeal_needs_response appeal_under_review")
"""Statuses of a dispute that was lost, and whose loss is appealed (stripe-python 16.1, ``Dispute.status``). What came
of it is told by another end."""
_ONE_SECOND = "balance_transactions", "of one second"
"""Which of several rounds of a dispute an event is about."""
ROUNDS: Mapping[Movement, int] = {Movement.DISPUTE_OPENED: -1, Movement.DISPUTE_WON: 1}
"""What a dispute moves several times, by the sign of its balance transactions."""


def _read_dispute_status(dispute: Mapping[str, Any]) -> str:
    status = dispute.get("status")
    if status != "lost" and str(status) not in _UNDECIDED:
        raise MovementUnknown("status", status)
    return str(status)


def read_dispute_opened(dispute: Mapping[str, Any], _: object) -> ObjectMovement | None:
    listed, told = dispute.get("balance_transactions"), str(dispute.get("status"))
    status = told if told in _APPEALED else _read_dispute_status(dispute)
    is_prevented = status == "prevented" and not optional_list(dispute, "balance_transactions")
    if is_prevented or status.startswith("warning_") or listed == []:
        return None
    opened = find_newest(dispute, Movement.DISPUTE_OPENED, -1)
    if opened is not None and opened.source is BY_EVENT:
        # Another event tells of the same withdrawal.
        raise MovementUnknown(*_ONE_SECOND)
    return opened


def read_dispute_closed(dispute: Mapping[str, Any], _: object) -> ObjectMovement | None:
    status, listed = _read_dispute_status(dispute), _list_transactions(dispute)
    if status == "won":
        return _find_return(dispute)
    is_final = status == "lost" or (status == "prevented" and bool(listed))
    if not is_final or dispute.get("balance_transactions") == []:
        return None
    withheld = -sum(amount for amount, _ in listed) if listed else dispute.get("amount")
    return None if type(withheld) is int and withheld == 0 else ObjectMovement(Movement.DISPUTE_LOST, dispute, withheld)


def _find_return(dispute: Mapping[str, Any]) -> ObjectMovement | None:
    """Finds what came back last of a dispute that closes as won, named as its own event names it, where that is listed
    already. Where two shared a second, their events name them.
    """
    back = select_sign(dispute, 1)
    if not back or sum(read_created(other) == read_created(back[-1][1]) for _, other in back) > 1:
        return None
    return find_newest(dispute, Movement.DISPUTE_WON, 1)


def read_withheld(dispute: Mapping[str, Any], previous: object) -> ObjectMovement | None:
    """Reads the first withdrawal of a dispute that is lost, named as its own event names it. Where two shared a second,
    no event named one by the dispute.
    """
    closed = read_dispute_closed(dispute, previous)
    if closed is None or closed.movement is not Movement.DISPUTE_LOST:
        return None
    taken = select_sign(dispute, -1)
    if len(taken) > 1 and read_created(taken[0][1]) == read_created(taken[1][1]):
        return None
    return ObjectMovement(Movement.DISPUTE_OPENED, dispute, taken[0][0] if taken else dispute.get("amount"))


def find_newest(dispute: Mapping[str, Any], movement: Movement, sign: int) -> ObjectMovement | None:
    """Finds the newest of the dispute's transactions in that direction: the one that its event is about. None where all
    of them are of zero, and cost only their fees.
    """
    mine, listed = select_sign(dispute, sign), _list_transactions(dispute)
    if listed and not any(amount for amount, _ in listed):
        return None
    if not mine:
        return ObjectMovement(movement, dispute, dispute.get("amount"))
    amount, transaction = mine[-1]
    if len(mine) == 1:
        return ObjectMovement(movement, dispute, amount)
    amounts = {amount for amount, other in mine if read_created(other) == read_created(transaction)}
    if len(amounts) > 1:
        raise MovementUnknown(*_ONE_SECOND)
    is_tied = sum(read_created(other) == read_created(transaction) for _, other in mine) > 1
    return ObjectMovement(movement, BY_EVENT if is_tied else transaction, amount)


def select_sign(dispute: Mapping[str, Any], sign: int) -> list[tuple[int, Mapping[str, Any]]]:
    """Lists what was withdrawn (-1), or what was given back (1), above zero and the oldest first."""
    return [(amount * sign, transaction) for amount, transaction in _list_transactions(dispute) if amount * sign > 0]


def check_round(dispute: Mapping[str, Any], movement: Movement, moment: datetime | None) -> None:
    """
    :raises MovementUnknown: the thin event may be about either of two rounds that followed at once
    """
    since = 0 if moment is None else int(moment.timestamp())
    if sum(read_created(transaction) >= since for _, transaction in select_sign(dispute, ROUNDS[movement])) > 1:
        raise MovementUnknown(*UNTOLD)


def _list_transactions(dispute: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """Lists what was withdrawn (below zero) and given back, in the dispute's currency, the oldest first.

    :raises MoneyInvalid: the account settles in another currency, and only a part of what was disputed moved
    """
    listed = optional_list(dispute, "balance_transactions")
    transactions = [an_object(transaction, "a balance transaction") for transaction in listed]
    if len(transactions) > 1 and any(type(transaction.get("created")) is not int for transaction in transactions):
        raise MoneyInvalid("the dispute's balance transactions don't all say when they were: their order isn't known")
    return [
        (_convert_amount(transaction, dispute, transactions), transaction)
        for transaction in sorted(transactions, key=read_created)
    ]


def _convert_amount(
    transaction: Mapping[str, Any], dispute: Mapping[str, Any], every: Sequence[Mapping[str, Any]]
) -> int:
    amount = transaction.get("amount")
    if type(amount) is not int:
        raise MoneyInvalid("a dispute's balance transaction has no whole 'amount'")
    currency = dispute.get("currency")
    if transaction.get("currency", currency) == currency:
        return amount
    largest = max((abs(other["amount"]) for other in every if type(other.get("amount")) is int), default=0)
    disputed = dispute.get("amount")
    if abs(amount) != largest or type(disputed) is not int:
        raise MoneyInvalid(
            f"a part of the dispute moved in {transaction.get('currency')!s}, and the charge's currency is "
            f"{currency!s}: book it by hand, by Stripe's balance report"
        )
    return disputed if amount > 0 else -disputed
