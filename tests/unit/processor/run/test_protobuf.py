"""Protobuf payloads become the JSON that a handler reads, or die with a clear class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from processor.run.payload import PayloadUndecodable
from tests.unit.processor.run.payloads import (
    payment,
    protobuf,
)


def test_a_protobuf_message_becomes_its_own_json(tmp_path: Path) -> None:
    message = payment(amount_minor=2**62, currency_code="EUR", mark=b"\x00\xff", rate=float("nan"))
    message.at.FromJsonString("2026-01-31T12:00:00Z")
    message.extra.string_value = "größer"
    assert json.loads(protobuf(tmp_path)(message.SerializeToString())) == {
        "amount_minor": str(2**62),
        "currency_code": "EUR",
        "mark": "AP8=",
        "at": "2026-01-31T12:00:00Z",
        "extra": "größer",
        "rate": "NaN",
    }


def test_a_message_of_nothing_but_defaults_is_empty(tmp_path: Path) -> None:
    assert protobuf(tmp_path)(b"") == b"{}"


def test_fields_of_a_newer_writer_are_passed_over(tmp_path: Path) -> None:
    body = payment(currency_code="EUR").SerializeToString() + b"\xf8\x07\x01"
    assert protobuf(tmp_path)(body) == b'{"currency_code":"EUR"}'


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",
        payment(currency_code="EUR").SerializeToString()[:-1],
        b"\xf8\x07\x01",
        b'{"amount_minor": 5}',
        b"\x12\x01\xff",
    ],
    ids=["cut", "cut in a text", "another message", "JSON", "no UTF-8"],
)
def test_bytes_that_are_not_of_the_message_are_undecodable(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(PayloadUndecodable):
        protobuf(tmp_path)(body)


def nested(depth: int) -> bytes:
    """A message whose `extra` is a list in a list in a list."""
    value = b"\x1a\x01a"
    for _ in range(depth):
        inner = b"\x0a" + _varint(len(value)) + value
        value = b"\x32" + _varint(len(inner)) + inner
    return b"\x2a" + _varint(len(value)) + value


def test_a_message_nested_too_deeply_is_undecodable(tmp_path: Path) -> None:
    decoder = protobuf(tmp_path)
    assert decoder(nested(40)).count(b"[") == 40
    for depth in (80, 5_000):
        with pytest.raises(PayloadUndecodable):
            decoder(nested(depth))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])
