"""Checkout.com: signature (https://www.checkout.com/docs/workflows/set-up-your-webhook-receiver), identities, money.

The account. A payment's events name no account of ours, a dispute's do: taken from there, a payment and its dispute
would belong to two merchants. So the account is empty unless a JSON pointer in the settings says where all events
of this Checkout.com client have one.

The mode. Test events come from ``….sandbox.checkout.com``, which the signed link to the event itself shows. What it
shows has to agree with the endpoint; a link to anywhere else says nothing.

**What books, and why** (https://www.checkout.com/docs/developer-resources/event-notifications/event-types,
https://www.checkout.com/docs/risk-management/disputes/disputes-api, https://www.checkout.com/docs/dashboard/disputes):

- A capture and a refund book under their own ``act_`` ids: a payment can have several of both. An approval moves
  nothing, and neither does what was declined.
- A dispute's money moves under its ``dsp_`` id. ``dispute_evidence_required`` says that the account was debited;
  ``dispute_received`` comes before it and doesn't. ``dispute_won`` and ``dispute_canceled`` give back what was debited,
  if it was; so does ``dispute_resolved`` of a payment that had been refunded already. Without a debit before it, such
  an event takes nothing back (`MoneyFact.pair`).
- A loss after a win is unknown, by an arbitration too: its page tells of "additional arbitration-related fees", and
  not that the amount is debited again
  (https://www.checkout.com/docs/developer-resources/event-notifications/event-types/dispute_arbitration_lost).
- ``dispute_lost``, ``dispute_expired``, ``dispute_accepted`` and ``dispute_arbitration_lost`` make one loss final. That
  the account was debited is certain then, whether or not ``dispute_evidence_required`` was sent. A notification has one
  fact, so each of them makes two events of the same bytes: one with `.withheld` after its type, which books the debit
  under the name that ``dispute_evidence_required`` gives it, and its own. Fees of an arbitration aren't booked.

**Who settles**. A capture doesn't name its payment method
(https://www.checkout.com/docs/workflows/webhook-event-types/payment_captured), and whether Checkout.com collects a
method's money or only passes the payment on ("Model: Gateway/collecting",
https://checkout.com/docs/payments/add-payment-methods/klarna) is in the client's contract. So no table of methods is
possible here: all captures book on its balance, and docs/finance.md says what to do with the others.

**Left to a person**: ``dispute_arbitration_won`` gives back what was lost already.
``payment_returned`` is a payout that came back or a bank debit that failed after it was captured
(https://www.checkout.com/docs/workflows/webhook-event-types/payment_returned), ``payment_paid`` a payout to a card or
bank: which of a client's accounts is meant, the event doesn't tell. So are a sub-entity's payouts and transfers, and
what a card spent that the client issued. A ``dispute_resolved`` by Rapid Dispute
Resolution is left, too: its refund isn't documented to be reported by itself
(https://checkout.com/docs/payments/process-disputes/pre-dispute-resolution).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.event import Mode
from core.money import MoneyFact, Movement, MovementUnknown
from providers.base import Delivered, JsonAdapter, JsonObject, Named
from providers.content import fields_of
from providers.event_types import EventTypes
from providers.fields import an_object, names, parse_pointer, resolve, text, text_at, time_of
from providers.money import make_person_error, money_of, moved
from providers.port import ModeMismatch
from providers.signature import text_key

NAME = "checkout"
MORE_DECIMALS: Mapping[str, int] = {"CLP": 2, "UYI": 2, "CLF": -2, "UYW": -2}
"""The decimals that Checkout.com adds to ISO 4217's (https://www.checkout.com/docs/resources/calculating-the-amount):
each currency that its page doesn't list has two."""

_LOOKED_UP = "in Checkout.com's Dashboard"
_HOST = re.compile(r"https://([a-z0-9.-]+)/")
_MOVEMENTS: Mapping[str, tuple[Movement, str]] = {
    "payment_captured": (Movement.CAPTURE, "action_id"),
    "payment_refunded": (Movement.REFUND, "action_id"),
    "dispute_evidence_required": (Movement.DISPUTE_OPENED, "id"),
    "dispute_won": (Movement.DISPUTE_WON, "id"),
    "dispute_canceled": (Movement.DISPUTE_WON, "id"),
    "dispute_resolved": (Movement.DISPUTE_WON, "id"),
    "dispute_lost": (Movement.DISPUTE_LOST, "id"),
    "dispute_expired": (Movement.DISPUTE_LOST, "id"),
    "dispute_accepted": (Movement.DISPUTE_LOST, "id"),
    "dispute_arbitration_lost": (Movement.DISPUTE_LOST, "id"),
}
"""By type: how money moved, and which field of ``data`` is the movement's own id."""
EVENT_TYPES = EventTypes(
    books=frozenset(_MOVEMENTS),
    person=names(
        "dispute_arbitration_won payment_paid payment_returned payout_paid presentment_received transfer_status_changed"
    ),
    nothing={
        "https://www.checkout.com/docs/developer-resources/event-notifications/event-types": names(
            "3ds_card_enrolled authentication_approved authentication_attempted authentication_failed "
            "authentication_started authorization_approved authorization_declined card_verification_declined "
            "card_verified dispute_arbitration_evidence_submitted dispute_arbitration_sent_to_scheme "
            "dispute_evidence_acknowledged_by_scheme "
            "dispute_evidence_submitted dispute_received fraud_reported full_dd_failed full_dd_passed "
            "match_failed match_passed payment_approved payment_authentication_failed "
            "payment_authorization_increment_declined payment_authorization_incremented payment_authorized "
            "payment_canceled payment_capture_declined payment_capture_pending payment_compliance_review "
            "payment_declined payment_expired payment_instrument_created payment_instrument_error "
            "payment_instrument_rejected payment_instrument_verification_failed "
            "payment_instrument_verification_passed payment_instrument_verified payment_pending "
            "payment_refund_declined payment_refund_pending payment_retry_scheduled payment_void_declined "
            "payment_voided payments_disabled payments_enabled payout_declined payouts_disabled payouts_enabled "
            "request_for_information_received reversal_approved reversal_declined status_changed "
            "sub_account_low_balance_threshold_exceeded sub_entity_created vmss_failed vmss_passed"
        )
    },
)
_BY_AN_EARLIER_REFUND = frozenset({None, "already_refunded"})
_FOR_A_PERSON = frozenset({"rapid_dispute_resolution", "negative_amount"})
"""Why a dispute was resolved (https://checkout.com/docs/payments/process-disputes/pre-dispute-resolution)."""

COUNTS = fields_of(
    """
    : id type
    data: id action_id payment_id transaction_id amount currency status category reason_code resolved_reason
      processing_channel_id entity_id
    """
)
"""Its names and money, and what `CheckoutSettings.account` may point to. ``_links``, ``event_links``, ``metadata`` and
balances may differ."""


class CheckoutAdapter(JsonAdapter):
    name = NAME
    identity_fields = names(
        "id action_id payment_id payment_action_id transaction_id acquirer_transaction_id acquirer_reference_number "
        "retrieval_reference_number scheme_id entity_id processing_channel_id"
    )
    header = b"cko-signature"
    splits_losses = True
    left_out = names("action_invocations")
    """This field tells how the workflow's deliveries went so far."""
    content_version = 2
    counts = COUNTS
    event_types = EVENT_TYPES
    looked_up = _LOOKED_UP

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the webhook's signature key")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event_id, reported = text(document, "id"), text(document, "type")
        _check_mode(document, delivered.mode)
        entity = _find_payment(document.get("data")) or event_id
        occurred_at = time_of(document.get("created_on") or document.get("timestamp"))
        account = self._find_account(document)
        yield Named(event_id, reported, account, entity, occurred_at, is_loss=_is_loss(reported))

    def _find_account(self, document: Mapping[str, Any]) -> str:
        pointer = self._settings.checkout.account
        account = resolve(document, parse_pointer(pointer)) if pointer else None
        return account if isinstance(account, str) else ""

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        movement, own_id = _MOVEMENTS[event_type]
        data = an_object(document.get("data"), "'data'")
        if event_type == "dispute_resolved":
            _check_resolved(data)
        return moved(
            NAME,
            movement,
            text(data, own_id),
            money_of(data.get("amount"), data.get("currency"), MORE_DECIMALS),
            account=self._find_account(document),
            payment=_find_payment(data),
            paired=own_id == "id",
        )


def _is_loss(event_type: str) -> bool:
    booking = _MOVEMENTS.get(event_type)
    return booking is not None and booking[0] is Movement.DISPUTE_LOST


def _check_resolved(dispute: Mapping[str, Any]) -> None:
    """
    :raises MoneyInvalid: it was resolved in a way of which it isn't documented who has the money
    :raises MovementUnknown: in a way that isn't documented
    """
    reason = dispute.get("resolved_reason")
    if reason is not None and not isinstance(reason, str):
        raise MovementUnknown("resolved_reason", reason)
    if reason in _FOR_A_PERSON:
        raise make_person_error(f"dispute_resolved by {reason}", _LOOKED_UP)
    if reason not in _BY_AN_EARLIER_REFUND:
        raise MovementUnknown("resolved_reason", reason)


def _find_payment(data: object) -> str | None:
    return text_at(data, "payment_id") or text_at(data, "id") or text_at(data, "transaction_id")


def _check_mode(document: Mapping[str, Any], endpoint: Mode) -> None:
    link = text_at(document, "_links", "self", "href")
    host = _HOST.match(link or "")
    if host is None:
        return
    name = f".{host[1]}"
    reported: Mode | None = None
    if name.endswith(".sandbox.checkout.com"):
        reported = "test"
    elif name.endswith(".api.checkout.com"):
        reported = "live"
    if reported not in (None, endpoint):
        raise ModeMismatch(endpoint, reported)
