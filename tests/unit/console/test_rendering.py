"""A key of a stranger is one segment of an address, whatever is in it."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.rendering import make_address, quote_segment


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_segment_comes_back_as_it_was(text: str) -> None:
    quoted = quote_segment(text)
    assert unquote(quoted) == text
    assert not set(quoted) & set("/?#&\"'<> \\")
    assert urlsplit(f"http://h/ledger/events/{quoted}?mode=test").path == f"/ledger/events/{quoted}"


@pytest.mark.parametrize("text", [".", "..", "..."])
def test_dots_are_no_way_up(text: str) -> None:
    assert "." not in quote_segment(text)


def test_halves_of_pairs_are_no_error() -> None:
    assert quote_segment("a\ud800") == "a%3F"
    assert make_address("/dlq", {"text": "a\ud800"}) == "/dlq?text=a%3F"


def test_only_what_has_a_value_is_in_an_address() -> None:
    query = {"text": None, "kind": ["NRE", "SBE"], "type": [], "entity": "a:b&c=d", "page": 0, "mode": ""}
    assert make_address("/dlq", query) == "/dlq?kind=NRE&kind=SBE&entity=a%3Ab%26c%3Dd&page=0"
    assert make_address("/dlq") == "/dlq"
