"""Time, passed in: wall time is UTC, durations come from a monotonic clock.

And how long to wait before something is tried again; an event's own retries are `processor.errors.retry`'s.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WITHOUT_OFFSET = len("2026-01-31T12:00:00.000000")
_OWN_FORM = _WITHOUT_OFFSET + len("Z")
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    def now(self) -> datetime:
        """Returns the wall time, UTC, with its time zone set."""

    def monotonic_s(self) -> float:
        """Returns seconds that never go back; only differences mean anything."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    def __init__(self, now: datetime) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic_s(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def set_back(self, seconds: float) -> None:
        self._now -= timedelta(seconds=seconds)


class Deadline:
    """A moment in monotonic time that all steps of a piece of work share."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._at = clock.monotonic_s() + seconds

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._at - self._clock.monotonic_s())

    @property
    def has_passed(self) -> bool:
        return self.remaining_s == 0.0


def to_micros(moment: datetime) -> int:
    """Counts microseconds since 1970-01-01T00:00:00Z, exact."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def to_rfc3339(moment: datetime) -> str:
    """Writes ``2026-01-31T12:00:00.000000Z``: fixed width, so that text order is time order."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:_WITHOUT_OFFSET] + "Z"


def from_rfc3339(text: str) -> datetime:
    """Reads RFC 3339 with up to nine digits of fraction (cut to microseconds).

    :raises ValueError: not such a time, one without its zone, or in UTC not within the years 1 to 9999
    """
    if len(text) == _OWN_FORM and text[19] == "." and text[-1] == "Z" and text.isascii():
        return datetime.fromisoformat(text)
    head, dot, tail = text.partition(".")
    if dot:
        digits = 0
        while digits < len(tail) and tail[digits].isascii() and tail[digits].isdigit():
            digits += 1
        if not 1 <= digits <= 9:
            raise ValueError(f"expected a fraction of 1 to 9 digits, got {text!r}")
        if not tail[digits:].startswith(("Z", "z", "+", "-")):
            raise ValueError(f"expected a time zone after the fraction, got {text!r}")
        text = f"{head}.{tail[:digits][:6]:0<6}{tail[digits:]}"
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"expected a time zone at the end, got {text!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError as beyond:
        raise ValueError(f"expected a time in the years 1 to 9999, got {text!r}") from beyond


DOUBLINGS_MAX = 64
DIGITS_MAX = 9


def doubled_s(first_s: float, times: int, max_s: float) -> float:
    """Doubles ``first_s`` so many times, up to ``max_s``. ``times`` may be huge: what fails may fail for days."""
    return min(max_s, first_s * 2.0 ** min(times, DOUBLINGS_MAX))


def asked_s(error: BaseException) -> float:
    """Reads the seconds that an error asks to be left alone (its attribute ``retry_after_s``); 0 where it says nothing
    usable.
    """
    try:
        wanted = getattr(error, "retry_after_s", None)
        return max(0.0, float(wanted)) if isinstance(wanted, (int, float)) else 0.0
    except Exception:  # a property of a stranger's, or a number beyond every clock
        return 0.0


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Reads a Retry-After (RFC 9110, 10.2.3: seconds, or a date) as seconds from ``now``; None when it can't
    be read.
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
