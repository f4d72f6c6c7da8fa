"""What a person says that is kept for good: who ordered something, and why."""

from __future__ import annotations

KEPT_CHARS_MAX = 500


def is_kept_text(text: str) -> bool:
    """Whether records and terminals can hold it: no line ends, nothing that steers a terminal, of some length."""
    return 0 < len(text) <= KEPT_CHARS_MAX and text.isprintable()


def kept_text(text: str) -> str:
    """The text without the blanks around it.

    :raises ValueError: nothing is left, it is too long, or it holds what can't be printed
    """
    stripped = text.strip()
    if not is_kept_text(stripped):
        raise ValueError(f"one line of 1 to {KEPT_CHARS_MAX} printable characters is wanted")
    return stripped
