"""The reason of a command's row: what was done, and of what wasn't why."""

from __future__ import annotations

from collections.abc import Sequence

REFUSALS_TOLD_MAX = 10


def told_of(done: str, refusals: Sequence[str], why: str = "") -> str:
    """``5 of 7 replayed; refused: …; and 2 more``; a reason given (``why``) comes after what was done."""
    more = len(refusals) - REFUSALS_TOLD_MAX
    refused = f"refused: {'; '.join(refusals[:REFUSALS_TOLD_MAX])}" if refusals else ""
    parts = [f"{done}: {why}" if done and why else done, refused, f"and {more} more" if more > 0 else ""]
    return "; ".join(part for part in parts if part)
