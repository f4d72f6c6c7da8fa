"""One line a log record, JSON, UTC, on stderr."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from core.card_numbers import without_card_numbers
from core.clock import to_rfc3339


class JsonFormatter(logging.Formatter):
    """``{"at": …, "level": …, "logger": …, "message": …}`` plus ``error`` with its trace.

    Whatever is logged, card numbers in it are masked.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": to_rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_card_numbers(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = without_card_numbers(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True)


TALKATIVE = ("httpx", "httpx2", "py4j")
"""Libraries that log each call. httpx2 and httpx, which handlers may use, log the URL, and a URL can hold a secret."""


def configure_logging(level: str = "INFO") -> None:
    """Called once by each process's main."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
