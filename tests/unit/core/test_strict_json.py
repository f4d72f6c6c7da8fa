"""Strict JSON: what two readers could read differently is refused, numbers stay exact."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unparseable
from core.strict_json import DEPTH_MAX, dump_canonical_json, dump_json, load_json


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nothing",
        b'{"a":1} x',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":01}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":"\x01"}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-32"),
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00\\ud800"}',
    ],
)
def test_what_is_not_json_in_utf8_is_refused(body: bytes) -> None:
    with pytest.raises(Unparseable):
        load_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2.5}',
        b'{"x":[{"id":"1","amount":1,"id":"2"}]}',
        b'{"a":"\\"","b":{"a" : 1 , "a" : 2}}',
        b'{"a":"\\\\","a":"\\\\"}',
        b'{"a":"\\u0022","a":"\\u0022\\u0022"}',
        b'{"\\u0061":1,"a":2}',
        '{"é":1,"\\u00e9":2}'.encode(),
        b'{"":1,"":2}',
    ],
)
def test_a_key_twice_in_one_object_is_refused_however_it_is_written(body: bytes) -> None:
    with pytest.raises(Unparseable, match="twice"):
        load_json(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":{"a":1},"b":[{"a":1},{"a":1}]}',
        b'{"a":"\\"a\\":1,\\"a\\":2"}',
        b'{"a\\"":1,"a":2}',
        b'{"a":"\\\\\\"","b":"\\\\"}',
        b'{"a":"\\u0022:\\u0022"}',
    ],
)
def test_equal_keys_of_different_objects_and_quotes_within_texts_are_fine(body: bytes) -> None:
    assert load_json(body) == json.loads(body)


@pytest.mark.parametrize("body", [b"1", b'"text"', b"null", b"true", b"1.5"])
def test_a_bare_scalar_is_refused(body: bytes) -> None:
    with pytest.raises(Unparseable, match="object or an array"):
        load_json(body)


def test_nesting_is_bounded_for_arrays_and_objects() -> None:
    assert load_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    assert load_json(b'{"a":' * (DEPTH_MAX - 1) + b"[]" + b"}" * (DEPTH_MAX - 1))
    for deep in (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(Unparseable):
            load_json(deep)
    with pytest.raises(Unparseable, match="nested"):
        load_json(b'{"a":' * DEPTH_MAX + b"{}" + b"}" * DEPTH_MAX)


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 2**53 + 1, 0, -1])
def test_integers_of_64_bits_are_exact(number: int) -> None:
    assert load_json(b'{"a":%d}' % number) == {"a": number}
    assert load_json(b'{"a":%d,"b":0.5}' % number) == {"a": number, "b": Decimal("0.5")}


@pytest.mark.parametrize("digits", ["18446744073709551616", "-9223372036854775809", "9" * 5_000, "-" + "9" * 25])
def test_integers_beyond_64_bits_are_refused_instead_of_becoming_floats(digits: str) -> None:
    with pytest.raises(Unparseable):
        load_json(b'{"a":' + digits.encode() + b"}")


def test_other_numbers_are_exact_decimals_never_floats() -> None:
    read = load_json(b'{"a":0.1,"b":[1e2,-0.0],"c":123456789012345678.1234567890123456789}')
    assert read == {
        "a": Decimal("0.1"),
        "b": [Decimal("1E+2"), Decimal("-0.0")],
        "c": Decimal("123456789012345678.1234567890123456789"),
    }
    assert not any(isinstance(value, float) for value in _leaves(read))


def test_an_exponent_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(Unparseable):
        load_json(b'{"a":1e-99999999999999999999}')


def test_canonical_json_depends_on_neither_order_nor_blanks_nor_escapes() -> None:
    one = load_json(b'{"b": [1, 2.50], "a": {"z": "\\u00e9\\/", "y": null}}')
    other = load_json('{"a":{"y":null,"z":"é/"},"b":[1,2.50]}'.encode())
    assert dump_canonical_json(one) == dump_canonical_json(other) == '{"a":{"y":null,"z":"é/"},"b":[1,2.50]}'.encode()


def test_canonical_json_tells_numbers_apart_that_are_one_float() -> None:
    assert dump_canonical_json(load_json(b'{"a":0.1000000000000000055}')) != dump_canonical_json(
        load_json(b'{"a":0.1}')
    )
    assert dump_canonical_json(load_json(b'{"a":9007199254740993.0}')) != dump_canonical_json(
        load_json(b'{"a":9007199254740992.0}')
    )


def test_canonical_json_of_an_integer_is_the_same_beside_a_decimal() -> None:
    """Which of the two readers read the body must not show."""
    plain, beside = (
        load_json(b'{"a":12,"t":"\\u0007\\u007f\xc3\xa9"}'),
        load_json(b'{"a":12,"t":"\\u0007\\u007f\xc3\xa9","b":0.5}'),
    )
    assert isinstance(beside, dict)
    del beside["b"]
    assert dump_canonical_json(plain) == dump_canonical_json(beside)


def test_dumps_keeps_order_and_numbers() -> None:
    body = b'{"b":1.50,"a":18446744073709551615}'
    assert dump_json(load_json(body)) == body


def test_canonical_refuses_what_is_not_of_a_document() -> None:
    with pytest.raises(TypeError):
        dump_canonical_json({"a": object()})


_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
).filter(lambda value: isinstance(value, dict | list))


@given(_documents, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_json_writes_is_read_back(document: Any, ascii_only: bool, indent: int | None) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
    assert load_json(body) == document
    assert load_json(dump_canonical_json(document)) == document


@given(_documents, st.data())
def test_any_key_repeated_is_seen(document: Any, data: st.DataObject) -> None:
    if not isinstance(document, dict) or not document:
        document = {"k": document}
    key = data.draw(st.sampled_from(sorted(document)))
    inner = json.dumps(document, ensure_ascii=data.draw(st.booleans()))
    with pytest.raises(Unparseable, match="twice"):
        load_json((inner[:-1] + "," + json.dumps(key) + ": 1}").encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_unparseable(body: bytes) -> None:
    try:
        load_json(body)
    except Unparseable:
        return
    json.loads(body.decode("utf-8"))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for child in value.values() for leaf in _leaves(child)]
    if isinstance(value, list):
        return [leaf for child in value for leaf in _leaves(child)]
    return [value]
