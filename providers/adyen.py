"""Adyen's standard notifications: signature, split, identities and money facts.

Sources: https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures and
https://docs.adyen.com/development-resources/webhooks/webhook-types

The signature is in the body, one an item, over eight of its fields joined by ``:`` without escaping; the rest of
an item isn't signed. Every item is checked, and a field in which a ``:`` could shift its neighbours is refused.

What books, and why: a modification (CAPTURE, REFUND, a payout) under its own pspReference once it succeeded; an
AUTHORISATION moves nothing, unless the account captures by itself. All events of a dispute share one
pspReference, so a second chargeback has a fact name of its own. CAPTURE_FAILED (the scheme refused a capture that
had been reported) and SETTLED_REVERSED (its money never came, so Adyen takes it back) undo the capture.
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
from core.money import MoneyFact, MoneyInvalid, Movement
from providers.fields import (
    ContentVersionUnknown,
    an_object,
    content_hash,
    entity_key,
    money_of,
    optional_text,
    text,
    time_of,
)
from providers.port import DEFAULT_ENDPOINT, Answer, ModeMismatch, Request, SignatureInvalid, SignedRequest
from providers.settings import ProvidersSettings
from providers.signature import matching, secret_error, sha256_mac
from providers.slices import array_items

NAME = "adyen"
ITEMS = "notificationItems"
ITEM = "NotificationRequestItem"
ITEMS_MAX = 256
"""Adyen sends one item in JSON; each costs one HMAC for each secret."""
LEFT_OUT: Mapping[int, frozenset[str]] = MappingProxyType({1: frozenset({"eventDate"})})
"""By version of the list. ``hmacSignature`` is left out as well: it changes when the key is rolled."""
CONTENT_VERSION = 1
IDENTITY_FIELDS = frozenset(
    {"pspReference", "originalReference", "merchantReference", "paymentPspReference", "modificationMerchantReference"}
)
MORE_DECIMALS: Mapping[str, int] = MappingProxyType({"CLP": 2, "ISK": 2, "CVE": -2, "IDR": -2})
"""Where Adyen's minor unit isn't ISO 4217's (https://docs.adyen.com/development-resources/currency-codes)."""

_KEY = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_ACCEPTED = Answer(200, b"[accepted]", "text/plain")
MOVEMENTS: Mapping[str, tuple[Movement, str]] = MappingProxyType(
    {
        "CAPTURE": (Movement.CAPTURE, "capture"),
        "CAPTURE_FAILED": (Movement.CAPTURE_FAILED, "capture_failed"),
        "SETTLED_REVERSED": (Movement.CAPTURE_FAILED, "capture_failed"),
        "REFUND": (Movement.REFUND, "refund"),
        "REFUND_WITH_DATA": (Movement.REFUND, "refund"),
        "REFUND_FAILED": (Movement.REFUND_FAILED, "refund_failed"),
        "REFUNDED_REVERSED": (Movement.REFUND_FAILED, "refund_failed"),
        "CHARGEBACK": (Movement.DISPUTE_OPENED, "dispute_opened"),
        "CHARGEBACK_REVERSED": (Movement.DISPUTE_WON, "dispute_won"),
        "SECOND_CHARGEBACK": (Movement.DISPUTE_OPENED, "second_dispute_opened"),
        "PAYOUT_THIRDPARTY": (Movement.PAYOUT_PAID, "payout_paid"),
        "PAIDOUT_REVERSED": (Movement.PAYOUT_FAILED, "payout_failed"),
    }
)
"""By event code: how money moved, and what the fact is called after its pspReference."""
_PAYOUTS = frozenset({Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED})


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
        return [self._event_or_poison(item, body, mode) for item, body in zip(items, bodies, strict=True)]

    def request_of(self, item: bytes, mode: Mode) -> bytes:
        live = b"true" if mode == "live" else b"false"
        return b'{"live":"%b","%b":[%b]}' % (live, ITEMS.encode(), item)

    def _event_or_poison(self, item: Mapping[str, Any], body: bytes, mode: Mode) -> Event:
        """An item that can't be named costs only itself, not the others of its request."""
        try:
            return self._event(item, body, mode)
        except Unparseable as unreadable:
            return poison_event(NAME, body, mode, unreadable.problem)

    def _event(self, item: Mapping[str, Any], body: bytes, mode: Mode) -> Event:
        reference, code = text(item, "pspReference"), text(item, "eventCode")
        account = text(item, "merchantAccountCode")
        payment = optional_text(item, "originalReference") or reference
        fact = self._fact_if_certain(item)
        return Event(
            provider=NAME,
            event_id=reference,
            event_type=code,
            event_key=join_key(NAME, reference, code, _success(item)),
            entity_key=entity_key(self._settings.entity, NAME, account, payment),
            content_sha256=_content(item, CONTENT_VERSION),
            content_version=CONTENT_VERSION,
            body=body,
            mode=mode,
            account=account,
            occurred_at=time_of(item.get("eventDate")),
            fact_key=fact.fact_key if fact else None,
            fact_sha256=fact.sha256 if fact else None,
        )

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        item = _unwrap(strict_json.loads(body))
        if text(item, "eventCode") != event_type:
            raise Unparseable(f"the item's eventCode isn't {shown(event_type, 80)}")
        return self._fact(item)

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

    def _fact_if_certain(self, item: Mapping[str, Any]) -> MoneyFact | None:
        try:
            return self._fact(item)
        except (MoneyInvalid, Unparseable):
            return None

    def _fact(self, item: Mapping[str, Any]) -> MoneyFact | None:
        if _success(item) != "true":
            return None
        booking = self._booking(item)
        if booking is None:
            return None
        movement, fact_name = booking
        reference = text(item, "pspReference")
        amount = an_object(item.get("amount"), "'amount'")
        return MoneyFact(
            fact_key=join_key(NAME, reference, fact_name),
            movement=movement,
            account=text(item, "merchantAccountCode"),
            payment=None if movement in _PAYOUTS else optional_text(item, "originalReference") or reference,
            money=money_of(amount.get("value"), amount.get("currency"), MORE_DECIMALS),
        )

    def _booking(self, item: Mapping[str, Any]) -> tuple[Movement, str] | None:
        code = text(item, "eventCode")
        if code == "CANCEL_OR_REFUND":
            return MOVEMENTS["REFUND"] if _action(item) == "refund" else None
        if self._settings.adyen_auto_capture and code in ("AUTHORISATION", "CAPTURE"):
            return MOVEMENTS["CAPTURE"] if code == "AUTHORISATION" else None
        return MOVEMENTS.get(code)


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


def _action(item: Mapping[str, Any]) -> str:
    """What a CANCEL_OR_REFUND did. It is unsigned, but without it nothing can be booked at all."""
    action = an_object(item.get("additionalData"), "'additionalData'").get("modification.action")
    if action not in ("cancel", "refund"):
        raise MoneyInvalid("'modification.action' is neither cancel nor refund")
    return str(action)


def _check_mode(document: object, endpoint: Mode) -> None:
    live = document.get("live") if isinstance(document, dict) else None
    reported: Mode | None = {"true": "live", "false": "test"}.get(str(live).lower())  # type: ignore[assignment]
    if reported != endpoint:
        raise ModeMismatch(endpoint, reported)


def _content(item: Mapping[str, Any], version: int) -> str:
    extra = item.get("additionalData")
    if isinstance(extra, dict) and "hmacSignature" in extra:
        kept = {name: value for name, value in extra.items() if name != "hmacSignature"}
        item = {**item, "additionalData": kept}
    return content_hash(item, LEFT_OUT[version])
