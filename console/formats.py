"""How values are written, on pages and on the command line. Most functions are filters of the templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

from core.clock import to_rfc3339
from core.decision import ErrorKind
from core.money import format_decimal
from core.visible import CHARS_MAX, make_visible, visible_lines

LINES_CHARS_MAX = 20_000
KIND_WORDS: Mapping[ErrorKind, str] = {
    ErrorKind.NRE: "permanent",
    ErrorKind.SLE: "transient",
    ErrorKind.SNBE: "waits for data",
    ErrorKind.SBE: "outage",
}
KINDS_EXPLAINED = ", ".join(f"{kind.value} ({words})" for kind, words in KIND_WORDS.items())
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def clean_value(value: Any) -> Any:
    """Cleans every ``{{ … }}`` of a template: makes invisible characters of a text visible, and cuts it."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return make_visible(value, CHARS_MAX)
    return "" if value is None else value


def format_lines(value: str, chars_max: int = LINES_CHARS_MAX) -> Markup:
    return escape(visible_lines(value, chars_max))


def format_money(amount_minor: int | None, currency: str | None) -> str:
    """Writes ``1,234.50 EUR``; nothing of None."""
    if amount_minor is None or currency is None:
        return ""
    return f"{format_decimal(amount_minor, currency)} {make_visible(currency, 10)}"


def mark_up_moment(at: datetime | None) -> Markup:
    if at is None:
        return Markup("")
    return Markup('<time datetime="{}">{}</time>').format(to_rfc3339(at), format_second(at))


def format_second(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def format_span(time: timedelta | float | None, units: int = 2) -> str:
    """Writes the greatest units of seconds or a time delta: ``3 d 4 h``, ``12 min``, ``0 s``."""
    if time is None:
        return ""
    left = int(time.total_seconds() if isinstance(time, timedelta) else time)
    if left < 0:
        return f"-{format_span(-left, units)}"
    parts = []
    for unit_s, name in _UNITS:
        number, left = divmod(left, unit_s)
        if number:
            parts.append(f"{number} {name}")
        elif parts:
            break
    return " ".join(parts[:units]) or "0 s"


def format_number(value: int | float | None) -> str:
    return "" if value is None else f"{value:,}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    # The value of a form's field, never what people read.
    "exact": escape,
    "lines": format_lines,
    "moment": mark_up_moment,
    "money": format_money,
    "number": format_number,
    "span": format_span,
}
