"""Standard Webhooks (https://www.standardwebhooks.com), and Svix, which sends the same under ``svix-`` names.

The event's id is in a signed header, not in the body; what else there is, JSON pointers in the settings say.
Signatures of version ``v1`` (HMAC) count; ``v1a`` (ed25519) and what is yet to come are passed over.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets as random_secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from core.errors import Unparseable
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid, Movement
from providers.fields import money_of, time_of
from providers.json_adapter import Delivered, JsonAdapter, Named
from providers.pointer import Path, parse_pointer, resolve
from providers.port import DEFAULT_ENDPOINT, Request, SignatureInvalid, SignedRequest
from providers.settings import MoneyRule, ProvidersSettings
from providers.signature import (
    base64_mac,
    check_age,
    matching,
    secret_error,
    timestamp,
)

NAME = "standardwebhooks"
PREFIXES = (b"webhook-", b"svix-")
IDENTITY_FIELDS = frozenset({"id"})

_ID = re.compile(rb"[\x21-\x7e]{1,256}")
"""Printable ASCII without blanks."""


class StandardWebhooksAdapter(JsonAdapter):
    """One request is one event; its body is the event's body."""

    name = NAME
    identity_fields = IDENTITY_FIELDS

    def __init__(self, settings: ProvidersSettings) -> None:
        super().__init__(settings)
        own = settings.standardwebhooks
        self._type = parse_pointer(own.type)
        self._occurred_at = parse_pointer(own.occurred_at)
        self._entity = parse_pointer(own.entity)
        self._account = parse_pointer(own.account)
        self._rules = {rule.event_type: _Rule.of(rule) for rule in own.money}

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:
        message_id, sent_at, header = _read_headers(request)
        signed_at = timestamp(sent_at)
        message = b"%b.%b.%b" % (message_id, sent_at, request.body)
        signatures = [part[3:] for part in header.split(b" ") if part.startswith(b"v1,")]
        index = matching(signatures, [base64_mac(self.key(secret), message) for secret in secrets])
        check_age(signed_at, now, self._settings.tolerance_s)
        return index

    def named(self, delivered: Delivered) -> Iterator[Named]:
        document = delivered.document
        event_id, event_type = _read_headers(delivered.request)[0].decode("ascii"), resolve(document, self._type)
        if not isinstance(event_type, str) or not event_type:
            raise Unparseable("the event's type isn't a text with something in it")
        account, entity = _text_at(document, self._account) or "", _text_at(document, self._entity) or event_id
        yield Named(event_id, event_type, account, entity, time_of(resolve(document, self._occurred_at)))

    def sign(
        self,
        body: bytes,
        secret: str,
        now: datetime,
        event_id: str | None = None,
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002 - it isn't signed
    ) -> SignedRequest:
        message_id = event_id or "msg_" + random_secrets.token_hex(12)
        sent_at = str(int(now.timestamp()))
        signature = base64_mac(
            self.key(secret), b"%b.%b.%b" % (message_id.encode("ascii"), sent_at.encode("ascii"), body)
        )
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": sent_at,
            "webhook-signature": f"v1,{signature.decode()}",
        }
        return SignedRequest(body, headers)

    def key(self, secret: str) -> bytes:
        """The bytes that the text after ``whsec_`` stands for; here Stripe differs, whose key is the text itself."""
        encoded = secret.removeprefix("whsec_")
        try:
            key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError) as wrong:
            raise secret_error(NAME, "a secret is whsec_ and then base64") from wrong
        if not key:
            raise secret_error(NAME, "an empty secret proves nothing; copy the endpoint's signing secret (whsec_…)")
        return key

    def new_secret(self) -> str:
        return "whsec_" + base64.b64encode(random_secrets.token_bytes(32)).decode("ascii")

    def fact(self, document: dict[str, Any], event_type: str) -> MoneyFact | None:
        rule = self._rules.get(event_type)
        if rule is None:
            return None
        movement_id = _text_at(document, rule.id)
        if movement_id is None:
            raise MoneyInvalid(f"a {event_type} event has no id of the movement at /{'/'.join(rule.id)}")
        account = _text_at(document, self._account) or ""
        return MoneyFact(
            fact_key=join_key(NAME, account, movement_id, rule.movement.value),
            movement=rule.movement,
            account=account,
            payment=_text_at(document, self._entity),
            money=money_of(resolve(document, rule.amount), resolve(document, rule.currency)),
        )


class _Rule(NamedTuple):
    movement: Movement
    id: Path
    amount: Path
    currency: Path

    @classmethod
    def of(cls, rule: MoneyRule) -> _Rule:
        return cls(rule.movement, parse_pointer(rule.id), parse_pointer(rule.amount), parse_pointer(rule.currency))


def _text_at(document: object, path: Path) -> str | None:
    """A text or an integer, as text; ids come as both."""
    found = resolve(document, path)
    if type(found) is int:
        return str(found)
    return found if isinstance(found, str) and found else None


def _read_headers(request: Request) -> tuple[bytes, bytes, bytes]:
    """Id, timestamp and signatures, all of one family of names."""
    for prefix in PREFIXES:
        message_id = request.one(prefix + b"id")
        if message_id is not None:
            sent_at, header = request.one(prefix + b"timestamp"), request.one(prefix + b"signature")
            if sent_at is None or header is None:
                raise SignatureInvalid("missing")
            if not _ID.fullmatch(message_id):
                raise SignatureInvalid("malformed")
            # id.timestamp.body is signed: with a dot in the id, a part of the body could pass for the timestamp.
            if b"." in message_id:
                raise SignatureInvalid("ambiguous")
            return message_id, sent_at, header
    raise SignatureInvalid("missing")
