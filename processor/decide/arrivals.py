"""Makes items of the offsets that aren't decided yet; none is missed or taken twice."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

from core.decision import Decision
from core.event import ELSEWHERE_TYPE, Mode, from_record
from core.keys import join_key
from core.record_keys import Keys
from core.routing import foreign_provider, is_sparse
from core.where import EVERYTHING, HeaderFilter
from journal.errors import StreamRefused
from journal.histories import FIRST, Histories, life_of
from journal.schema import JournalRow
from journal.state import Marks
from processor.decide.item import POISON_CLASS, REASON_CHARS_MAX, BatchItem
from processor.errors.classify import Failure, make_engine_failure, make_event_failure
from processor.rules import StreamRules
from processor.source.records import EarlyAnswer, KafkaRecord, ParsedRecord, WrongMode, format_headers, parse_record

_location = itemgetter(0, 1, 2)


class OffsetHole(StreamRefused):
    def __init__(self, topic: str, partition: int, wanted: int, got: int) -> None:
        self.topic = topic
        self.partition = partition
        self.wanted = wanted
        self.got = got
        super().__init__(
            f"{topic}[{partition}]: offset {wanted} is next, Kafka gave {got}. Nothing was decided. If transactions "
            "write to the topic, name it in kafka.transactional; else see `payhook recover`."
        )


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
    return before[:2] == record[:2] and before.until == record.offset and before.why == record.why


@dataclass(slots=True)
class Arrivals:
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
    return BatchItem(row, b"")


def _make_elsewhere_item(row: JournalRow, where: HeaderFilter) -> BatchItem:
    row.decision, row.event_type, row.offset_until = Decision.IGNORED, ELSEWHERE_TYPE, row.offset + 1
    row.reason, row.headers = f"not this stream's, which takes {where}"[:REASON_CHARS_MAX], where.text
    return BatchItem(row, b"")


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
    row.entity_key = _make_offset_key(record, history)
    row.original_sha256 = hashlib.sha256(record.value or b"").hexdigest()
    return BatchItem(row, record.value or b"", refused=failure)


def _fill_row(row: JournalRow, named: ParsedRecord, early: EarlyAnswer | None) -> BatchItem:
    # fmt: off
    (body, poison, row.event_key, row.entity_key, row.fact_key, row.fact_sha256, row.provider, row.account,
     row.event_type, row.mode, row.tenant, row.zone, row.occurred_at, row.received_at, row.content_sha256,
     row.content_version, row.body_sha256, row.original_sha256, row.original_content_sha256, row.dedupe, row.actor,
     row.headers) = named
    # fmt: on
    refused = None if poison is None else make_engine_failure(POISON_CLASS, poison)
    return BatchItem(row, body, refused=refused, early=early)


def _make_wrong_mode_item(row: JournalRow, record: KafkaRecord, wrong: WrongMode) -> BatchItem:
    received = from_record(record.value, record.headers)
    event = received.event
    row.entity_key, row.provider = _make_offset_key(record, row.history), event.provider
    row.received_at = received.received_at
    row.body_sha256, row.original_sha256 = event.body_sha256, event.original_sha256
    row.headers = format_headers(received.headers)
    return BatchItem(row, event.body, refused=make_event_failure(wrong))


def _make_offset_key(record: KafkaRecord, history: int | None) -> str:
    return join_key("kafka", life_of(record.topic, history or FIRST), str(record.partition), str(record.offset))
