"""How one value of the DLQ is written for people."""

from __future__ import annotations

from datetime import datetime, timedelta

from rich.console import Console

from core.visible import visible
from dlq.index import Item

ERROR_CHARS_MAX = 240


def console() -> Console:
    return Console(highlight=False)


def age(since: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that fits: ``3 d``, ``5 h``, ``12 min``."""
    return duration(now - since)


def duration(span: timedelta) -> str:
    minutes = max(0, int(span.total_seconds() // 60))
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1_440:,} d"


def error_of(item: Item) -> str:
    """Class, kind and message; of what never failed, why it waits."""
    if item.error_class is None:
        return visible(item.reason or "", ERROR_CHARS_MAX)
    told = ", ".join(part.value for part in (item.kind, item.mark) if part is not None)
    named = f"{item.error_class} ({told})" if told else item.error_class
    return visible(f"{named}: {item.message or ''}".removesuffix(": "), ERROR_CHARS_MAX)


def money(item: Item) -> str | None:
    """The amount with its currency; None where nobody knows it."""
    from ledger.queries import decimal_text

    if item.amount is None:
        return None
    return f"{decimal_text(item.amount.amount_minor, item.amount.currency, grouped=True)} {item.amount.currency}"
