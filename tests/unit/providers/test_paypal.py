"""PayPal: proven by an RSA signature, with the key of a certificate that is had from paypal.com only."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SettingError
from core.event import Mode
from load.samples import CannotSign, sign
from load.samples.paypal import refund_event
from providers import ModeMismatch, ProvidersSettings, Request
from providers.paypal import PayPalAdapter, read_headers
from tests.paypal_signer import (
    LIVE_URL,
    SANDBOX_URL,
    delivery,
    headers_for,
)
from tests.unit.providers.shapes import NOW, sources
from tests.unit.providers.shapes import refusal as refusal_of

WEBHOOK = "1AB23456CD789012E"
VECTOR = "paypal/vector_py_sale_completed_crc32.json"
ID, TIME, SIGNATURE, URL, ALGORITHM = (
    b"paypal-transmission-id",
    b"paypal-transmission-time",
    b"paypal-transmission-sig",
    b"paypal-cert-url",
    b"paypal-auth-algo",
)
ADAPTER = PayPalAdapter(ProvidersSettings())
BODY = refund_event(
    "PAYMENT.CAPTURE.REFUNDED",
    event_id="WH-1",
    refund="R1",
    capture="C1",
    merchant="M1",
    value="12.50",
    currency="EUR",
    created=NOW,
)
GOOD = delivery(BODY, WEBHOOK)


def refusal(request: Request, *secrets: str, now: datetime = NOW) -> str | None:
    return refusal_of(ADAPTER, request, *(secrets or (WEBHOOK,)), now=now)


def header(name: bytes, *values: bytes) -> Request:
    """The good delivery with these values of one header."""
    kept = [pair for pair in GOOD.headers if pair[0] != name]
    return replace(GOOD, headers=[*kept, *((name, value) for value in values)])


def value(name: bytes) -> bytes:
    found = GOOD.one(name)
    assert found is not None
    return found


def test_the_published_vectors_signed_text_is_made_of_its_parts(samples: Path) -> None:
    [source] = [one for one in sources(samples) if one["file"] == VECTOR]
    body = (samples / VECTOR).read_bytes()
    parts = dict(part.split("=", 1) for part in source["extra"].split())
    headers = [
        (ID, parts["transmission_id"].encode()),
        (TIME, parts["time"].encode()),
        (SIGNATURE, source["sig_value"].encode()),
        (URL, parts["cert_url"].encode()),
        (ALGORITHM, b"SHA256withRSA"),
    ]
    transmission = read_headers(Request(body, headers))
    signed = transmission.signed(parts["webhook_id"], body)
    assert signed == parts["signed"].encode()
    assert (transmission.certificate_url, transmission.mode) == (parts["cert_url"], "test")
    assert len(transmission.signature) == 256
    ADAPTER.check_secret(parts["webhook_id"])


@given(st.binary(max_size=200), st.from_regex(r"[A-Za-z0-9]{1,50}", fullmatch=True))
def test_what_is_signed_is_the_headers_the_webhooks_id_and_the_bodys_crc32(body: bytes, webhook_id: str) -> None:
    request = delivery(body, webhook_id)
    assert refusal(request, webhook_id) is None
    expected = f"{value(ID).decode()}|{value(TIME).decode()}|{webhook_id}|{zlib.crc32(body)}".encode()
    assert read_headers(request).signed(webhook_id, body) == expected


@pytest.mark.parametrize("name", [ID, TIME, SIGNATURE, URL, ALGORITHM])
def test_each_header_is_wanted_once(name: bytes) -> None:
    assert refusal(header(name)) == "missing"
    assert refusal(header(name, value(name), value(name))) == "several"
    assert refusal(header(name, b"")) in ("malformed", "untrusted")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (ID, b"a|2026-01-31T11:59:58Z"),
        (ID, b"x" * 51),
        (ID, "é".encode()),
        (TIME, b"2026-01-31T11:59:58Z|1AB23456CD789012E"),
        (TIME, b"2026-01-31 11:59:58"),
        (SIGNATURE, b"!" * 344),
        (SIGNATURE, value(SIGNATURE) + b"\n"),
        (SIGNATURE, value(SIGNATURE).rstrip(b"=")),
        (SIGNATURE, b"A" * 2_000),
        (ALGORITHM, b"SHA1withRSA"),
        (ALGORITHM, b"NONEwithRSA"),
        (ALGORITHM, b"sha256withrsa"),
    ],
)
def test_what_is_no_such_header_is_malformed(name: bytes, wrong: bytes) -> None:
    assert refusal(header(name, wrong)) == "malformed"


def test_fields_cant_be_shifted_into_each_other() -> None:
    """With a ``|`` allowed, one signed text would stand for several deliveries."""
    signed = headers_for(BODY, WEBHOOK, transmission_id="a|b", time="2026-01-31T11:59:58Z")
    raw = [(name.lower().encode(), text.encode()) for name, text in signed.items()]
    assert refusal(Request(BODY, raw, fetched=GOOD.fetched)) == "malformed"


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        ("2026-01-28T12:00:00Z", None),
        ("2026-01-27T12:00:00Z", None),
        ("2026-01-27T11:59:59Z", "stale"),
        ("2025-01-31T12:00:00Z", "stale"),
        ("2026-01-31T12:05:00Z", None),
        ("2026-01-31T12:05:01Z", "future"),
        ("2026-01-31T12:05:01.500Z", "future"),
        ("12:00", "malformed"),
        ("2026-02-31T12:00:00Z", "malformed"),
        ("2026-01-31T12:00:00", "malformed"),
    ],
)
def test_a_delivery_is_taken_while_paypal_tries_and_a_day_more(time: str, reason: str | None) -> None:
    assert refusal(delivery(BODY, WEBHOOK, time=time)) == reason


@pytest.mark.parametrize("secret", ["", "WEBHOOK_ID", "1AB|2", "1AB 2", "é", "x" * 51, "\u0661"])
def test_what_is_no_webhooks_id_is_refused_as_a_secret(secret: str) -> None:
    """``WEBHOOK_ID`` is what PayPal's simulator signs with, for anybody."""
    with pytest.raises(SettingError):
        ADAPTER.check_secret(secret)
    with pytest.raises(SettingError):
        ADAPTER.verify(GOOD, [secret], NOW)


def test_only_paypal_can_sign() -> None:
    with pytest.raises(CannotSign) as caught:
        sign(ADAPTER, BODY, WEBHOOK, NOW)
    assert caught.value.provider == "paypal"
    assert len(ADAPTER.new_secret()) == 17


@pytest.mark.parametrize(
    ("url", "endpoint", "reported"),
    [
        (LIVE_URL, "live", None),
        (SANDBOX_URL, "test", None),
        (LIVE_URL, "test", "live"),
        (SANDBOX_URL, "live", "test"),
        ("https://API.SANDBOX.PAYPAL.COM/v1/notifications/certs/CERT-1", "live", "test"),
        ("https://api-m.sandbox.paypal.com/v1/notifications/certs/CERT-1", "live", "test"),
        ("https://api-m.paypal.com/v1/notifications/certs/CERT-1", "test", "live"),
    ],
)
def test_the_environment_of_the_certificate_must_be_the_endpoints(
    url: str, endpoint: Mode, reported: Mode | None
) -> None:
    request = header(URL, url.encode())
    if reported is None:
        assert [event.mode for event in ADAPTER.events(request, endpoint)] == [endpoint]
        return
    with pytest.raises(ModeMismatch) as caught:
        ADAPTER.events(request, endpoint)
    assert (caught.value.endpoint, caught.value.reported) == (endpoint, reported)


def test_the_last_letters_spare_bits_of_a_signature_have_one_spelling() -> None:
    signature = value(SIGNATURE)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = signature[:-3] + letters[letters.index(signature[-3]) + 1 :][:1] + signature[-2:]
    assert base64.b64decode(other) == base64.b64decode(signature)
    assert refusal(header(SIGNATURE, other)) == "malformed"
