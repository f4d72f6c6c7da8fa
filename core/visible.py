"""Texts of strangers as people may look at them: nothing moves a cursor, turns a line around or hides itself.

And what a person says that is kept for good: who ordered something, and why.
"""

from __future__ import annotations

import re

CHARS_MAX = 2_000
KEPT_CHARS_MAX = 500

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Controls but tab and line feed, what steers the direction of writing, what has no width, halves of pairs."""

_UNSEEN_IN_LINE = re.compile(f"[\t\n]|{_UNSEEN.pattern}")


def make_visible(text: str, chars_max: int = CHARS_MAX) -> str:
    """Writes ``text`` in one line: invisible characters by their number (``⟨U+202E⟩``), and a long text cut."""
    return _escape_text(text, _UNSEEN_IN_LINE, chars_max)


def visible_lines(text: str, chars_max: int = CHARS_MAX) -> str:
    return _escape_text(text.replace("\r\n", "\n"), _UNSEEN, chars_max)


def is_kept_text(text: str) -> bool:
    """Returns whether records and terminals can hold it: no line ends, nothing that steers a terminal, of some
    length."""
    return 0 < len(text) <= KEPT_CHARS_MAX and text.isprintable()


def kept_text(text: str) -> str:
    """
    :raises ValueError: nothing is left, it is too long, or it holds what can't be printed
    """
    stripped = text.strip()
    if not is_kept_text(stripped):
        raise ValueError(f"expected one line of 1 to {KEPT_CHARS_MAX} printable characters")
    return stripped


def _escape_text(text: str, unseen: re.Pattern[str], chars_max: int) -> str:
    kept = unseen.sub(_escape_character, text[:chars_max])
    chars_left = len(text) - chars_max
    return f"{kept}… ({chars_left:,} more characters)" if chars_left > 0 else kept


def _escape_character(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"
