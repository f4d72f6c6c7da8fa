"""Log records on stderr, UTC: one JSON line each, or text on a terminal; what they are about goes with them.

A record says its stream, event and trace where it has them: those of the block that it is logged in (`log_context`),
or its own (``extra=about(…)``).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from core.card_numbers import without_card_numbers
from core.clock import to_rfc3339

FORMAT_VARIABLE = "PAYHOOK_LOG_FORMAT"
"""``json`` or ``text``; else it is text on a terminal and JSON everywhere else."""

FIELDS = ("stream", "event_key", "trace_id")
TRACEPARENT = "traceparent"

T = TypeVar("T")

_context: ContextVar[Mapping[str, str]] = ContextVar("log", default={})  # noqa: B039 - it is never changed


@contextlib.contextmanager
def log_context(**fields: str) -> Iterator[None]:
    before = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(before)


def in_this_context(function: Callable[..., T]) -> Callable[..., T]:
    """Binds a function to this context. Only one thread at a time may call it."""
    return partial(copy_context().run, function)


def event_fields(event_key: str | None = None, traceparent: str | bytes | None = None) -> dict[str, str]:
    if isinstance(traceparent, bytes):
        traceparent = traceparent.decode("ascii", "replace")
    trace_id = None if traceparent is None else trace_id_of(traceparent)
    fields = {"event_key": event_key, "trace_id": trace_id}
    return {name: value for name, value in fields.items() if value is not None}


def about_record(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    by_name = dict(headers)
    key = by_name.get("event_key")
    return event_fields(None if key is None else key.decode("utf-8", "replace"), by_name.get(TRACEPARENT))


def trace_id_of(traceparent: str) -> str | None:
    parts = traceparent.split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 else None


def _read_fields(record: logging.LogRecord) -> dict[str, str]:
    fields = {**_context.get(), **{name: value for name in FIELDS if (value := getattr(record, name, None))}}
    return {name: without_card_numbers(str(fields[name])) for name in FIELDS if name in fields}


class JsonFormatter(logging.Formatter):
    """``{"at": …, "level": …, "logger": …, "message": …}``, `FIELDS` where there are any, and ``error`` with its trace.

    Whatever is logged, card numbers in it are masked.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_card_numbers(record.getMessage()),
            **_read_fields(record),
        }
        if record.exc_info:
            line["error"] = without_card_numbers(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True)


class TextFormatter(logging.Formatter):
    """Writes records for people, with control characters escaped: one line, and those of the error."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _read_fields(record).items())
        line = (
            f"{_format_time(record)} {record.levelname} {record.name}: "
            f"{without_card_numbers(record.getMessage())}{fields}"
        )
        printable = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
        if not record.exc_info:
            return printable
        return f"{printable}\n{without_card_numbers(self.formatException(record.exc_info))}"


def _format_time(record: logging.LogRecord) -> str:
    return to_rfc3339(datetime.fromtimestamp(record.created, UTC))


TALKATIVE = ("httpx", "httpx2", "py4j")
"""Libraries that log each call. httpx2 and httpx, which handlers may use, log the URL, and a URL can hold a secret."""


def configure_logging() -> None:
    log_format = os.environ.get(FORMAT_VARIABLE) or ("text" if sys.stderr.isatty() else "json")
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if log_format == "text" else JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    quiet_talkative()


def quiet_talkative() -> None:
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
