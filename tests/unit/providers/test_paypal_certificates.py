"""PayPal's certificates: which are asked for, which are believed, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from core.clock import to_rfc3339
from core.errors import SettingError
from providers import ProvidersSettings, Request, SignatureInvalid
from providers.paypal import CERTIFICATES_KEPT_MAX, PayPalAdapter, _parse_certificate, parse_trusted_url
from providers.port import Fetched
from tests.paypal_signer import (
    LIVE_URL,
    SANDBOX_URL,
    SUBJECT,
    VALID_FROM,
    VALID_UNTIL,
    certificate,
    delivery,
    rsa_key,
)
from tests.unit.providers.shapes import NOW
from tests.unit.providers.shapes import refusal as refusal_of

WEBHOOK = "1AB23456CD789012E"
HEADERS = (b"paypal-transmission-id", b"paypal-transmission-time", b"paypal-transmission-sig", b"paypal-auth-algo")
URL = b"paypal-cert-url"
ADAPTER = PayPalAdapter(ProvidersSettings())
GOOD = delivery(b"{}", WEBHOOK)


def refusal(request: Request, now: datetime = NOW) -> str | None:
    return refusal_of(ADAPTER, request, WEBHOOK, now=now)


def header(name: bytes, *values: bytes) -> Request:
    """The good delivery with these values of one header."""
    kept = [pair for pair in GOOD.headers if pair[0] != name]
    return replace(GOOD, headers=[*kept, *((name, value) for value in values)])


def with_certificate(pem: bytes) -> Request:
    return replace(GOOD, fetched=Fetched(200, pem))


TRUSTED = [
    LIVE_URL,
    SANDBOX_URL,
    "https://api-m.paypal.com/v1/notifications/certs/CERT-1",
    "https://api.paypal.com:443/v1/notifications/certs/CERT-1",
    "https://API.PayPal.COM/v1/notifications/certs/CERT-1",
]
UNTRUSTED = [
    "https://paypal.com/v1/notifications/certs/CERT-1",
    "https://www.paypal.com/v1/notifications/certs/CERT-1",
    "https://files.api.paypal.com/v1/notifications/certs/CERT-1",
    "https://api.paypal.com/v1/notifications/certs/",
    "https://api.paypal.com/v1/notifications/certs/../../upload/CERT-1",
    "https://api.paypal.com/v1/notifications/certs/CERT-1/more",
    "https://api.paypal.com/v1/uploads/CERT-1",
    "HTTPS://api.paypal.com/v1/notifications/certs/CERT-1",
    "http://api.paypal.com/cert",
    "ftp://api.paypal.com/cert",
    "//api.paypal.com/cert",
    "api.paypal.com/cert",
    "https:/api.paypal.com/cert",
    "https://paypal.com.evil.com/cert",
    "https://evilpaypal.com/cert",
    "https://api-paypal.com/cert",
    "https://evil.com/paypal.com/cert",
    "https://evil.com/?paypal.com/cert",
    "https://evil.com#paypal.com/cert",
    "https://evil.com\\.paypal.com/cert",
    "https://evil.com\\@api.paypal.com/cert",
    "https://user@api.paypal.com/cert",
    "https://user:secret@api.paypal.com/cert",
    "https://api.paypal.com@evil.com/cert",
    "https://api.paypal.com:8443/cert",
    "https://api.paypal.com:80/cert",
    "https://api.paypal.com:/cert",
    "https://api.paypal.com./cert",
    "https://paypal.com../cert",
    "https://.paypal.com/cert",
    "https://api..paypal.com/cert",
    "https://-api.paypal.com/cert",
    "https://api.paypa\u04cf.com/cert",
    "https://api.paypal\u3002com/cert",
    "https://xn--pypal-4ve.com/cert",
    "https://api%2Epaypal.com/cert",
    "https://evil.com%00.paypal.com/cert",
    "https://evil.com\x00.paypal.com/cert",
    "https://evil.com\n.paypal.com/cert",
    "https://api.paypal.com/cert\n",
    " https://api.paypal.com/cert",
    "https://api.paypal.com",
    "https://api.paypal.com/cert?next=https://evil.com",
    "https://api.paypal.com/cert#x",
    "https://api.paypal.com/a\\..\\b",
    "https://api.paypal.com/%2e%2e/cert",
    "https://[::1]/paypal.com",
    "https://127.0.0.1/cert",
    "https://paypal.co/cert",
    "https://api.paypal.com/" + "x" * 500,
    "https://" + "a." * 40 + "paypal.com/cert",
    "https://",
    "",
]


@pytest.mark.parametrize("url", TRUSTED)
def test_a_certificate_is_wanted_from_paypal_for_a_day(url: str) -> None:
    wanted = ADAPTER.wants(header(URL, url.encode()), [WEBHOOK])
    assert wanted is not None
    host, _, path = url.partition("://")[2].partition("/")
    assert wanted.url == f"https://{host.lower().removesuffix(':443')}/{path}"
    assert (wanted.kept_s, wanted.bearers) == (86_400, ())


@pytest.mark.parametrize("url", UNTRUSTED)
def test_nothing_is_wanted_from_anywhere_else(url: str) -> None:
    request = header(URL, url.encode())
    for ask in (lambda: ADAPTER.wants(request, [WEBHOOK]), lambda: ADAPTER.verify(request, [WEBHOOK], NOW)):
        with pytest.raises(SignatureInvalid) as caught:
            ask()
        assert caught.value.reason == "untrusted"


@given(st.text(st.sampled_from("aeil.pycom:/@\\#?%-[]0 \u3002"), max_size=60))
def test_whatever_is_trusted_is_on_paypals_host_by_another_reader_too(text: str) -> None:
    path = "/v1/notifications/certs/"
    for url in (
        f"https://{text}{path}C",
        f"https://{text}paypal.com{path}{text}",
        f"https://api.paypal.com{text}{path}C",
    ):
        try:
            asked, host = parse_trusted_url(url.encode())
        except SignatureInvalid:
            continue
        read = httpx2.URL(asked)
        assert (read.scheme, read.host, read.port, read.userinfo) == ("https", host, None, b"")
        assert host in ("api.paypal.com", "api-m.paypal.com", "api.sandbox.paypal.com", "api-m.sandbox.paypal.com")


def test_a_request_that_cant_be_proven_makes_nobody_ask_paypal() -> None:
    for name in HEADERS:
        with pytest.raises(SignatureInvalid):
            ADAPTER.wants(header(name), [WEBHOOK])
    with pytest.raises(SettingError):
        ADAPTER.wants(GOOD, [""])


@pytest.mark.parametrize("fetched", [None, Fetched(404, b""), Fetched(410, certificate(rsa_key())), Fetched(200, b"")])
def test_without_a_certificate_nothing_is_proven(fetched: Fetched | None) -> None:
    assert refusal(replace(GOOD, fetched=fetched)) == "untrusted"


@pytest.mark.parametrize(
    "pem",
    [
        b"\xff\x00",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        certificate(rsa_key()).replace(b"CERTIFICATE", b"PUBLIC KEY"),
        b" " * 70_000 + certificate(rsa_key()),
        certificate(rsa_key(), subject="evil.example.com"),
        certificate(rsa_key(), subject="messageverificationcerts.paypal.com.evil.com"),
        certificate(rsa_key(), subject="api.paypal.com"),
        certificate(rsa_key(), subject=None),
        certificate(rsa_key(), issuer=SUBJECT),
        certificate(rsa_key(1024)),
        certificate(ec.generate_private_key(ec.SECP256R1())),
    ],
    ids=range(11),
)
def test_what_is_no_certificate_of_paypals_for_this_is_untrusted(pem: bytes) -> None:
    assert refusal(with_certificate(pem)) == "untrusted"


def test_the_sandboxs_certificate_has_a_name_of_its_own() -> None:
    pem = certificate(rsa_key(), subject="messageverificationcerts.sandbox.paypal.com")
    assert refusal(with_certificate(pem)) is None


def test_a_chain_may_follow_the_certificate() -> None:
    pem = certificate(rsa_key()).replace(b"\n", b"\r\n") + certificate(
        rsa_key(number=1), subject="Example EV Server CA"
    )
    assert refusal(with_certificate(pem)) is None


def test_another_certificates_key_proves_nothing() -> None:
    assert refusal(with_certificate(certificate(rsa_key(number=2)))) == "mismatch"


def test_a_certificate_holds_from_its_first_to_its_last_moment() -> None:
    for now, reason in (
        (VALID_FROM, None),
        (VALID_UNTIL, None),
        (VALID_FROM - timedelta(seconds=1), "untrusted"),
        (VALID_UNTIL + timedelta(seconds=1), "untrusted"),
    ):
        sent = delivery(b"{}", WEBHOOK, time=to_rfc3339(now))
        assert refusal(sent, now=now) == reason


def test_certificates_are_kept_in_bounded_number() -> None:
    _parse_certificate.cache_clear()
    for number in range(CERTIFICATES_KEPT_MAX + 4):
        assert refusal(with_certificate(certificate(rsa_key()) + b"\n" * number)) is None
    assert _parse_certificate.cache_info().currsize == CERTIFICATES_KEPT_MAX
