"""Adyen's platform webhooks (https://docs.adyen.com/platforms/webhook-types): signature, identities and money facts.

One request is one event; the whole body is signed (``HmacSignature``,
https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures), ``environment`` in it
too, so that routes. There is no event id. A transfer counts its webhooks (``sequenceNumber``), what is created is so
once, and anything else is named by its content. ``timestamp`` says when the webhook was queued, not what happened.

What books, and why:

- A transfer from a balance account to a bank account is a payout: paid when it is booked, failed when the bank
  returns it, under the transfer's id. Until it is booked the money is only reserved.
- A platform payment (capture, refund, chargeback of a balance account) is one account's share of a payment that the
  standard webhooks tell whole and `providers.adyen` books: with its shares booked too, money would count twice.
- Transfers between balance accounts, of cards and fees have no counterpart outside of Adyen, and
  ``balancePlatform.transaction.created`` and the deprecated payment webhooks repeat what transfers say.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets as random_secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from core import strict_json
from core.errors import Unparseable
from core.event import Event, Mode
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid, Movement
from providers.adyen_money import MORE_DECIMALS
from providers.fields import (
    an_object,
    certain,
    content_hash,
    entity_key,
    money_of,
    optional_text,
    text,
    time_of,
    versioned_content,
)
from providers.port import DEFAULT_ENDPOINT, Answer, Request, SignatureInvalid, SignedRequest
from providers.settings import ProvidersSettings
from providers.signature import matching, secret_error, sha256_mac

NAME = "adyenplatform"
HEADER = b"hmacsignature"
LEFT_OUT: Mapping[int, frozenset[str]] = MappingProxyType({1: frozenset({"timestamp", "createdAt"})})
"""By version of the list."""
CONTENT_VERSION = 1
IDENTITY_FIELDS = frozenset(
    {
        "id",
        "eventId",
        "reference",
        "accountId",
        "balanceAccountId",
        "accountHolderId",
        "transferId",
        "transactionId",
        "paymentId",
        "pspReference",
        "pspPaymentReference",
        "paymentMerchantReference",
        "modificationPspReference",
        "modificationMerchantReference",
    }
)
TRANSFERS = frozenset({"balancePlatform.transfer.created", "balancePlatform.transfer.updated"})

_KEY = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_ACCEPTED = Answer(200, b"[accepted]", "text/plain")
_PAYOUTS: Mapping[str, Movement] = MappingProxyType(
    {"booked": Movement.PAYOUT_PAID, "returned": Movement.PAYOUT_FAILED}
)
"""Of a transfer to a bank account, by its status."""
_NAMED_WITHIN = ("sweep", "transfer", "accountHolder", "balanceAccount", "paymentInstrument")
"""Objects within ``data`` that have the id of what an event is about, where ``data`` itself has none."""


class AdyenPlatformAdapter:
    """One request is one event; its body is the event's body."""

    name = NAME
    signature_status = 401
    identity_fields = IDENTITY_FIELDS
    content_version = CONTENT_VERSION

    def __init__(self, settings: ProvidersSettings) -> None:
        self._settings = settings

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        expected = [_signature(_key(secret), request.body) for secret in secrets]
        header = request.one(HEADER)
        if not header:
            raise SignatureInvalid("missing")
        return matching([header], expected)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        document = an_object(request.document, "the body")
        event_type, data = text(document, "type"), an_object(document.get("data"), "'data'")
        account = _account(data)
        subject, which = _named(document, data, event_type)
        category = data.get("categoryData")
        payment = optional_text(category, "pspPaymentReference") if isinstance(category, dict) else None
        fact = certain(lambda: _fact(document, event_type))
        return [
            Event(
                provider=NAME,
                event_id=f"{subject}.{which}",
                event_type=event_type,
                event_key=join_key(NAME, subject, which, event_type),
                entity_key=entity_key(self._settings.entity, NAME, account, payment or subject),
                content_sha256=content_hash(document, LEFT_OUT[CONTENT_VERSION]),
                content_version=CONTENT_VERSION,
                body=request.body,
                mode=_mode(document, mode),
                account=account,
                occurred_at=_queued_at(document) or time_of(data.get("creationDate")),
                fact_key=fact.fact_key if fact else None,
                fact_sha256=fact.sha256 if fact else None,
            )
        ]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return _fact(an_object(strict_json.loads(body), "the body"), event_type)

    def content_sha256(self, body: bytes, version: int) -> str:
        return versioned_content(NAME, body, version, LEFT_OUT)

    def accepted(self) -> Answer:
        return _ACCEPTED

    def sign(
        self,
        body: bytes,
        secret: str,
        now: datetime,  # noqa: ARG002 - Adyen signs the body and nothing else
        event_id: str | None = None,  # noqa: ARG002
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002
    ) -> SignedRequest:
        signature = _signature(_key(secret), body).decode("ascii")
        headers = {"Content-Type": "application/json", "HmacSignature": signature, "Protocol": "HmacSHA256"}
        return SignedRequest(body, headers)

    def check_secret(self, secret: str) -> None:
        _key(secret)

    def new_secret(self) -> str:
        return random_secrets.token_hex(32).upper()


def _key(secret: str) -> bytes:
    if not _KEY.fullmatch(secret):
        raise secret_error(NAME, "an HMAC key is pairs of hexadecimal digits; copy it from the webhook's settings")
    return bytes.fromhex(secret)


def _signature(key: bytes, body: bytes) -> bytes:
    return base64.b64encode(sha256_mac(key, body))


def _mode(document: Mapping[str, Any], endpoint: Mode) -> Mode:
    environment = document.get("environment")
    if environment is None:
        return endpoint
    if environment not in ("live", "test"):
        raise Unparseable("'environment' is neither live nor test")
    return "live" if environment == "live" else "test"


def _named(document: Mapping[str, Any], data: Mapping[str, Any], event_type: str) -> tuple[str, str]:
    """What an event is about, and which of its events it is."""
    within = (data.get(name) for name in _NAMED_WITHIN)
    found = [optional_text(holder, "id") for holder in (data, *within) if isinstance(holder, dict)]
    subject = next(filter(None, found), None) or optional_text(data, "pspReference") or _account(data)
    number = data.get("sequenceNumber")
    if type(number) is int:
        return subject, str(number)
    if event_type.endswith(".created") and subject:
        return subject, "created"
    return subject, hashlib.sha256(strict_json.canonical(document)).hexdigest()


def _queued_at(document: Mapping[str, Any]) -> datetime | None:
    """The time that every kind of webhook has, under one of two names."""
    return time_of(document.get("timestamp")) or time_of(document.get("createdAt"))


def _account(data: Mapping[str, Any]) -> str:
    """The balance account; "" where an event is about none."""
    holder = data.get("balanceAccount")
    named = optional_text(holder, "id") if isinstance(holder, dict) else None
    return named or optional_text(data, "balanceAccountId") or optional_text(data, "accountId") or ""


def _fact(document: Mapping[str, Any], event_type: str) -> MoneyFact | None:
    data = an_object(document.get("data"), "'data'")
    payout = event_type in TRANSFERS and (data.get("category"), data.get("direction")) == ("bank", "outgoing")
    movement = _PAYOUTS.get(text(data, "status")) if payout else None
    if movement is None:
        return None
    amount = an_object(data.get("amount"), "'amount'")
    money = money_of(amount.get("value"), amount.get("currency"), MORE_DECIMALS)
    if money.amount_minor < 0:
        raise MoneyInvalid("a transfer has a direction and no sign: below zero it can't be told which way money went")
    return MoneyFact(join_key(NAME, text(data, "id"), movement.value), movement, _account(data), None, money)
