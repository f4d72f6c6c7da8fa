"""Standard Webhooks (https://www.standardwebhooks.com), and Svix, which sends the same under ``svix-`` names.

The event's id is in a signed header, not in the body; what else there is, JSON pointers in the settings say.
Its senders are anybody, so the settings say which types book and which are known to move nothing. Of the other fields
nothing is known, nor which of them move money where no rule says so. A message that is sent again has the same id
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md), so the whole body decides
a conflict.
An undo is paired with what has its id (`MoneyFact.pair`), so a rule's ``id`` points at the id of what is undone.
Signatures of version ``v1`` (HMAC) count; ``v1a`` (ed25519) and what is yet to come are passed over.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets as random_secrets
from collections.abc import Iterator

from core.errors import Unparseable
from core.money import MoneyFact, MoneyInvalid, MovementUnknown
from providers.base import Delivered, JsonAdapter, JsonObject, Named, Signed
from providers.event_types import EventTypes
from providers.fields import any_id, names, parse_pointer, resolve, time_of
from providers.money import money_of, moved
from providers.port import Request, SignatureInvalid
from providers.settings import ProvidersSettings
from providers.signature import base64_mac, secret_error, timestamp

NAME = "standardwebhooks"
PREFIXES = (b"webhook-", b"svix-")

_ID = re.compile(rb"[\x21-\x7e]{1,256}")
"""Printable ASCII without blanks."""


class StandardWebhooksAdapter(JsonAdapter):
    name = NAME
    identity_fields = names("id")
    key_prefix = "whsec_"

    def __init__(self, settings: ProvidersSettings) -> None:
        super().__init__(settings)
        books = frozenset(rule.event_type for rule in settings.standardwebhooks.money)
        nothing = frozenset(settings.standardwebhooks.moves_nothing) - books
        self.event_types = EventTypes(books=books, nothing={"providers.standardwebhooks.moves_nothing": nothing})

    def signed(self, request: Request) -> Signed:
        message_id, sent_at, header = _read_headers(request)
        signatures = [part[3:] for part in header.split(b" ") if part.startswith(b"v1,")]
        return Signed(signatures, b"%b.%b.%b" % (message_id, sent_at, request.body), timestamp(sent_at))

    def signature(self, key: bytes, message: bytes) -> bytes:
        return base64_mac(key, message)

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document, at = delivered.document, self._settings.standardwebhooks
        event_id = _read_headers(delivered.request)[0].decode("ascii")
        event_type = resolve(document, parse_pointer(at.type))
        if not isinstance(event_type, str) or not event_type:
            raise Unparseable("the event's type isn't a text with something in it")
        account, entity = _id_at(document, at.account) or "", _id_at(document, at.entity) or event_id
        yield Named(event_id, event_type, account, entity, time_of(resolve(document, parse_pointer(at.occurred_at))))

    def key(self, secret: str) -> bytes:
        """Decodes the text after ``whsec_``; here Stripe differs, whose key is the text itself."""
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
        at = self._settings.standardwebhooks
        # Of several rules for one type the last one counts.
        rule = next((candidate for candidate in reversed(at.money) if candidate.event_type == event_type), None)
        if rule is None:
            raise MovementUnknown("type", event_type)
        movement_id = _id_at(document, rule.id)
        if movement_id is None:
            raise MoneyInvalid(f"a {event_type} event has no id of the movement at {rule.id}")
        account = _id_at(document, at.account) or ""
        amount, currency = (resolve(document, parse_pointer(pointer)) for pointer in (rule.amount, rule.currency))
        return moved(
            NAME,
            rule.movement,
            movement_id,
            money_of(amount, currency),
            account=account,
            payment=_id_at(document, at.entity),
            paired=True,
            within=account,
        )


def _id_at(document: JsonObject, pointer: str) -> str | None:
    return any_id(document, *parse_pointer(pointer))


def _read_headers(request: Request) -> tuple[bytes, bytes, bytes]:
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
