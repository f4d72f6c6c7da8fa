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
- ``dispute_lost``, ``dispute_expired``, ``dispute_accepted`` and ``dispute_arbitration_lost`` make one loss final. That
  the account was debited is certain then, whether or not ``dispute_evidence_required`` was sent. A notification has one
  fact, so each of them makes two events of the same bytes: one with `.withheld` after its type, which books the debit
  under the name that ``dispute_evidence_required`` gives it, and its own. Fees of an arbitration aren't booked.

**Left to a person**: `LEFT_TO_A_PERSON`. ``dispute_arbitration_won`` gives back what was lost already.
``payment_returned`` is a payout that came back or a bank debit that failed after it was captured
(https://www.checkout.com/docs/workflows/webhook-event-types/payment_returned), ``payment_paid`` a payout to a card or
bank: which of a client's accounts is meant, the event doesn't tell. A ``dispute_resolved`` by Rapid Dispute
Resolution is left, too: its refund isn't documented to be reported by itself
(https://checkout.com/docs/payments/process-disputes/pre-dispute-resolution).
"""

from __future__ import annotations

import re
import secrets as random_secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from core.card_numbers import shown
from core.event import Mode
from core.keys import join_key
from core.money import MoneyFact, Movement
from providers.fields import (
    an_object,
    for_a_person,
    money_of,
    paired,
    text,
    time_of,
    types_of,
    withheld,
)
from providers.json_adapter import Delivered, JsonAdapter, Named
from providers.pointer import parse_pointer, resolve
from providers.port import DEFAULT_ENDPOINT, ModeMismatch, Request, SignedRequest
from providers.settings import ProvidersSettings
from providers.signature import hex_mac, matching, sent, text_key

NAME = "checkout"
HEADER = b"cko-signature"
IDENTITY_FIELDS = frozenset(
    {
        "id",
        "action_id",
        "payment_id",
        "payment_action_id",
        "transaction_id",
        "acquirer_transaction_id",
        "acquirer_reference_number",
        "retrieval_reference_number",
        "scheme_id",
        "entity_id",
        "processing_channel_id",
    }
)
MORE_DECIMALS: Mapping[str, int] = MappingProxyType({"CLP": 2})
"""Where its minor unit isn't ISO 4217's (https://www.checkout.com/docs/resources/calculating-the-amount)."""

_WHERE = "in Checkout.com's Dashboard"
_HOST = re.compile(r"https://([a-z0-9.-]+)/")
_MOVEMENTS: Mapping[str, tuple[Movement, str]] = MappingProxyType(
    {
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
)
"""By type: how money moved, and which field of ``data`` is the movement's own id."""
LEFT_TO_A_PERSON = frozenset({"dispute_arbitration_won", "payment_paid", "payment_returned"})
"""Types that move money and aren't booked."""


class CheckoutAdapter(JsonAdapter):
    """One request is one event; its body is the event's body."""

    name = NAME
    identity_fields = IDENTITY_FIELDS
    left_out = MappingProxyType({1: frozenset({"action_invocations"})})
    """``action_invocations`` tells how the workflow's deliveries went so far."""

    def __init__(self, settings: ProvidersSettings) -> None:
        super().__init__(settings)
        pointer = settings.checkout.account
        self._account_at = parse_pointer(pointer) if pointer else None

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        return matching(sent(request, HEADER), [hex_mac(self.key(secret), request.body) for secret in secrets])

    def named(self, delivered: Delivered) -> Iterator[Named]:
        document = delivered.document
        event_id, reported = text(document, "id"), text(document, "type")
        _check_mode(document, delivered.mode)
        entity = _payment(document.get("data")) or event_id
        occurred_at = time_of(document.get("created_on") or document.get("timestamp"))
        for event_type in types_of(reported, is_loss=_is_loss(reported)):
            yield Named(event_id, event_type, self._account(document), entity, occurred_at)

    def sign(
        self,
        body: bytes,
        secret: str,
        now: datetime,  # noqa: ARG002 - no time is signed
        event_id: str | None = None,  # noqa: ARG002 - it is in the body
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002 - nor is the endpoint
    ) -> SignedRequest:
        signature = hex_mac(self.key(secret), body).decode("ascii")
        return SignedRequest(body, {"Content-Type": "application/json", "Cko-Signature": signature})

    def key(self, secret: str) -> bytes:
        return text_key(NAME, secret, "the webhook's signature key")

    def new_secret(self) -> str:
        return random_secrets.token_urlsafe(32)

    def _account(self, document: Mapping[str, Any]) -> str:
        found = resolve(document, self._account_at) if self._account_at else None
        return found if isinstance(found, str) else ""

    def fact(self, document: dict[str, Any], event_type: str) -> MoneyFact | None:
        return withheld(event_type, lambda one: self._reported(document, one))

    def _reported(self, document: Mapping[str, Any], event_type: str) -> MoneyFact | None:
        if event_type in LEFT_TO_A_PERSON:
            raise for_a_person(event_type, _WHERE)
        booking = _MOVEMENTS.get(event_type)
        if booking is None:
            return None
        movement, own_id = booking
        data = an_object(document.get("data"), "'data'")
        if event_type == "dispute_resolved":
            _check_resolved(data)
        reference = text(data, own_id)
        return MoneyFact(
            fact_key=join_key(NAME, reference, movement.value),
            movement=movement,
            account=self._account(document),
            payment=_payment(data),
            money=money_of(data.get("amount"), data.get("currency"), MORE_DECIMALS),
            pair=paired(movement, lambda other: join_key(NAME, reference, other.value)) if own_id == "id" else None,
        )


def _is_loss(event_type: str) -> bool:
    booking = _MOVEMENTS.get(event_type)
    return booking is not None and booking[0] is Movement.DISPUTE_LOST


def _check_resolved(dispute: Mapping[str, Any]) -> None:
    """
    :raises MoneyInvalid: it was resolved in a way of which it isn't documented who has the money
    """
    reason = dispute.get("resolved_reason")
    if reason not in (None, "already_refunded"):
        raise for_a_person(f"dispute_resolved by {shown(reason, 40)}", _WHERE)


def _payment(data: object) -> str | None:
    """What order is kept for: of a dispute its payment, of a card's authorization its transaction."""
    for name in ("payment_id", "id", "transaction_id"):
        found = data.get(name) if isinstance(data, dict) else None
        if isinstance(found, str) and found:
            return found
    return None


def _check_mode(document: Mapping[str, Any], endpoint: Mode) -> None:
    link = resolve(document, ("_links", "self", "href"))
    host = _HOST.match(link) if isinstance(link, str) else None
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
