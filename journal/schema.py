"""The journal's columns, and the row that the processor decides."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import pyarrow as pa

from core.clock import to_micros
from core.decision import Decision, ErrorKind

TIMESTAMP = pa.timestamp("us", tz="UTC")

JOURNAL_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("batch_seq", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("item_seq", pa.int64(), nullable=False),
        pa.field("first", pa.bool_(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("event_key", pa.string()),
        pa.field("fact_key", pa.string()),
        pa.field("fact_sha256", pa.string()),
        pa.field("entity_key", pa.string()),
        pa.field("provider", pa.string()),
        pa.field("account", pa.string()),
        pa.field("event_type", pa.string()),
        pa.field("mode", pa.string()),
        pa.field("decision", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("due_at", TIMESTAMP),
        pa.field("reason", pa.string()),
        pa.field("retry_policy", pa.string()),
        pa.field("blocking", pa.bool_(), nullable=False),
        pa.field("out_of_order", pa.bool_(), nullable=False),
        pa.field("cause_seq", pa.int64()),
        pa.field("actor", pa.string()),
        pa.field("occurred_at", TIMESTAMP),
        pa.field("received_at", TIMESTAMP),
        pa.field("decided_at", TIMESTAMP, nullable=False),
        pa.field("body_sha256", pa.string()),
        pa.field("content_sha256", pa.string()),
        pa.field("content_version", pa.int32()),
        pa.field("dedupe", pa.string()),
        pa.field("error_class", pa.string()),
        pa.field("error_code", pa.string()),
        pa.field("error_message", pa.string()),
        pa.field("error_stack", pa.string()),
        pa.field("error_kind", pa.string()),
        pa.field("log_lines", pa.string()),
        pa.field("handler_version", pa.string()),
        pa.field("postings", pa.string()),
        pa.field("headers", pa.string()),
        pa.field("row_hash", pa.string(), nullable=False),
    ]
)
HASHED_COLUMNS = tuple(name for name in JOURNAL_SCHEMA.names if name != "row_hash")


@dataclass(slots=True, kw_only=True)
class JournalRow:
    """One decision. Times are UTC; ``postings`` and ``headers`` are canonical JSON.

    ``item_seq`` is the seq of the first row of the same Kafka offset: the item's name. ``first`` marks
    that row. ``blocking`` says that the item holds back its entity while it is open. ``cause_seq`` is
    the row that caused this one: a command's row, or the first copy of a duplicate.
    """

    seq: int
    item_seq: int
    first: bool
    topic: str
    partition: int
    offset: int
    decision: Decision
    decided_at: datetime
    attempt: int = 0
    blocking: bool = False
    out_of_order: bool = False
    event_key: str | None = None
    fact_key: str | None = None
    fact_sha256: str | None = None
    entity_key: str | None = None
    provider: str | None = None
    account: str | None = None
    event_type: str | None = None
    mode: str | None = None
    due_at: datetime | None = None
    reason: str | None = None
    retry_policy: str | None = None
    cause_seq: int | None = None
    actor: str | None = None
    occurred_at: datetime | None = None
    received_at: datetime | None = None
    body_sha256: str | None = None
    content_sha256: str | None = None
    content_version: int | None = None
    dedupe: str | None = None
    error_class: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    error_stack: str | None = None
    error_kind: ErrorKind | None = None
    log_lines: str | None = None
    handler_version: str | None = None
    postings: str | None = None
    headers: str | None = None
    epoch: int = 0
    batch_seq: int = 0
    row_hash: str = ""


def row_hash(row: JournalRow) -> str:
    """Hex SHA-256 over every other column, in schema order, as text joined by U+001F.

    NULL is U+0000, booleans are ``true``/``false``, timestamps are microseconds since 1970: the same
    text that Spark's ``sha2(concat_ws(...), 256)`` sees, so that a whole journal is checked in the JVM.
    """
    return hashlib.sha256(
        "\x1f".join(_as_text(getattr(row, name)) for name in HASHED_COLUMNS).encode("utf-8")
    ).hexdigest()


def to_arrow(rows: Sequence[JournalRow]) -> pa.Table:
    """The rows as one table of `JOURNAL_SCHEMA`."""
    columns = {name: [getattr(row, name) for row in rows] for name in JOURNAL_SCHEMA.names}
    return pa.table(columns, schema=JOURNAL_SCHEMA)


def from_arrow(table: pa.Table | pa.RecordBatch) -> list[JournalRow]:
    """The inverse of `to_arrow`; columns that the table lacks get their defaults."""
    return [_from_dict(record) for record in table.to_pylist()]


_FIELDS = frozenset(field.name for field in fields(JournalRow))


def _from_dict(record: dict[str, Any]) -> JournalRow:
    known = {name: value for name, value in record.items() if name in _FIELDS}
    known["decision"] = Decision(known["decision"])
    if known.get("error_kind") is not None:
        known["error_kind"] = ErrorKind(known["error_kind"])
    return JournalRow(**known)


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
