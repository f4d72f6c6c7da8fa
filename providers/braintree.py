"""Braintree: form-encoded notifications, their signature, identities and money facts.

Sources: https://developer.paypal.com/braintree/docs/guides/webhooks/parse (form, kinds, redelivery) and Braintree's
own SDKs (the signature: HMAC-SHA1 of ``bt_payload`` as it stands, its line ends included; the key is the SHA-1 of the
private key). ``bt_signature`` has a pair for each of the merchant's API keys, of which one is ours.

A line of the secret file is an API key, ``public_key:private_key``. The private key alone wouldn't say whose pair to
compare.

An event's body is the XML in ``bt_payload``: the form around it is signed again with every API key. Notifications have
no id. They are named by what they are about and when they were triggered, not by a hash: were the same notification
ever written differently, it would be a conflict for a person to see, not a second event. Where it isn't clear what one
is about, the hash of its content is its id, so that two of one second aren't taken for one.

**What books, and why**:

- A sale books as a capture under its transaction's id, whichever kind reports it: a charged subscription, a retry, a
  local payment, a settlement or a disbursal. So does a refund (type ``credit``), once it is settled or disbursed.
- A settlement that is declined, and a refund that failed, came to nothing. Either may come after the notification that
  it was settled, and alone (https://developer.paypal.com/braintree/docs/reference/general/webhooks/transaction). It
  gives back what was booked of the transaction, whatever its status says (`MoneyFact.pair`).
- The notification of a subscription's charge, or of one that failed, lists its earlier charges too. Each is an event of
  its own, of the same bytes, of its own merchant account and with its own fees: one that was voided since gives back
  what was booked of it.
- A dispute takes the money when it is opened, unless it is only a retrieval; won, it comes back, if it was taken. Less
  may come back: "the amount of money awarded back to the merchant" is ``amount-won``
  (https://developer.paypal.com/braintree/graphql/reference/types/dispute). Lost, accepted or expired, the loss is
  final. A loss makes two events of the same bytes, one of them for the money that was taken before it
  (`providers.money.types_of`).
- A sub-merchant's sale may say a service fee, which is "subtracted from the final amount disbursed to the sub-merchant
  and sent to the master merchant instead"
  (https://developer.paypal.com/braintree/docs/guides/marketplace/create): it is a movement of its own. That the master
  merchant gets it, no notification says. Of a refund, or of a sale that was declined, it is unknown who has it.
- The money of local payments and SEPA debits goes to the merchant's PayPal account, as that of payments by PayPal.
- Where PayPal settles a sale, "the fee charged by PayPal for the transaction"
  (https://developer.paypal.com/braintree/graphql/reference/types/pay-pal-transaction-details) is taken there, too: a
  movement of its own, outside. Of a refund it is unknown.
- A disbursement is a payout to the merchant's bank; of type ``debit`` it takes from there.

**Left to a person**: a disbursement that the bank sent back and a local payment reversed. The
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
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode
from xml.etree.ElementTree import Element

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact
from providers import braintree_money as books
from providers import braintree_xml as xml
from providers.base import BaseAdapter, Delivered, Named
from providers.event_types import Meaning
from providers.fields import names, time_of
from providers.port import FORM, Request, SignatureInvalid
from providers.signature import SIGNATURES_MAX, find_matching, secret_error

NAME = books.NAME
FIELDS_MAX = 8
"""Braintree sends two."""

_API_KEY = re.compile(r"(?P<public>[a-zA-Z0-9_.-]{1,128}):(?P<private>[!-~]{1,128})")
_PAYLOAD = re.compile(rb"[A-Za-z0-9+/=\n]+")


class BraintreeAdapter(BaseAdapter[Element]):
    """Each request is one event; its body is the XML of the notification."""

    name = NAME
    identity_fields = names(
        "id transaction-id refunded-transaction-id retried-transaction-id original-dispute-id payment-id "
        "merchant-account-id source-merchant-id order-id global-id"
    )
    media_type = FORM
    accounts_in_entities = False
    splits_losses = True
    content_version = 2
    event_types = books.EVENT_TYPES
    looked_up = "in Braintree's control panel"

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:  # noqa: ARG002 - signs no time
        keys = [self.key(secret) for secret in secrets]
        fields = _parse_form(request.body)
        if "bt_signature" not in fields or "bt_payload" not in fields:
            raise SignatureInvalid("missing")
        payload = fields["bt_payload"]
        if not _PAYLOAD.fullmatch(payload):
            raise SignatureInvalid("malformed")
        pairs = fields["bt_signature"].split(b"&", SIGNATURES_MAX)
        return find_matching(
            [pair for pair in pairs if b"|" in pair], [build_signed_pair(key, payload) for key in keys]
        )

    def key(self, secret: str) -> ApiKey:
        return parse_api_key(secret)

    def new_secret(self) -> str:
        return f"{random_secrets.token_hex(8)}:{random_secrets.token_hex(16)}"

    def events(self, request: Request, mode: Mode) -> list[Event]:
        body = _decode_notification(request.body)
        return self.read(Delivered(self.parsed(body), request, mode), body)

    def request_of(self, item: bytes, mode: Mode) -> bytes:  # noqa: ARG002 - the notification says nothing of it
        return urlencode({"bt_payload": base64.b64encode(item)}).encode()

    def parsed(self, body: bytes) -> Element:
        root = xml.parse_xml(body)
        if xml.name_of(root) != "notification":
            raise Unparseable("the XML isn't a <notification>")
        return root

    def named(self, delivered: Delivered[Element]) -> Iterator[Named]:
        root = delivered.document
        kind = xml.text_of(root, "kind")
        if kind is None:
            raise Unparseable("<kind> is missing")
        account = books.find_account(root, kind)
        event_id = _build_event_id(root, books.find_subject(root)) or xml.hash_content(root)
        entity, occurred_at = books.find_payment(root) or event_id, time_of(xml.text_of(root, "timestamp"))
        yield Named(event_id, kind, account, entity, occurred_at, is_loss=books.is_loss(root, kind))
        for listed, transaction in books.list_earlier_charges(root, kind).items():
            yield Named(event_id, listed, books.find_account(root, listed), transaction or event_id, occurred_at)

    def meaning_of(self, document: Element, event_type: str) -> Meaning:
        kind, _, place = event_type.partition(books.LISTED)
        return super().meaning_of(document, kind if books.is_place(place) else event_type)

    def fact(self, document: Element, event_type: str) -> MoneyFact | None:
        return books.read_fact(document, event_type)

    def fees(self, document: Element, event_type: str) -> list[MoneyFact]:
        return books.read_fees(document, event_type)

    def content(self, document: Element, version: int) -> str:
        return xml.hash_content(document) if version == 1 else books.hash_content(document)


class ApiKey(NamedTuple):
    public: bytes
    signing: bytes


def parse_api_key(secret: str) -> ApiKey:
    match = _API_KEY.fullmatch(secret)
    if match is None:
        raise secret_error(NAME, "an API key is public_key:private_key; copy both from the control panel's API keys")
    # Braintree's scheme, not ours: SHA-1 keeps nothing secret here, HMAC with it isn't broken.
    signing = hashlib.sha1(match["private"].encode("ascii")).digest()  # noqa: S324
    return ApiKey(match["public"].encode("ascii"), signing)


def build_signed_pair(key: ApiKey, payload: bytes) -> bytes:
    return key.public + b"|" + hmac.digest(key.signing, payload, "sha1").hex().encode("ascii")


def _parse_form(body: bytes) -> dict[str, bytes]:
    """Parses the fields of the form, each once.

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


def _decode_notification(body: bytes) -> bytes:
    try:
        payload = _parse_form(body).get("bt_payload", b"")
        notification = base64.b64decode(payload.replace(b"\n", b""), validate=True)
    except (SignatureInvalid, binascii.Error) as wrong:
        raise Unparseable("'bt_payload' isn't base64 in a form") from wrong
    if not notification:
        raise Unparseable("'bt_payload' is empty")
    return notification


def _build_event_id(root: Element, subject: Element | None) -> str | None:
    """Builds ``transaction/8gk2xz/2026-01-31T12:00:00Z``: what it is about, and when."""
    timestamp = xml.text_of(root, "timestamp")
    reference = books.read_reference(subject)
    if subject is None or timestamp is None or reference is None:
        return None
    source = xml.text_of(root, "source-merchant-id")
    return "/".join([*([source] if source else []), xml.name_of(subject), reference, timestamp])
