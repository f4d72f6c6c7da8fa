"""PayPal's side of a delivery: a key, a certificate for it from an authority of our own, and the signed headers."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from providers.port import Fetched, Request

SUBJECT = "messageverificationcerts.paypal.com"
LIVE_URL = "https://api.paypal.com/v1/notifications/certs/CERT-0a1b2c3d-4e5f6071-8293a4b5"
SANDBOX_URL = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-0a1b2c3d-4e5f6071-c6d7e8f9"
VALID_FROM = datetime(2025, 9, 1, tzinfo=UTC)
VALID_UNTIL = VALID_FROM + timedelta(days=365)


@lru_cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    """Made once: it takes a while. ``number`` tells keys of one size apart."""
    return rsa.generate_private_key(65537, bits)


def certificate(
    key: CertificateIssuerPrivateKeyTypes,
    *,
    subject: str | None = SUBJECT,
    issuer: str = "Example EV Server CA",
    valid_from: datetime = VALID_FROM,
    valid_until: datetime = VALID_UNTIL,
) -> bytes:
    """A certificate in PEM; self-signed where the issuer is the subject."""
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc.")
    names = [] if subject is None else [x509.NameAttribute(NameOID.COMMON_NAME, subject)]
    signer = key if issuer == subject else rsa_key(number=1)
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([organization, *names]))
        .issuer_name(x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(valid_from)
        .not_valid_after(valid_until)
        .sign(signer, SHA256())
    )
    return built.public_bytes(Encoding.PEM)


@lru_cache
def paypals_certificate() -> bytes:
    return certificate(rsa_key())


def headers_for(
    body: bytes,
    webhook_id: str,
    *,
    transmission_id: str = "69cd13f0-0000-11f0-baa3-778b53f4ae55",
    time: str = "2026-01-31T11:59:58Z",
    url: str = LIVE_URL,
    key: rsa.RSAPrivateKey | None = None,
) -> Mapping[str, str]:
    """The headers of a delivery, as PayPal writes them."""
    signed = f"{transmission_id}|{time}|{webhook_id}|{zlib.crc32(body)}".encode()
    signature = (key or rsa_key()).sign(signed, PKCS1v15(), SHA256())
    return {
        "Content-Type": "application/json",
        "PAYPAL-TRANSMISSION-ID": transmission_id,
        "PAYPAL-TRANSMISSION-TIME": time,
        "PAYPAL-TRANSMISSION-SIG": base64.b64encode(signature).decode("ascii"),
        "PAYPAL-CERT-URL": url,
        "PAYPAL-AUTH-ALGO": "SHA256withRSA",
    }


def delivery(body: bytes, webhook_id: str, **headers: str) -> Request:
    """A delivery as the adapter gets it, its certificate fetched."""
    sent = headers_for(body, webhook_id, **headers)  # type: ignore[arg-type]
    raw = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    return Request(body, raw, fetched=Fetched(200, paypals_certificate()))
