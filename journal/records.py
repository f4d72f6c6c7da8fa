"""Whether a record of a topic is the one that a journal row decided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from core.clock import from_rfc3339
from journal.schema import JournalRow

Headers = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as Kafka holds it. ``headers`` are pairs of name and raw value.

    ``body_known`` is False where only key and time are: of a row of another journal.
    """

    offset: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    body_known: bool = True


def record_sha256(row: JournalRow) -> str | None:
    """The hash of the record's value: of the body that was kept, or of what couldn't be read. None: no row of a record,
    or one of an unreadable record from before that was written down."""
    return row.body_sha256 or row.original_sha256


def same_record(row: JournalRow, record: Record) -> bool:
    """Whether a first row was decided from this record: offset, body, and where the record says them key and time.

    A row without a body's hash was decided from a record that isn't an event; of it only the offset is known.
    """
    if record.offset != row.offset:
        return False
    if record.body_known and record_sha256(row) not in (None, hashlib.sha256(record.value or b"").hexdigest()):
        return False
    texts = {name: raw.decode("utf-8", "replace") for name, raw in record.headers if raw is not None}
    if row.event_key is not None and texts.get("event_key", row.event_key) != row.event_key:
        return False
    if row.received_at is None or "received_at" not in texts:
        return True
    try:
        return from_rfc3339(texts["received_at"]) == row.received_at
    except ValueError:
        return False
