"""Adyen's platform webhooks (https://docs.adyen.com/platforms/webhook-types): signature, identities and money facts.

One request is one event; the whole body is signed (``HmacSignature``,
https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures), ``environment`` in it
too, so that routes. There is no event id. A transfer counts its webhooks (``sequenceNumber``), what is created is so
once, and anything else is named by its content. ``timestamp`` says when the webhook was queued, not what happened.

``account`` is whom an event concerns: the balance account; else the account holder, the legal entity or the merchant
account; else the whole balance platform (https://docs.adyen.com/api-explorer/balanceplatform-webhooks/latest/overview,
https://docs.adyen.com/api-explorer/Tokenization-webhooks/latest/overview). It is no part of an event's key.

What moves money is a transfer (``TRANSFERS``, https://docs.adyen.com/api-explorer/transfer-webhooks/latest/overview).
What books, and why:

- A transfer from a balance account to a bank account is a payout: paid when it is booked, which one that is credited
  was, failed when the bank returns or rejects it afterwards, under the transfer's id. Until it is booked the money is
  only reserved. Its ``balances`` ("the latest balance statuses in the transfer", Adyen's OpenAPI) are in its own
  currency: where one is in another, what was taken of it is unknown.
- A platform payment (capture, refund, chargeback of a balance account) is one account's share of a payment that the
  standard webhooks tell whole and `providers.adyen` books: with its shares booked too, money would count twice.
- Transfers within Adyen (between balance accounts, fees, a cash-out that is funded and repaid) don't change what Adyen
  holds in all, or come with the settlement report (`KINDS_WITHIN`). Who has the money of a correction or an adjustment
  of a balance no page says: it is unknown. ``balancePlatform.transaction.created`` and the deprecated payment webhooks
  repeat what transfers say.

Left to a person, because none of our movements fits (``LEFT_CATEGORIES``, ``LEFT_KINDS``): money that comes from a bank
account or is collected by direct debit (https://docs.adyen.com/business-accounts/third-party-transfer-webhooks),
top-ups, transfers to other people's cards, what cards issued by Adyen spend, and loans by Adyen with their repayment.
They are transfers as well, so no type as a whole is left to a person. Nor is it known of one that failed whether it was
booked before: a payout to a card fails after its funds were deducted
(https://docs.adyen.com/payouts/payout-service/payout-lifecycle).

Both kinds of notifications tell of one balance, the one that Adyen holds, so they have one clearing account: that of
the merchant account which the setting ``adyen.platforms`` names. A payout of a platform that isn't named there waits.
"""

from __future__ import annotations

import secrets as random_secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from core.card_numbers import quote_masked
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown
from providers.adyen_money import ACCEPTED, MORE_DECIMALS
from providers.base import Delivered, JsonAdapter, JsonObject, Named
from providers.content import fields_of
from providers.event_types import EventTypes, types_of_objects
from providers.fields import (
    an_object,
    content_hash,
    mode_of,
    names,
    object_at,
    optional_list,
    optional_text,
    text,
    time_of,
)
from providers.money import money_of, moved
from providers.port import Answer
from providers.signature import base64_mac, hex_key

NAME = "adyenplatform"
LEFT_CATEGORIES = frozenset(
    {("bank", "incoming")}
    | {(category, way) for category in ("topUp", "card", "issuedCard", "grants") for way in ("incoming", "outgoing")}
)
"""Transfers that a person books, by ``category`` and ``direction``."""
LEFT_KINDS = frozenset({"grant", "repayment", "capitalFundsCollection", "bankDirectDebit"})
"""Transfers that a person books, by ``type``."""
PAYOUT_KINDS = frozenset({"bankTransfer"})
"""By ``type``, which versions before 3 don't tell
(https://docs.adyen.com/api-explorer/transfer-webhooks/latest/overview)."""
KINDS_WITHIN = names(
    "payment capture captureReversal refund refundReversal chargeback chargebackReversal secondChargeback "
    "internalTransfer internalDirectDebit fee miscCost paymentCost invoiceDeduction cashOutInstruction cashoutFee "
    "cashoutRepayment cashoutFunding"
)
"""Transfers that aren't with a bank, by ``type``: those that the standard notifications tell whole, those between
balance accounts, and fees. Corrections and adjustments of a balance aren't among them."""
TRANSFERS = frozenset({"balancePlatform.transfer.created", "balancePlatform.transfer.updated"})
EVENT_TYPES = EventTypes(
    books=TRANSFERS,
    nothing={
        "https://docs.adyen.com/platforms/webhook-types": types_of_objects(
            """
            balancePlatform.accountHolder: created updated
            balancePlatform.balanceAccount: created updated
            balancePlatform.balanceAccount.balance: updated
            balancePlatform.balanceAccountSweep: created deleted updated
            balancePlatform.incomingTransfer: created updated
            balancePlatform.negativeBalanceCompensationWarning: scheduled
            balancePlatform.outgoingTransfer: created updated
            balancePlatform.payment: created
            balancePlatform.paymentInstrument: created updated
            balancePlatform.transaction: created
            """
        ),
        # What a payout schedule, a grant or a dispute of an issued card's payment moves is a transfer.
        "https://github.com/Adyen/adyen-openapi": types_of_objects(
            """
            balancePlatform.authentication: created relayed
            balancePlatform.authorisation: relayed
            balancePlatform.balanceAccount.balance.block: released
            balancePlatform.balanceAccountHolder.capitalOffer: created
            balancePlatform.balanceAccountPayoutSchedule: created deleted updated
            balancePlatform.balanceAccountPayoutScheduleAutoApplication: failed
            balancePlatform.balanceAccountPayoutScheduleExecution: failed skipped succeeded
            balancePlatform.balancePlatformPayoutSchedule: created deleted updated
            balancePlatform.capital.dynamicOffer: created
            balancePlatform.cardorder: created updated
            balancePlatform.dispute: created updated
            balancePlatform.grants: created updated
            balancePlatform.mandate: created updated
            balancePlatform.networkToken: created updated
            balancePlatform.payment: updated
            balancePlatform.report: created
            balancePlatform.score: triggered
            merchant: created updated
            paymentMethod: created
            paymentMethodRequest: removed scheduledForRemoval
            recurring.token: alreadyExisting created disabled updated
            terminalAssignment: completed
            terminalBoarding: triggered
            terminalSettings: modified
            """
        ),
        "https://docs.adyen.com/api-explorer/Webhooks/1/overview": names(
            "ach.notificationOfChange eft.notificationOfChange"
        ),
    },
)
CATEGORIES = names("bank card grants internal issuedCard migration platformPayment topUp upgrade")
"""The categories of a transfer (https://docs.adyen.com/api-explorer/transfer-webhooks/latest/overview)."""

_PAYOUTS: Mapping[str, Movement] = {
    "booked": Movement.PAYOUT_PAID,
    "credited": Movement.PAYOUT_PAID,
    "returned": Movement.PAYOUT_FAILED,
    "failed": Movement.PAYOUT_FAILED,
}
"""Movements of a transfer to a bank account, by its status. One that is credited was booked before
(https://docs.adyen.com/payouts/payout-service/payout-lifecycle): both tell the same payout."""
_NOT_MOVED = names(
    "received authorised adviceAuthorised adviceRefused authAdjustmentAuthorised authAdjustmentError "
    "authAdjustmentRefused pending pendingApproval pendingExecution refused rejected error cancelled expired "
    "dispute disputeClosed disputeExpired disputeNeedsReview"
)
"""States of a transfer in which no money has moved; so are those that end with ``Pending``."""
_NAMED_WITHIN = ("sweep", "transfer", "accountHolder", "balanceAccount", "paymentInstrument")
"""Objects within ``data`` that have the id of what an event is about, where ``data`` itself has none."""
_WITH_AN_ACCOUNT = ("paymentInstrument", "mandate")

ADDED = {3: fields_of("data.balances.*: currency")}
COUNTS = (
    fields_of(
        """
    : type environment
    data: id sequenceNumber status category direction type reason balancePlatform accountId balanceAccountId
      accountHolderId pspReference
    data.amount: value currency
    data.balanceAccount: id
    data.accountHolder: id
    data.categoryData: type pspPaymentReference modificationPspReference
    """
    )
    + ADDED[3]
)
"""Its names and money. What has no number is named by its whole content, which decides then."""


class AdyenPlatformAdapter(JsonAdapter):
    name = NAME
    identity_fields = names(
        "id eventId reference accountId balanceAccountId accountHolderId transferId transactionId paymentId "
        "pspReference pspPaymentReference paymentMerchantReference modificationPspReference "
        "modificationMerchantReference"
    )
    header = b"hmacsignature"
    event_types = EVENT_TYPES
    left_out = names("timestamp createdAt")
    content_version = 3
    counts = COUNTS
    added = ADDED

    def signature(self, key: bytes, message: bytes) -> bytes:
        return base64_mac(key, message)

    def key(self, secret: str) -> bytes:
        return hex_key(NAME, secret)

    def new_secret(self) -> str:
        return random_secrets.token_hex(32).upper()

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event_type, data = text(document, "type"), an_object(document.get("data"), "'data'")
        subject, which = _name_event(document, data, event_type)
        payment = optional_text(object_at(data, "categoryData"), "pspPaymentReference")
        yield Named(
            f"{subject}.{which}",
            event_type,
            _find_account(data),
            payment or subject,
            _queued_at(document) or time_of(data.get("creationDate")),
            (subject, which),
            mode_of(document, "environment"),
        )

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        data = an_object(document.get("data"), "'data'")
        status = text(data, "status")
        if status in _NOT_MOVED or status.endswith("Pending"):
            return None
        _check_kind(data, event_type)
        if data.get("category") != "bank":
            return None
        if status not in _PAYOUTS:
            raise MovementUnknown("status", status)
        movement = _PAYOUTS[status]
        account = _balance_account(data)
        if not account:
            raise MoneyInvalid("a payout that names no balance account can't be booked: its merchant isn't known")
        amount = an_object(data.get("amount"), "'amount'")
        money = money_of(amount.get("value"), amount.get("currency"), MORE_DECIMALS)
        if money.amount_minor < 0:
            raise MoneyInvalid(
                "a transfer has a direction and no sign: below zero it can't be known which way money went"
            )
        _check_balances(data, money.currency)
        platforms = self._settings.adyen.platforms
        platform = optional_text(data, "balancePlatform") or ""
        if platform not in platforms:
            raise MoneyInvalid(
                f"providers.adyen.platforms lacks the merchant account that takes {quote_masked(platform, 80)}'s "
                "payments: "
                "name it there, then replay the event"
            )
        fact = moved(NAME, movement, text(data, "id"), money, account=account, payment=None, paired=True)
        return replace(fact, holder=("adyen", platforms[platform]))

    def accepted(self) -> Answer:
        return ACCEPTED


def _name_event(document: Mapping[str, Any], data: Mapping[str, Any], event_type: str) -> tuple[str, str]:
    within = (data.get(name) for name in _NAMED_WITHIN)
    ids = [optional_text(holder, "id") for holder in (data, *within) if isinstance(holder, dict)]
    subject = next(filter(None, ids), None) or optional_text(data, "pspReference") or _balance_account(data)
    number = data.get("sequenceNumber")
    if type(number) is int:
        return subject, str(number)
    if event_type.endswith(".created") and subject:
        return subject, "created"
    return subject, content_hash(document)


def _queued_at(document: Mapping[str, Any]) -> datetime | None:
    return time_of(document.get("timestamp")) or time_of(document.get("createdAt"))


def _find_account(data: Mapping[str, Any]) -> str:
    closest = [(data, "liableBalanceAccountId"), *((data.get(name), "balanceAccountId") for name in _WITH_AN_ACCOUNT)]
    wider = [(data.get("accountHolder"), "id"), (data, "accountHolderId"), (data.get("legalEntity"), "id")]
    widest = [(data, name) for name in ("legalEntityId", "merchantAccount", "merchantId", "balancePlatform")]
    named = (optional_text(holder, name) for holder, name in (*closest, *wider, *widest) if isinstance(holder, dict))
    return _balance_account(data) or next(filter(None, named), "")


def _balance_account(data: Mapping[str, Any]) -> str:
    holder = data.get("balanceAccount")
    named = optional_text(holder, "id") if isinstance(holder, dict) else None
    return named or optional_text(data, "balanceAccountId") or optional_text(data, "accountId") or ""


def _check_balances(data: Mapping[str, Any], currency: str) -> None:
    """
    :raises MovementUnknown: a balance in another currency than the transfer's moved, by how much of it isn't said
    """
    for balance in optional_list(data, "balances"):
        moved_in = an_object(balance, "a balance").get("currency")
        if moved_in is not None and str(moved_in).upper() != currency:
            raise MovementUnknown("balances.currency", moved_in)


def _is_payout(data: Mapping[str, Any]) -> bool:
    is_to_a_bank = (data.get("category"), data.get("direction")) == ("bank", "outgoing")
    return is_to_a_bank and str(data.get("type") or "bankTransfer") in PAYOUT_KINDS


def _check_kind(data: Mapping[str, Any], event_type: str) -> None:
    category, direction, kind = (str(data.get(name)) for name in ("category", "direction", "type"))
    if (category, direction) in LEFT_CATEGORIES or kind in LEFT_KINDS:
        raise MoneyInvalid(
            f"{event_type} of category {quote_masked(category, 40)}, {quote_masked(direction, 40)}, type "
            f"{quote_masked(kind, 40)}, "
            + (
                "failed: if it was booked, book that back by a manual entry"
                if data.get("status") == "failed"
                else "moved money and isn't booked: book it by a manual entry"
            )
        )
    if category not in CATEGORIES:
        raise MovementUnknown("category", data.get("category"))
    if category == "bank" and direction != "outgoing":
        raise MovementUnknown("direction", data.get("direction"))
    is_known = _is_payout(data) if category == "bank" else data.get("type") is None or kind in KINDS_WITHIN
    if not is_known:
        raise MovementUnknown("data.type", data["type"])
