"""Moments as people write them on the command line: a day, or a time; UTC unless it says otherwise.

Each function is an option's ``callback``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

from core.clock import from_rfc3339

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ZONE = re.compile(r"(Z|[+-]\d{2}:\d{2})\Z", re.ASCII)
_ONE_DAY, _LEAST, _NOTHING = timedelta(days=1), timedelta(microseconds=1), timedelta(0)


def since(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> datetime | None:
    """The first moment that counts; a day begins with its first."""
    return _moment(ctx, param, text, _NOTHING, _NOTHING)


def until(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> datetime | None:
    """The first moment that doesn't count any more; a day counts as a whole."""
    return _moment(ctx, param, text, _ONE_DAY, _NOTHING)


def as_of(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> datetime | None:
    """The first moment after the one that is named; a day counts as a whole."""
    return _moment(ctx, param, text, _ONE_DAY, _LEAST)


def _moment(
    ctx: click.Context | None,
    param: click.Parameter | None,
    text: str | None,
    day_adds: timedelta,
    time_adds: timedelta,
) -> datetime | None:
    if text is None:
        return None
    try:
        if _DAY.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC) + day_adds
        return from_rfc3339(text if _ZONE.search(text) else f"{text}Z") + time_adds
    except (ValueError, OverflowError) as wrong:
        problem = f"{text!r} is no time: write 2026-01-31 or 2026-01-31T12:00:00Z"
        raise click.BadParameter(problem, ctx, param) from wrong
