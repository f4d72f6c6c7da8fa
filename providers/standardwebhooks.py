"""Standard Webhooks (https://www.standardwebhooks.com), and Svix, which sends the same under ``svix-`` names.

The event's id is in a signed header, not in the body; what else there is, JSON pointers in the settings say.
Signatures of version ``v1`` (HMAC) count; ``v1a`` (ed25519) and what is yet to come are passed over.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets as random_secrets
from collections.abc import Iterator
from typing import NamedTuple

from core.errors import Unparseable
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid, Movement
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.fields import Path, any_id, names, parse_pointer, resolve, time_of
from providers.money import money_of
from providers.port import Request, SignatureInvalid
from providers.settings import MoneyRule, ProvidersSettings
from providers.signature import base64_mac, secret_error, timestamp

NAME = "standardwebhooks"
PREFIXES = (b"webhook-", b"svix-")

_ID = re.compile(rb"[\x21-\x7e]{1,256}")
"""Printable ASCII without blanks."""


class StandardWebhooksAdapter(JsonAdapter):
    """One request is one event; its body is the event's body."""

    name = NAME
    identity_fields = names("id")
    key_prefix = "whsec_"

    def __init__(self, settings: ProvidersSettings) -> None:
        super().__init__(settings)
        own = settings.standardwebhooks
        self._type = parse_pointer(own.type)
        self._occurred_at = parse_pointer(own.occurred_at)
        self._entity = parse_pointer(own.entity)
        self._account = parse_pointer(own.account)
        self._rules = {rule.event_type: _Rule.of(rule) for rule in own.money}

    def signed(self, request: Request) -> Signed:
        message_id, sent_at, header = _read_headers(request)
        signatures = [part[3:] for part in header.split(b" ") if part.startswith(b"v1,")]
        return Signed(signatures, b"%b.%b.%b" % (message_id, sent_at, request.body), timestamp(sent_at))

    def signature(self, key: bytes, message: bytes) -> bytes:
        return base64_mac(key, message)

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        event_id, event_type = _read_headers(delivered.request)[0].decode("ascii"), resolve(document, self._type)
        if not isinstance(event_type, str) or not event_type:
            raise Unparseable("the event's type isn't a text with something in it")
        account, entity = any_id(document, *self._account) or "", any_id(document, *self._entity) or event_id
        yield Named(event_id, event_type, account, entity, time_of(resolve(document, self._occurred_at)))

    def key(self, secret: str) -> bytes:
        """The bytes that the text after ``whsec_`` stands for; here Stripe differs, whose key is the text itself."""
        encoded = secret.removeprefix(self.key_prefix)
        try:
            key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError) as wrong:
            raise secret_error(NAME, "a secret is whsec_ and then base64") from wrong
        if not key:
            raise secret_error(NAME, "an empty secret proves nothing; copy the endpoint's signing secret (whsec_…)")
        return key

    def new_secret(self) -> str:
        return self.key_prefix + base64.b64encode(random_secrets.token_bytes(32)).decode("ascii")

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        rule = self._rules.get(event_type)
        if rule is None:
            return None
        movement_id = any_id(document, *rule.id)
        if movement_id is None:
            raise MoneyInvalid(f"a {event_type} event has no id of the movement at /{'/'.join(rule.id)}")
        account = any_id(document, *self._account) or ""
        return MoneyFact(
            fact_key=join_key(NAME, account, movement_id, rule.movement.value),
            movement=rule.movement,
            account=account,
            payment=any_id(document, *self._entity),
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
