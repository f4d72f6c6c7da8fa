"""An hour in which much came in, and not all of it was taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from console.received import HOUR, ReceivedHour, ReceivedSummary
from core.clock import to_rfc3339
from core.event import Mode

NOW = datetime(2026, 1, 31, 12, 0, 10, tzinfo=UTC)
_KINDS = (
    ("stripe", "charge.succeeded", "claimed", 200, 48_211),
    ("stripe", "charge.refunded", "claimed", 200, 912),
    ("stripe", "charge.succeeded", "duplicate", 200, 377),
    ("adyen", "CAPTURE", "claimed", 200, 2_004),
    ("stripe", "charge.succeeded", "not_published", 503, 433),
    ("stripe", "", "signature_mismatch", 401, 12),
    ("gocardless", "", "not_configured", 503, 3),
    ("unknown", "", "unknown_provider", 404, 95),
    ("unknown", "", "too_many_connections", 503, 240),
    ("standardwebhooks", "a.type.whose.name.goes.on." * 6, "claimed", 200, 7),
)


def busy_hour(_mode: Mode) -> ReceivedSummary:
    """As a reader of the receipts has it."""
    hour = ReceivedHour()
    for number, (provider, kind, outcome, status, count) in enumerate(_KINDS):
        at = to_rfc3339(NOW - timedelta(minutes=number))
        hour.add({"provider": provider, "outcome": outcome, "status": status, "at": at, "type": kind, "count": count})
    return hour.summary(NOW - HOUR, NOW, None)
