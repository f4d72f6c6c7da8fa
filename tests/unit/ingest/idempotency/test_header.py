"""What is a key, and what isn't."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.idempotency.request import KeyMalformed, read_key

PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255)


def read(*values: bytes) -> str | None:
    return read_key([(b"host", b"a"), *((b"idempotency-key", value) for value in values)])


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'"8e03978e-40d5-43e8-bc93-6894a57f9324"', "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        (b"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        (b' \t"a" ', "a"),
        (b'"refund 7, of \\"Ann\\" \\\\; x=1"', 'refund 7, of "Ann" \\; x=1'),
        (b"order:7/refund+1==", "order:7/refund+1=="),
        (b'"' + b"k" * 255 + b'"', "k" * 255),
        (b"k" * 255, "k" * 255),
    ],
)
def test_a_key_is_read_quoted_and_bare(value: bytes, key: str) -> None:
    assert read(value) == key


def test_no_header_is_no_key() -> None:
    assert read() is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b'""',
        b'"',
        b'"a',
        b'a"',
        b'"a"b"',
        b'"a";v=1',
        b'"a", "b"',
        b"a,b",
        b"a;b",
        b"a b",
        b"a\\b",
        b'"a\\n"',
        b'"a\tb"',
        b'"a\x00b"',
        b'"\x7f"',
        b"\xc3\xa9",
        b'"\xc3\xa9"',
        b'"' + b"k" * 256 + b'"',
        b"k" * 256,
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(value: bytes) -> None:
    with pytest.raises(KeyMalformed) as refused:
        read(value)
    assert len(value) < 4 or value.decode("latin-1") not in str(refused.value)


def test_several_headers_are_refused_even_when_they_agree() -> None:
    with pytest.raises(KeyMalformed, match="several"):
        read(b'"a"', b'"a"')


@given(PRINTABLE)
def test_every_printable_key_comes_through_its_quotes(key: str) -> None:
    quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert read(quoted.encode()) == key


@given(st.binary(max_size=300))
def test_whatever_the_bytes_it_is_a_printable_key_or_refused(value: bytes) -> None:
    try:
        key = read(value)
    except KeyMalformed:
        return
    assert key is not None and 1 <= len(key) <= 255 and key.isascii() and key.isprintable()
