"""What is reported of each request: counts, and receipts for the audit."""

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

GATHER_S = 0.05
"""So long a receipt may wait for others: they share a Kafka record, as one each would cost as much as the event."""
RECEIPTS_A_RECORD_MAX = 200
"""Of at most a few hundred bytes each; a record takes 2 MiB."""

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

    def answered(self, provider: str, status: int, seconds: float) -> None:
        """One request, whatever became of it."""
        self._metrics.answered(provider, status, seconds)

    def refused(self, provider: str, refused: Refused) -> None:
        """A request of which nothing is named, as nothing in it is believed."""
        self._metrics.refused(provider, refused.code)
        if refused.code == NOT_THERE:
            self._metrics.not_there(provider)
        if refused.code not in SETTLED_BY_RECEIPTS:
            self._nothing_taken(provider, refused.code, refused.status, self._clock.now(), self._mode)

    def held_nothing(self, provider: str, status: int, received_at: datetime, mode: Mode, *, is_there: bool) -> None:
        """A request that was verified and held no event; ``is_there``: not because its provider knows nothing of it."""
        if not is_there:
            self._metrics.not_there(provider)
        self._nothing_taken(provider, NOTHING if is_there else NOT_THERE, status, received_at, mode)

    def left_out(self, events: Sequence[Event], status: int, received_at: datetime, mode: Mode) -> None:
        """Events of test mode, while no test traffic is taken. ``mode``: of the endpoint, whose receipts they are."""
        for event in events:
            self._metrics.took(event.provider, TEST_TRAFFIC_OFF)
            self._note(mode, _receipt(event, TEST_TRAFFIC_OFF, status, to_rfc3339(received_at)))

    def took(self, provider: str, taken: Taken, status: int) -> None:
        """The events of a request that was verified."""
        at = to_rfc3339(self._clock.now())
        for taking in taken.takings:
            event, outcome = taking.event, taking.outcome
            self._metrics.took(provider, outcome)
            self._note(event.mode, _receipt(event, outcome, status, at))

    def flush(self) -> None:
        """Hands over what waits, for when the receiver ends."""
        for mode, lines in self._waiting.items():
            for start in range(0, len(lines), RECEIPTS_A_RECORD_MAX):
                record = b"\n".join(lines[start : start + RECEIPTS_A_RECORD_MAX])
                self._publisher.note(topics_of(mode).receipts, record)
        self._waiting = {}

    def _nothing_taken(self, provider: str, outcome: str, status: int, at: datetime, mode: Mode) -> None:
        self._note(mode, {"provider": provider, "outcome": outcome, "status": status, "at": to_rfc3339(at)})

    def _note(self, mode: Mode, receipt: dict[str, Any]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(GATHER_S, self.flush)
        self._waiting.setdefault(mode, []).append(orjson.dumps(receipt))


def _receipt(event: Event, outcome: str, status: int, at: str) -> dict[str, Any]:
    return {
        "provider": event.provider,
        "event_key": event.event_key,
        "outcome": outcome,
        "status": status,
        "content_sha256": event.content_sha256,
        "at": at,
    }
