"""The journal's columns, the row that the processor decides, its hash, and the chain over commits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import from_micros, from_rfc3339
from core.decision import Decision, ErrorKind
from core.event import ELSEWHERE_TYPE
from core.routing import is_foreign

TIMESTAMP = pa.timestamp("us", tz="UTC")

Int32: TypeAlias = int


@dataclass(slots=True, kw_only=True)
class JournalRow:
    """A decision; its fields are the journal's columns, in their order.

    Times are UTC; ``postings`` and ``headers`` are canonical JSON.

    ``item_seq`` is the seq of the first row of the same Kafka offset: the item's name. ``first`` marks that row.
    ``blocking`` says that the item holds back its entity while it is open. ``cause_seq`` is the row that caused this
    one: a command's row, or the first copy of a duplicate. ``history`` is the life of the topic's log that the offset
    belongs to (`journal.histories`); None: its first. ``offset_until`` is set where one row stands for all offsets from
    ``offset`` to before it. Those `is_elsewhere` stand for the ones among them that have no first row of their own.
    ``pair``: of a movement that its provider may undo, and of an undo, what both have in common (`pair_of`).
    """

    seq: int
    batch_seq: int = 0
    epoch: int = 0
    item_seq: int
    first: bool
    topic: str
    partition: Int32
    offset: int
    event_key: str | None = None
    fact_key: str | None = None
    fact_sha256: str | None = None
    entity_key: str | None = None
    provider: str | None = None
    account: str | None = None
    event_type: str | None = None
    mode: str | None = None
    tenant: str | None = None
    zone: str | None = None
    decision: Decision
    attempt: Int32 = 0
    due_at: datetime | None = None
    reason: str | None = None
    retry_policy: str | None = None
    blocking: bool = False
    out_of_order: bool = False
    cause_seq: int | None = None
    actor: str | None = None
    occurred_at: datetime | None = None
    received_at: datetime | None = None
    decided_at: datetime
    body_sha256: str | None = None
    original_sha256: str | None = None
    original_content_sha256: str | None = None
    content_sha256: str | None = None
    content_version: Int32 | None = None
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
    history: Int32 | None = None
    offset_until: int | None = None
    pair: str | None = None
    row_hash: str = ""


def is_elsewhere(row: JournalRow) -> bool:
    """Returns whether a row stands for offsets of a batch that aren't the stream's (`core.where`). ``headers`` say what
    it takes."""
    return row.event_type == ELSEWHERE_TYPE and row.offset_until is not None


_COLUMN_TYPES: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "Int32": pa.int32(),
    "datetime": TIMESTAMP,
    **dict.fromkeys(("str", "Decision", "ErrorKind"), pa.string()),
}


def _make_column(name: str, annotation: str) -> pa.Field:
    kind = annotation.removesuffix(" | None")
    return pa.field(name, _COLUMN_TYPES[kind], nullable=kind != annotation)


JOURNAL_SCHEMA = pa.schema([_make_column(column.name, str(column.type)) for column in fields(JournalRow)])
LATER_COLUMNS = (
    *("tenant", "zone", "original_sha256", "original_content_sha256"),
    *("history", "offset_until", "pair"),
)
"""Rarely have a value: each counts in a row's hash only where it has one, and with its name."""
HASHED_COLUMNS = tuple(name for name in JOURNAL_SCHEMA.names if name not in ("row_hash", *LATER_COLUMNS))


MOVES, UNDOES = "+", "-"


def pair_of(pair: str, *, undoes: bool) -> str:
    return (UNDOES if undoes else MOVES) + pair


def row_hashes(table: pa.Table) -> list[str]:
    """Hashes each row of a table of `JOURNAL_SCHEMA`: the hex SHA-256 over every other column as text joined by U+001F:
    `HASHED_COLUMNS`, then `LATER_COLUMNS`.

    NULL is U+0000, booleans are ``true``/``false``, timestamps are microseconds since 1970; a later column is
    ``name=value``, or left out. The same text that Spark's ``sha2(concat_ws(...), 256)`` sees, so that a whole
    journal is checked in the JVM.
    """
    texts = [_to_texts(table.column(name)) for name in HASHED_COLUMNS]
    joined = pc.binary_join_element_wise(*texts, "\x1f", null_handling="replace", null_replacement="\x00")
    later = [pc.binary_join_element_wise(f"{name}=", _to_texts(table.column(name)), "") for name in LATER_COLUMNS]
    joined = pc.binary_join_element_wise(joined, *later, "\x1f", null_handling="skip")
    return [hashlib.sha256(text).hexdigest() for text in joined.cast(pa.binary()).to_pylist()]


def to_arrow(rows: Sequence[JournalRow]) -> pa.Table:
    if not rows:
        return JOURNAL_SCHEMA.empty_table()
    columns = zip(*map(_values, rows), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, JOURNAL_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=JOURNAL_SCHEMA)


def stamp_rows(rows: Sequence[JournalRow], epoch: int, batch_seq: int) -> pa.Table:
    for row in rows:
        row.epoch, row.batch_seq = epoch, batch_seq
    table = to_arrow(rows)
    hashes = row_hashes(table)
    for row, digest in zip(rows, hashes, strict=True):
        row.row_hash = digest
    at = JOURNAL_SCHEMA.get_field_index("row_hash")
    return table.set_column(at, JOURNAL_SCHEMA.field(at), pa.array(hashes, pa.string()))


def from_arrow(table: pa.Table | pa.RecordBatch) -> list[JournalRow]:
    names = [name for name in table.schema.names if name in _FIELDS]
    columns = [_python_values(name, table.column(name)) for name in names]
    return [JournalRow(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


_FIELDS = frozenset(field.name for field in fields(JournalRow))
_DECISIONS = {decision.value: decision for decision in Decision}
_KINDS = {kind.value: kind for kind in ErrorKind}
_values: Callable[[JournalRow], tuple[Any, ...]] = attrgetter(*JOURNAL_SCHEMA.names)


def _to_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).cast(pa.string())


def _python_values(name: str, column: pa.ChunkedArray | pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        micros = column.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
        return [None if value is None else from_micros(value) for value in micros]
    values: list[Any] = column.to_pylist()
    if name == "decision":
        return [_DECISIONS[value] for value in values]
    if name == "error_kind":
        return [None if value is None else _KINDS[value] for value in values]
    return values


GENESIS = "0" * 64


def commit_digest(row_hashes: Iterable[str]) -> str:
    """Returns the hex SHA-256 over a commit's row hashes, joined in seq order."""
    return hashlib.sha256("".join(row_hashes).encode("ascii")).hexdigest()


def extend_chain(head: str, digest: str) -> str:
    return hashlib.sha256((head + digest).encode("ascii")).hexdigest()


class ChainHead:
    def __init__(self) -> None:
        self._head = GENESIS
        self._batch_seq: int | None = None
        self._digest = hashlib.sha256()

    def add(self, batch_seq: int, row_hash: str) -> None:
        if batch_seq != self._batch_seq:
            self._head = self.head
            self._batch_seq, self._digest = batch_seq, hashlib.sha256()
        self._digest.update(row_hash.encode("ascii"))

    @property
    def head(self) -> str:
        return self._head if self._batch_seq is None else extend_chain(self._head, self._digest.hexdigest())


Headers = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record as Kafka holds it. ``headers`` are pairs of name and raw value.

    ``body_known`` is False where only key and time are: of a row of another journal. ``at``: when it was written.
    """

    offset: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    body_known: bool = True
    at: datetime | None = None
    key: bytes | None = None


def record_sha256(row: JournalRow) -> str | None:
    """Returns the hash of the record's value: of the body that was kept, or of what couldn't be read. None: it is no
    row of a record."""
    return row.body_sha256 or row.original_sha256


def same_record(row: JournalRow, record: TopicRecord) -> bool:
    """Returns whether a first row was decided from this record: offset, body, and if the record says them key and time.

    A row without a body's hash was decided from a record that isn't an event; of it only the offset is known. What
    another program's record says under these names is no key and no time of ours.
    """
    if record.offset != row.offset:
        return False
    if record.body_known and record_sha256(row) not in (None, hashlib.sha256(record.value or b"").hexdigest()):
        return False
    if is_foreign(row.event_key):
        return True
    texts = {name: raw.decode("utf-8", "replace") for name, raw in record.headers if raw is not None}
    if row.event_key is not None and texts.get("event_key", row.event_key) != row.event_key:
        return False
    if row.received_at is None or "received_at" not in texts:
        return True
    try:
        return from_rfc3339(texts["received_at"]) == row.received_at
    except ValueError:
        return False
