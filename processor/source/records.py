"""Parses Kafka's records, and packs what was parsed for its way from the executors to the driver."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from core.errors import PayhookError
from core.event import OWN_TYPES, Mode, from_record, unquote_text
from core.record_keys import Header, Keys, check_record
from core.where import EVERYTHING, HeaderFilter
from core.work import WorkItem
from journal.schema import JournalRow
from processor.errors.classify import MESSAGE_CHARS_MAX, Failure, clean_text

MODE_CHARS_MAX = 16
"""By column, the record's header that has the same name encoded."""

RECORD_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("key", pa.binary()),
        ("at_ms", pa.int64()),
    ]
)

PACKED = "packed"
"""The one column of a batch that went through the map stage (`processor.source.map_stage`)."""

MARKERS = "markers of transactions"

HEADER_TEXT_MAX = 8_192
"""Headers kept with a row; a sender of more than that is not the receiver."""


class WrongMode(PayhookError):
    def __init__(self, event_key: str, mode: str, wanted: Mode) -> None:
        self.event_key = event_key
        self.mode = mode
        self.wanted = wanted
        super().__init__(
            f"{event_key} says that its mode is {mode[:MODE_CHARS_MAX]!r}, this stream decides {wanted} events. It "
            "wasn't published by a receiver of these settings: find out who writes to the topic"
        )


class ParsedRecord(NamedTuple):
    """A record as it is parsed: its body, why that is poison, and the columns of its first row.

    Between executors and driver it travels as a plain tuple, which is pickled in a third of the time.
    """

    body: bytes
    poison: str | None
    event_key: str
    entity_key: str
    fact_key: str | None
    fact_sha256: str | None
    provider: str
    account: str
    event_type: str
    mode: Mode
    tenant: str | None
    zone: str | None
    occurred_at: datetime | None
    received_at: datetime | None
    content_sha256: str
    content_version: int
    body_sha256: str
    original_sha256: str | None
    original_content_sha256: str | None
    dedupe: str | None
    actor: str | None
    headers: str


class EarlyAnswer(NamedTuple):
    handler_version: str
    postings: str | None
    ignored_because: str | None
    pair: str | None = None
    undoes: bool = False


class KafkaRecord(NamedTuple):
    """A record as it was read. ``named`` and ``early`` are set where the map stage has come by; value and headers are
    then in ``named``. ``until``: not an event, but offsets up to before it that hold none; ``why``: what they hold
    instead. ``refused``: why another program's record can't be named. ``at_ms``: when Kafka took it, since 1970.
    ``elsewhere``: the map stage has seen that it isn't the stream's."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    headers: list[Header]
    named: ParsedRecord | None = None
    early: EarlyAnswer | None = None
    until: int | None = None
    key: bytes | None = None
    at_ms: int | None = None
    refused: Failure | None = None
    why: str = MARKERS
    elsewhere: bool = False


def read_table(table: pa.Table) -> list[KafkaRecord]:
    """Reads rows of `RECORD_SCHEMA`, or of what the map stage packed, as records. Ticks (no topic) are left out."""
    if table.schema.names == [PACKED]:
        blobs = table.column(PACKED).to_pylist()
        return [_unpack_record(*row) for blob in blobs for row in pickle.loads(blob)]  # noqa: S301 - from our executors
    return [record for batch in table.combine_chunks().to_batches() for record in read_batch(batch)]


def drop_answers(table: pa.Table) -> pa.Table:
    if table.schema.names != [PACKED]:
        return table
    blobs = [pickle.loads(blob) for blob in table.column(PACKED).to_pylist()]  # noqa: S301 - from our executors
    kept = [pickle.dumps([(*row[:6], None, *row[7:]) for row in rows], protocol=5) for rows in blobs]
    return pa.table({PACKED: pa.array(kept, pa.binary())})


def read_batch(batch: pa.RecordBatch) -> list[KafkaRecord]:
    headers = list(_read_headers(batch.column("headers")))
    columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "value", "key", "at_ms")]
    return [
        KafkaRecord(topic, partition, offset, value, record_headers, key=key, at_ms=at_ms)
        for topic, partition, offset, value, key, at_ms, record_headers in zip(*columns, headers, strict=True)
        if topic is not None
    ]


ELSEWHERE = ()
"""In place of `ParsedRecord` in a packed record: it isn't the stream's."""


def pack_record(record: KafkaRecord, named: ParsedRecord | None, early: EarlyAnswer | None) -> tuple[object, ...]:
    if record.elsewhere:
        return record.topic, record.partition, record.offset, None, [], ELSEWHERE
    if named is None:
        return *record[:5], None, None, *record[7:]
    answer = None if early is None else tuple(early)
    return record.topic, record.partition, record.offset, None, [], tuple(named), answer


def _unpack_record(
    topic: str,
    partition: int,
    offset: int,
    value: bytes | None,
    headers: list[Header],
    named: tuple[Any, ...] | None = None,
    early: tuple[Any, ...] | None = None,
    *of_one_unnamed: Any,
) -> KafkaRecord:
    if named == ELSEWHERE:
        return KafkaRecord(topic, partition, offset, None, [], elsewhere=True)
    parsed = None if named is None else ParsedRecord._make(named)
    answer = None if early is None else EarlyAnswer._make(early)
    return KafkaRecord(topic, partition, offset, value, headers, parsed, answer, *of_one_unnamed)


def _read_headers(column: pa.Array) -> Iterator[list[Header]]:
    flat = column.flatten()
    pairs = list(zip(flat.field("key").to_pylist(), flat.field("value").to_pylist(), strict=True))
    at = 0
    for length in column.value_lengths().to_pylist():
        count = length or 0
        yield pairs[at : at + count]
        at += count


def parse_record(
    record: KafkaRecord, mode: Mode, keys: Keys | None = None, where: HeaderFilter = EVERYTHING
) -> ParsedRecord | None:
    """Parses what a record says of itself; returns None where it isn't the stream's.

    ``keys``: of those who may have made it; None: it isn't checked. A forged or unreadable record belongs to every
    stream.

    :raises Forged: none of them did
    :raises Unparseable, WrongMode: it isn't an event of this stream (`core.errors.Unparseable`)
    """
    read: Sequence[Header] = record.headers
    if keys is not None:
        read = check_record(keys, record.topic, record.partition, record.key, record.value, read)
    received = from_record(record.value, read)
    event, headers = received.event, received.headers
    if not where.is_match(event.mode, event.tenant, event.zone, event.provider):
        return None
    if event.mode != mode:
        raise WrongMode(event.event_key, event.mode, mode)
    is_own = event.event_type.startswith(OWN_TYPES)
    return ParsedRecord(
        event.body,
        event.poison,
        event.event_key,
        event.entity_key,
        event.fact_key,
        event.fact_sha256,
        event.provider,
        event.account,
        event.event_type,
        event.mode,
        event.tenant,
        event.zone,
        event.occurred_at,
        received.received_at,
        event.content_sha256,
        event.content_version,
        event.body_sha256,
        event.original_sha256,
        event.original_content_sha256,
        received.dedupe.value,
        (unquote_text(headers.get("actor", "")) or None) if is_own else None,
        format_headers(headers),
    )


def make_work_item(
    of: ParsedRecord | JournalRow, body: bytes, item_seq: int = 0, attempt: int = 0, **of_its_line: Any
) -> WorkItem:
    return WorkItem(
        item_seq,
        of.event_key or "",
        of.entity_key or "",
        of.provider or "",
        of.account or "",
        of.event_type or "",
        body,
        of.fact_key,
        attempt,
        tenant=of.tenant,
        fact_sha256=of.fact_sha256,
        received_at=of.received_at,
        occurred_at=of.occurred_at,
        **of_its_line,
    )


def format_headers(headers: dict[str, str]) -> str:
    if _is_plain(headers):
        return orjson.dumps(headers, option=orjson.OPT_SORT_KEYS).decode("ascii")
    kept: dict[str, str] = {}
    size = 0
    for name in sorted(headers):
        size += len(name) + len(headers[name]) + 6
        if size > HEADER_TEXT_MAX:
            break
        kept[name] = clean_text(headers[name], MESSAGE_CHARS_MAX)
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=True)


def _is_plain(headers: dict[str, str]) -> bool:
    texts, names = "".join(headers.values()), "".join(headers)
    size = len(texts) + len(names) + 6 * len(headers)
    if size > MESSAGE_CHARS_MAX or not (texts.isascii() and names.isascii()):
        return False
    return texts.isprintable() and names.isidentifier()
