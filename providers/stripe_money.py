"""The money that Stripe's events moved. `providers.stripe` verifies and names them.

What books, and why:

- A capture is reported around the charge (``charge.succeeded``, ``charge.captured``) and around its payment
  intent (``payment_intent.succeeded``). The charge books, under its own id: it alone says ``captured`` and
  ``amount_captured``, and payments without an intent have one too. The intent's report moves nothing.
- A charge may be captured several times (https://docs.stripe.com/payments/multicapture). Each capture is an update of
  the charge: it books what ``amount_captured`` grew by, also while ``captured`` is false, which it is until the last
  one. ``charge.captured`` reports the last one once more.
- A refund books under its ``re_`` id as soon as Stripe takes the money (it has a balance transaction, or has
  succeeded), whichever event says so first. ``charge.refunded`` counts where it carries its refunds (API versions
  before 2022-11-15). Later ones don't, and ``refund.created`` reports: the setting ``stripe.refund_events`` says that
  the endpoint takes it. Else the event is left to a person. Failed or canceled, the money comes back.
- Until API version 2025-03-31 an authorisation that is released, or the part of one that wasn't captured, is reported
  as a refund too (https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow).
  None of it was ever booked, so it moves nothing.
- A dispute's money is what its ``balance_transactions`` say (https://docs.stripe.com/api/disputes/object): each one
  below zero was withdrawn, each one above zero given back, which may be less
  (https://docs.stripe.com/disputes#disputes-on-partially-refunded-payments), and ``closed`` as ``lost`` makes the
  loss of what is still withheld final. That the money was withdrawn is certain then, whether or not it was told: a loss
  makes two events of the same bytes, one of them for the first withdrawal (`providers.money.types_of`). A movement is
  named by its transaction; the dispute's first withdrawal and first return by the dispute, because
  ``charge.dispute.created`` may not list them yet; one that shares its second with another by its event. A return
  gives back the withdrawal of its round. Where a dispute has no such list its own amount counts. An inquiry
  (``warning_…``) takes nothing, nor does a dispute that was prevented
  (https://docs.stripe.com/changelog/basil/2025-08-27/add-preventions-to-dispute), unless money was withdrawn to
  prevent it: then it is lost as soon as it is closed.
- What a dispute costs (the ``fee`` of its balance transactions) is a movement of its own, named by the transaction.
- What a platform takes of a charge (``application_fee``) is a movement of its own: the balance of the connected account
  pays it, and the platform's grows by it (https://docs.stripe.com/connect/direct-charges). The charge tells the one,
  once the fee's id is there, and ``application_fee.created`` the other, below zero. A charge on the platform itself
  (``transfer_data``, ``destination``) pays no fee: it is taken off what is transferred
  (https://docs.stripe.com/connect/destination-charges). Of a charge of which a part was captured it is unknown how much
  was taken. A fee that is refunded moves two accounts at once, and is left to a person.
- A payout books when paid, under its ``po_`` id, and back when it fails. What a platform takes for it
  (``application_fee_amount``, https://docs.stripe.com/api/payouts/object) is unknown: whether it comes on top of the
  payout's amount isn't said there. Stripe also reports as failed what it never
  reported as paid (https://docs.stripe.com/payouts#payout-failures): that gives nothing back.
- A customer's cash balance isn't the account's. What goes between the two without a payment or a refund (``type``
  ``transferred_to_balance``, ``adjusted_for_overdraft``) is left to a person
  (https://docs.stripe.com/api/cash_balance_transactions/object).
- A payment by gift card settles off Stripe: "no fund movement occurs on Stripe"
  (https://docs.stripe.com/payments/gift-cards). Where PayPal settles its payments is a setting of the account
  (https://docs.stripe.com/payments/paypal/choose-settlement-preference). What settles elsewhere is outside. A refund of
  it need not have a balance transaction: its status says whether it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.fields import an_object, names, object_at, optional_text, text, time_of
from providers.money import WITHHELD, make_person_error, money_of, moved
from providers.pointed import NOT_FETCHED, find_event, find_fetched
from providers.stripe_types import THIN

NAME = "stripe"
LOOKED_UP = "in Stripe's Dashboard"
OUTSIDE: Mapping[str, str] = {"gift_card": "giftcard"}
"""By type of a payment method that settles elsewhere: what the method is called."""
MORE_DECIMALS: Mapping[str, int] = {"ISK": 2, "UGX": 2, "MGA": -2}
"""Where Stripe's minor unit isn't ISO 4217's (https://docs.stripe.com/currencies#special-cases)."""
APPLICATION_FEE = "application_fee.created"
_PAYOUTS = frozenset({"payout.failed", "payout.paid"})
_TELL_APPLICATION_FEES = frozenset({"charge.succeeded", "charge.captured", "charge.updated", APPLICATION_FEE})
_GIVEN_BACK = frozenset({"failed", "canceled"})
_REFUNDING = frozenset({"pending", "requires_action", "succeeded"})
"""Statuses of a refund that stands (https://docs.stripe.com/api/refunds/object#refund_object-status)."""
_UNDECIDED = names(
    "charge_refunded needs_response prevented under_review warning_closed warning_needs_response "
    "warning_under_review won"
)
"""Statuses of a dispute, but for ``lost`` (https://docs.stripe.com/api/disputes/object#dispute_object-status);
``charge_refunded`` is of older API versions."""
_OF_CASH_BALANCES = names(
    "applied_to_payment funded funding_reversed refunded_from_payment return_canceled return_initiated "
    "unapplied_from_payment"
)
"""Movements of a customer's cash balance that aren't of the account's, or that a charge or a refund tells
(https://docs.stripe.com/api/cash_balance_transactions/object)."""
_WITH_THE_BALANCE = names("adjusted_for_overdraft transferred_to_balance")
"""Those that are of the account's balance too."""
UNTOLD = "changes", "not told"
"""Which of several movements of one object a thin event is about."""
_ONE_SECOND = "balance_transactions", "of one second"
"""Which of several rounds of a dispute an event is about."""
ROUNDS: Mapping[Movement, int] = {Movement.DISPUTE_OPENED: -1, Movement.DISPUTE_WON: 1}
"""What a dispute moves several times, by the sign of its balance transactions."""
BY_EVENT: Mapping[str, Any] = {}
"""In place of a round's transaction: the event's own id names the round, as its time is another round's too."""


def find_account(event: Mapping[str, Any]) -> str:
    """Finds the connected account. A thin event names it last in what its object is to be asked with."""
    return optional_text(event, "account") or (optional_text(event, "context") or "").rpartition("/")[2]


def find_object(document: Mapping[str, Any]) -> dict[str, Any]:
    return find_fetched(document) or object_at(document, "data", "object")


def find_payment(reported: Mapping[str, Any]) -> str | None:
    return read_id(reported.get("payment_intent")) or read_id(reported.get("charge")) or read_id(reported)


def read_id(value: object) -> str | None:
    """Reads an id, or that of the object which stands in its place when it was asked to be expanded."""
    value_id = value.get("id") if isinstance(value, dict) else value
    return value_id if isinstance(value_id, str) and value_id else None


def describe_moved(document: Mapping[str, Any], reported: Mapping[str, Any], fact: MoneyFact | None) -> object:
    """Describes what moved, as every version says it: how much of a charge was refunded, though only some list the
    refunds.
    """
    if document.get("type") == "charge.refunded":
        return [
            read_previous(document["data"].get("previous_attributes"), "amount_refunded"),
            reported.get("amount_refunded"),
        ]
    if fact is None:
        return None
    return fact.sha256 if fact.outside is None else replace(fact, outside=None).sha256


class RefundUnlisted(MoneyInvalid):
    """Money went back, and the event doesn't say by which refund."""


class ObjectMovement(NamedTuple):
    movement: Movement
    source: Mapping[str, Any]
    """What moved (charge, refund, dispute, balance transaction, payout): its id names the fact; or `BY_EVENT`."""
    amount: object


def read_fact(document: Mapping[str, Any], event_type: str, outside: Mapping[str, str] = OUTSIDE) -> MoneyFact | None:
    """
    :param outside: by type of a payment method that settles elsewhere: what the method is called
    """
    read = _READERS.get(event_type.removeprefix(THIN))
    if read is None:
        return None
    reported, previous = read_thin_object(document) if event_type.startswith(THIN) else read_object(document)
    if event_type.startswith(THIN):
        read = _UNCERTAIN.get(event_type.removeprefix(THIN), read) if previous is None else read
    method = _find_outside_method(reported, outside)
    reported = reported if method is None else _forget_no_transaction(reported)
    moved_now = read(reported, previous)
    if moved_now is None:
        return None
    event = find_event(document)
    if event_type.startswith(THIN) and moved_now.movement in ROUNDS:
        check_round(reported, moved_now.movement, time_of(event.get("created")))
    dispute_round = None if moved_now.source is not BY_EVENT else f"{text(reported, 'id')}.{text(event, 'id')}"
    money = money_of(moved_now.amount, reported.get("currency", moved_now.source.get("currency")), MORE_DECIMALS)
    return moved(
        NAME,
        moved_now.movement,
        dispute_round or text(moved_now.source, "id"),
        money,
        account=find_account(event),
        payment=find_payment(reported),
        pair=_find_pair(moved_now, reported),
        outside=None if method is None or money.amount_minor <= 0 else Outside(method, money.amount_minor),
    )


def _find_outside_method(reported: Mapping[str, Any], outside: Mapping[str, str]) -> str | None:
    kinds = (str(object_at(reported, name).get("type")) for name in ("payment_method_details", "destination_details"))
    return next((outside[kind] for kind in kinds if kind in outside), None)


def _forget_no_transaction(reported: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leaves out that an object, or one of its refunds, has no balance transaction at Stripe."""
    listed = object_at(reported, "refunds").get("data")
    known = {name: value for name, value in reported.items() if name != "balance_transaction" or value is not None}
    if not isinstance(listed, list):
        return known
    refunds = [_forget_no_transaction(an_object(refund, "a refund")) for refund in listed]
    return {**known, "refunds": {**known["refunds"], "data": refunds}}


def _find_pair(moved_now: ObjectMovement, reported: Mapping[str, Any]) -> str | None:
    """Finds the id of what is undone, or may be. It is None for captures, which nothing undoes, and for what gives back
    a part of a withdrawal. So it is for rounds of a dispute that can't be told apart by their times.
    """
    if moved_now.source is BY_EVENT or moved_now.movement in (Movement.CAPTURE, Movement.DISPUTE_LOST):
        return None
    if moved_now.movement is not Movement.DISPUTE_WON:
        return text(moved_now.source, "id")
    taken, number = select_sign(reported, -1), len(select_sign(reported, 1)) or 1
    if not taken:
        return text(reported, "id")
    if number > len(taken) or taken[number - 1][0] != moved_now.amount:
        return None
    return text(reported if number == 1 else taken[number - 1][1], "id")


def read_thin_object(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """Returns a thin event's object as the event found it, as far as that can be known, and what its attributes were
    before.

    :raises MovementUnknown: it wasn't fetched, or the event doesn't say to what an attribute changed
    """
    event, fetched = find_event(document), find_fetched(document)
    if fetched is None:
        raise MovementUnknown("related_object", NOT_FETCHED)
    before, after = object_at(event, "changes", "before"), object_at(event, "changes", "after")
    if before.keys() - after.keys():
        raise MovementUnknown(*UNTOLD)
    return _drop_later(time_of(event.get("created")), {**fetched, **after}), before or None


def _drop_later(moment: datetime | None, reported: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leaves out a dispute's balance transactions that came later than the event's second."""
    listed = reported.get("balance_transactions")
    if moment is None or not isinstance(listed, list):
        return reported
    end_s = int((moment + timedelta(seconds=1)).timestamp())
    return {
        **reported,
        "balance_transactions": [transaction for transaction in listed if read_created(transaction) <= end_s],
    }


def _read_charge_now(charge: Mapping[str, Any], _: object) -> ObjectMovement | None:
    """Reads a charge without what changed: certain where it was captured at once, or not at all.

    :raises MovementUnknown: it may have been captured in parts (https://docs.stripe.com/payments/multicapture)
    """
    multicapture = object_at(charge, "payment_method_details", "card", "multicapture")
    is_captured, amount = charge.get("captured") is True, charge.get("amount_captured")
    if multicapture.get("status") == "available" or (amount and not is_captured):
        if not amount:
            return None
        raise MovementUnknown(*UNTOLD)
    return ObjectMovement(Movement.CAPTURE, charge, amount) if is_captured else None


def _read_refunded_now(charge: Mapping[str, Any], _: object) -> ObjectMovement | None:
    """Reads a refunded charge without what changed: certain where it has one refund.

    :raises MovementUnknown: it has several
    """
    if charge.get("captured") is False:
        return None
    listed = object_at(charge, "refunds")
    refunds = listed.get("data")
    if not isinstance(refunds, list) or len(refunds) != 1 or listed.get("has_more"):
        raise MovementUnknown(*UNTOLD)
    return _read_made_refund(an_object(refunds[0], "a refund"), None)


def _read_made_refund(refund: Mapping[str, Any], _: object) -> ObjectMovement | None:
    """Reads a refund as it began: what took the money is told by this event, whatever became of it since."""
    taken = refund.get("balance_transaction") is not None
    return _read_refunded({**refund, "status": "succeeded"} if taken else refund)


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
    listed = dispute.get("balance_transactions")
    transactions = (
        [an_object(transaction, "a balance transaction") for transaction in listed] if isinstance(listed, list) else []
    )
    account, payment = find_account(find_event(document)), find_payment(dispute)
    return [
        moved(
            NAME,
            Movement.FEE,
            text(transaction, "id"),
            money_of(transaction["fee"], transaction.get("currency", dispute.get("currency")), MORE_DECIMALS),
            account=account,
            payment=payment,
        )
        for transaction in transactions
        if transaction.get("fee") not in (None, 0)
    ]


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
    """Whether the event tells of a fee that was taken of the charge's own balance."""
    if read_id(charge.get("application_fee")) is None:
        return False
    is_told = event_type != "charge.updated" or (isinstance(previous, dict) and "application_fee" in previous)
    is_of_platform = bool(object_at(charge, "transfer_data") or read_id(charge.get("destination")))
    if not is_told or is_of_platform:
        return False
    if charge.get("captured") is not True:
        return False
    if charge.get("amount_captured") != charge.get("amount"):
        raise MovementUnknown("application_fee_amount", "of a part")
    return True


def read_object(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """Returns an event's object as it holds it, and what its attributes were before."""
    data = an_object(document.get("data"), "'data'")
    return an_object(data.get("object"), "'data.object'"), data.get("previous_attributes")


def _read_captured(charge: Mapping[str, Any], previous: object) -> ObjectMovement | None:
    """Reads what was captured with this event, whether or not more may be (``captured`` says that only of the last
    time).

    The first capture is named by the charge, each further one by its balance transaction, so that ``charge.updated``
    and ``charge.captured`` of one capture are one fact.
    """
    if "amount_captured" not in charge:
        raise MoneyInvalid("the charge has no 'amount_captured': set the endpoint's API version to 2020-08-27 or later")
    if isinstance(previous, dict) and not previous.keys() & {"amount_captured", "balance_transaction"}:
        return None
    before, after = read_previous(previous, "amount_captured"), charge["amount_captured"]
    transaction_before = read_previous(previous, "balance_transaction")
    if not before and transaction_before is None:
        return ObjectMovement(Movement.CAPTURE, charge, after)
    transaction = read_id(charge.get("balance_transaction"))
    if type(before) is not int or type(after) is not int or transaction_before is None:
        raise MoneyInvalid("a further capture doesn't say its amount and balance transaction: book it by hand")
    return ObjectMovement(Movement.CAPTURE, {"id": transaction}, after - before)


def _read_updated(charge: Mapping[str, Any], previous: object) -> ObjectMovement | None:
    is_captured = isinstance(previous, dict) and "amount_captured" in previous
    return _read_captured(charge, previous) if is_captured else None


def _read_charged(charge: Mapping[str, Any], _: object) -> ObjectMovement | None:
    """Reads a succeeded charge. One that is captured then is captured whole, so old API versions are clear too.

    :raises MovementUnknown: it doesn't say whether it is captured
    """
    captured = charge.get("captured")
    if type(captured) is not bool:
        raise MovementUnknown("captured", captured)
    return (
        ObjectMovement(Movement.CAPTURE, charge, charge.get("amount_captured", charge.get("amount")))
        if captured
        else None
    )


def _read_refunded(refund: Mapping[str, Any], _: object = None) -> ObjectMovement | None:
    """Reads a refund: one that has no effect on the balance has null for its transaction."""
    status = refund.get("status")
    taken = refund.get("balance_transaction", ...)
    if str(status) not in _GIVEN_BACK | _REFUNDING and (status is not None or taken is ...):
        raise MovementUnknown("status", status)
    if status in _GIVEN_BACK:
        given_back = refund.get("failure_balance_transaction")
        never_moved = taken is None and given_back is None
        return None if never_moved else ObjectMovement(Movement.REFUND_FAILED, refund, refund.get("amount"))
    if taken is None or (taken is ... and status != "succeeded"):
        return None
    return ObjectMovement(Movement.REFUND, refund, refund.get("amount"))


def _read_charge_refunded(charge: Mapping[str, Any], previous: object) -> ObjectMovement | None:
    """Finds the refund that this event is about: the newest whose amount is what the charge's total grew by."""
    if charge.get("captured") is False:
        return None
    listed = charge.get("refunds")
    refunds = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(refunds, list) or not refunds:
        _check_unlisted(charge, previous)
        return None
    before, after = read_previous(previous, "amount_refunded"), charge.get("amount_refunded")
    if not before and after == _compute_released(charge):
        return None
    if type(before) is int and type(after) is int:
        refunds = [refund for refund in refunds if isinstance(refund, dict) and refund.get("amount") == after - before]
        if not refunds:
            raise MoneyInvalid("none of the charge's refunds is the one that this event reports")
    return _read_refunded(an_object(max(refunds, key=read_created), "a refund"))


def _check_unlisted(charge: Mapping[str, Any], previous: object) -> None:
    """
    :raises RefundUnlisted: money went back
    """
    before = read_previous(previous, "amount_refunded")
    if charge.get("amount_refunded") != (0 if before is None else before):
        raise RefundUnlisted(
            "the charge lists no refunds: subscribe to refund.created, refund.updated and refund.failed, and set "
            "providers.stripe.refund_events"
        )


def read_previous(previous: object, name: str) -> object:
    """Returns what an attribute was before the event; None where it didn't change."""
    return previous.get(name) if isinstance(previous, dict) else None


def _compute_released(charge: Mapping[str, Any]) -> int | None:
    """Returns how much of the authorisation was released at its capture. API versions that list refunds report it as a
    refund.
    """
    amount, captured = charge.get("amount"), charge.get("amount_captured")
    return amount - captured if type(amount) is int and type(captured) is int else None


def read_created(value: object) -> int:
    created = value.get("created") if isinstance(value, dict) else None
    return created if type(created) is int else 0


def _read_dispute_status(dispute: Mapping[str, Any]) -> str:
    status = dispute.get("status")
    if status != "lost" and str(status) not in _UNDECIDED:
        raise MovementUnknown("status", status)
    return str(status)


def read_dispute_opened(dispute: Mapping[str, Any], _: object) -> ObjectMovement | None:
    status, listed = _read_dispute_status(dispute), dispute.get("balance_transactions")
    is_prevented = status == "prevented" and not listed
    if is_prevented or status.startswith("warning_") or listed == []:
        return None
    opened = find_newest(dispute, Movement.DISPUTE_OPENED, -1)
    if opened.source is BY_EVENT:
        # Another event tells of the same withdrawal.
        raise MovementUnknown(*_ONE_SECOND)
    return opened


def read_dispute_closed(dispute: Mapping[str, Any], _: object) -> ObjectMovement | None:
    status, listed = _read_dispute_status(dispute), _list_transactions(dispute)
    is_final = status == "lost" or (status == "prevented" and bool(listed))
    if not is_final or dispute.get("balance_transactions") == []:
        return None
    withheld = -sum(amount for amount, _ in listed) if listed else dispute.get("amount")
    return None if withheld == 0 else ObjectMovement(Movement.DISPUTE_LOST, dispute, withheld)


def read_withheld(dispute: Mapping[str, Any], previous: object) -> ObjectMovement | None:
    """Reads the first withdrawal of a dispute that is lost, named as its own event names it. Where two shared a second,
    no event named one by the dispute.
    """
    if read_dispute_closed(dispute, previous) is None:
        return None
    taken = select_sign(dispute, -1)
    if len(taken) > 1 and read_created(taken[0][1]) == read_created(taken[1][1]):
        return None
    return ObjectMovement(Movement.DISPUTE_OPENED, dispute, taken[0][0] if taken else dispute.get("amount"))


def find_newest(dispute: Mapping[str, Any], movement: Movement, sign: int) -> ObjectMovement:
    """Finds the newest of the dispute's transactions in that direction: the one that its event is about."""
    mine = select_sign(dispute, sign)
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
    listed = dispute.get("balance_transactions")
    transactions = (
        [an_object(transaction, "a balance transaction") for transaction in listed] if isinstance(listed, list) else []
    )
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


def _read_cash(transaction: Mapping[str, Any], _: object) -> None:
    """
    :raises MoneyInvalid: the account's own balance moved as well
    :raises MovementUnknown: it moved in a way that is in no table
    """
    kind = optional_text(transaction, "type")
    if kind in _WITH_THE_BALANCE:
        raise make_person_error(f"a customer's cash balance that is {kind}", LOOKED_UP)
    if kind not in _OF_CASH_BALANCES:
        raise MovementUnknown("customer_cash_balance_transaction.type", kind)


def _make_payout_reader(movement: Movement) -> Callable[[Mapping[str, Any], object], ObjectMovement]:
    return lambda payout, _: ObjectMovement(movement, payout, payout.get("amount"))


_READERS: Mapping[str, Callable[[Mapping[str, Any], object], ObjectMovement | None]] = {
    "charge.succeeded": _read_charged,
    "charge.captured": _read_captured,
    "charge.updated": _read_updated,
    "charge.refunded": _read_charge_refunded,
    "charge.refund.updated": _read_refunded,
    "refund.created": _read_refunded,
    "refund.updated": _read_refunded,
    "refund.failed": _read_refunded,
    "charge.dispute.created": read_dispute_opened,
    "charge.dispute.funds_withdrawn": lambda dispute, _: find_newest(dispute, Movement.DISPUTE_OPENED, -1),
    "charge.dispute.funds_reinstated": lambda dispute, _: find_newest(dispute, Movement.DISPUTE_WON, 1),
    "charge.dispute.closed": read_dispute_closed,
    f"charge.dispute.closed{WITHHELD}": read_withheld,
    "customer_cash_balance_transaction.created": _read_cash,
    "payout.paid": _make_payout_reader(Movement.PAYOUT_PAID),
    "payout.failed": _make_payout_reader(Movement.PAYOUT_FAILED),
}
"""Of a thin event ``data.object`` is what was fetched, and ``previous_attributes`` are its ``changes.before``."""
_UNCERTAIN: Mapping[str, Callable[[Mapping[str, Any], object], ObjectMovement | None]] = {
    "charge.succeeded": _read_charge_now,
    "charge.captured": _read_charge_now,
    "charge.updated": _read_charge_now,
    "charge.refunded": _read_refunded_now,
    "refund.created": _read_made_refund,
}
"""Of a thin event that doesn't say what changed."""
