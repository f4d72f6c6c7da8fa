"""Reports each request: counts, receipts for the audit, and a line a minute and code of those that are answered 503."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from core.clock import Clock, to_rfc3339
from core.event import Event, Mode
from core.routing import TEST_TRAFFIC_OFF, topics_of
from ingest.errors import REMEDIES, UNAVAILABLE, RequestRefused, runbook_of
from ingest.metrics import IngestMetrics
from ingest.protocol import ClaimResult
from ingest.publisher import Publisher

log = logging.getLogger(__name__)

EVERY_S = 60.0


@dataclass(slots=True)
class _Minute:
    count: int = 0
    cause: str = ""
    providers: set[str] = field(default_factory=set)


class RefusalLog:
    """Writes of each code the first refusal at once, then a line a minute, and one when a minute passed without any."""

    def __init__(self) -> None:
        self._minutes: dict[str, _Minute] = {}

    def count_refusal(self, provider: str, refused: RequestRefused) -> None:
        if refused.code not in UNAVAILABLE:
            return
        minute = self._minutes.get(refused.code)
        is_first = minute is None
        if minute is None:
            minute = self._minutes[refused.code] = _Minute()
            asyncio.get_running_loop().call_later(EVERY_S, self._end_minute, refused.code)
        minute.count += 1
        minute.providers.add(provider)
        minute.cause = refused.cause or refused.problem
        if is_first:
            self._write(refused.code, minute)

    def _end_minute(self, code: str) -> None:
        minute = self._minutes[code]
        if not minute.count:
            del self._minutes[code]
            log.info("no request was answered 503 %s for %g s: it is over", code, EVERY_S)
            return
        self._write(code, minute)
        asyncio.get_running_loop().call_later(EVERY_S, self._end_minute, code)

    def _write(self, code: str, minute: _Minute) -> None:
        log.warning(
            "answered 503 %s to %d requests of %s: %s. To do: %s See %s",
            code,
            minute.count,
            ", ".join(sorted(minute.providers)),
            minute.cause,
            REMEDIES[code],
            runbook_of(code),
        )
        minute.count = 0
        minute.providers.clear()


GATHER_S = 0.05
"""So long a receipt may wait for others: they share a Kafka record, as one each would cost as much as the event."""
RECEIPTS_A_RECORD_MAX = 200
"""Receipts have at most a few hundred bytes each; a record takes 2 MiB."""

UNKNOWN = "unknown"
"""The provider of a request that names none."""
NOTHING = "nothing_in_it"
NOT_THERE = "not_there"
"""The provider's own API doesn't know what the request is about: the refusal's code, and of an answer without an event
the receipt's outcome."""
SETTLED_BY_RECEIPTS = frozenset({"in_flight", "not_published"})
"""Refusals whose events have receipts of their own."""


class RequestReports:
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

    def report_answer(self, provider: str, status: int, seconds: float) -> None:
        self._metrics.count_answer(provider, status, seconds)

    def report_refusal(self, provider: str, refused: RequestRefused) -> None:
        """Reports a refused request. Its receipt names nothing of it, as nothing in it is believed."""
        self._metrics.count_refusal(provider, refused.code)
        self._refusals.count_refusal(provider, refused)
        if refused.code == NOT_THERE:
            self._metrics.count_not_there(provider)
        if refused.code not in SETTLED_BY_RECEIPTS:
            self._add_receipt(
                self._mode, _build_empty_receipt(provider, refused.code, refused.status, self._clock.now())
            )

    def report_unread(self, refused: RequestRefused) -> None:
        """Reports a request that was refused as HTTP.

        Those of one code share a receipt with their ``count``: anybody may make as many as they like.
        """
        self._metrics.count_refusal(UNKNOWN, refused.code)
        self._metrics.count_unread(UNKNOWN, refused.status)
        self._refusals.count_refusal(UNKNOWN, refused)
        self._flush_soon()
        kind = refused.code, refused.status
        self._unread[kind] = self._unread.get(kind, 0) + 1

    def report_empty(self, provider: str, status: int, received_at: datetime, mode: Mode, *, is_there: bool) -> None:
        if not is_there:
            self._metrics.count_not_there(provider)
        self._add_receipt(mode, _build_empty_receipt(provider, NOTHING if is_there else NOT_THERE, status, received_at))

    def report_left_out(self, events: Sequence[Event], status: int, received_at: datetime, mode: Mode) -> None:
        for event in events:
            self._metrics.count_event(event.provider, TEST_TRAFFIC_OFF)
            self._add_receipt(mode, _build_receipt(event, TEST_TRAFFIC_OFF, status, to_rfc3339(received_at)))

    def report_events(self, provider: str, result: ClaimResult, status: int) -> None:
        at = to_rfc3339(self._clock.now())
        for claim in result.claims:
            event, outcome = claim.event, claim.outcome
            self._metrics.count_event(provider, outcome)
            self._add_receipt(event.mode, _build_receipt(event, outcome, status, at))

    def flush(self) -> None:
        at, unread, self._unread = self._clock.now(), self._unread, {}
        for (code, status), count in unread.items():
            receipt = {**_build_empty_receipt(UNKNOWN, code, status, at), "count": count}
            self._waiting.setdefault(self._mode, []).append(orjson.dumps(receipt))
        for mode, lines in self._waiting.items():
            for start in range(0, len(lines), RECEIPTS_A_RECORD_MAX):
                record = b"\n".join(lines[start : start + RECEIPTS_A_RECORD_MAX])
                self._publisher.publish_unawaited(topics_of(mode).receipts, record)
        self._waiting = {}

    def _add_receipt(self, mode: Mode, receipt: dict[str, Any]) -> None:
        self._flush_soon()
        self._waiting.setdefault(mode, []).append(orjson.dumps(receipt))

    def _flush_soon(self) -> None:
        if not self._waiting and not self._unread:
            asyncio.get_running_loop().call_later(GATHER_S, self.flush)


def _build_empty_receipt(provider: str, outcome: str, status: int, at: datetime) -> dict[str, Any]:
    return {"provider": provider, "outcome": outcome, "status": status, "at": to_rfc3339(at)}


def _build_receipt(event: Event, outcome: str, status: int, at: str) -> dict[str, Any]:
    return {
        "provider": event.provider,
        "event_key": event.event_key,
        "type": event.event_type,
        "outcome": outcome,
        "status": status,
        "content_sha256": event.content_sha256,
        "at": at,
    }
