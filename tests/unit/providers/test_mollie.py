"""Mollie's next-gen webhooks: the signature that we make is Mollie's, and a classic delivery is none of them."""

from __future__ import annotations

from pathlib import Path

from load.samples import sign
from providers import Adapter, Request
from tests.unit.providers.samples.mollie import SECRET, SMALL, SMALL_SIGNED
from tests.unit.providers.shapes import NOW, refusal


def test_what_we_sign_is_what_was_signed_elsewhere(adapter: Adapter) -> None:
    assert sign(adapter, SMALL, SECRET, NOW).headers["X-Mollie-Signature"] == "sha256=" + SMALL_SIGNED.decode()


def test_a_classic_delivery_is_not_taken_for_a_signed_one(samples: Path, adapter: Adapter) -> None:
    body = (samples / "mollie/classic_payment.form").read_bytes()
    request = Request(body, [(b"content-type", b"application/x-www-form-urlencoded")])
    assert refusal(adapter, request, SECRET) == "missing"
