"""JSON pointers as RFC 6901 has them."""

from __future__ import annotations

import pytest

from providers.fields import parse_pointer, resolve

DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, "~1": 9, "0": {"x": None}}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/foo/1", "baz"),
        ("/", 0),
        ("/a~1b", 1),
        ("/m~0n", 8),
        ("/~01", 9),
        ("/0/x", None),
        ("/foo/2", None),
        ("/foo/-1", None),
        ("/foo/٠", None),
        ("/foo/bar", None),
        ("/nothing/at/all", None),
        ("/a~1b/c", None),
    ],
)
def test_a_pointer_finds_its_value_or_nothing(pointer: str, value: object) -> None:
    assert resolve(DOCUMENT, parse_pointer(pointer)) == value
