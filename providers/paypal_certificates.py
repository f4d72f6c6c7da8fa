"""PayPal's signature: what is signed, by whose key, and how far that key is trusted.

Source: https://developer.paypal.com/api/rest/webhooks/rest/#link-verifysignaturefromcertificate

A request names the certificate of the key that signed it. Whoever may choose the certificate may forge anything, so all
trust rests on where it comes from: https, PayPal's API host, whose certificate the TLS client checks, and the path
under which that API has its certificates. What is checked beyond that catches mistakes, not forgers, who could write
the same into a certificate of their own: that it is valid now, that it is for
``messageverificationcerts.….paypal.com``, that it isn't self-signed, and that its key is RSA of at least 2048 bits. The
chain up to a root isn't checked: PayPal serves the certificate without the intermediate ones, and with another
authority every now and then.

Of the body only its CRC-32 is signed, which is a check against accidents: bytes with the same CRC-32 are easily made.
So who has seen one signed delivery could send other bodies with its headers. Two things bound that: a delivery is taken
for as long as PayPal tries (three days) and a day more, by the time that is signed; and of one transmission id one body
is taken (`Transmission.transmission_id`; the receiver remembers it in Redis). Deliveries come over TLS, and nothing may
log their headers.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from core.event import Mode
from providers.fields import time_of
from providers.port import Request, SignatureInvalid

ID = b"paypal-transmission-id"
TIME = b"paypal-transmission-time"
SIGNATURE = b"paypal-transmission-sig"
CERTIFICATE_URL = b"paypal-cert-url"
ALGORITHM = b"paypal-auth-algo"
ALGORITHMS = frozenset({b"SHA256withRSA"})
CERTIFICATE_BYTES_MAX = 64 * 1024
"""A certificate of 2 KB with a chain of three takes 8 KB."""
KEY_BITS_MIN = 2048
CERTIFICATES_KEPT_MAX = 16
"""PayPal signs with one certificate an environment, and with two while they change."""

_ID = re.compile(rb"[A-Za-z0-9-]{1,50}")
_TIME = re.compile(rb"[0-9TZ:.+-]{1,40}")
TAKEN_S = 4 * 86_400
"""PayPal tries for three days (https://developer.paypal.com/api/rest/webhooks/rest/#link-eventnotificationretries)."""
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


@dataclass(frozen=True)
class Transmission:
    """What the headers of one delivery say; the certificate is yet to be had."""

    transmission_id: bytes
    time: bytes
    signature: bytes
    certificate_url: str
    """With its host in lower case."""
    mode: Mode
    """The environment whose certificate it is."""

    def check_age(self, now: datetime, tolerance_s: int) -> None:
        """By the signed time: that of the first try, or of this one.

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

    def signed(self, webhook_id: str, body: bytes) -> bytes:
        """``id|time|webhook id|CRC-32 of the body in decimal``."""
        return b"|".join([self.transmission_id, self.time, webhook_id.encode("ascii"), b"%d" % zlib.crc32(body)])


def read_headers(request: Request) -> Transmission:
    """
    :raises SignatureInvalid: ``missing``, ``several``, ``malformed``; ``untrusted`` for a certificate from elsewhere
    """
    transmission_id, time = _one(request, ID, _ID), _one(request, TIME, _TIME)
    signature = _decoded(_one(request, SIGNATURE, _SIGNATURE))
    algorithm, url = request.one(ALGORITHM), request.one(CERTIFICATE_URL)
    if algorithm is None or url is None:
        raise SignatureInvalid("missing")
    if algorithm not in ALGORITHMS:
        raise SignatureInvalid("malformed")
    certificate_url, host = trusted_url(url)
    return Transmission(transmission_id, time, signature, certificate_url, mode_of(host))


def trusted_url(raw: bytes) -> tuple[str, str]:
    """The URL with its host in lower case, and that host.

    :raises SignatureInvalid: ``untrusted``, unless it is a certificate of PayPal's API
    """
    found = _URL.fullmatch(raw.decode("latin-1"))
    if found is None:
        raise SignatureInvalid("untrusted")
    host = found["host"].lower()
    return f"https://{host}{found['path']}", host


def mode_of(host: str) -> Mode:
    return "test" if "sandbox" in host.split(".") else "live"


def signed_by(messages: Sequence[bytes], signature: bytes, pem: bytes, now: datetime) -> int:
    """The index of the message that the certificate's key signed.

    :raises SignatureInvalid: ``untrusted`` for the certificate, ``mismatch`` for all messages
    """
    certificate = _certificate(pem)
    if not certificate.valid_from <= now <= certificate.valid_until:
        raise SignatureInvalid("untrusted")
    for index, message in enumerate(messages):
        try:
            certificate.key.verify(signature, message, PKCS1v15(), SHA256())
        except InvalidSignature:
            continue
        return index
    raise SignatureInvalid("mismatch")


@dataclass(frozen=True)
class _Certificate:
    key: RSAPublicKey
    valid_from: datetime
    valid_until: datetime


@lru_cache(maxsize=CERTIFICATES_KEPT_MAX)
def _certificate(pem: bytes) -> _Certificate:
    """The first certificate of the text, by its bytes: parsing costs as much as checking a signature."""
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


def _one(request: Request, name: bytes, form: re.Pattern[bytes]) -> bytes:
    value = request.one(name)
    if value is None:
        raise SignatureInvalid("missing")
    if not form.fullmatch(value):
        raise SignatureInvalid("malformed")
    return value


def _decoded(signature: bytes) -> bytes:
    """Base64 in its one spelling: the last letter's spare bits are zero."""
    try:
        decoded = base64.b64decode(signature, validate=True)
    except binascii.Error as wrong:
        raise SignatureInvalid("malformed") from wrong
    if base64.b64encode(decoded) != signature:
        raise SignatureInvalid("malformed")
    return decoded
