"""How long to wait before something is tried again; an event's own retries are `processor.errors.retry`'s."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

DOUBLINGS_MAX = 64
DIGITS_MAX = 9


def doubled_s(first_s: float, times: int, max_s: float) -> float:
    """Doubles ``first_s`` so many times, at most ``max_s``; any number of times, as what fails may fail for days."""
    return min(max_s, first_s * 2.0 ** min(times, DOUBLINGS_MAX))


def asked_s(error: BaseException) -> float:
    """Reads the seconds that an error asks to be left alone (its attribute ``retry_after_s``); 0: it says nothing
    usable.
    """
    try:
        wanted = getattr(error, "retry_after_s", None)
        return max(0.0, float(wanted)) if isinstance(wanted, (int, float)) else 0.0
    except Exception:  # a property of a stranger's, or a number beyond every clock
        return 0.0


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds from ``now`` until the sender of a header Retry-After (RFC 9110, 10.2.3: seconds, or a date) wants to be
    asked again; None when it says nothing that can be read.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:DIGITS_MAX]) if len(text) <= DIGITS_MAX else float(10**DIGITS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
