"""The money that PayPal's events moved, whose it is, and what each is about. `providers.paypal` verifies and names
them.

What books, and why:

- A capture (v1: a sale) books when completed, under its own id. An authorisation or an order moves nothing.
- A refund books under its own id once it is completed; one that is pending or failed has moved nothing.
- A refund that failed gives back what its completion booked. One of a payment by an eCheck that hasn't cleared
  (``status_details.reason``, https://developer.paypal.com/api/payments/v2/definitions/refund_status) was never
  completed, and moves nothing.
- A reversal is money that PayPal took back for the payer (a chargeback, a claim that was lost): it books as a refund,
  under the id of the refund that PayPal made of it. v1 writes amounts that go back below zero; the sign is dropped.
- What a dispute takes comes as a refund or a reversal, so disputes (``CUSTOMER.DISPUTE.*``) don't book it. What
  ``CUSTOMER.DISPUTE.RESOLVED`` gives back to the seller (a CREDIT in its ``money_movements``, but for fees) undoes a
  refund, under the dispute's id. Where it lists more than that, a person books it: whether the other part is the
  reversal that was told, it doesn't say. What PayPal paid by itself and doesn't list is unknown.

Fees are movements of their own: what PayPal and a platform kept of a capture, what they gave back with a refund
(``seller_receivable_breakdown``, ``seller_payable_breakdown``; v1: ``transaction_fee``), and what a dispute cost the
seller.

Left to a person: payouts to people (https://developer.paypal.com/docs/payouts/standard/) are
payments by the merchant; a movement knows payouts to the merchant only, and as one of those a payment to anyone would
settle what a merchant is owed. A referenced payout disburses what a capture held back. PayPal doesn't document whether
a capture or sale tells of an invoice's payment too (https://developer.paypal.com/docs/invoicing/webhooks/).

The merchant. v2 names it: in a capture ``payee``, who receives the money, and in a refund ``payer``, who gives it back
(https://developer.paypal.com/docs/api/payments/v2/). Without one of the two a payment would be two merchants', so
whichever has no ``merchant_id`` waits for a person. v1's sales, captures and refunds name no merchant
(https://developer.paypal.com/docs/api/payments/v1/): theirs is the one that the setting ``paypal.merchant_id`` names,
so that v1 and v2 of one account share its balance; else ``""``, whatever stands beside. Disputes name the
``seller`` (https://developer.paypal.com/docs/api/customer-disputes/v1/) and onboarding events a ``merchant_id``;
payouts to people name no merchant.

The entity is the captured transaction (v1: the sale), because that is what its refunds, reversals and disputes name.
Authorisations and orders, which move nothing, have the order's, or the payment's of v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.keys import join_key
from core.money import Money, MoneyFact, MoneyInvalid, Movement, MovementUnknown
from providers.event_types import EventTypes
from providers.fields import an_object, names, object_at, optional_list, optional_object, optional_text, text, text_at
from providers.money import decimal_money_of, moved

NAME = "paypal"
WHOLE = frozenset({"HUF", "TWD"})
"""Currencies that have decimals by ISO 4217 and none at PayPal
(https://developer.paypal.com/api/rest/reference/currency-codes/)."""

_CAPTURED = frozenset({"PAYMENT.CAPTURE.COMPLETED", "PAYMENT.SALE.COMPLETED"})
_GIVEN_BACK = frozenset(
    {"PAYMENT.CAPTURE.REFUNDED", "PAYMENT.CAPTURE.REVERSED", "PAYMENT.SALE.REFUNDED", "PAYMENT.SALE.REVERSED"}
)
_REFUND_FAILED = "PAYMENT.REFUND.FAILED"
_RESOLVED = "CUSTOMER.DISPUTE.RESOLVED"
_PARTIES = names("SELLER BUYER PAYMENT_PROCESSOR")
_NOTHING_PAID = names("RESOLVED_BUYER_FAVOUR RESOLVED_SELLER_FAVOUR CANCELED_BY_BUYER ACCEPTED DENIED NONE")
"""Outcomes of a dispute by which PayPal pays nobody: not ``RESOLVED_WITH_PAYOUT``."""
_PAID_TO_SELLER = "PAYOUT_TO_SELLER"
"""How PayPal may have decided (https://developer.paypal.com/api/customer-disputes/v1/definitions/dispute_outcome, and
``adjudications`` of https://github.com/paypal/paypal-rest-api-specifications)."""
_SETTLEMENT = frozenset({None, "DISPUTE_SETTLEMENT"})
_FEES = names("DISPUTE_SETTLEMENT_FEE DISPUTE_FEE CHARGEBACK_FEE")
"""Of a dispute's movement, the party and the reason
(https://developer.paypal.com/api/customer-disputes/v1/definitions/money_movement_list)."""
EVENT_TYPES = EventTypes(
    books=_CAPTURED | _GIVEN_BACK | {_REFUND_FAILED, _RESOLVED},
    person=names(
        "CUSTOMER.MANAGED-ACCOUNT.NEGATIVE-BALANCE-DEBIT-INITIATED INVOICING.INVOICE.PAID "
        "INVOICING.INVOICE.REFUNDED PAYMENT.PAYOUTS-ITEM.CANCELED PAYMENT.PAYOUTS-ITEM.HELD "
        "PAYMENT.PAYOUTS-ITEM.REFUNDED PAYMENT.PAYOUTS-ITEM.RETURNED PAYMENT.PAYOUTS-ITEM.SUCCEEDED "
        "PAYMENT.PAYOUTS-ITEM.UNCLAIMED PAYMENT.REFERENCED-PAYOUT-ITEM.COMPLETED"
    ),
    nothing={
        "https://developer.paypal.com/api/rest/webhooks/event-names/": names(
            "BILLING.PLAN.ACTIVATED BILLING.PLAN.CREATED BILLING.PLAN.DEACTIVATED "
            "BILLING.PLAN.PRICING-CHANGE.ACTIVATED BILLING.PLAN.UPDATED BILLING.SUBSCRIPTION.ACTIVATED "
            "BILLING.SUBSCRIPTION.CANCELLED BILLING.SUBSCRIPTION.CREATED BILLING.SUBSCRIPTION.EXPIRED "
            "BILLING.SUBSCRIPTION.PAYMENT.FAILED BILLING.SUBSCRIPTION.RE-ACTIVATED BILLING.SUBSCRIPTION.SUSPENDED "
            "BILLING.SUBSCRIPTION.UPDATED CATALOG.PRODUCT.CREATED CATALOG.PRODUCT.UPDATED "
            "CHECKOUT.CHECKOUT.BUYER-APPROVED CHECKOUT.ORDER.APPROVED CHECKOUT.ORDER.COMPLETED "
            "CHECKOUT.ORDER.PROCESSED CHECKOUT.PAYMENT-APPROVAL.REVERSED CUSTOMER.ACCOUNT-LIMITATION.ADDED "
            "CUSTOMER.ACCOUNT-LIMITATION.ESCALATED CUSTOMER.ACCOUNT-LIMITATION.LIFTED "
            "CUSTOMER.ACCOUNT-LIMITATION.UPDATED CUSTOMER.DISPUTE.CREATED "
            "CUSTOMER.DISPUTE.UPDATED CUSTOMER.MANAGED-ACCOUNT.ACCOUNT-CREATED "
            "CUSTOMER.MANAGED-ACCOUNT.ACCOUNT-STATUS-CHANGED CUSTOMER.MANAGED-ACCOUNT.ACCOUNT-UPDATED "
            "CUSTOMER.MANAGED-ACCOUNT.CREATION-FAILED CUSTOMER.MANAGED-ACCOUNT.NEGATIVE-BALANCE-NOTIFIED "
            "CUSTOMER.MANAGED-ACCOUNT.RISK-ASSESSED CUSTOMER.MERCHANT-INTEGRATION.CAPABILITY-UPDATED "
            "CUSTOMER.MERCHANT-INTEGRATION.PRODUCT-SUBSCRIPTION-UPDATED "
            "CUSTOMER.MERCHANT-INTEGRATION.SELLER-ALREADY-INTEGRATED "
            "CUSTOMER.MERCHANT-INTEGRATION.SELLER-CONSENT-GRANTED "
            "CUSTOMER.MERCHANT-INTEGRATION.SELLER-EMAIL-CONFIRMED "
            "CUSTOMER.MERCHANT-INTEGRATION.SELLER-ONBOARDING-INITIATED IDENTITY.AUTHORIZATION-CONSENT.REVOKED "
            "INVOICING.INVOICE.CANCELLED INVOICING.INVOICE.CREATED INVOICING.INVOICE.SCHEDULED "
            "INVOICING.INVOICE.UPDATED MERCHANT.ONBOARDING.COMPLETED MERCHANT.PARTNER-CONSENT.REVOKED "
            "PAYMENT-TOKENIZATION.ENROLLMENT.CREATED PAYMENT-TOKENIZATION.METADATA.CHANGED "
            "PAYMENT-TOKENIZATION.PAYMENT-CREDENTIAL.CREATED PAYMENT-TOKENIZATION.PAYMENT-CREDENTIAL.UPDATED "
            "PAYMENT-TOKENIZATION.TOKEN-STATUS.CHANGED PAYMENT-TOKENIZATION.TRANSACTION.CREATED "
            "PAYMENT.AUTHORIZATION.CREATED PAYMENT.AUTHORIZATION.VOIDED PAYMENT.CAPTURE.DECLINED "
            "PAYMENT.CAPTURE.DENIED PAYMENT.CAPTURE.PENDING PAYMENT.ORDER.CANCELLED PAYMENT.ORDER.CREATED "
            "PAYMENT.PAYOUTS-ITEM.BLOCKED PAYMENT.PAYOUTS-ITEM.FAILED PAYMENT.PAYOUTSBATCH.DENIED "
            "PAYMENT.PAYOUTSBATCH.PROCESSING PAYMENT.PAYOUTSBATCH.SUCCESS PAYMENT.REFERENCED-PAYOUT-ITEM.FAILED "
            "PAYMENT.REFUND.PENDING PAYMENT.SALE.DENIED PAYMENT.SALE.PENDING "
            "PAYMENTS.PAYMENT.CREATED RISK.DISPUTE.CREATED VAULT.CREDIT-CARD.CREATED "
            "VAULT.CREDIT-CARD.UPDATED VAULT.PAYMENT-TOKEN.CREATED VAULT.PAYMENT-TOKEN.DELETED "
            "VAULT.PAYMENT-TOKEN.DELETION-INITIATED"
        )
    },
)
MONEY = EVENT_TYPES.books | EVENT_TYPES.person
"""Every event type that moves money, or may."""
_TAKEN = frozenset({"completed", "partially_refunded", "refunded"})
"""States of a capture or sale that was completed: an event can tell of a later one than its own."""
_NOT_TAKEN = frozenset({"pending", "declined", "denied", "failed"})
"""Other statuses of a capture (https://developer.paypal.com/docs/api/payments/v2/) or a sale (…/payments/v1/)."""
_NOT_GIVEN_BACK = frozenset({"pending", "failed", "cancelled"})
"""Statuses of a refund (the same pages), besides ``completed``."""
_CONVERTED_FEE = "paypal_fee_in_receivable_currency"
"""A capture has it "only in cases the fee is charged in the receivable currency", a refund where that is another one
(https://developer.paypal.com/docs/api/payments/v2/)."""
_NEVER_COMPLETED = "ECHECK"
"""Why a refund is pending or failed: its payment hasn't cleared."""
_OF_A_CAPTURE = ("PAYMENT.CAPTURE.", "PAYMENT.SALE.")
_BY_HAND = "book it by a manual entry"


def _list_disputed(resource: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = resource.get("disputed_transactions")
    return [transaction for transaction in listed if isinstance(transaction, dict)] if isinstance(listed, list) else []


def _find_common(names: Iterable[str | None]) -> str | None:
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else None


def _find_first_text(document: Mapping[str, Any], *names: str) -> str | None:
    return next((value for name in names if (value := text_at(document, name))), None)


def find_account(document: Mapping[str, Any], of_v1: str) -> str:
    """Finds the merchant's id where the event names one for sure; "" otherwise. ``of_v1``: whose v1's payments are."""
    resource = object_at(document, "resource")
    if _is_v1(object_at(resource, "amount")):
        return of_v1
    merchant = object_at(resource, "payer" if _is_refund(document) else "payee")
    seller = _find_common(text_at(transaction, "seller", "merchant_id") for transaction in _list_disputed(resource))
    onboarded = text_at(resource, "merchant_id") if "amount" not in resource else None
    return text_at(merchant, "merchant_id") or seller or onboarded or ""


def find_payment(document: Mapping[str, Any]) -> str | None:
    """Finds the captured transaction, where the event is about one; else the order, v1's payment, or the resource."""
    resource = object_at(document, "resource")
    related = object_at(resource, "supplementary_data", "related_ids")
    above = (_find_link(resource, "up") or "").rpartition("/")[2]
    captured = _find_common(text_at(transaction, "seller_transaction_id") for transaction in _list_disputed(resource))
    if _is_refund(document):
        captured = text_at(related, "capture_id") or _find_first_text(resource, "sale_id", "capture_id") or above
    elif str(document.get("event_type")).startswith(_OF_A_CAPTURE):
        captured = text_at(resource, "id")
    return (
        captured
        or text_at(related, "order_id")
        or _find_first_text(resource, "parent_payment", "order_id")
        or above
        or _find_first_text(resource, "id", "dispute_id", "payout_item_id")
        or text_at(resource, "batch_header", "payout_batch_id")
        or text_at(resource, "invoice", "id")
        or text_at(resource, "merchant_id")
    )


def _find_link(resource: Mapping[str, Any], relation: str) -> str | None:
    links = resource.get("links")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("rel") == relation:
            return text_at(link, "href")
    return None


def _is_refund(document: Mapping[str, Any]) -> bool:
    """Whether the resource says of itself that it is one: v1's ``resource_type`` may be the refunded payment's."""
    resource = object_at(document, "resource")
    return (
        document.get("resource_type") == "refund"
        or _find_first_text(resource, "sale_id", "capture_id") is not None
        or re.search(r"/refunds?/[^/]+$", _find_link(resource, "self") or "") is not None
    )


def read_fact(document: Mapping[str, Any], event_type: str, of_v1: str) -> MoneyFact | None:
    """
    :param of_v1: the merchant whose v1's payments are
    :raises MoneyInvalid: a booking type whose resource doesn't say for sure what moved
    :raises MovementUnknown: its status is in no table
    """
    if event_type == _RESOLVED:
        return _read_resolved(document)
    movement = _find_movement(document, event_type)
    if movement is None:
        return None
    resource = an_object(document.get("resource"), "'resource'")
    if movement is not Movement.CAPTURE and not _is_refund(document):
        raise MoneyInvalid("the resource doesn't say that it is a refund: its id and amount may be the payment's")
    reference = text(resource, "id")
    amount = an_object(resource.get("amount"), "'amount'")
    value, currency = _read_value_and_currency(amount)
    if movement is not Movement.CAPTURE and isinstance(value, str):
        value = value.removeprefix("-")
    money = decimal_money_of(value, currency)
    if money.currency in WHOLE and money.amount_minor % 100:
        raise MoneyInvalid(f"PayPal has no decimals of {money.currency}")
    account = find_account(document, of_v1)
    if not account and not _is_v1(amount):
        names = "payee" if movement is Movement.CAPTURE else "payer"
        raise MoneyInvalid(
            f"{event_type} has no {names}.merchant_id: it can't be known whose payment it is; {_BY_HAND}"
        )
    payment, paired = find_payment(document), movement is not Movement.CAPTURE
    fact = moved(NAME, movement, reference, money, account=account, payment=payment, paired=paired)
    return _pair_with_reversal(fact) if event_type.endswith(".REVERSED") else fact


def _find_movement(document: Mapping[str, Any], event_type: str) -> Movement | None:
    """Finds which way an event moved money, if it did. What a refund's failure undoes tells no status: it may be told
    of a later one.
    """
    if event_type not in _CAPTURED | _GIVEN_BACK | {_REFUND_FAILED}:
        return None
    resource = an_object(document.get("resource"), "'resource'")
    if event_type == _REFUND_FAILED:
        is_never_completed = object_at(resource, "status_details").get("reason") == _NEVER_COMPLETED
        return None if is_never_completed else Movement.REFUND_FAILED
    status = (optional_text(resource, "status") or optional_text(resource, "state") or "").lower()
    movement = Movement.CAPTURE if event_type in _CAPTURED else Movement.REFUND
    if movement is Movement.REFUND and status in _NOT_GIVEN_BACK:
        return None
    if not status or (movement is Movement.CAPTURE and status in _NOT_TAKEN):
        raise MoneyInvalid("the resource's status isn't one in which money has moved")
    if status not in (_TAKEN if movement is Movement.CAPTURE else {"completed"}):
        raise MovementUnknown("status", status)
    return movement


def _pair_with_reversal(fact: MoneyFact) -> MoneyFact:
    """Pairs what a dispute took with what it gives back whole: both name the payment, and the first doesn't name the
    dispute.
    """
    return replace(fact, pair=join_key(NAME, fact.payment or "", "reversal"))


def read_fees(document: Mapping[str, Any], event_type: str, of_v1: str) -> list[MoneyFact]:
    """Reads what PayPal and platforms kept of a capture, gave back with a refund, or took for a dispute.

    :param of_v1: the merchant whose v1's payments are
    """
    resource = object_at(document, "resource")
    if event_type == _RESOLVED:
        amounts = _read_dispute_fees(resource)
    else:
        moved_now = read_fact(document, event_type, of_v1)
        if moved_now is None:
            return []
        amounts = _read_payment_fees(resource, 1 if moved_now.movement is Movement.CAPTURE else -1)
        if moved_now.movement is Movement.REFUND_FAILED and any(money.amount_minor for _, money in amounts):
            raise MovementUnknown("paypal_fee", "of a refund that failed")
    account, payment = find_account(document, of_v1), find_payment(document)
    reference = _find_first_text(resource, "dispute_id" if event_type == _RESOLVED else "id") or ""
    return [
        moved(NAME, Movement.FEE, reference, money, account=account, payment=payment, prefix=prefix)
        for prefix, money in amounts
        if money.amount_minor
    ]


def _read_payment_fees(resource: Mapping[str, Any], sign: int) -> list[tuple[str, Money]]:
    """Reads the fees, each with the beginning of its name. A refund's breakdown has what is given back: "gross_amount
    minus paypal_fee minus platform_fees" is what the merchant pays
    (https://developer.paypal.com/docs/api/payments/v2/).
    """
    breakdown = optional_object(resource, "seller_receivable_breakdown" if sign > 0 else "seller_payable_breakdown")
    of_v1 = resource.get("transaction_fee" if sign > 0 else "refund_from_transaction_fee")
    platforms = optional_list(breakdown, "platform_fees")
    converted = breakdown.get(_CONVERTED_FEE)
    if converted is not None and sign < 0:
        raise MovementUnknown(_CONVERTED_FEE, "of a refund")
    taken = (fee for fee in (converted, breakdown.get("paypal_fee"), of_v1) if fee is not None)
    amounts = [("", next(taken, None))]
    amounts += [
        ("platform_" if number == 1 else f"platform{number}_", an_object(fee, "a platform's fee").get("amount"))
        for number, fee in enumerate(platforms, 1)
    ]
    return [(prefix, _read_signed_amount(amount, sign)) for prefix, amount in amounts if amount is not None]


def _read_signed_amount(amount: object, sign: int) -> Money:
    written = an_object(amount, "a fee")
    v1 = _is_v1(written) and "currency_code" not in written
    money = decimal_money_of(written.get("value"), written.get("currency" if v1 else "currency_code"))
    return Money(sign * abs(money.amount_minor), money.currency)


def _read_dispute_fees(resource: Mapping[str, Any]) -> list[tuple[str, Money]]:
    """Reads the seller's fees, by reason: ``DISPUTE_FEE`` is a fact that ends with ``dispute_fee``."""
    sums: dict[tuple[str, str], int] = {}
    for listed_movement in optional_list(resource, "money_movements"):
        movement = an_object(listed_movement, "a movement of the dispute's money")
        reason = optional_text(movement, "reason")
        if movement.get("affected_party") != "SELLER" or reason not in _FEES:
            continue
        if movement.get("type") not in ("CREDIT", "DEBIT"):
            raise MovementUnknown("money_movements.type", movement.get("type"))
        money = _read_signed_amount(movement.get("amount"), 1 if movement["type"] == "DEBIT" else -1)
        name = str(reason).lower().removesuffix("fee"), money.currency
        sums[name] = sums.get(name, 0) + money.amount_minor
    return [(prefix, Money(minor, currency)) for (prefix, currency), minor in sums.items()]


def _read_resolved(document: Mapping[str, Any]) -> MoneyFact | None:
    """Reads what a resolved dispute gives back to the seller. What it takes, a refund or a reversal tells.

    :raises MoneyInvalid: money went both ways, or several times
    """
    resource = an_object(document.get("resource"), "'resource'")
    reference, listed = text(resource, "dispute_id"), optional_list(resource, "money_movements")
    movements = [an_object(listed_movement, "a movement of the dispute's money") for listed_movement in listed]
    of_seller = [movement for movement in movements if _is_settled_with_seller(movement)]
    if not any(movement["type"] == "CREDIT" for movement in of_seller):
        _check_outcome(resource, movements)
        return None
    if len(of_seller) > 1:
        raise MoneyInvalid(f"the dispute moved money several times: look it up at PayPal, and {_BY_HAND}")
    account = find_account(document, "")
    if not account:
        raise MoneyInvalid(f"the dispute doesn't name one seller: it can't be known whose money it is; {_BY_HAND}")
    amount = an_object(of_seller[0].get("amount"), "'amount'")
    money = decimal_money_of(amount.get("value"), amount.get("currency_code"))
    fact = moved(NAME, Movement.REFUND_FAILED, reference, money, account=account, payment=find_payment(document))
    disputed = object_at(resource, "dispute_amount")
    is_part = bool(disputed) and decimal_money_of(disputed.get("value"), disputed.get("currency_code")) != money
    names_payment = (
        _find_common(text_at(transaction, "seller_transaction_id") for transaction in _list_disputed(resource))
        is not None
    )
    return _pair_with_reversal(fact) if names_payment and not is_part else fact


def _check_outcome(resource: Mapping[str, Any], movements: Sequence[Mapping[str, Any]]) -> None:
    """
    :raises MovementUnknown: the seller may have been paid, and no movement says how much
    """
    outcome = optional_object(resource, "dispute_outcome").get("outcome_code")
    if not movements and outcome is not None and str(outcome) not in _NOTHING_PAID:
        raise MovementUnknown("dispute_outcome.outcome_code", outcome)
    for adjudication in optional_list(resource, "adjudications"):
        if object_at(adjudication).get("type") == _PAID_TO_SELLER:
            raise MovementUnknown("adjudications.type", _PAID_TO_SELLER)


def _is_settled_with_seller(movement: Mapping[str, Any]) -> bool:
    """Whether it is the seller's money, and no fee.

    :raises MovementUnknown: its party, its direction or its reason is in no table
    """
    party, way, reason = (optional_text(movement, name) for name in ("affected_party", "type", "reason"))
    if party not in _PARTIES:
        raise MovementUnknown("affected_party", party)
    if party != "SELLER" or reason in _FEES:
        return False
    if reason not in _SETTLEMENT:
        raise MovementUnknown("money_movements.reason", reason)
    if way not in ("CREDIT", "DEBIT"):
        raise MovementUnknown("money_movements.type", way)
    return True


def _is_v1(amount: Mapping[str, Any]) -> bool:
    return "total" in amount or "currency" in amount


def _read_value_and_currency(amount: Mapping[str, Any]) -> tuple[object, object]:
    """Reads an amount of v2 or v1; one that speaks both ways at once is neither."""
    v1 = _is_v1(amount)
    v2 = "value" in amount or "currency_code" in amount
    if v1 and v2:
        raise MoneyInvalid("the amount is given in two ways")
    return (amount.get("total"), amount.get("currency")) if v1 else (amount.get("value"), amount.get("currency_code"))
