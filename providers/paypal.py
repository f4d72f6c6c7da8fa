"""PayPal: signature, identities and money facts.

Sources: https://developer.paypal.com/api/rest/webhooks/event-names/ (types) and
https://developer.paypal.com/docs/api/payments/v2/ (captures, refunds; v1 speaks of sales).

The "secret" is the webhook's id: it is signed with, so a delivery for someone else's webhook doesn't pass here.

How far the signature is trusted. A request names the certificate of the key that signed it
(https://developer.paypal.com/api/rest/webhooks/rest/#link-verifysignaturefromcertificate). Who may choose the
certificate may forge anything, so all trust rests on where it comes from: https, PayPal's API host, whose certificate
the TLS client checks, and the path under which that API has its certificates. What is checked beyond that catches
mistakes, not forgers, who could write the same into a certificate of their own: that it is valid now, that it is for
``messageverificationcerts.….paypal.com``, that it isn't self-signed, and that its key is RSA of at least 2048 bits. The
chain up to a root isn't checked: PayPal serves the certificate without the intermediate ones, and with another
authority every now and then.

Of the body only its CRC-32 is signed, which is a check against accidents: bytes with the same CRC-32 are easily made.
So who has seen one signed delivery could send other bodies with its headers. Two things bound that. A delivery is taken
for as long as PayPal tries (three days) and a day more, by the time that is signed, as PayPal doesn't say whether each
try is signed again; a replayed one is a duplicate by its event's id. And of one transmission id one body is taken
(`PayPalAdapter.delivery_id`; the receiver remembers it in Redis). Deliveries come over TLS, and nothing may log their
headers.

Where there are credentials of its API (``secrets/paypal-api``), an event whose type moves money is asked for there
before it is published (https://developer.paypal.com/api/webhooks/v1/, "Show event notification details"): its names and
its money must be what PayPal says.

Which environment sends follows from the certificate's host. The host isn't signed, so it must agree with the endpoint.

Which types move money, which of those book and why, which merchant and which entity an event is of:
`providers.paypal_money`.
"""

from __future__ import annotations

import re
import secrets as random_secrets
import string
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

from core import strict_json
from core.errors import Unparseable
from core.event import Mode
from core.money import MoneyFact
from providers.base import Delivered, JsonAdapter, JsonObject, Named
from providers.content import fields_of, hash_fields
from providers.fields import an_object, names, object_at, path_segment, text, time_of
from providers.listed import build_page_address, format_rfc3339_s, read_items
from providers.money import read_if_certain
from providers.paypal_money import EVENT_TYPES, MONEY, NAME, find_account, find_payment, read_fact, read_fees
from providers.port import Fetched, ListedPage, ModeMismatch, Request, SignatureInvalid, Span, Wanted
from providers.signature import KEY_BITS_MIN, decode_base64, is_signed, secret_error

KEPT_S = 86_400.0
"""A certificate is good for a year, and a new one has a URL of its own."""
API_URLS: Mapping[Mode, str] = {"live": "https://api-m.paypal.com", "test": "https://api-m.sandbox.paypal.com"}
EVENTS_PATH = "/v1/notifications/webhooks-events"
PAGE_MAX = 300
"""Events on a page of the list; a link names the next one
(https://developer.paypal.com/api/webhooks/v1/webhooks-events-list)."""
ID = b"paypal-transmission-id"
TIME = b"paypal-transmission-time"
SIGNATURE = b"paypal-transmission-sig"
CERTIFICATE_URL = b"paypal-cert-url"
ALGORITHM = b"paypal-auth-algo"
ALGORITHMS = frozenset({b"SHA256withRSA"})
CERTIFICATE_BYTES_MAX = 64 * 1024
"""A certificate of 2 KB with a chain of three takes 8 KB."""
CERTIFICATES_KEPT_MAX = 16
"""PayPal signs with one certificate an environment, and with two while they change."""
TAKEN_S = 4 * 86_400
"""PayPal tries for three days (https://developer.paypal.com/api/rest/webhooks/rest/#link-eventnotificationretries)."""

_ID = re.compile(rb"[A-Za-z0-9-]{1,50}")
_TIME = re.compile(rb"[0-9TZ:.+-]{1,40}")
"""Neither may hold the ``|`` that joins them: fields could be shifted."""
_SIGNATURE = re.compile(rb"[A-Za-z0-9+/]{1,1024}={0,2}")
_URL = re.compile(
    r"https://(?P<host>(?i:api(?:-m)?(?:\.sandbox)?\.paypal\.com))(?::443)?"
    r"(?P<path>/v1/notifications/certs/[A-Za-z0-9-]{1,100})",
    re.A,
)
"""PayPal's API and the path of its certificates; no user, no other port, no query, and nothing that two readers of URLs
(ours and the HTTP client's) could take for two different hosts."""
_SUBJECT = re.compile(r"messageverificationcerts\.(?:[a-z0-9-]+\.){0,3}paypal\.com", re.I | re.A)
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{16,200}:[A-Za-z0-9_-]{16,200}")
_SECRET_CHARS_MAX = 50
_WEBHOOK_ID_CHARS = frozenset(string.ascii_letters + string.digits)
ADDED = {
    3: fields_of("resource.status_details: reason"),
    4: fields_of(
        """
        resource.dispute_outcome: outcome_code
        resource.adjudications.*: type
        resource.seller_receivable_breakdown.paypal_fee_in_receivable_currency: value currency_code
        resource.seller_payable_breakdown.paypal_fee_in_receivable_currency: value currency_code
        """
    ),
}
_COUNTED_BEFORE = fields_of(
    """
    : id event_type resource_type
    resource: id status state sale_id capture_id parent_payment order_id invoice_id dispute_id dispute_state
      payout_item_id payout_batch_id transaction_id transaction_status merchant_id reason_code
    resource.amount: value currency_code total currency
    resource.payee: merchant_id
    resource.payer: merchant_id
    resource.supplementary_data.related_ids: order_id authorization_id capture_id
    resource.seller_receivable_breakdown.paypal_fee: value currency_code
    resource.seller_receivable_breakdown.platform_fees.*.amount: value currency_code
    resource.seller_payable_breakdown.paypal_fee: value currency_code
    resource.seller_payable_breakdown.platform_fees.*.amount: value currency_code
    resource.transaction_fee: value currency currency_code
    resource.refund_from_transaction_fee: value currency currency_code
    resource.dispute_amount: value currency_code
    resource.disputed_transactions.*: seller_transaction_id
    resource.disputed_transactions.*.seller: merchant_id
    resource.money_movements.*: affected_party type reason
    resource.money_movements.*.amount: value currency_code
    resource.batch_header: payout_batch_id batch_status
    resource.payout_item.amount: value currency
    resource.invoice: id status
    """
)
COUNTS = [*_COUNTED_BEFORE, *ADDED[3], *ADDED[4]]
"""Its names and money, since content version 2; what its links name as well (`_list_related`)."""
_RELATIONS = frozenset({"self", "up"})
"""Links by which a resource says what it is, and what it is of."""


class PayPalAdapter(JsonAdapter):
    """Each request is one event; its body is the event's body. The certificate that it names is fetched first."""

    name = NAME
    identity_fields = names(
        "id order_id authorization_id capture_id parent_payment sale_id dispute_id seller_transaction_id "
        "buyer_transaction_id payout_item_id payout_batch_id transaction_id merchant_id href"
    )
    left_out = names("links")
    """The links to the event itself name whichever host sent it."""
    content_version = 4
    counts = COUNTS
    added = ADDED
    accounts_in_entities = False
    listed_for = timedelta(days=30)
    newest_first = True
    event_types = EVENT_TYPES
    looked_up = "at PayPal"

    def wants(self, request: Request, secrets: Sequence[str]) -> Wanted | None:
        """Says to fetch the certificate, for a request that can still be proven; its URL is checked before it is
        fetched.

        :raises SignatureInvalid: the headers are incomplete, or name a certificate on another host
        """
        for secret in secrets:
            self.check_secret(secret)
        return Wanted(read_headers(request).certificate_url, kept_s=KEPT_S)

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:
        for secret in secrets:
            self.check_secret(secret)
        transmission = read_headers(request)
        if request.fetched is None or not request.fetched.is_there:
            raise SignatureInvalid("untrusted")
        messages = [transmission.build_message(secret, request.body) for secret in secrets]
        index = find_signed_message(messages, transmission.signature, request.fetched.body, now)
        transmission.check_age(now, self.tolerance_s)
        return index

    def delivery_id(self, request: Request) -> str:
        return read_headers(request).transmission_id.decode("ascii")

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
        try:
            segment = path_segment(event_id)
        except Unparseable:
            raise SignatureInvalid("unconfirmed") from None
        api = API_URLS[read_headers(request).mode]
        url, token_url = f"{api}{EVENTS_PATH}/{segment}", f"{api}/v1/oauth2/token"
        return Wanted(url, bearers=tuple(credentials), token_url=token_url, verified=True, may_appear=True)

    def check_original(self, request: Request, original: Fetched) -> None:
        try:
            if not original.is_there:
                raise SignatureInvalid("unconfirmed")
            sent = an_object(strict_json.load_json(original.body), "PayPal's answer")
            if self._read_facts(sent) != self._read_facts(an_object(request.document, "the body")):
                raise SignatureInvalid("unconfirmed")
        except Unparseable:
            raise SignatureInvalid("unconfirmed") from None

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        for credential in credentials:
            self.check_credential(credential)
        times = {"start_time": format_rfc3339_s(span.since), "end_time": format_rfc3339_s(span.until)}
        first = build_page_address(f"{API_URLS[mode]}{EVENTS_PATH}", page_size=PAGE_MAX, **times)
        url = first if page is None else f"{API_URLS[mode]}{EVENTS_PATH}?{page}"
        token_url = f"{API_URLS[mode]}/v1/oauth2/token"
        return Wanted(url, bearers=tuple(credentials), token_url=token_url, verified=True)

    def read_page(self, answer: bytes, span: Span) -> ListedPage:  # noqa: ARG002 - PayPal was asked for the span
        document, items = read_items(answer, "events")
        links = document.get("links")
        following = [link for link in links if link.get("rel") == "next"] if isinstance(links, list) else []
        return ListedPage(items, urlsplit(text(following[0], "href")).query if following else None)

    def check_credential(self, credential: str) -> None:
        if not _CREDENTIAL.fullmatch(credential):
            raise secret_error(f"{NAME}-api", "a line is CLIENT_ID:CLIENT_SECRET of the app that has the webhook")

    def named(self, delivered: Delivered[JsonObject]) -> Iterator[Named]:
        document = delivered.document
        _check_mode(delivered.request, delivered.mode)
        event_id, event_type = text(document, "id"), text(document, "event_type")
        entity, occurred_at = find_payment(document) or event_id, time_of(document.get("create_time"))
        yield Named(event_id, event_type, find_account(document, self._v1_merchant), entity, occurred_at)

    def fact(self, document: JsonObject, event_type: str) -> MoneyFact | None:
        return read_fact(document, event_type, self._v1_merchant)

    def fees(self, document: JsonObject, event_type: str) -> list[MoneyFact]:
        return read_fees(document, event_type, self._v1_merchant)

    @property
    def _v1_merchant(self) -> str:
        return self._settings.paypal.merchant_id

    def _read_facts(self, document: JsonObject) -> tuple[object, ...]:
        """Reads the names and money that must be the same in a delivery and in what PayPal's API tells of it."""
        event_type = text(document, "event_type")
        fact = read_if_certain(lambda: self.fact(document, event_type))
        fees = read_if_certain(lambda: self.fees(document, event_type))
        account = find_account(document, self._v1_merchant)
        return text(document, "id"), event_type, account, find_payment(document), fact, fees

    def content(self, document: Mapping[str, Any], version: int) -> str:
        if version == 1:
            return super().content(document, version)
        return hash_fields(document, self._list_counts(version), {"related": _list_related(document)})

    def key(self, secret: str) -> bytes:
        if not 1 <= len(secret) <= _SECRET_CHARS_MAX or not _WEBHOOK_ID_CHARS.issuperset(secret):
            raise secret_error(NAME, "the webhook's id is letters and digits; copy it from the app's webhooks")
        return secret.encode("ascii")

    def new_secret(self) -> str:
        letters = string.ascii_uppercase + string.digits
        return "".join(random_secrets.choice(letters) for _ in range(17))


def _list_related(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    links = object_at(document, "resource").get("links")
    named = [link for link in links if isinstance(link, dict)] if isinstance(links, list) else []
    ends = [(str(link.get("rel")), str(link.get("href")).split("/")[-2:]) for link in named]
    return sorted((relation, "/".join(end)) for relation, end in ends if relation in _RELATIONS)


def _check_mode(request: Request, endpoint: Mode) -> None:
    for value in request.values(CERTIFICATE_URL):
        try:
            reported = mode_at(parse_trusted_url(value)[1])
        except SignatureInvalid:
            raise ModeMismatch(endpoint, None) from None
        if reported != endpoint:
            raise ModeMismatch(endpoint, reported)


@dataclass(frozen=True)
class Transmission:
    """The headers of a delivery; the certificate is yet to be fetched."""

    transmission_id: bytes
    time: bytes
    signature: bytes
    certificate_url: str
    """The URL, with its host in lower case."""
    mode: Mode
    """The environment whose certificate it is."""

    def check_age(self, now: datetime, tolerance_s: int) -> None:
        """Checks the signed time: that of the first try, or of this one.

        :raises SignatureInvalid: ``malformed``; ``stale`` once PayPal tries no more; ``future``
        """
        sent_at = time_of(self.time.decode("ascii"))
        if sent_at is None:
            raise SignatureInvalid("malformed")
        age_s = (now - sent_at).total_seconds()
        if age_s > TAKEN_S:
            raise SignatureInvalid("stale")
        if age_s < -tolerance_s:
            raise SignatureInvalid("future")

    def build_message(self, webhook_id: str, body: bytes) -> bytes:
        """Builds ``id|time|webhook id|CRC-32 of the body in decimal``."""
        return b"|".join([self.transmission_id, self.time, webhook_id.encode("ascii"), b"%d" % zlib.crc32(body)])


def read_headers(request: Request) -> Transmission:
    """
    :raises SignatureInvalid: ``missing``, ``several``, ``malformed``; ``untrusted`` for a certificate from elsewhere
    """
    transmission_id, time = _require_header(request, ID, _ID), _require_header(request, TIME, _TIME)
    signature = decode_base64(_require_header(request, SIGNATURE, _SIGNATURE))
    algorithm, url = request.one(ALGORITHM), request.one(CERTIFICATE_URL)
    if algorithm is None or url is None:
        raise SignatureInvalid("missing")
    if algorithm not in ALGORITHMS:
        raise SignatureInvalid("malformed")
    certificate_url, host = parse_trusted_url(url)
    return Transmission(transmission_id, time, signature, certificate_url, mode_at(host))


def parse_trusted_url(raw: bytes) -> tuple[str, str]:
    """Returns the URL with its host in lower case, and that host.

    :raises SignatureInvalid: ``untrusted``, unless it is a certificate of PayPal's API
    """
    match = _URL.fullmatch(raw.decode("latin-1"))
    if match is None:
        raise SignatureInvalid("untrusted")
    host = match["host"].lower()
    return f"https://{host}{match['path']}", host


def mode_at(host: str) -> Mode:
    return "test" if "sandbox" in host.split(".") else "live"


def find_signed_message(messages: Sequence[bytes], signature: bytes, pem: bytes, now: datetime) -> int:
    """Returns the index of the message that the certificate's key signed.

    :raises SignatureInvalid: ``untrusted`` for the certificate, ``mismatch`` for all messages
    """
    certificate = _parse_certificate(pem)
    if not certificate.valid_from <= now <= certificate.valid_until:
        raise SignatureInvalid("untrusted")
    for index, message in enumerate(messages):
        if is_signed(certificate.key, signature, message):
            return index
    raise SignatureInvalid("mismatch")


@dataclass(frozen=True)
class _Certificate:
    key: RSAPublicKey
    valid_from: datetime
    valid_until: datetime


@lru_cache(maxsize=CERTIFICATES_KEPT_MAX)
def _parse_certificate(pem: bytes) -> _Certificate:
    """Parses the first certificate of the text. It is cached by its bytes: parsing costs as much as checking a
    signature.
    """
    if len(pem) > CERTIFICATE_BYTES_MAX:
        raise SignatureInvalid("untrusted")
    try:
        parsed = x509.load_pem_x509_certificate(pem)
        names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key, issuer, subject = parsed.public_key(), parsed.issuer, parsed.subject
        valid_from, valid_until = parsed.not_valid_before_utc, parsed.not_valid_after_utc
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as wrong:
        raise SignatureInvalid("untrusted") from wrong
    if len(names) != 1 or not _SUBJECT.fullmatch(str(names[0].value)) or issuer == subject:
        raise SignatureInvalid("untrusted")
    if not isinstance(key, RSAPublicKey) or key.key_size < KEY_BITS_MIN:
        raise SignatureInvalid("untrusted")
    return _Certificate(key, valid_from, valid_until)


def _require_header(request: Request, name: bytes, form: re.Pattern[bytes]) -> bytes:
    value = request.one(name)
    if value is None:
        raise SignatureInvalid("missing")
    if not form.fullmatch(value):
        raise SignatureInvalid("malformed")
    return value
