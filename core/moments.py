"""Moments as people write them: a day, or a time; UTC unless it says otherwise."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from core.clock import from_rfc3339, to_rfc3339
from core.errors import PayhookError

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ZONE = re.compile(r"(Z|[+-]\d{2}:\d{2})\Z", re.ASCII)
_ONE_DAY, _LEAST, _NOTHING = timedelta(days=1), timedelta(microseconds=1), timedelta(0)


class MomentInvalid(PayhookError):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is no time: write 2026-01-31 or 2026-01-31T12:00:00Z")


def parse_since(text: str) -> datetime:
    """Reads the first moment that counts; a day begins with its first.

    :raises MomentInvalid: neither a day nor a time
    """
    return _parse_moment(text, _NOTHING, _NOTHING)


def parse_until(text: str) -> datetime:
    """Reads the first moment that doesn't count any more; a day counts as a whole.

    :raises MomentInvalid: neither a day nor a time
    """
    return _parse_moment(text, _ONE_DAY, _NOTHING)


def as_of(text: str) -> datetime:
    """Reads the first moment after the one that is named; a day counts as a whole.

    :raises MomentInvalid: neither a day nor a time
    """
    return _parse_moment(text, _ONE_DAY, _LEAST)


def describe_span(since: datetime | None, until: datetime | None) -> str:
    return " ".join(f"{word} {to_rfc3339(at)}" for word, at in (("from", since), ("to", until)) if at is not None)


def _parse_moment(text: str, day_adds: timedelta, time_adds: timedelta) -> datetime:
    try:
        if _DAY.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC) + day_adds
        return from_rfc3339(text if _ZONE.search(text) else f"{text}Z") + time_adds
    except (ValueError, OverflowError) as wrong:
        raise MomentInvalid(text) from wrong
