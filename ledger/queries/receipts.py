"""What the receiver answered to an event's deliveries: those that Redis knew already too, which Kafka never saw."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from ledger.queries.lake import Lake, one_of

RECEIPTS_MAX = 1_000
"""Of one event, the first ones."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One answer. ``outcome`` is the receiver's word for it, ``status`` the HTTP status.

    ``partition``, ``offset`` and ``line`` say where the receipts' topic held it.
    """

    at: datetime | None
    outcome: str
    status: int | None
    content_sha256: str | None
    partition: int
    offset: int
    line: int


def receipts_of(lake: Lake, event_keys: Collection[str]) -> list[Receipt]:
    """The answers to deliveries of these events, oldest first; one more than `RECEIPTS_MAX` at most.

    :raises LedgerUnreadable: the table ``receipts`` of ``lake`` is damaged
    """
    if not event_keys:
        return []
    found = lake.ask(
        'SELECT at, outcome, status, content_sha256, "partition", "offset", line FROM receipts '
        f"WHERE {one_of('event_key', sorted(event_keys))} "
        f'ORDER BY at, "partition", "offset", line LIMIT {RECEIPTS_MAX + 1}'
    )
    return [Receipt(**one) for one in found.to_pylist()]
