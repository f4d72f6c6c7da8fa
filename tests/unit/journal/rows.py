"""Rows for the journal's tests."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.clock import to_micros
from core.decision import Decision
from journal.index import Index
from journal.schema import HASHED_COLUMNS, LATER_COLUMNS, JournalRow
from journal.writer import JournalWriter, Tenure

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
TOPIC = "payments.events"
STARTS = {TOPIC: {0: 0}}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def bare_row(seq: int, decision: Decision, **changes: Any) -> JournalRow:
    """An item's first row, with nothing but what every row has."""
    whole: dict[str, Any] = {
        "seq": seq,
        "item_seq": seq,
        "first": True,
        "topic": TOPIC,
        "partition": 0,
        "offset": seq - 1,
        "decision": decision,
        "decided_at": NOW,
    }
    return JournalRow(**(whole | changes))


def row(seq: int, offset: int | None = None, **changes: Any) -> JournalRow:
    """An applied first row for ``offset`` (seq - 1 unless given)."""
    at = seq - 1 if offset is None else offset
    whole: dict[str, Any] = {
        "offset": at,
        "decision": Decision.APPLIED,
        "event_key": f"stripe:evt_{at}:charge.succeeded",
        "entity_key": f"stripe:acct:pi_{at}",
        "content_sha256": sha(f"content {at}"),
        "content_version": 1,
        "body_sha256": sha(f"body {at}"),
        "received_at": NOW,
    }
    return bare_row(seq, **(whole | changes))


def marks(until: int) -> dict[str, dict[int, int]]:
    return {TOPIC: {0: until}}


def event_count(index: Index) -> int:
    """Event keys that it holds."""
    return sum(len(keys) for keys, _ in index.event_entries())


def row_hash(row: JournalRow) -> str:
    """What `journal.schema.row_hashes` says of a row, in the plainest way."""
    texts = [_as_text(getattr(row, name)) for name in HASHED_COLUMNS]
    texts += [f"{name}={value}" for name in LATER_COLUMNS if (value := getattr(row, name)) is not None]
    return hashlib.sha256("\x1f".join(texts).encode("utf-8")).hexdigest()


def _as_text(value: object) -> str:
    if value is None:
        return "\x00"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, datetime):
        return str(to_micros(value))
    return str(value)


def begin_journal(path: str | Path, tenure: Tenure | None = None) -> JournalWriter:
    """A journal of the stream ``ledger`` in its next epoch, begun at `STARTS`."""
    writer = JournalWriter.create_or_open(str(path), "ledger", tenure)
    writer.begin_epoch(STARTS, tenure)
    return writer
