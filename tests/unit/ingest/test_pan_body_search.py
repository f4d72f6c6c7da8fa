"""One body masked: wherever a card number stands it is hidden, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ingest.pan_body import BodyMask
from tests.unit.ingest.masked_bodies import CARD, KINDS, MASKER, masked

WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Nd", "No", "Nl"], exclude_characters="0123456789"), max_size=20
)
NAMES = WORDS.map(lambda word: f"k{word}")
"""No card field's among them."""
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**11), 10**11), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
CARDS = st.sampled_from([CARD, "5555555555554444", "378282246310005", "4222222222222", "6205500000000000004"])
BOUNDARIES = st.sampled_from(["", " ", ".", "\n", '"', "\\", "é", "カ", "/", "(", "\t", "\u2028", "#", "é "])


@given(
    DOCUMENTS, CARDS, WORDS, BOUNDARIES, BOUNDARIES, st.booleans(), st.sampled_from([None, 2]), st.integers(0, 40)
)  # fmt: skip
def test_a_card_number_put_anywhere_never_leaves_and_nothing_else_changes(
    document: Any, card: str, word: str, before: str, after: str, ascii_only: bool, indent: int | None, path: int
):
    letters = "abcdefghijklmnopqrstuvwxyz_-.%ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text = f"{word.rstrip(letters)}{before}\x01{card}{after or ' '}{word.lstrip(letters)}"
    whole = [document, {"deep": [{"note" * (path % 3): text}]}, document]
    body = json.dumps(whole, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    changed = masked(body)
    assert len(changed) == len(body)
    at = body.index(card.encode())
    assert changed == body[: at + 6] + b"*" * (len(card) - 10) + body[at + len(card) - 4 :]
    json.loads(changed)


BETWEEN = st.sampled_from([*" -./_,\t\n", "- ", "\t\n", " - "])


@given(
    st.lists(BETWEEN, min_size=3, max_size=3),
    st.booleans(),
    st.sampled_from(["", "a", "é", "x/"]),
)
def test_a_card_number_is_hidden_whatever_stands_between_its_groups(between: list[str], ascii_only: bool, around: str):
    groups = [CARD[at : at + 4] for at in range(0, 16, 4)]
    text = around + "".join(group + then for group, then in zip(groups, [*between, around], strict=True))
    for body in (
        json.dumps({"a": text}, ensure_ascii=ascii_only),
        json.dumps({"a": text}, ensure_ascii=ascii_only).replace("/", "\\/"),
    ):
        assert masked(body.encode()).count(b"*") == 6


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@given(
    NUMBERS, st.sampled_from(["number", "card-number", "cvc", "a"]), st.sampled_from(["%s", '"%s"', '"é %s"', "[ %s]"])
)
@example("0", "cvc", "%s")
def test_the_quick_look_never_says_no_to_a_number_in_any_field(written: str, name: str, around: str):
    json.loads(masked(f'{{"{name}": {around % written}, "n": [1]}}'.encode()))


@given(st.text('0123456789 -_.,:{}[]"\\ux2dcvnumber', max_size=120))
def test_the_quick_look_never_says_no_where_there_is_something(text: str):
    for body in (text.encode(), b"{" + text.encode(), json.dumps({"a": text, "number": text, "cvc": text}).encode()):
        mask = BodyMask(KINDS, frozenset(), frozenset())
        assert mask.mask_body(body) == body or MASKER.may_hold_cards(body)


ESCAPED = st.sampled_from(["", "/", "cvM", "0123456789"])
"""What JSON needn't escape and some writers do."""


@given(
    st.lists(st.text('0123456789 -_.,:{}[]"\\é\n=^cv', max_size=40), min_size=1, max_size=3),
    st.sampled_from(["a", "number", "cvc", "c_v-c", CARD]),
    st.booleans(),
    ESCAPED,
)
@example([f"\b{CARD}{'ab' * 8}"], "a", True, "")
@example(['" 5'], "cvc", True, "")
@example(["500000000012"], "number", True, "0123456789")
def test_where_the_quick_look_says_no_the_mask_changes_nothing(
    texts: list[str], name: str, ascii_only: bool, escaped: str
):
    document = json.dumps({"data": {name: texts[0], "b": texts}}, ensure_ascii=ascii_only)
    for one in escaped:
        document = document.replace(one, f"\\u{ord(one):04x}") if one != "/" else document.replace("/", "\\/")
        if one.isalnum():
            break
    masked(document.encode(), ids=())


HARMLESS = st.recursive(
    st.one_of(st.none(), st.text("0123456789abc-_ ", max_size=12), st.integers(-(10**11), 10**11), st.floats(0, 1)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text("xyz_1"), inner, max_size=4)),
    max_leaves=20,
)


@given(HARMLESS)
def test_a_body_without_thirteen_digits_in_a_row_stays_as_it_is(document: Any):
    body = json.dumps({"a": document, "ids": [f"tr_{CARD}0000", f"0.{CARD}", f"{'ab' * 16}{CARD}"]}).encode()
    assert masked(body) == body
