"""Checkout.com: its signature, which it publishes no vector of, and the setting that names the account."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from load.samples import sign
from providers import ProvidersSettings, Request, build_adapters
from tests.unit.providers.shapes import NOW
from tests.unit.providers.shapes import refusal as refusal_of

ADAPTER = build_adapters(ProvidersSettings())["checkout"]


def signed(body: bytes, secret: str) -> bytes:
    return sign(ADAPTER, body, secret, NOW).headers["Cko-Signature"].encode()


def refusal(body: bytes, signature: bytes, secret: str) -> str | None:
    return refusal_of(ADAPTER, Request(body, [(b"cko-signature", signature)]), secret)


# Checkout.com publishes neither a vector nor a check in its SDKs: openssl made this one, by
# printf '%s' BODY | openssl dgst -sha256 -hmac sample-signature-key
OPENSSL_BODY = '{"id":"evt_sample","type":"payment_captured","data":{"note":"prix en €"}}'.encode()
OPENSSL_KEY = "sample-signature-key"
OPENSSL_SIGNATURE = b"c03fc8491ce8c4efa77cd52cf515392dd32dc10309085dfe0c2c30152ad9b3c6"


def test_what_openssl_signs_proves_and_is_what_we_sign() -> None:
    body, signature, key = OPENSSL_BODY, OPENSSL_SIGNATURE, OPENSSL_KEY
    assert refusal(body, signature, key) is None
    assert signed(body, key) == signature


@given(body=st.binary(max_size=200), key=st.text(min_size=1, max_size=60))
def test_what_the_documentation_describes_and_we_sign_is_the_same(body: bytes, key: str) -> None:
    described = hmac.new(key.encode(), body, hashlib.sha256).hexdigest().encode()
    assert signed(body, key) == described
    assert refusal(body, described, key) is None


def test_the_account_is_named_by_a_json_pointer() -> None:
    with pytest.raises(ValidationError):
        ProvidersSettings.model_validate({"checkout": {"account": "data"}})
