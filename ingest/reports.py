"""Reports each request: counts, and receipts for the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from core.clock import Clock, to_rfc3339
from core.event import Event, Mode
from core.routing import TEST_TRAFFIC_OFF, topics_of
from ingest.errors import Refused
from ingest.metrics import IngestMetrics
from ingest.protocol import Taken
from ingest.publisher import Publisher
from ingest.refusal_log import RefusalLog

GATHER_S = 0.05
"""So long a receipt may wait for others: they share a Kafka record, as one each would cost as much as the event."""
RECEIPTS_A_RECORD_MAX = 200
"""Of at most a few hundred bytes each; a record takes 2 MiB."""

UNKNOWN = "unknown"
"""The provider of a request that names none."""
NOTHING = "nothing_in_it"
NOT_THERE = "not_there"
"""The provider's own API doesn't know what the request is about: the refusal's code, and of an answer without an event
the receipt's outcome."""
SETTLED_BY_RECEIPTS = frozenset({"in_flight", "not_published"})
"""Refusals whose events have receipts of their own."""


class Reports:
    """Counts, writes to the receipts topics, and waits for nothing. A record holds one receipt a line, as JSON.

    ``mode``: of the receipts of what was refused.
    """

    def __init__(self, publisher: Publisher, metrics: IngestMetrics, clock: Clock, mode: Mode) -> None:
        self._publisher = publisher
        self._metrics = metrics
        self._clock = clock
        self._mode: Mode = mode
        self._waiting: dict[Mode, list[bytes]] = {}
        self._unread: dict[tuple[str, int], int] = {}
        self._refusals = RefusalLog()

    def answered(self, provider: str, status: int, seconds: float) -> None:
        """Reports a request, whatever became of it."""
        self._metrics.answered(provider, status, seconds)

    def refused(self, provider: str, refused: Refused) -> None:
        """Reports a refused request. Its receipt names nothing of it, as nothing in it is believed."""
        self._metrics.refused(provider, refused.code)
        self._refusals.note(provider, refused)
        if refused.code == NOT_THERE:
            self._metrics.not_there(provider)
        if refused.code not in SETTLED_BY_RECEIPTS:
            self._note(self._mode, _nothing(provider, refused.code, refused.status, self._clock.now()))

    def unread(self, refused: Refused) -> None:
        """Reports a request that was refused as HTTP.

        Those of one code share a receipt with their ``count``: anybody may make as many as they like.
        """
        self._metrics.refused(UNKNOWN, refused.code)
        self._metrics.unread(UNKNOWN, refused.status)
        self._refusals.note(UNKNOWN, refused)
        self._flush_soon()
        kind = refused.code, refused.status
        self._unread[kind] = self._unread.get(kind, 0) + 1

    def held_nothing(self, provider: str, status: int, received_at: datetime, mode: Mode, *, is_there: bool) -> None:
        """Reports a verified request without an event; ``is_there``: False where its provider knows nothing of it."""
        if not is_there:
            self._metrics.not_there(provider)
        self._note(mode, _nothing(provider, NOTHING if is_there else NOT_THERE, status, received_at))

    def left_out(self, events: Sequence[Event], status: int, received_at: datetime, mode: Mode) -> None:
        """Reports events of test mode, while no test traffic is taken. ``mode``: of the endpoint, and its receipts."""
        for event in events:
            self._metrics.took(event.provider, TEST_TRAFFIC_OFF)
            self._note(mode, _receipt(event, TEST_TRAFFIC_OFF, status, to_rfc3339(received_at)))

    def took(self, provider: str, result: Taken, status: int) -> None:
        """Reports the events of a request that was verified."""
        at = to_rfc3339(self._clock.now())
        for claim in result.takings:
            event, outcome = claim.event, claim.outcome
            self._metrics.took(provider, outcome)
            self._note(event.mode, _receipt(event, outcome, status, at))

    def flush(self) -> None:
        """Hands over what waits, for when the receiver ends."""
        at, unread, self._unread = self._clock.now(), self._unread, {}
        for (code, status), count in unread.items():
            receipt = {**_nothing(UNKNOWN, code, status, at), "count": count}
            self._waiting.setdefault(self._mode, []).append(orjson.dumps(receipt))
        for mode, lines in self._waiting.items():
            for start in range(0, len(lines), RECEIPTS_A_RECORD_MAX):
                record = b"\n".join(lines[start : start + RECEIPTS_A_RECORD_MAX])
                self._publisher.note(topics_of(mode).receipts, record)
        self._waiting = {}

    def _note(self, mode: Mode, receipt: dict[str, Any]) -> None:
        self._flush_soon()
        self._waiting.setdefault(mode, []).append(orjson.dumps(receipt))

    def _flush_soon(self) -> None:
        if not self._waiting and not self._unread:
            asyncio.get_running_loop().call_later(GATHER_S, self.flush)


def _nothing(provider: str, outcome: str, status: int, at: datetime) -> dict[str, Any]:
    return {"provider": provider, "outcome": outcome, "status": status, "at": to_rfc3339(at)}


def _receipt(event: Event, outcome: str, status: int, at: str) -> dict[str, Any]:
    return {
        "provider": event.provider,
        "event_key": event.event_key,
        "type": event.event_type,
        "outcome": outcome,
        "status": status,
        "content_sha256": event.content_sha256,
        "at": at,
    }
