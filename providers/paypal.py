"""PayPal: signature, identities and money facts. How far the signature is trusted: `providers.paypal_certificates`.

Sources: https://developer.paypal.com/api/rest/webhooks/event-names/ (types) and
https://developer.paypal.com/docs/api/payments/v2/ (captures, refunds; v1 speaks of sales).

The "secret" is the webhook's id: it is signed with, so a delivery for someone else's webhook doesn't pass here.
The signed time of transmission decides nothing. PayPal redelivers for three days and doesn't say whether each try
is signed anew, so an old one may be honest; a replayed one is a duplicate by its event's id.

Which environment sends follows from the certificate's host. The host isn't signed, so it must agree with the endpoint.

What books, and why:

- A capture (v1: a sale) books when completed, under its own id. An authorisation or an order moves nothing.
- A refund books under its own id once it is completed; one that is pending or failed has moved nothing.
- A reversal is money that PayPal took back for the payer (a chargeback, a claim that was lost): it books as a refund,
  under the id of the refund that PayPal made of it. v1 writes amounts that go back below zero; the sign is dropped.
- Disputes (``CUSTOMER.DISPUTE.*``) book nothing. They don't say what PayPal withheld, nor who bears a payer's
  win (with seller protection PayPal itself); what the merchant does pay comes as a refund or a reversal.

Left to a person: `LEFT_TO_A_PERSON`. Payouts to people (https://developer.paypal.com/docs/payouts/standard/) are
payments by the merchant; a movement knows payouts to the merchant only, and as one of those a payment to anyone would
settle what a merchant is owed. A referenced payout disburses what a capture held back. PayPal doesn't document whether
a capture or sale tells of an invoice's payment too (https://developer.paypal.com/docs/invoicing/webhooks/).

The merchant. v2 names it: in a capture ``payee``, who receives the money, and in a refund ``payer``, who gives it back
(https://developer.paypal.com/docs/api/payments/v2/). Without one of the two a payment would be two merchants', so
whichever has no ``merchant_id`` waits for a person. v1's sales, captures and refunds name no merchant
(https://developer.paypal.com/docs/api/payments/v1/): theirs is ``""``, whatever stands beside. Disputes name the
``seller`` (https://developer.paypal.com/docs/api/customer-disputes/v1/) and onboarding events a ``merchant_id``;
payouts to people name no merchant.

The entity is the captured transaction (v1: the sale), because that is what its refunds, reversals and disputes name.
Authorisations and orders, which move nothing, have the order's, or the payment's of v1.
"""

from __future__ import annotations

import hashlib
import re
import secrets as random_secrets
import string
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from core import strict_json
from core.errors import Unparseable
from core.event import Event, Mode
from core.keys import join_key
from core.money import MoneyFact, MoneyInvalid, Movement
from providers import paypal_certificates as certificates
from providers.fields import (
    ContentVersionUnknown,
    an_object,
    content_hash,
    decimal_money_of,
    entity_key,
    optional_text,
    text,
    time_of,
)
from providers.port import (
    ACCEPTED,
    DEFAULT_ENDPOINT,
    Answer,
    CannotSign,
    ModeMismatch,
    Request,
    SignatureInvalid,
    SignedRequest,
    Wanted,
)
from providers.settings import ProvidersSettings
from providers.signature import secret_error

NAME = "paypal"
KEPT_S = 86_400.0
"""A certificate is good for a year, and a new one has a URL of its own."""
CONTENT_VERSION = 1
LEFT_OUT: Mapping[int, frozenset[str]] = MappingProxyType({1: frozenset({"links"})})
"""By version of the list: the links to the event itself name whichever host sent it."""
IDENTITY_FIELDS = frozenset(
    {
        "id",
        "order_id",
        "authorization_id",
        "capture_id",
        "parent_payment",
        "sale_id",
        "dispute_id",
        "seller_transaction_id",
        "buyer_transaction_id",
        "payout_item_id",
        "payout_batch_id",
        "transaction_id",
        "merchant_id",
        "href",
    }
)
WHOLE = frozenset({"HUF", "TWD"})
"""Currencies that have decimals by ISO 4217 and none at PayPal
(https://developer.paypal.com/api/rest/reference/currency-codes/)."""

LEFT_TO_A_PERSON = frozenset(
    {
        "INVOICING.INVOICE.PAID",
        "INVOICING.INVOICE.REFUNDED",
        "PAYMENT.PAYOUTS-ITEM.SUCCEEDED",
        "PAYMENT.PAYOUTS-ITEM.UNCLAIMED",
        "PAYMENT.PAYOUTS-ITEM.HELD",
        "PAYMENT.PAYOUTS-ITEM.CANCELED",
        "PAYMENT.PAYOUTS-ITEM.REFUNDED",
        "PAYMENT.PAYOUTS-ITEM.RETURNED",
        "PAYMENT.REFERENCED-PAYOUT-ITEM.COMPLETED",
    }
)
"""Event types that move money, or may, and aren't booked: a person books them by a manual entry."""

_CAPTURED = frozenset({"PAYMENT.CAPTURE.COMPLETED", "PAYMENT.SALE.COMPLETED"})
_GIVEN_BACK = frozenset(
    {"PAYMENT.CAPTURE.REFUNDED", "PAYMENT.CAPTURE.REVERSED", "PAYMENT.SALE.REFUNDED", "PAYMENT.SALE.REVERSED"}
)
_TAKEN = frozenset({"completed", "partially_refunded", "refunded"})
"""States of a capture or sale that was completed: an event can tell of a later one than its own."""
_NOT_GIVEN_BACK = frozenset({"pending", "failed", "cancelled"})
_OF_A_CAPTURE = ("PAYMENT.CAPTURE.", "PAYMENT.SALE.")
_BY_HAND = "book it by a manual entry"
_SECRET_CHARS_MAX = 50
_WEBHOOK_ID_CHARS = frozenset(string.ascii_letters + string.digits)


class PayPalAdapter:
    """One request is one event; its body is the event's body. It wants the certificate that a request names."""

    name = NAME
    signature_status = 401
    identity_fields = IDENTITY_FIELDS
    content_version = CONTENT_VERSION

    def __init__(self, settings: ProvidersSettings) -> None:
        self._order_for = settings.entity

    def wants(self, request: Request, secrets: Sequence[str]) -> Wanted | None:
        """The certificate, for a request that can still be proven; its URL is checked before anybody asks for it.

        :raises SignatureInvalid: the headers are incomplete, or name a certificate on another host
        """
        for secret in secrets:
            self.check_secret(secret)
        return Wanted(certificates.read_headers(request).certificate_url, kept_s=KEPT_S)

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:
        for secret in secrets:
            self.check_secret(secret)
        transmission = certificates.read_headers(request)
        if request.fetched is None or not 200 <= request.fetched.status < 300:
            raise SignatureInvalid("untrusted")
        messages = [transmission.signed(secret, request.body) for secret in secrets]
        return certificates.signed_by(messages, transmission.signature, request.fetched.body, now)

    def events(self, request: Request, mode: Mode) -> list[Event]:
        document = an_object(request.document, "the body")
        _check_mode(request, mode)
        event_id, event_type = text(document, "id"), text(document, "event_type")
        account = _account(document)
        fact = _fact_if_certain(document, event_type)
        # Not every event of a payment names the merchant, and PayPal's ids are unique without.
        entity_account = account if self._order_for == "merchant" else ""
        return [
            Event(
                provider=NAME,
                event_id=event_id,
                event_type=event_type,
                event_key=join_key(NAME, event_id, event_type),
                entity_key=entity_key(self._order_for, NAME, entity_account, _payment(document) or event_id),
                content_sha256=content_hash(document, LEFT_OUT[CONTENT_VERSION]),
                content_version=CONTENT_VERSION,
                body=request.body,
                mode=mode,
                account=account,
                occurred_at=time_of(document.get("create_time")),
                fact_key=fact.fact_key if fact else None,
                fact_sha256=fact.sha256 if fact else None,
            )
        ]

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return _fact(an_object(strict_json.loads(body), "the body"), event_type)

    def content_sha256(self, body: bytes, version: int) -> str:
        if version == 0:
            return hashlib.sha256(body).hexdigest()
        if version not in LEFT_OUT:
            raise ContentVersionUnknown(NAME, version)
        return content_hash(an_object(strict_json.loads(body), "the body"), LEFT_OUT[version])

    def accepted(self) -> Answer:
        return ACCEPTED

    def sign(
        self,
        body: bytes,  # noqa: ARG002 - nothing is signed
        secret: str,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        event_id: str | None = None,  # noqa: ARG002
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002
    ) -> SignedRequest:
        raise CannotSign(NAME, "the private key is PayPal's; resend an event from the dashboard of its sandbox")

    def check_secret(self, secret: str) -> None:
        if not 1 <= len(secret) <= _SECRET_CHARS_MAX or not _WEBHOOK_ID_CHARS.issuperset(secret):
            raise secret_error(NAME, "the webhook's id is letters and digits; copy it from the app's webhooks")

    def new_secret(self) -> str:
        letters = string.ascii_uppercase + string.digits
        return "".join(random_secrets.choice(letters) for _ in range(17))


def _check_mode(request: Request, endpoint: Mode) -> None:
    for name, value in request.headers:
        if name == certificates.CERTIFICATE_URL:
            try:
                reported = certificates.mode_of(certificates.trusted_url(value)[1])
            except SignatureInvalid:
                raise ModeMismatch(endpoint, None) from None
            if reported != endpoint:
                raise ModeMismatch(endpoint, reported)


def _within(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _disputed(resource: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = resource.get("disputed_transactions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _named(document: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = document.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _account(document: Mapping[str, Any]) -> str:
    """The merchant's id where the event names one for sure; "" otherwise."""
    resource = _within(document, "resource")
    if _is_v1(_within(resource, "amount")):
        return ""
    merchant = _within(resource, "payer" if _is_refund(document) else "payee")
    sellers = {_named(_within(one, "seller"), "merchant_id") for one in _disputed(resource)}
    seller = next(iter(sellers)) if len(sellers) == 1 else None
    return _named(merchant, "merchant_id") or seller or _named(resource, "merchant_id") or ""


def _payment(document: Mapping[str, Any]) -> str | None:
    """The captured transaction, where the event is about one; else the order, v1's payment, or the resource."""
    resource = _within(document, "resource")
    related = _within(_within(resource, "supplementary_data"), "related_ids")
    above = (_link(resource, "up") or "").rpartition("/")[2]
    disputed = {_named(one, "seller_transaction_id") for one in _disputed(resource)}
    if len(disputed) == 1:
        return next(iter(disputed))
    if _is_refund(document):
        captured = _named(related, "capture_id") or _named(resource, "sale_id", "capture_id") or above
        if captured:
            return captured
    elif str(document.get("event_type")).startswith(_OF_A_CAPTURE):
        return _named(resource, "id")
    return (
        _named(related, "order_id")
        or _named(resource, "parent_payment", "order_id")
        or above
        or _named(resource, "id", "dispute_id", "payout_item_id")
        or _named(_within(resource, "batch_header"), "payout_batch_id")
        or _named(_within(resource, "invoice"), "id")
        or _named(resource, "merchant_id")
    )


def _link(resource: Mapping[str, Any], relation: str) -> str | None:
    """The address that a resource's link of that relation has."""
    links = resource.get("links")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("rel") == relation:
            return _named(link, "href")
    return None


def _is_refund(document: Mapping[str, Any]) -> bool:
    """Whether the resource says of itself that it is one: v1's ``resource_type`` may be the refunded payment's."""
    resource = _within(document, "resource")
    return (
        document.get("resource_type") == "refund"
        or _named(resource, "sale_id", "capture_id") is not None
        or re.search(r"/refunds?/[^/]+$", _link(resource, "self") or "") is not None
    )


def _fact_if_certain(document: Mapping[str, Any], event_type: str) -> MoneyFact | None:
    try:
        return _fact(document, event_type)
    except (MoneyInvalid, Unparseable):
        return None


def _fact(document: Mapping[str, Any], event_type: str) -> MoneyFact | None:
    """
    :raises MoneyInvalid: a booking type whose resource doesn't say for sure what moved
    """
    if event_type in LEFT_TO_A_PERSON:
        raise MoneyInvalid(f"{event_type} may move money and isn't booked: look it up at PayPal, and {_BY_HAND}")
    if event_type not in _CAPTURED | _GIVEN_BACK:
        return None
    resource = an_object(document.get("resource"), "'resource'")
    status = (optional_text(resource, "status") or optional_text(resource, "state") or "").lower()
    movement = Movement.CAPTURE if event_type in _CAPTURED else Movement.REFUND
    if movement is Movement.REFUND and status in _NOT_GIVEN_BACK:
        return None
    if status not in (_TAKEN if movement is Movement.CAPTURE else {"completed"}):
        raise MoneyInvalid("the resource's status isn't one in which money has moved")
    if movement is Movement.REFUND and not _is_refund(document):
        raise MoneyInvalid("the resource doesn't say that it is a refund: its id and amount may be the payment's")
    reference = text(resource, "id")
    amount = an_object(resource.get("amount"), "'amount'")
    value, currency = _value_and_currency(amount)
    if movement is Movement.REFUND and isinstance(value, str):
        value = value.removeprefix("-")
    money = decimal_money_of(value, currency)
    if money.currency in WHOLE and money.amount_minor % 100:
        raise MoneyInvalid(f"PayPal has no decimals of {money.currency}")
    account = _account(document)
    if not account and not _is_v1(amount):
        names = "payer" if movement is Movement.REFUND else "payee"
        raise MoneyInvalid(f"{event_type} has no {names}.merchant_id: it can't be told whose payment it is; {_BY_HAND}")
    return MoneyFact(
        fact_key=join_key(NAME, reference, movement.value),
        movement=movement,
        account=account,
        payment=_payment(document),
        money=money,
    )


def _is_v1(amount: Mapping[str, Any]) -> bool:
    return "total" in amount or "currency" in amount


def _value_and_currency(amount: Mapping[str, Any]) -> tuple[object, object]:
    """v2 or v1; one that speaks both ways at once is neither."""
    v1 = _is_v1(amount)
    v2 = "value" in amount or "currency_code" in amount
    if v1 and v2:
        raise MoneyInvalid("the amount is given in two ways")
    return (amount.get("total"), amount.get("currency")) if v1 else (amount.get("value"), amount.get("currency_code"))
