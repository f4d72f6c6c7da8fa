"""Moments as options take them. Each function is an option's ``callback``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import click

from core import moments
from core.moments import MomentInvalid


def since(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> datetime | None:
    """The first moment that counts; a day begins with its first."""
    return _read(moments.since, ctx, param, text)


def until(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> datetime | None:
    """The first moment that doesn't count any more; a day counts as a whole."""
    return _read(moments.until, ctx, param, text)


def as_of(ctx: click.Context | None, param: click.Parameter | None, text: str | None) -> datetime | None:
    """The first moment after the one that is named; a day counts as a whole."""
    return _read(moments.as_of, ctx, param, text)


def _read(
    read: Callable[[str], datetime], ctx: click.Context | None, param: click.Parameter | None, text: str | None
) -> datetime | None:
    if text is None:
        return None
    try:
        return read(text)
    except MomentInvalid as wrong:
        raise click.BadParameter(str(wrong), ctx, param) from wrong
