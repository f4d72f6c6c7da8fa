"""Adyen's standard notifications: signature, split, identities and money facts.

Sources: https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures and
https://docs.adyen.com/development-resources/webhooks/webhook-types

The signature is in the body, one an item, over eight of its fields joined by ``:`` without escaping; the rest of
an item isn't signed. Every item is checked, and a field in which a ``:`` could shift its neighbours is refused.

Which codes move money, which of those book and why: `providers.adyen_money`. Those that move money and don't book are
in `LEFT_TO_A_PERSON`.

Identities. Adyen sends a notification again with the same ``eventCode`` and ``pspReference``, and its other fields may
differ; the latest counts (https://docs.adyen.com/development-resources/webhooks/handle-webhook-events). So ``reason``,
``additionalData`` and ``eventDate`` decide no conflict; what a CANCEL_OR_REFUND did is in ``additionalData`` and does,
because money follows from it. So does the ``reason`` of a capture that Adyen repeats after it failed
(https://docs.adyen.com/online-payments/capture/failure-reasons): under the first one's pspReference it is a conflict,
for a person to book, and not a copy of what failed.

The pspReference of a REPORT_AVAILABLE is a file's name, that of a RECURRING_CONTRACT a stored card's (webhook-types,
above). Those are unique within an account and code only, so both are in their keys.

CHARGEBACK_REVERSED, SECOND_CHARGEBACK, PREARBITRATION_WON and PREARBITRATION_LOST name the payment only where "Include
the originalReference for CHARGEBACK_REVERSED events" is turned on among the webhook's settings (Risk). Without it they
are an entity of their own, and book all the same.
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
from core.card_numbers import shown
from core.errors import Unparseable
from core.event import Event, Mode, poison_event
from core.keys import join_key
from core.money import MoneyFact
from providers.adyen_money import LEFT_TO_A_PERSON as LEFT_TO_A_PERSON
from providers.adyen_money import LOST, NAME, fact_of, is_lost_at_once
from providers.fields import (
    ContentVersionUnknown,
    an_object,
    certain,
    content_hash,
    entity_key,
    optional_text,
    text,
    time_of,
)
from providers.port import DEFAULT_ENDPOINT, Answer, ModeMismatch, Request, SignatureInvalid, SignedRequest
from providers.settings import ProvidersSettings
from providers.signature import matching, secret_error, sha256_mac
from providers.slices import array_items

ITEMS = "notificationItems"
ITEM = "NotificationRequestItem"
ITEMS_MAX = 256
"""Adyen sends one item in JSON; each costs one HMAC for each secret."""
LEFT_OUT: Mapping[int, frozenset[str]] = MappingProxyType(
    {1: frozenset({"eventDate"}), 2: frozenset({"eventDate", "reason", "additionalData"})}
)
"""By version of the list. Version 1 left out ``hmacSignature`` as well, which changes when the key is rolled."""
KEPT = frozenset({"modification.action"})
"""Of ``additionalData``, since version 2."""
RECAPTURED = frozenset({"Transaction Recaptured", "Transaction Auto-recaptured"})
"""A CAPTURE's ``reason``, which is content since version 2 only if it is one of these."""
CONTENT_VERSION = 2
NOT_A_PAYMENT = frozenset({"REPORT_AVAILABLE", "RECURRING_CONTRACT"})
"""Event codes whose pspReference names something else."""
IDENTITY_FIELDS = frozenset(
    {"pspReference", "originalReference", "merchantReference", "paymentPspReference", "modificationMerchantReference"}
)

_KEY = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_ACCEPTED = Answer(200, b"[accepted]", "text/plain")


class AdyenAdapter:
    """One request is one or several items; an event's body is the exact bytes of its item, wrapper included."""

    name = NAME
    signature_status = 401
    identity_fields = IDENTITY_FIELDS
    content_version = CONTENT_VERSION

    def __init__(self, settings: ProvidersSettings) -> None:
        self._settings = settings

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        keys = [_key(secret) for secret in secrets]
        try:
            items = _items(request.document)
        except Unparseable as wrong:
            raise SignatureInvalid("malformed") from wrong
        return max(_signed_by(item, keys) for item in items)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        items = _items(request.document)
        _check_mode(request.document, mode)
        bodies = array_items(request.body, ITEMS)
        pairs = zip(items, bodies, strict=True)
        return [event for item, body in pairs for event in self._events_or_poison(item, body, mode)]

    def request_of(self, item: bytes, mode: Mode) -> bytes:
        live = b"true" if mode == "live" else b"false"
        return b'{"live":"%b","%b":[%b]}' % (live, ITEMS.encode(), item)

    def _events_or_poison(self, item: Mapping[str, Any], body: bytes, mode: Mode) -> list[Event]:
        """An item that can't be named costs only itself, not the others of its request."""
        try:
            event = self._event(item, body, mode)
            return [event, self._event(item, body, mode, LOST)] if is_lost_at_once(item) else [event]
        except Unparseable as unreadable:
            return [poison_event(NAME, body, mode, unreadable.problem)]

    def _event(self, item: Mapping[str, Any], body: bytes, mode: Mode, suffix: str = "") -> Event:
        reference, code = text(item, "pspReference"), text(item, "eventCode")
        account = text(item, "merchantAccountCode")
        event_type = code + suffix
        fact = certain(lambda: fact_of(item, event_type, self._settings.adyen))
        return Event(
            provider=NAME,
            event_id=reference,
            event_type=event_type,
            event_key=_event_key(reference, code, account, _success(item), suffix),
            entity_key=self._entity(item, reference, code, account),
            content_sha256=_content(item, CONTENT_VERSION),
            content_version=CONTENT_VERSION,
            body=body,
            mode=mode,
            account=account,
            occurred_at=time_of(item.get("eventDate")),
            fact_key=fact.fact_key if fact else None,
            fact_sha256=fact.sha256 if fact else None,
        )

    def _entity(self, item: Mapping[str, Any], reference: str, code: str, account: str) -> str:
        if code in NOT_A_PAYMENT and self._settings.entity == "payment":
            return join_key(NAME, account, code, reference)
        payment = optional_text(item, "originalReference") or reference
        return entity_key(self._settings.entity, NAME, account, payment)

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        item = _unwrap(strict_json.loads(body))
        code = text(item, "eventCode")
        _success(item)
        if event_type != code and not (event_type == code + LOST and is_lost_at_once(item)):
            raise Unparseable(f"the item's eventCode isn't {shown(event_type, 80)}")
        return fact_of(item, event_type, self._settings.adyen)

    def content_sha256(self, body: bytes, version: int) -> str:
        if version == 0:
            return hashlib.sha256(body).hexdigest()
        if version not in LEFT_OUT:
            raise ContentVersionUnknown(NAME, version)
        return _content(_unwrap(strict_json.loads(body)), version)

    def accepted(self) -> Answer:
        return _ACCEPTED

    def sign(
        self,
        body: bytes,
        secret: str,
        now: datetime,  # noqa: ARG002 - Adyen signs neither a time
        event_id: str | None = None,  # noqa: ARG002 - nor an event's id
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002 - nor the endpoint
    ) -> SignedRequest:
        document, key = strict_json.loads(body), _key(secret)
        for item in _items(document):
            extra = an_object(item.get("additionalData") or {}, "'additionalData'")
            item["additionalData"] = {**extra, "hmacSignature": _signature(key, _signed_bytes(item)).decode("ascii")}
        return SignedRequest(strict_json.dumps(document), {"Content-Type": "application/json"})

    def check_secret(self, secret: str) -> None:
        _key(secret)

    def new_secret(self) -> str:
        return random_secrets.token_hex(32).upper()


def _key(secret: str) -> bytes:
    if not _KEY.fullmatch(secret):
        raise secret_error(NAME, "an HMAC key is pairs of hexadecimal digits; copy it from the webhook's settings")
    return bytes.fromhex(secret)


def _items(document: object) -> list[dict[str, Any]]:
    """The items without their wrappers: at least one, or nothing would be proven by checking them all.

    :raises Unparseable: not a standard notification
    """
    wrapped = document.get(ITEMS) if isinstance(document, dict) else None
    if not isinstance(wrapped, list) or not 1 <= len(wrapped) <= ITEMS_MAX:
        raise Unparseable(f"{ITEMS!r} isn't an array of 1 to {ITEMS_MAX} items")
    return [_unwrap(wrapper) for wrapper in wrapped]


def _unwrap(wrapper: object) -> dict[str, Any]:
    return an_object(an_object(wrapper, "an item's wrapper").get(ITEM), f"{ITEM!r}")


def _signed_by(item: Mapping[str, Any], keys: Sequence[bytes]) -> int:
    """The index of the key that signed the item."""
    extra = item.get("additionalData")
    signature = extra.get("hmacSignature") if isinstance(extra, dict) else None
    if signature is None or signature == "":
        raise SignatureInvalid("missing")
    if not isinstance(signature, str):
        raise SignatureInvalid("malformed")
    try:
        message = _signed_bytes(item)
    except Unparseable as wrong:
        raise SignatureInvalid("malformed") from wrong
    return matching([signature.encode("utf-8")], [_signature(key, message) for key in keys])


def _signature(key: bytes, message: bytes) -> bytes:
    return base64.b64encode(sha256_mac(key, message))


def _signed_bytes(item: Mapping[str, Any]) -> bytes:
    """The eight fields; one that is missing or null is empty.

    A ``:`` is allowed in merchantReference only: with one in another field too, two different items would have
    the same signed bytes.
    """
    amount = item.get("amount")
    value, currency = (amount.get("value"), amount.get("currency")) if isinstance(amount, dict) else (None, None)
    if value is not None and type(value) is not int:
        raise Unparseable("'value' isn't an integer")
    before = [_plain(item.get(name)) for name in ("pspReference", "originalReference", "merchantAccountCode")]
    reference = item.get("merchantReference") or ""
    if not isinstance(reference, str):
        raise Unparseable("'merchantReference' isn't a text")
    after = [
        "" if value is None else str(value),
        _plain(currency),
        _plain(item.get("eventCode")),
        _plain(item.get("success")),
    ]
    return ":".join([*before, reference, *after]).encode("utf-8")


def _plain(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or ":" in value:
        raise Unparseable("a signed field isn't a text without ':'")
    return value


def _success(item: Mapping[str, Any]) -> str:
    success = item.get("success")
    if success not in ("true", "false"):
        raise Unparseable('\'success\' is neither "true" nor "false"')
    return str(success)


def _event_key(reference: str, code: str, account: str, success: str, suffix: str) -> str:
    """A payment's is named by its reference alone, which is unique across Adyen."""
    if code in NOT_A_PAYMENT:
        return join_key(NAME, account, code, reference, success)
    return join_key(NAME, reference, code, success, *([suffix.removeprefix(".")] if suffix else []))


def _check_mode(document: object, endpoint: Mode) -> None:
    live = document.get("live") if isinstance(document, dict) else None
    reported: Mode | None = {"true": "live", "false": "test"}.get(str(live).lower())  # type: ignore[assignment]
    if reported != endpoint:
        raise ModeMismatch(endpoint, reported)


def _content(item: Mapping[str, Any], version: int) -> str:
    extra = item.get("additionalData")
    extra = extra if isinstance(extra, dict) else {}
    if version == 1:
        signed = "hmacSignature" in extra
        kept = {name: value for name, value in extra.items() if name != "hmacSignature"}
        return content_hash({**item, "additionalData": kept} if signed else item, LEFT_OUT[version])
    decisive = {name: extra[name] for name in KEPT & extra.keys()}
    if item.get("eventCode") == "CAPTURE" and str(item.get("reason")) in RECAPTURED:
        decisive["recaptured"] = True
    return content_hash({**item, **decisive}, LEFT_OUT[version])
