"""Nothing in a stranger's text steers what shows it; and what a person says that is kept for good."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.visible import KEPT_CHARS_MAX, is_kept_text, kept_text, make_visible, visible_lines


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("evt_1", "evt_1"),
        ("", ""),
        ("\x1b[31mred", "⟨U+001B⟩[31mred"),
        ("a\u202egnp.exe", "a⟨U+202E⟩gnp.exe"),
        ("pay\u200bpal", "pay⟨U+200B⟩pal"),
        ("one\ntwo\tthree\r", "one⟨U+000A⟩two⟨U+0009⟩three⟨U+000D⟩"),
        ("half \ud83d of a pair", "half ⟨U+D83D⟩ of a pair"),
        ("Müller 支付 <b>", "Müller 支付 <b>"),
    ],
)
def test_what_cannot_be_seen_is_reported_by_its_number(text: str, reported: str) -> None:
    assert make_visible(text) == reported


def test_a_long_text_is_cut_and_says_so() -> None:
    assert make_visible("x" * 100_000, 10) == "xxxxxxxxxx… (99,990 more characters)"


def test_lines_stay_lines_where_they_are_wanted() -> None:
    assert visible_lines("a\r\n\tb\x00\u2028c\rd") == "a\n\tb⟨U+0000⟩⟨U+2028⟩c⟨U+000D⟩d"


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=50))
def test_whatever_comes_is_encodable_and_holds_no_control(text: str) -> None:
    shown = make_visible(text)
    shown.encode("utf-8")
    # Cf has characters that are seen too: numbers' signs in Arabic, hieroglyphs' joiners, musical beams.
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in shown)
    assert not any(
        unicodedata.bidirectional(char) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        for char in shown
    )


@pytest.mark.parametrize("text", ["asked", "request 17: »bitte löschen«", "x" * KEPT_CHARS_MAX])
def test_words_are_kept_as_they_are(text: str) -> None:
    assert is_kept_text(text)
    assert kept_text(f"  {text} ") == text


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "two\nlines", "\x1b[31mred", "ada\x1fbob", "back\u202ewards", "x" * (KEPT_CHARS_MAX + 1)]
)
def test_what_a_record_or_a_terminal_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="one line of 1 to 500 printable characters"):
        kept_text(text)
