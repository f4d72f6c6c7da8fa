"""PayPal: what is signed, which only PayPal can sign, and a fee that can't be known."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.money import MovementUnknown
from load.samples import CannotSign, sign
from providers import ProvidersSettings, Request
from providers.paypal import PayPalAdapter, read_headers
from tests.paypal_signer import delivery
from tests.unit.providers.samples.paypal import (
    ALGORITHM,
    BODY,
    CONVERTED,
    ID,
    SIGNATURE,
    TIME,
    URL,
    WEBHOOK_ID,
    header,
    of_refund,
    value,
)
from tests.unit.providers.shapes import NOW, refusal, sources

VECTOR = "paypal/vector_py_sale_completed_crc32.json"
ADAPTER = PayPalAdapter(ProvidersSettings())


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
    signed = transmission.build_message(parts["webhook_id"], body)
    assert signed == parts["signed"].encode()
    assert (transmission.certificate_url, transmission.mode) == (parts["cert_url"], "test")
    assert len(transmission.signature) == 256
    ADAPTER.check_secret(parts["webhook_id"])


@given(st.binary(max_size=200), st.from_regex(r"[A-Za-z0-9]{1,50}", fullmatch=True))
def test_what_is_signed_is_the_headers_the_webhooks_id_and_the_bodys_crc32(body: bytes, webhook_id: str) -> None:
    request = delivery(body, webhook_id)
    assert refusal(ADAPTER, request, webhook_id) is None
    expected = f"{value(ID).decode()}|{value(TIME).decode()}|{webhook_id}|{zlib.crc32(body)}".encode()
    assert read_headers(request).build_message(webhook_id, body) == expected


def test_only_paypal_can_sign() -> None:
    with pytest.raises(CannotSign) as caught:
        sign(ADAPTER, BODY, WEBHOOK_ID, NOW)
    assert caught.value.provider == "paypal"
    assert len(ADAPTER.new_secret()) == 17


def test_the_last_letters_spare_bits_of_a_signature_have_one_spelling() -> None:
    signature = value(SIGNATURE)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = signature[:-3] + letters[letters.index(signature[-3]) + 1 :][:1] + signature[-2:]
    assert base64.b64decode(other) == base64.b64decode(signature)
    assert refusal(ADAPTER, header(SIGNATURE, other), WEBHOOK_ID) == "malformed"


def test_a_refund_whose_fee_comes_back_in_another_currency_is_booked_and_the_fee_is_unknown() -> None:
    body = of_refund("seller_payable_breakdown", to=CONVERTED)
    of_refunded, of_fee = ADAPTER.events(Request(body, []), "live")
    assert of_refunded.fact_key == "paypal:R1:refund"
    with pytest.raises(MovementUnknown, match="paypal_fee_in_receivable_currency"):
        ADAPTER.money(of_fee.body, of_fee.event_type)
