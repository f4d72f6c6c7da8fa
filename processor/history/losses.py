"""Finds where the journal and the source part. A person accepts what was lost, and the next histories begin there."""

from __future__ import annotations

import bisect
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.clock import to_rfc3339
from core.decision import Decision
from core.errors import PayhookError
from core.location import Location
from core.routing import mode_of
from journal.anchors import ANCHORED_NOTE
from journal.histories import NOWHERE, History
from journal.kafka_log import Held, TopicLog
from journal.reader import JournalReader
from journal.schema import JournalRow, same_record
from journal.state import JournalState
from journal.writer import JournalWriter, LossDecision
from processor.history.check import (
    LOOKED_NOTE,
    Disagreement,
    DisagreementKind,
    find_holes,
    find_other_records,
    find_other_topics,
    find_out_of_range,
    read_last_rows,
    read_recent_rows,
)

SPREAD = 200
"""Offsets of each partition that are compared besides the newest ones."""

Seqs = Mapping[int, int]
"""The seq of an offset's first row."""

ACCEPTED_NOTE = "accepted"

REASON_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class Parting:
    """A partition whose journal and source part.

    ``until`` is the journal's next offset; Kafka holds ``low`` to before ``high``. The next history begins at
    ``begins``.
    """

    topic: str
    partition: int
    until: int
    low: int
    high: int
    begins: int

    @property
    def decided_beyond(self) -> int:
        """Counts offsets that the journal decided and Kafka holds with other records, or no more: they stay decided."""
        return max(0, self.until - max(self.begins, self.low))

    @property
    def to_decide(self) -> int:
        return max(0, self.high - self.begins)

    @property
    def lost_range(self) -> tuple[int, int] | None:
        """Returns the offsets that were never decided and that Kafka doesn't hold any more: from, to before."""
        return (self.until, self.begins) if self.begins > self.until else None


@dataclass(frozen=True, slots=True)
class Parted:
    topic: str
    topic_id: str
    partings: tuple[Parting, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    stream: str
    seq: int
    epoch: int
    disagreements: tuple[Disagreement, ...] = ()
    parted: tuple[Parted, ...] = field(default=())


def find_losses(
    stream: str,
    state: JournalState,
    reader: JournalReader,
    log: TopicLog,
    topics: Collection[str],
    transactional: Collection[str] = (),
) -> Findings:
    """Compares more than a start does, and finds for each partition where the histories part.

    :raises TopicMissing, KafkaSilent: Kafka doesn't answer
    """
    known = [topic for topic in topics if topic in state.marks]
    held, ids = log.read_held_offsets(known), log.topic_ids(known)
    disagreements = [*find_other_topics(state, ids), *find_out_of_range(state, held, known)]
    disagreements += find_holes(state, log, held, known, transactional)
    newest = [*read_last_rows(state, reader, known), *read_recent_rows(state, reader, known)]
    parted = []
    for topic in known:
        seqs = _read_seqs(state, reader, topic)
        rows = [row for row in newest if row.topic == topic] + _sample_rows(seqs, reader)
        disagreements += find_other_records(rows, log, held)
        of_topic = [disagreement for disagreement in disagreements if disagreement.topic == topic]
        if of_topic:
            parted.append(_make_parted(state, reader, log, held, topic, ids.get(topic, ""), seqs, of_topic))
    return Findings(stream, state.next_seq - 1, state.epoch, tuple(dict.fromkeys(disagreements)), tuple(parted))


def _make_parted(
    state: JournalState,
    reader: JournalReader,
    log: TopicLog,
    held: Held,
    topic: str,
    topic_id: str,
    seqs: Mapping[int, Seqs],
    disagreements: Sequence[Disagreement],
) -> Parted:
    partings = []
    for number in sorted({*state.marks[topic], *held[topic]}):
        until = state.marks[topic].get(number, 0)
        low, high = held[topic].get(number, (0, 0))
        of_partition = [disagreement for disagreement in disagreements if disagreement.partition in (number, -1)]
        begins = _find_begin(of_partition, log, reader, seqs.get(number, {}), (topic, number, until, low, high))
        partings.append(Parting(topic, number, until, low, high, begins))
    return Parted(topic, topic_id, tuple(partings))


def _find_begin(
    disagreements: Sequence[Disagreement],
    log: TopicLog,
    reader: JournalReader,
    seqs: Seqs,
    place: tuple[str, int, int, int, int],
) -> int:
    """Finds the first offset that Kafka holds with another record than the journal decided: the next history begins
    there.
    """
    topic, number, until, low, high = place
    if not disagreements:
        return until
    if until < low:
        return low
    if all(disagreement.kind is DisagreementKind.HOLE for disagreement in disagreements):
        return disagreements[0].low
    compared = sorted(offset for offset in seqs if low <= offset < min(until, high))
    if not compared:
        return min(low, high)

    def agrees(offset: int) -> bool:
        [row] = reader.rows_of([seqs[offset]])
        record = log.records_at([(topic, number, offset)]).get((topic, number, offset))
        return record is not None and same_record(row, record)

    wrong = min(
        (disagreement.offset for disagreement in disagreements if disagreement.kind is DisagreementKind.OTHER_RECORD),
        default=None,
    )
    upto = compared if wrong is None else [offset for offset in compared if offset <= wrong]
    parts_at = bisect.bisect_left(upto, True, key=lambda offset: not agrees(offset))
    if parts_at < len(upto):
        return upto[parts_at] if parts_at else low
    return min(until, high)


def _read_seqs(state: JournalState, reader: JournalReader, topic: str) -> dict[int, Seqs]:
    history, names = state.history(topic), ("partition", "offset", "seq")
    begins = state.start.get(topic, {})
    by_partition: dict[int, dict[int, int]] = {}
    for number, start in ((history.number, begins), *_list_earlier(history, begins)):
        table = reader.offsets_of(topic, number)
        for partition, offset, seq in zip(*(table[name].to_pylist() for name in names), strict=True):
            if partition in start or number == history.number:
                by_partition.setdefault(partition, {})[offset] = seq
    return dict(by_partition)


def _list_earlier(history: History, begins: Mapping[int, int]) -> Iterator[tuple[int, Mapping[int, int]]]:
    for ended in reversed(history.ended):
        begins = {n: ended.start.get(n, 0) for n, offset in begins.items() if ended.end.get(n) == offset}
        if begins:
            yield ended.number, begins


def _sample_rows(seqs: Mapping[int, Seqs], reader: JournalReader) -> list[JournalRow]:
    sample = []
    for of_partition in seqs.values():
        every = max(1, len(of_partition) // SPREAD)
        sample += sorted(of_partition.values())[::every]
    return [row for at in range(0, len(sample), SPREAD) for row in reader.rows_of(sorted(sample[at : at + SPREAD]))]


class MovedOn(PayhookError):
    def __init__(self, stream: str, seq: int, now: int) -> None:
        self.stream = stream
        self.seq = seq
        self.now = now
        what = (
            "a processor was started, or a command changed the journal, after it was looked at"
            if now == seq
            else f"row {seq} was the last one when it was looked at, it is {now} now"
        )
        super().__init__(f"stream {stream}: {what}; look again")


@dataclass(frozen=True, slots=True)
class LostEvent:
    """An event that a provider was answered 2xx for, of which there is neither a decision nor a record."""

    event_key: str
    provider: str | None
    received_at: datetime | None
    content_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    actor: str
    reason: str
    at: datetime


def accept_losses(
    journal: Location,
    findings: Findings,
    events: Sequence[LostEvent],
    anchored: int,
    acceptance: Acceptance,
    *,
    generation: int = 0,
    is_older: bool = False,
) -> JournalState:
    """Writes the loss and begins the next histories, in one commit; the writer before is fenced off.

    :param anchored: the last seq of which an anchor is on Kafka now
    :param generation: the highest of all journals' claims: a higher one voids them
    :param is_older: what was derived from the journal knows later rows; a new lineage begins before that commit
    :raises MovedOn: the journal isn't as it was when it was looked at
    :raises Fenced, StorageDown, CommitUnknown: as `JournalWriter`
    """
    before = JournalReader(str(journal)).state()
    _check_same(findings, before.next_seq - 1, before.epoch)
    writer = JournalWriter.create_or_open(str(journal), findings.stream)
    state = (
        writer.renew_lineage(acceptance.at, acceptance.reason, publish_again=True)
        if is_older
        else writer.begin_epoch({})
    )
    _check_same(findings, state.next_seq - 1, state.epoch - 1)
    return writer.commit_loss_decision(
        _make_decision(state, findings, events, anchored, acceptance, max(generation, before.generation) + 1)
    )


def _check_same(findings: Findings, seq: int, epoch: int) -> None:
    if (seq, epoch) != (findings.seq, findings.epoch):
        raise MovedOn(findings.stream, findings.seq, seq)


def _make_decision(
    state: JournalState,
    findings: Findings,
    events: Sequence[LostEvent],
    anchored: int,
    acceptance: Acceptance,
    generation: int,
) -> LossDecision:
    rows = [*_make_range_rows(state, findings, acceptance), *_make_event_rows(findings, events, acceptance)]
    for seq, row in enumerate(rows, state.next_seq):
        row.seq = row.item_seq = seq
    marks, start, histories = dict(state.marks), dict(state.start), dict(state.histories)
    for parted in findings.parted:
        topic, begins = parted.topic, {parting.partition: parting.begins for parting in parted.partings}
        marks[topic] = start[topic] = begins
        histories[topic] = _make_next_history(state, parted)
    decided = {
        "actor": acceptance.actor,
        "reason": acceptance.reason[:REASON_CHARS_MAX],
        "at": to_rfc3339(acceptance.at),
    }
    given_up = {"anchors": [anchored, remembered]} if (remembered := _read_anchored_seq(state)) > anchored else {}
    notes = {
        ACCEPTED_NOTE: json.dumps({**decided, **given_up, "rows": len(rows)}),
        LOOKED_NOTE: str(state.next_seq - 1 + len(rows)),
        ANCHORED_NOTE: str(min(anchored, remembered)),
    }
    return LossDecision(rows, marks, start, histories, generation, notes)


def _make_next_history(state: JournalState, parted: Parted) -> History:
    topic = parted.topic
    start = state.start.get(topic, {})
    ends = {
        parting.partition: parting.lost_range[1] if parting.lost_range else parting.until for parting in parted.partings
    }
    known = {number: start.get(number, ends[number] if number not in state.marks[topic] else 0) for number in ends}
    return state.history(topic).begin_next(parted.topic_id, known, ends)


def _make_range_rows(state: JournalState, findings: Findings, acceptance: Acceptance) -> Iterator[JournalRow]:
    for parted in findings.parted:
        for parting in parted.partings:
            if parting.lost_range is not None:
                yield _make_lost_row(
                    acceptance,
                    topic=parting.topic,
                    partition=parting.partition,
                    offset=parting.lost_range[0],
                    offset_until=parting.lost_range[1],
                    first=True,
                    history=state.history(parting.topic).of_row(),
                )


def _make_event_rows(findings: Findings, events: Sequence[LostEvent], acceptance: Acceptance) -> Iterator[JournalRow]:
    topic = findings.parted[0].topic if findings.parted else ""
    for event in events:
        yield _make_lost_row(
            acceptance,
            topic=topic,
            partition=NOWHERE,
            offset=NOWHERE,
            first=False,
            event_key=event.event_key,
            provider=event.provider,
            received_at=event.received_at,
            content_sha256=event.content_sha256,
            mode=mode_of(findings.stream),
        )


def _make_lost_row(acceptance: Acceptance, **of_it: object) -> JournalRow:
    same: dict[str, object] = {"actor": acceptance.actor, "reason": acceptance.reason, "decided_at": acceptance.at}
    return JournalRow(seq=0, item_seq=0, decision=Decision.LOST, **same, **of_it)  # type: ignore[arg-type]


def _read_anchored_seq(state: JournalState) -> int:
    return int(state.notes.get(ANCHORED_NOTE, 0))
