"""PayPal: signature, identities and money facts. How far the signature is trusted: `providers.paypal_certificates`.

Sources: https://developer.paypal.com/api/rest/webhooks/event-names/ (types) and
https://developer.paypal.com/docs/api/payments/v2/ (captures, refunds; v1 speaks of sales).

The "secret" is the webhook's id: it is signed with, so a delivery for someone else's webhook doesn't pass here.
A delivery is taken for four days by its signed time: PayPal redelivers for three and doesn't say whether each try is
signed again. A replayed one is a duplicate by its event's id.

Where there are credentials of its API (``secrets/paypal-api``), an event whose type moves money is asked for there
before it is published (https://developer.paypal.com/api/webhooks/v1/, "Show event notification details"): its names and
its money must be what PayPal says. Without them one body a transmission id is what stops another body.

Which environment sends follows from the certificate's host. The host isn't signed, so it must agree with the endpoint.

Which types move money, which of those book and why, which merchant and which entity an event is of:
`providers.paypal_money`. Types that move money and don't book are in `LEFT_TO_A_PERSON`.
"""

from __future__ import annotations

import re
import secrets as random_secrets
import string
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from core import strict_json
from core.errors import Unparseable
from core.event import Mode
from core.money import MoneyFact
from providers import paypal_certificates as certificates
from providers.fields import (
    an_object,
    certain,
    entity_key,
    text,
    time_of,
)
from providers.json_adapter import Delivered, JsonAdapter, Named
from providers.paypal_money import LEFT_TO_A_PERSON as LEFT_TO_A_PERSON
from providers.paypal_money import MONEY, NAME, account_of, fact_of, payment_of
from providers.port import (
    DEFAULT_ENDPOINT,
    CannotSign,
    Fetched,
    ModeMismatch,
    Request,
    SignatureInvalid,
    SignedRequest,
    Wanted,
)
from providers.signature import secret_error

KEPT_S = 86_400.0
"""A certificate is good for a year, and a new one has a URL of its own."""
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
API_URLS: Mapping[Mode, str] = MappingProxyType(
    {"live": "https://api-m.paypal.com", "test": "https://api-m.sandbox.paypal.com"}
)
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{16,200}:[A-Za-z0-9_-]{16,200}")
_SECRET_CHARS_MAX = 50
_WEBHOOK_ID_CHARS = frozenset(string.ascii_letters + string.digits)


class PayPalAdapter(JsonAdapter):
    """One request is one event; its body is the event's body. It wants the certificate that a request names."""

    name = NAME
    identity_fields = IDENTITY_FIELDS
    left_out = MappingProxyType({1: frozenset({"links"})})
    """The links to the event itself name whichever host sent it."""

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
        index = certificates.signed_by(messages, transmission.signature, request.fetched.body, now)
        transmission.check_age(now, self._settings.tolerance_s)
        return index

    def delivery_id(self, request: Request) -> str:
        return certificates.read_headers(request).transmission_id.decode("ascii")

    def original(self, request: Request, credentials: Sequence[str]) -> Wanted | None:
        for credential in credentials:
            self.check_credential(credential)
        try:
            document = an_object(request.document, "the body")
            event_id, event_type = text(document, "id"), text(document, "event_type")
        except Unparseable:
            return None
        if event_type not in MONEY:
            return None
        api = API_URLS[certificates.read_headers(request).mode]
        url = f"{api}/v1/notifications/webhooks-events/{quote(event_id, safe='')}"
        return Wanted(url, bearers=tuple(credentials), token_url=f"{api}/v1/oauth2/token", verified=True)

    def check_original(self, request: Request, original: Fetched) -> None:
        try:
            if not 200 <= original.status < 300:
                raise SignatureInvalid("unconfirmed")
            sent = an_object(strict_json.loads(original.body), "PayPal's answer")
            if _facts(sent) != _facts(an_object(request.document, "the body")):
                raise SignatureInvalid("unconfirmed")
        except Unparseable:
            raise SignatureInvalid("unconfirmed") from None

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(f"{NAME}-api", "a line is CLIENT_ID:CLIENT_SECRET of the app that has the webhook")

    def named(self, delivered: Delivered) -> Iterator[Named]:
        document = delivered.document
        _check_mode(delivered.request, delivered.mode)
        event_id, event_type = text(document, "id"), text(document, "event_type")
        entity, occurred_at = payment_of(document) or event_id, time_of(document.get("create_time"))
        yield Named(event_id, event_type, account_of(document), entity, occurred_at)

    def entity_key(self, named: Named) -> str:
        """Not every event of a payment names the merchant, and PayPal's ids are unique without."""
        kept_for = self._settings.entity
        return entity_key(kept_for, NAME, named.account if kept_for == "merchant" else "", named.entity)

    def fact(self, document: dict[str, Any], event_type: str) -> MoneyFact | None:
        return fact_of(document, event_type)

    def sign(
        self,
        body: bytes,  # noqa: ARG002 - nothing is signed
        secret: str,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        event_id: str | None = None,  # noqa: ARG002
        endpoint: str = DEFAULT_ENDPOINT,  # noqa: ARG002
    ) -> SignedRequest:
        raise CannotSign(NAME, "the private key is PayPal's; resend an event from the dashboard of its sandbox")

    def key(self, secret: str) -> bytes:
        if not 1 <= len(secret) <= _SECRET_CHARS_MAX or not _WEBHOOK_ID_CHARS.issuperset(secret):
            raise secret_error(NAME, "the webhook's id is letters and digits; copy it from the app's webhooks")
        return secret.encode("ascii")

    def new_secret(self) -> str:
        letters = string.ascii_uppercase + string.digits
        return "".join(random_secrets.choice(letters) for _ in range(17))


def _facts(document: Mapping[str, Any]) -> tuple[object, ...]:
    """What must be the same in a delivery and in what PayPal's API tells of it: names and money."""
    event_type = text(document, "event_type")
    fact = certain(lambda: fact_of(document, event_type))
    return text(document, "id"), event_type, account_of(document), payment_of(document), fact


def _check_mode(request: Request, endpoint: Mode) -> None:
    for name, value in request.headers:
        if name == certificates.CERTIFICATE_URL:
            try:
                reported = certificates.mode_of(certificates.trusted_url(value)[1])
            except SignatureInvalid:
                raise ModeMismatch(endpoint, None) from None
            if reported != endpoint:
                raise ModeMismatch(endpoint, reported)
