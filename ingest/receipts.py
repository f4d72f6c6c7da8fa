"""Receipts: a line for everything that was answered, duplicates and refusals too, without the body."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from core.event import Event, Mode
from core.routing import topics_of
from ingest.publisher import Publisher

GATHER_S = 0.05
"""So long a receipt may wait for others: they share a Kafka record, as one each would cost as much as the event."""
RECEIPTS_A_RECORD_MAX = 200
"""Of at most a few hundred bytes each; a record takes 2 MiB."""


class Receipts:
    """Writes to the receipts topics and waits for nothing. A record holds one receipt a line, as JSON."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._waiting: dict[Mode, list[bytes]] = {}

    def answered(self, event: Event, outcome: str, status: int, at: str) -> None:
        """One event of a request that was verified. ``at`` in RFC 3339."""
        receipt = {
            "provider": event.provider,
            "event_key": event.event_key,
            "outcome": outcome,
            "status": status,
            "content_sha256": event.content_sha256,
            "at": at,
        }
        self._note(event.mode, receipt)

    def nothing_taken(self, provider: str, outcome: str, status: int, at: str, mode: Mode) -> None:
        """A request of which nothing is named: it was refused, so nothing in it is believed, or it held no event."""
        self._note(mode, {"provider": provider, "outcome": outcome, "status": status, "at": at})

    def flush(self) -> None:
        """Hands over what waits, for when the receiver ends."""
        for mode, lines in self._waiting.items():
            for start in range(0, len(lines), RECEIPTS_A_RECORD_MAX):
                record = b"\n".join(lines[start : start + RECEIPTS_A_RECORD_MAX])
                self._publisher.note(topics_of(mode).receipts, record)
        self._waiting = {}

    def _note(self, mode: Mode, receipt: dict[str, Any]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(GATHER_S, self.flush)
        self._waiting.setdefault(mode, []).append(orjson.dumps(receipt))
