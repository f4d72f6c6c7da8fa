"""What a person says that is kept for good."""

from __future__ import annotations

import pytest

from core.kept_text import KEPT_CHARS_MAX, is_kept_text, kept_text


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
