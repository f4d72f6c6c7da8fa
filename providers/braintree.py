"""Braintree: form-encoded notifications, their signature, identities and money facts.

Sources: https://developer.paypal.com/braintree/docs/guides/webhooks/parse (form, kinds, redelivery) and Braintree's
own SDKs (the signature: HMAC-SHA1 of ``bt_payload`` as it stands, its line ends included; the key is the SHA-1 of the
private key). ``bt_signature`` has a pair for each of the merchant's API keys, of which one is ours.

A line of the secret file is an API key, ``public_key:private_key``. The private key alone wouldn't say whose pair to
compare.

An event's body is the XML in ``bt_payload``: the form around it is signed anew with every API key. Notifications have
no id. They are named by what they are about and when they were triggered, not by a hash: were the same notification
ever written differently, it would be a conflict for a person to see, not a second event. Where it isn't clear what one
is about, the hash of its content is its id, so that two of one second aren't taken for one.

**What books, and why**:

- A sale books as a capture under its transaction's id, whichever kind reports it: a charged subscription, a retry, a
  local payment, a settlement or a disbursal. So does a refund (type ``credit``), once it is settled or disbursed.
- A settlement that is declined, and a refund that failed, came to nothing. Either may come after the notification that
  it was settled, and alone (https://developer.paypal.com/braintree/docs/reference/general/webhooks/transaction). It
  gives back what was booked of the transaction, and nothing where nothing was (`MoneyFact.pair`). A refund that was
  declined before it was settled moved nothing.
- A dispute takes the money when it is opened, unless it is only a retrieval; won, what was won comes back, if it was
  taken; lost, accepted or expired, the loss is final. A loss makes two events of the same bytes, one of them for the
  money that was taken before it (`providers.fields.types_of`).
- A disbursement is a payout to the merchant's bank; of type ``debit`` it takes from there.

**Left to a person**: `LEFT_TO_A_PERSON`, a disbursement that the bank sent back and a local payment reversed. The
second names no amount, and the first doesn't say whether the disbursement was reported before.

A payment method's notifications are an entity of their own, under its token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets as random_secrets
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode
from xml.etree.ElementTree import Element

from core.errors import Unparseable
from core.event import Event, Mode
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid
from providers import braintree_money as books
from providers import braintree_xml as xml
from providers.braintree_money import LEFT_TO_A_PERSON as LEFT_TO_A_PERSON
from providers.fields import ContentVersionUnknown, entity_key, time_of, types_of
from providers.port import ACCEPTED, DEFAULT_ENDPOINT, Answer, Request, SignatureInvalid, SignedRequest
from providers.settings import ProvidersSettings
from providers.signature import SIGNATURES_MAX, matching, secret_error

NAME = books.NAME
FORM = "application/x-www-form-urlencoded"
FIELDS_MAX = 8
"""Braintree sends two."""
CONTENT_VERSION = 1
IDENTITY_FIELDS = frozenset(
    {
        "id",
        "transaction-id",
        "refunded-transaction-id",
        "retried-transaction-id",
        "original-dispute-id",
        "payment-id",
        "merchant-account-id",
        "source-merchant-id",
        "order-id",
        "global-id",
    }
)

_API_KEY = re.compile(r"(?P<public>[a-zA-Z0-9_.-]{1,128}):(?P<private>[!-~]{1,128})")
_PAYLOAD = re.compile(rb"[A-Za-z0-9+/=\n]+")
_CONTENT_TYPE = re.compile(rb"application/x-www-form-urlencoded(?:\s*;.{0,100})?", re.I)


class BraintreeAdapter:
    """One request is one event; its body is the XML of the notification."""

    name = NAME
    signature_status = 401
    identity_fields = IDENTITY_FIELDS
    content_version = CONTENT_VERSION

    def __init__(self, settings: ProvidersSettings) -> None:
        self._order_for = settings.entity

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        keys = [_api_key(secret) for secret in secrets]
        content_type = request.one(b"content-type")
        if content_type is not None and not _CONTENT_TYPE.fullmatch(content_type):
            raise SignatureInvalid("malformed")
        fields = _form(request.body)
        if "bt_signature" not in fields or "bt_payload" not in fields:
            raise SignatureInvalid("missing")
        payload = fields["bt_payload"]
        if not _PAYLOAD.fullmatch(payload):
            raise SignatureInvalid("malformed")
        pairs = fields["bt_signature"].split(b"&", SIGNATURES_MAX)
        return matching([pair for pair in pairs if b"|" in pair], [_pair(key, payload) for key in keys])

    def events(self, request: Request, mode: Mode) -> list[Event]:
        body = _notification(request.body)
        root = _root(body)
        kind = xml.text_of(root, "kind")
        if kind is None:
            raise Unparseable("<kind> is missing")
        subject = books.subject_of(root)
        content, account = xml.sha256(root), books.account_of(root)
        event_id = _event_id(root, subject) or content
        # Not every notification about a payment names the merchant account, and ids are unique without.
        entity_account = account if self._order_for == "merchant" else ""
        entity = entity_key(self._order_for, NAME, entity_account, books.payment_of(root) or event_id)
        types = types_of(kind, is_loss=books.is_loss(root, kind))
        facts = [_fact_if_certain(root, one) for one in types]
        return [
            Event(
                provider=NAME,
                event_id=event_id,
                event_type=one,
                event_key=join_key(NAME, event_id, one),
                entity_key=entity,
                content_sha256=content,
                content_version=CONTENT_VERSION,
                body=body,
                mode=mode,
                account=account,
                occurred_at=time_of(xml.text_of(root, "timestamp")),
                fact_key=fact.fact_key if fact else None,
                fact_sha256=fact.sha256 if fact else None,
            )
            for one, fact in zip(types, facts, strict=True)
        ]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return books.fact_of(_root(body), event_type)

    def content_sha256(self, body: bytes, version: int) -> str:
        if version == 0:
            return hashlib.sha256(body).hexdigest()
        if version != CONTENT_VERSION:
            raise ContentVersionUnknown(NAME, version)
        return xml.sha256(_root(body))

    def accepted(self) -> Answer:
        return ACCEPTED

    def sign(
        self,
        body: bytes,
        secret: str,
        now: datetime,  # noqa: ARG002 - Braintree signs neither a time
        event_id: str | None = None,  # noqa: ARG002 - nor an event's id
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002 - nor the endpoint
    ) -> SignedRequest:
        """``body``: the XML of a notification."""
        payload = base64.encodebytes(body)
        form = urlencode({"bt_signature": _pair(_api_key(secret), payload), "bt_payload": payload})
        return SignedRequest(form.encode("ascii"), {"Content-Type": FORM})

    def check_secret(self, secret: str) -> None:
        _api_key(secret)

    def new_secret(self) -> str:
        return f"{random_secrets.token_hex(8)}:{random_secrets.token_hex(16)}"


class _ApiKey(NamedTuple):
    public: bytes
    signing: bytes


def _api_key(secret: str) -> _ApiKey:
    found = _API_KEY.fullmatch(secret)
    if found is None:
        raise secret_error(NAME, "an API key is public_key:private_key; copy both from the control panel's API keys")
    # Braintree's scheme, not ours: SHA-1 keeps nothing secret here, HMAC with it isn't broken.
    signing = hashlib.sha1(found["private"].encode("ascii")).digest()  # noqa: S324
    return _ApiKey(found["public"].encode("ascii"), signing)


def _pair(key: _ApiKey, payload: bytes) -> bytes:
    return key.public + b"|" + hmac.digest(key.signing, payload, "sha1").hex().encode("ascii")


def _form(body: bytes) -> dict[str, bytes]:
    """The fields of the form, each once.

    :raises SignatureInvalid: ``malformed``; also where one comes twice, as readers differ on which counts
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
        fields = {name: value.encode("ascii") for name, value in pairs}
    except ValueError as wrong:
        raise SignatureInvalid("malformed") from wrong
    if len(fields) != len(pairs):
        raise SignatureInvalid("malformed")
    return fields


def _notification(body: bytes) -> bytes:
    """The XML within the form.

    :raises Unparseable: not base64 in such a form
    """
    try:
        payload = _form(body).get("bt_payload", b"")
        notification = base64.b64decode(payload.replace(b"\n", b""), validate=True)
    except (SignatureInvalid, binascii.Error) as wrong:
        raise Unparseable("'bt_payload' isn't base64 in a form") from wrong
    if not notification:
        raise Unparseable("'bt_payload' is empty")
    return notification


def _root(body: bytes) -> Element:
    root = xml.read(body)
    if xml.name_of(root) != "notification":
        raise Unparseable("the XML isn't a <notification>")
    return root


def _event_id(root: Element, subject: Element | None) -> str | None:
    """``transaction/8gk2xz/2026-01-31T12:00:00Z``: what it is about, and when."""
    timestamp = xml.text_of(root, "timestamp")
    reference = books.reference_of(subject)
    if subject is None or timestamp is None or reference is None:
        return None
    source = xml.text_of(root, "source-merchant-id")
    return "/".join([*([source] if source else []), xml.name_of(subject), reference, timestamp])


def _fact_if_certain(root: Element, kind: str) -> MoneyFact | None:
    try:
        return books.fact_of(root, kind)
    except (MoneyInvalid, Unparseable):
        return None
