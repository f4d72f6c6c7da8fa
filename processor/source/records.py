"""Reads Kafka's records as items; no offset is missed or taken twice."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa

from core.decision import Decision
from core.errors import PayhookError
from core.event import ELSEWHERE_TYPE, OWN_TYPES, Mode, from_record, unquote_text
from core.keys import decode_name, join_key
from core.record_keys import Header, Keys, check_record
from core.routing import foreign_provider, is_foreign, is_sparse
from core.where import EVERYTHING, HeaderFilter
from core.work import WorkItem
from journal.errors import StreamRefused
from journal.histories import FIRST, Histories, life_of
from journal.schema import JournalRow
from journal.state import Marks
from processor.decide.item import REASON_CHARS_MAX, BatchItem, EarlyAnswer
from processor.errors.classify import MESSAGE_CHARS_MAX, Failure, clean_text, make_event_failure
from processor.rules import StreamRules

MODE_CHARS_MAX = 16
_NAME_HEADERS = {"account": "account", "event_type": "ce_type"}
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
"""What is read of Kafka."""

PACKED = "packed"
"""The one column of a batch that went through the map stage (`processor.source.map_stage`)."""

_location = itemgetter(0, 1, 2)
"""A record's topic, partition and offset."""

MARKERS = "markers of transactions"

HEADER_TEXT_MAX = 8_192
"""Headers kept with a row; a sender of more than that is not the receiver."""


class OffsetHole(StreamRefused):
    """Kafka handed over an offset beyond the next one: something was lost or deleted in between."""

    def __init__(self, topic: str, partition: int, wanted: int, got: int) -> None:
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.got = got
        super().__init__(
            f"{topic}[{partition}]: offset {wanted} is next, Kafka gave {got}. Nothing was decided. If transactions "
            "write to the topic, name it in kafka.transactional; else see `payhook recover`."
        )


class WrongMode(PayhookError):
    """A live record on a topic of test traffic, or the other way round: no ledger may hold both."""

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
    """Packs a record for its way to the driver. One that wasn't named goes as it came, one that is elsewhere as its
    offset."""
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


def take_undecided(
    records: Iterable[KafkaRecord], marks: Marks, transactional: Collection[str] = ()
) -> tuple[list[KafkaRecord], Marks]:
    """Selects the records not decided yet, in offset order, and returns them with the marks after them.

    The offsets of another stream's journal are seqs: there, gaps are what it didn't apply. In ``transactional`` topics
    they are a transaction's markers, and stand among the records (`KafkaRecord.until`). Neighbours that are no events
    for the same reason become one.

    :raises OffsetHole: an offset is missing between a mark and a record, or between two records
    """
    until = {topic: dict(partitions) for topic, partitions in marks.items()}
    taken: list[KafkaRecord] = []
    for record in sorted(records, key=_location):
        partitions = until.setdefault(record.topic, {})
        next_offset = partitions.get(record.partition, 0)
        if record.offset < next_offset:
            continue
        if record.offset > next_offset and record.topic in transactional:
            taken.append(KafkaRecord(record.topic, record.partition, next_offset, None, [], until=record.offset))
        elif record.offset > next_offset and not is_sparse(record.topic):
            raise OffsetHole(record.topic, record.partition, next_offset, record.offset)
        partitions[record.partition] = record.offset + 1 if record.until is None else record.until
        if record.until is not None and taken and _may_merge(taken[-1], record):
            taken[-1] = taken[-1]._replace(until=record.until)
        else:
            taken.append(record)
    return taken, until


def _may_merge(before: KafkaRecord, record: KafkaRecord) -> bool:
    """Whether one row stands for both records: no events, one behind the other, for the same reason."""
    return before[:2] == record[:2] and before.until == record.offset and before.why == record.why


@dataclass(slots=True)
class Arrivals:
    """A batch's new offsets: events, ``passed`` ones that hold none or aren't the stream's, and commands, each with its
    provisional seq."""

    events: list[BatchItem] = field(default_factory=list)
    passed: list[BatchItem] = field(default_factory=list)
    commands: list[tuple[KafkaRecord, int]] = field(default_factory=list)


def number_records(
    records: Sequence[KafkaRecord], next_seq: int, now: datetime, rules: StreamRules, histories: Histories
) -> Arrivals:
    """Numbers every offset in Kafka's order; a number is provisional until all rows are known.

    Offsets of a partition that aren't the stream's get one number together.
    """
    arrivals = Arrivals()
    keys = rules.event_keys
    lives = {topic: history.of_row() for topic, history in histories.items()}
    elsewhere: dict[tuple[str, int], JournalRow] = {}
    seq = next_seq
    for record in records:
        life, place = lives.get(record.topic), (record.topic, record.partition)
        if record.until is not None:
            arrivals.passed.append(_make_passed_item(record, seq, now, life))
        elif record.topic == rules.control_topic:
            arrivals.commands.append((record, seq))
        elif (item := make_item(record, seq, now, rules.mode, life, keys, rules.where)).row.offset_until is None:
            arrivals.events.append(item)
        elif place in elsewhere:
            elsewhere[place].offset_until = item.row.offset_until
            continue
        else:
            elsewhere[place] = item.row
            arrivals.passed.append(item)
        seq += 1
    return arrivals


def _make_passed_item(record: KafkaRecord, seq: int, now: datetime, history: int | None) -> BatchItem:
    row = make_first_row(record, seq, now, history)
    row.decision, row.offset_until, row.reason = Decision.IGNORED, record.until, record.why
    return BatchItem(row, b"", new=True)


def _make_elsewhere_item(row: JournalRow, where: HeaderFilter) -> BatchItem:
    row.decision, row.event_type, row.offset_until = Decision.IGNORED, ELSEWHERE_TYPE, row.offset + 1
    row.reason, row.headers = f"not this stream's, which takes {where}"[:REASON_CHARS_MAX], where.text
    return BatchItem(row, b"", new=True)


def make_first_row(record: KafkaRecord, seq: int, now: datetime, history: int | None) -> JournalRow:
    return JournalRow(
        seq=seq,
        item_seq=seq,
        first=True,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        history=history,
        decision=Decision.PARKED,
        decided_at=now,
    )


def make_item(
    record: KafkaRecord,
    seq: int,
    now: datetime,
    mode: Mode,
    history: int | None = None,
    keys: Keys | None = None,
    where: HeaderFilter = EVERYTHING,
) -> BatchItem:
    """Makes a record an item with its identities. One that is refused is named by its offset and holds no key.

    One that isn't the stream's has an ``offset_until``.
    """
    row = make_first_row(record, seq, now, history)
    if record.elsewhere:
        return _make_elsewhere_item(row, where)
    if record.refused is not None:
        row.provider = foreign_provider(record.topic)
        return _make_refused_item(row, record, history, record.refused)
    try:
        parsed = record.named or parse_record(record, mode, keys, where)
        if parsed is None:
            return _make_elsewhere_item(row, where)
    except WrongMode as wrong:
        return _make_wrong_mode_item(row, record, wrong)
    except Exception as unreadable:
        return _make_refused_item(row, record, history, make_event_failure(unreadable))
    return _fill_row(row, parsed, record.early)


def _make_refused_item(row: JournalRow, record: KafkaRecord, history: int | None, failure: Failure) -> BatchItem:
    """Makes a record that can't be named a dead item: its place and the hash of its value are all that is kept."""
    row.entity_key = _make_offset_key(record, history)
    row.original_sha256 = hashlib.sha256(record.value or b"").hexdigest()
    return BatchItem(row, record.value or b"", new=True, refused=failure)


def parse_record(
    record: KafkaRecord, mode: Mode, keys: Keys | None = None, where: HeaderFilter = EVERYTHING
) -> ParsedRecord | None:
    """Parses what a record says of itself; returns None where it isn't the stream's.

    ``keys``: of those who may have made it; None: it isn't checked. What can't be believed or read is every stream's.

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


def _fill_row(row: JournalRow, named: ParsedRecord, early: EarlyAnswer | None) -> BatchItem:
    # fmt: off
    (body, poison, row.event_key, row.entity_key, row.fact_key, row.fact_sha256, row.provider, row.account,
     row.event_type, row.mode, row.tenant, row.zone, row.occurred_at, row.received_at, row.content_sha256,
     row.content_version, row.body_sha256, row.original_sha256, row.original_content_sha256, row.dedupe, row.actor,
     row.headers) = named
    # fmt: on
    return BatchItem(row, body, new=True, poison=poison, early=early)


def get_raw_name(of: ParsedRecord | JournalRow, column: Literal["account", "event_type"]) -> str:
    """Returns the account or the type as the provider writes it.

    Until 0.1.0 a row held both as its record's header has them, percent-encoded; later rows of such an item do, too. A
    raw name with a ``%`` is never its own encoding. Another program's headers mean nothing of that.
    """
    name = getattr(of, column) or ""
    if "%" not in name or of.headers is None or is_foreign(of.provider):
        return name
    return decode_name(name) if orjson.loads(of.headers).get(_NAME_HEADERS[column]) == name else name


def make_work_item(
    of: ParsedRecord | JournalRow, body: bytes, item_seq: int = 0, attempt: int = 0, **of_its_line: Any
) -> WorkItem:
    return WorkItem(
        item_seq,
        of.event_key or "",
        of.entity_key or "",
        of.provider or "",
        get_raw_name(of, "account"),
        get_raw_name(of, "event_type"),
        body,
        of.fact_key,
        attempt,
        tenant=of.tenant,
        fact_sha256=of.fact_sha256,
        received_at=of.received_at,
        occurred_at=of.occurred_at,
        **of_its_line,
    )


def _make_wrong_mode_item(row: JournalRow, record: KafkaRecord, wrong: WrongMode) -> BatchItem:
    received = from_record(record.value, record.headers)
    event = received.event
    row.entity_key, row.provider = _make_offset_key(record, row.history), event.provider
    row.received_at = received.received_at
    row.body_sha256, row.original_sha256 = event.body_sha256, event.original_sha256
    row.headers = format_headers(received.headers)
    return BatchItem(row, event.body, new=True, refused=make_event_failure(wrong))


def _make_offset_key(record: KafkaRecord, history: int | None) -> str:
    return join_key("kafka", life_of(record.topic, history or FIRST), str(record.partition), str(record.offset))


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
    """Whether nothing has to be cut, cleaned or escaped beyond what every JSON writer does alike."""
    texts, names = "".join(headers.values()), "".join(headers)
    size = len(texts) + len(names) + 6 * len(headers)
    if size > MESSAGE_CHARS_MAX or not (texts.isascii() and names.isascii()):
        return False
    return texts.isprintable() and names.isidentifier()
