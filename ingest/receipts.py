"""Receipts: a line for everything that was answered, duplicates and refusals too, without the body."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import orjson

from core.clock import to_rfc3339
from core.event import Event
from ingest.publisher import Publisher

RECEIPTS_TOPIC = "payments.receipts"


@dataclass(frozen=True, slots=True)
class Receipts:
    """Writes to the receipts topic and waits for nothing."""

    publisher: Publisher
    topic: str = RECEIPTS_TOPIC

    def answered(self, event: Event, outcome: str, status: int, at: datetime) -> None:
        """One event of a request that was verified."""
        self._note(
            event.event_key,
            {
                "provider": event.provider,
                "event_key": event.event_key,
                "outcome": outcome,
                "status": status,
                "content_sha256": event.content_sha256,
                "at": to_rfc3339(at),
            },
        )

    def refused(self, provider: str, reason: str, status: int, at: datetime) -> None:
        """A request that was refused whole: nothing in it is believed, so nothing of it is named."""
        self._note(provider, {"provider": provider, "outcome": reason, "status": status, "at": to_rfc3339(at)})

    def _note(self, key: str, receipt: dict[str, object]) -> None:
        self.publisher.note(self.topic, key.encode(), orjson.dumps(receipt))
