"""The spans of a stream's decisions: one for each row whose event's trace is taken (`core.tracing`)."""

from __future__ import annotations

from collections.abc import Sequence

from core.card_numbers import without_card_numbers
from core.decision import Decision
from core.tracing import Tracing, sampled_in, span_id_of
from processor.decide.item import Item

TRIED = frozenset({Decision.APPLIED, Decision.IGNORED, Decision.RETRY, Decision.DEAD})


class DecisionSpans:
    """Shown what each commit decided."""

    def __init__(self, stream: str, tracing: Tracing) -> None:
        self._stream = stream
        self._tracing = tracing

    def __call__(self, items: Sequence[Item]) -> None:
        for item in items:
            traceparent = sampled_in(item.headers)
            if traceparent is not None:
                self._span(item, traceparent)

    def _span(self, item: Item, traceparent: str) -> None:
        """It begins with the batch's decisions and ends now that they are committed."""
        row = item.row
        # The try's own number: a retry's row has the next one's.
        attempt = row.attempt - (row.decision is Decision.RETRY)
        event_key = row.event_key or ""
        self._tracing.decided(
            f"{self._stream} {row.decision.value}",
            traceparent,
            span_id_of(event_key, attempt) if row.decision in TRIED else None,
            row.decided_at,
            {
                "payhook.stream": self._stream,
                "payhook.event_key": without_card_numbers(event_key),
                "payhook.decision": row.decision.value,
                "payhook.seq": row.seq,
                "payhook.attempt": attempt,
                "messaging.kafka.offset": row.offset,
                "messaging.destination.name": row.topic,
                "messaging.destination.partition.id": str(row.partition),
            },
            failed=row.decision is Decision.DEAD,
        )
