"""How a generation of claims stands in Redis."""

from __future__ import annotations

import pytest

from core.generation import Announced, generation_key


@pytest.mark.parametrize(
    ("announced", "value"),
    [(Announced(0), b"0"), (Announced(12), b"12"), (Announced(3, refused=True), b"3 refused")],
)
def test_it_is_a_number_and_whether_its_processor_refuses(announced: Announced, value: bytes) -> None:
    assert announced.encode() == value
    assert Announced.decode(value) == announced


@pytest.mark.parametrize("value", [None, b"", b"-1", b"3 refuse", b" 3", b"3\n", b"1e3", b"9" * 10])
def test_what_cant_be_read_announces_nothing(value: bytes | None) -> None:
    assert Announced.decode(value) is None


def test_each_mode_has_a_key_of_its_own() -> None:
    assert generation_key("live") != generation_key("test")
