"""Adyen's standard notifications: signature, split, identities and money facts.

Sources: https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures and
https://docs.adyen.com/development-resources/webhooks/webhook-types

The signature is in the body, one an item, over eight of its fields joined by ``:`` without escaping; the rest of
an item isn't signed. Every item is checked, and a field in which a ``:`` could shift its neighbours is refused.

Which codes move money, which of those book and why: `providers.adyen_money`.

Identities. Adyen sends a notification again with the same ``eventCode`` and ``pspReference``, and its other fields may
differ; the latest counts (https://docs.adyen.com/development-resources/webhooks/handle-webhook-events). So a conflict
is decided by an item's names and its amount alone; what a CANCEL_OR_REFUND did is in ``additionalData`` and does,
because money follows from it. So does the ``reason`` of a capture that Adyen repeats after it failed
(https://docs.adyen.com/online-payments/capture/failure-reasons): under the first one's pspReference it is a conflict,
for a person to book, and not a copy of what failed.

The pspReference of a REPORT_AVAILABLE is a file's name, that of a RECURRING_CONTRACT a stored card's (webhook-types,
above). Those are unique within an account and code only, so both are in their keys.

CHARGEBACK_REVERSED, SECOND_CHARGEBACK, PREARBITRATION_WON and PREARBITRATION_LOST name the payment only where "Include
the originalReference for CHARGEBACK_REVERSED events" is turned on among the webhook's settings (Risk). Without it they
are an entity of their own. Where the ledger has several shards, one that knows of no chargeback may have to decide them
then, and an undo among them is unknown.
"""

from __future__ import annotations

import secrets as random_secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from core import strict_json
from core.card_numbers import quote_masked
from core.errors import Unparseable
from core.event import Event, Mode
from core.keys import join_key
from core.money import MoneyFact
from providers.adyen_money import ACCEPTED, DATED, EVENT_TYPES, LOST, NAME, fact_of, has_succeeded, is_lost_at_once
from providers.base import Delivered, JsonAdapter, JsonObject, Named
from providers.event_types import Meaning
from providers.fields import an_object, array_items, content_hash, names, object_at, optional_text, text, time_of
from providers.port import Answer, ModeMismatch, Request, SignatureInvalid
from providers.signature import base64_mac, find_matching, hex_key

ITEMS = "notificationItems"
ITEM = "NotificationRequestItem"
ITEMS_MAX = 256
"""Adyen sends one item in JSON; each costs one HMAC for each secret."""
LEFT_OUT: Mapping[int, frozenset[str]] = {
    1: frozenset({"eventDate"}),
    2: frozenset({"eventDate", "reason", "additionalData"}),
}
"""By version of the list; since version 3 what counts is listed (`COUNTS`).

Version 1 left out ``hmacSignature`` as well, which changes when the key is rolled."""
COUNTS = names("pspReference originalReference eventCode success merchantAccountCode")
"""The names of an item, which version 3 counts beside its amount."""
KEPT = frozenset({"modification.action"})
"""The fields of ``additionalData`` that count since version 2."""
RECAPTURED = frozenset({"Transaction Recaptured", "Transaction Auto-recaptured"})
"""A CAPTURE's ``reason``, which is content since version 2 only if it is one of these."""
NOT_A_PAYMENT = frozenset({"REPORT_AVAILABLE", "RECURRING_CONTRACT"})
"""Event codes whose pspReference names something else."""


class AdyenAdapter(JsonAdapter):
    """Each request has one or several items; an event's body is the exact bytes of its item, wrapper included."""

    name = NAME
    identity_fields = names(
        "pspReference originalReference merchantReference paymentPspReference modificationMerchantReference"
    )
    content_version = 3
    event_types = EVENT_TYPES
    looked_up = "in Adyen's Customer Area"

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        keys = [self.key(secret) for secret in secrets]
        try:
            items = _read_items(request.document)
        except Unparseable as wrong:
            raise SignatureInvalid("malformed") from wrong
        return max(_find_signing_key(item, keys) for item in items)

    def key(self, secret: str) -> bytes:
        return hex_key(NAME, secret)

    def new_secret(self) -> str:
        return random_secrets.token_hex(32).upper()

    def accepted(self) -> Answer:
        return ACCEPTED

    def events(self, request: Request, mode: Mode) -> list[Event]:
        items = _read_items(request.document)
        _check_mode(request.document, mode)
        pairs = zip(items, array_items(request.body, ITEMS), strict=True)
        return [event for item, body in pairs for event in self.read_or_poison(item, body, request, mode)]

    def request_of(self, item: bytes, mode: Mode) -> bytes:
        live = b"true" if mode == "live" else b"false"
        return b'{"live":"%b","%b":[%b]}' % (live, ITEMS.encode(), item)

    def parsed(self, body: bytes) -> dict[str, Any]:
        return _unwrap_item(strict_json.load_json(body))

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        item = delivered.document
        reference, code, account = (text(item, name) for name in ("pspReference", "eventCode", "merchantAccountCode"))
        entity, occurred_at = optional_text(item, "originalReference") or reference, time_of(item.get("eventDate"))
        # A payment's event is named by its reference alone, which is unique across Adyen.
        key = (account, code, reference) if code in NOT_A_PAYMENT else (reference, code)
        if code in DATED and (dated := optional_text(item, "eventDate")):
            key = (*key, dated)
        key = (*key, _read_success(item))
        yield Named(reference, code, account, entity, occurred_at, key)
        if is_lost_at_once(item):
            yield Named(reference, code + LOST, account, entity, occurred_at, (*key, LOST.removeprefix(".")))

    def event_key(self, named: Named) -> str:
        """Leaves out the type: the code is among its names already."""
        return join_key(NAME, *(named.key or ()))

    def entity_key(self, named: Named) -> str:
        if named.event_type in NOT_A_PAYMENT and self._settings.entity == "payment":
            return join_key(NAME, named.account, named.event_type, named.event_id)
        return super().entity_key(named)

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        code = text(document, "eventCode")
        _read_success(document)
        if event_type != code and not (event_type == code + LOST and is_lost_at_once(document)):
            raise Unparseable(f"the item's eventCode isn't {quote_masked(event_type, 80)}")
        return fact_of(document, event_type, self._settings.adyen)

    def meaning_of(self, document: JsonObject, event_type: str) -> Meaning:
        is_told = document.get("eventCode") == event_type
        meaning = super().meaning_of(document, event_type if is_told else event_type.removesuffix(LOST))
        return "nothing" if meaning == "person" and not has_succeeded(document) else meaning

    def content(self, document: Mapping[str, Any], version: int) -> str:
        return _hash_content(document, version)


def _read_items(document: object) -> list[dict[str, Any]]:
    """Returns the items without their wrappers: at least one, or nothing would be proven by checking them all.

    :raises Unparseable: not a standard notification
    """
    wrapped = document.get(ITEMS) if isinstance(document, dict) else None
    if not isinstance(wrapped, list) or not 1 <= len(wrapped) <= ITEMS_MAX:
        raise Unparseable(f"{ITEMS!r} isn't an array of 1 to {ITEMS_MAX} items")
    return [_unwrap_item(wrapper) for wrapper in wrapped]


def _unwrap_item(wrapper: object) -> dict[str, Any]:
    return an_object(an_object(wrapper, "an item's wrapper").get(ITEM), f"{ITEM!r}")


def _find_signing_key(item: Mapping[str, Any], keys: Sequence[bytes]) -> int:
    signature = object_at(item, "additionalData").get("hmacSignature")
    if signature is None or signature == "":
        raise SignatureInvalid("missing")
    if not isinstance(signature, str):
        raise SignatureInvalid("malformed")
    try:
        message = build_signed_bytes(item)
    except Unparseable as wrong:
        raise SignatureInvalid("malformed") from wrong
    return find_matching([signature.encode("utf-8")], [base64_mac(key, message) for key in keys])


def build_signed_bytes(item: Mapping[str, Any]) -> bytes:
    """Joins the eight signed fields; one that is missing or null is empty.

    A ``:`` is allowed in merchantReference only: with one in another field too, two different items would have
    the same signed bytes.
    """
    amount = object_at(item, "amount")
    value, currency = amount.get("value"), amount.get("currency")
    if value is not None and type(value) is not int:
        raise Unparseable("'value' isn't an integer")
    before = [
        _require_plain_text(item.get(name)) for name in ("pspReference", "originalReference", "merchantAccountCode")
    ]
    reference = item.get("merchantReference") or ""
    if not isinstance(reference, str):
        raise Unparseable("'merchantReference' isn't a text")
    after = [
        "" if value is None else str(value),
        _require_plain_text(currency),
        _require_plain_text(item.get("eventCode")),
        _require_plain_text(item.get("success")),
    ]
    return ":".join([*before, reference, *after]).encode("utf-8")


def _require_plain_text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or ":" in value:
        raise Unparseable("a signed field isn't a text without ':'")
    return value


def _read_success(item: Mapping[str, Any]) -> str:
    success = item.get("success")
    if success not in ("true", "false"):
        raise Unparseable('\'success\' is neither "true" nor "false"')
    return str(success)


def _check_mode(document: object, endpoint: Mode) -> None:
    live = document.get("live") if isinstance(document, dict) else None
    reported: Mode | None = {"true": "live", "false": "test"}.get(str(live).lower())  # type: ignore[assignment]
    if reported != endpoint:
        raise ModeMismatch(endpoint, reported)


def _hash_content(item: Mapping[str, Any], version: int) -> str:
    extra = object_at(item, "additionalData")
    if version == 1:
        signed = "hmacSignature" in extra
        kept = {name: value for name, value in extra.items() if name != "hmacSignature"}
        return content_hash({**item, "additionalData": kept} if signed else item, LEFT_OUT[version])
    decisive = {name: extra[name] for name in KEPT & extra.keys()}
    if item.get("eventCode") == "CAPTURE" and str(item.get("reason")) in RECAPTURED:
        decisive["recaptured"] = True
    if version == 2:
        return content_hash({**item, **decisive}, LEFT_OUT[version])
    amount = item.get("amount")
    moved = {name: amount.get(name) for name in ("value", "currency")} if isinstance(amount, dict) else amount
    return content_hash({**{name: item[name] for name in COUNTS & item.keys()}, "amount": moved, **decisive})
