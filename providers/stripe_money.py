"""The money that Stripe's charges, refunds and payouts moved. `providers.stripe` verifies and names its events;
what disputes move is in `providers.stripe_disputes`, what fees are taken in `providers.stripe_fees`.

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
- A payout books when paid, under its ``po_`` id, and back when it fails. What a platform takes for it
  (``application_fee_amount``, https://docs.stripe.com/api/payouts/object) is unknown: whether it comes on top of the
  payout's amount isn't said there. Stripe also reports as failed what it never
  reported as paid (https://docs.stripe.com/payouts#payout-failures): that gives nothing back.
- A customer's cash balance isn't the account's. What goes between the two without a payment or a refund (``type``
  ``transferred_to_balance``, ``adjusted_for_overdraft``) is left to a person
  (https://docs.stripe.com/api/cash_balance_transactions/object).
- A payment by gift card settles off Stripe: "no fund movement occurs on Stripe"
  (https://docs.stripe.com/payments/gift-cards). So does one by meal voucher: "funds settle outside Stripe"
  (https://docs.stripe.com/payments/meal-vouchers/fr-meal-vouchers/accept-with-connect). Where PayPal settles its
  payments is a setting of the account (https://docs.stripe.com/payments/paypal/choose-settlement-preference). What
  settles elsewhere is outside. A refund of it need not have a balance transaction: its status says whether it stands.
- A payment by a method that no table has is unknown, unless the charge has a balance transaction: "the impact of this
  charge on your account balance" (https://docs.stripe.com/api/charges/object).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown, Outside
from providers.fields import an_object, names, object_at, optional_object, optional_text, text, time_of
from providers.money import WITHHELD, make_person_error, money_of, moved, read_if_certain
from providers.pointed import find_event
from providers.stripe_disputes import (
    ROUNDS,
    check_round,
    find_newest,
    read_dispute_closed,
    read_dispute_opened,
    read_withheld,
    select_sign,
)
from providers.stripe_objects import (
    BY_EVENT,
    MORE_DECIMALS,
    NAME,
    UNTOLD,
    ObjectMovement,
    find_account,
    find_payment,
    read_created,
    read_id,
    read_object,
    read_previous,
    read_thin_object,
)
from providers.stripe_types import THIN

LOOKED_UP = "in Stripe's Dashboard"
OUTSIDE: Mapping[str, str] = {"gift_card": "giftcard"}
"""By type of a payment method that settles elsewhere: what the method is called."""
_SETTLED_HERE = names(
    "ach_credit_transfer ach_debit acss_debit affirm afterpay_clearpay alipay alma amazon_pay au_becs_debit "
    "bacs_debit bancontact billie bizum blik boleto card card_present cashapp crypto customer_balance eps fpx "
    "giropay grabpay ideal interac_present kakao_pay klarna konbini kr_card link mb_way mobilepay multibanco "
    "naver_pay nz_bank_account oxxo p24 pay_by_bank payco paynow paypal paypay payto pix promptpay revolut_pay "
    "samsung_pay satispay scalapay sepa_credit_transfer sepa_debit sequra sofort stripe_account sunbit swish twint "
    "upi us_bank_account wechat wechat_pay zip"
)
"""Types of a charge's payment method (https://docs.stripe.com/api/charges/object, and the SDKs'
``Charge.payment_method_details``), which Stripe settles unless said otherwise."""
_DISPUTE_ENDED = "charge.dispute.closed"
_MEAL_VOUCHER = "fr_meal_voucher"
"""Among a card's ``benefits``, of a payment that its issuer settles (the SDKs'
``Charge.payment_method_details.card.benefits``)."""
_GIVEN_BACK = frozenset({"failed", "canceled"})
_REFUNDING = frozenset({"pending", "requires_action", "succeeded"})
"""Statuses of a refund that stands (https://docs.stripe.com/api/refunds/object#refund_object-status)."""
_OF_CASH_BALANCES = names(
    "applied_to_payment funded funding_reversed refunded_from_payment return_canceled return_initiated "
    "unapplied_from_payment"
)
"""Movements of a customer's cash balance that aren't of the account's, or that a charge or a refund tells
(https://docs.stripe.com/api/cash_balance_transactions/object)."""
_WITH_THE_BALANCE = names("adjusted_for_overdraft transferred_to_balance")
"""Cash transactions that move the account's own balance, too."""


def describe_moved(document: Mapping[str, Any], reported: Mapping[str, Any], fact: MoneyFact | None) -> object:
    """Describes what moved, as every version says it: how much of a charge was refunded, though only some list the
    refunds. What a dispute's end gives back is its own event's.
    """
    if document.get("type") == "charge.refunded":
        return [
            read_previous(document["data"].get("previous_attributes"), "amount_refunded"),
            reported.get("amount_refunded"),
        ]
    if fact is None or (document.get("type") == _DISPUTE_ENDED and fact.movement is Movement.DISPUTE_WON):
        return None
    return fact.sha256 if fact.outside is None else replace(fact, outside=None).sha256


class RefundUnlisted(MoneyInvalid):
    """Money went back, and the event doesn't say by which refund."""


def read_fact(document: Mapping[str, Any], event_type: str, outside: Mapping[str, str] = OUTSIDE) -> MoneyFact | None:
    """
    :param outside: by type of a payment method that settles elsewhere: what the method is called
    """
    read = _READERS.get(event_type.removeprefix(THIN))
    if read is None:
        if event_type.endswith(WITHHELD):
            raise MovementUnknown("type", event_type)
        return None
    is_thin = event_type.startswith(THIN)
    reported, previous = read_thin_object(document) if is_thin else read_object(document)
    if is_thin:
        read = _UNCERTAIN.get(event_type.removeprefix(THIN), read) if previous is None else read
    method = _find_outside_method(reported, outside)
    reported = reported if method is None else _forget_no_transaction(reported)
    moved_now = read(reported, previous)
    if moved_now is None:
        return None
    if method is None and moved_now.movement is Movement.CAPTURE:
        _check_method(reported)
    event = find_event(document)
    if is_thin and moved_now.movement in ROUNDS:
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


def tells_withheld(document: Mapping[str, Any], event_type: str) -> bool:
    """Returns whether a dispute's end is a loss for sure, so that it also tells of the debit before it."""
    withheld = event_type + WITHHELD
    if withheld.removeprefix(THIN) not in _READERS:
        return False
    return read_if_certain(lambda: read_fact(document, withheld)) is not None


def _find_outside_method(reported: Mapping[str, Any], outside: Mapping[str, str]) -> str | None:
    details = optional_object(reported, "payment_method_details")
    if details and object_at(details, "card", "benefits").get(_MEAL_VOUCHER) is not None:
        return "meal_voucher"
    for described in (details, optional_object(reported, "destination_details")):
        kind = str(described.get("type"))
        if kind in outside:
            return outside[kind]
    return None


def _check_method(charge: Mapping[str, Any]) -> None:
    """
    :raises MovementUnknown: neither its method nor a balance transaction says that Stripe settles it
    """
    kind = optional_object(charge, "payment_method_details").get("type")
    if kind is not None and charge.get("balance_transaction") is None and str(kind) not in _SETTLED_HERE:
        raise MovementUnknown("payment_method_details.type", kind)


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


def _read_captured(charge: Mapping[str, Any], previous: object) -> ObjectMovement | None:
    """Reads what was captured with this event, whether or not more may be (``captured`` says that only of the last
    time).

    The first capture is named by the charge, each further one by its balance transaction. So ``charge.updated`` and
    ``charge.captured`` of one capture are one fact.
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
    if not before and type(after) is int and after == _compute_released(charge):
        return None
    if type(before) is int and type(after) is int:
        refunds = [refund for refund in refunds if isinstance(refund, dict) and refund.get("amount") == after - before]
        if not refunds:
            raise MoneyInvalid("none of the charge's refunds is the one that this event reports")
    return _read_refunded(an_object(max(refunds, key=read_created), "a refund"))


def _check_unlisted(charge: Mapping[str, Any], previous: object) -> None:
    before = read_previous(previous, "amount_refunded")
    after = charge.get("amount_refunded")
    if type(after) is not int or after != (0 if before is None else before):
        raise RefundUnlisted(
            "the charge lists no refunds: subscribe to refund.created, refund.updated and refund.failed, and set "
            "providers.stripe.refund_events"
        )


def _compute_released(charge: Mapping[str, Any]) -> int | None:
    """Returns how much of the authorisation was released at its capture. API versions that list refunds report it as a
    refund.
    """
    amount, captured = charge.get("amount"), charge.get("amount_captured")
    return amount - captured if type(amount) is int and type(captured) is int else None


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
    _DISPUTE_ENDED: read_dispute_closed,
    _DISPUTE_ENDED + WITHHELD: read_withheld,
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
"""How a thin event is read that doesn't say what changed."""
