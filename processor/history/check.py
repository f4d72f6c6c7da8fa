"""Checks that the source still holds what the journal decided, before an epoch begins and every ten seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from core.routing import is_sparse
from journal.errors import StreamRefused
from journal.kafka_log import Held, TopicLog
from journal.reader import JournalReader
from journal.schema import JournalRow, same_record
from journal.state import JournalState, Marks

SHOWN_MAX = 3
LOOKED_NOTE = "looked"
"""The journal's note of the last seq up to which rows were compared with Kafka's records while it ran."""

RECENT_ROWS_MAX = 20_000
"""Rows since the last look that a start compares; a look is every ten seconds, a drain decides 100,000 meanwhile."""

_COLUMNS = ["seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"]
_COLUMNS += ["batch_seq", "event_key", "body_sha256", "original_sha256", "received_at", "history", "offset_until"]

log = logging.getLogger(__name__)

TICK_S = 1.0
"""A broker that is ended and started on another folder is away for longer: at least one tick falls into that time, and
takes note of the last row that was decided from the old log."""

LOOK_TICKS = 10
KEPT_TICKS_MAX = 60
"""While Kafka doesn't answer; of more than that the oldest are kept."""

Lasts: TypeAlias = Mapping[tuple[str, int], JournalRow]
"""The row that decided the last offset of each topic's partition."""


class DisagreementKind(StrEnum):
    OTHER_TOPIC = "other_topic"
    ENDS_BEFORE = "ends_before"
    REMOVED = "removed"
    HOLE = "hole"
    OTHER_RECORD = "other_record"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """``offset`` is the next one of the journal, or the one whose record differs. ``partition`` -1: the whole topic."""

    kind: DisagreementKind
    topic: str
    partition: int
    offset: int = 0
    low: int = 0
    high: int = 0
    seq: int = 0

    def to_sentence(self) -> str:
        place = f"{self.topic}[{self.partition}]"
        source = "the journal" if is_sparse(self.topic) else "Kafka"
        if self.kind is DisagreementKind.OTHER_TOPIC:
            return f"{self.topic} isn't the topic that was read before: it was created again, or this is another Kafka"
        if self.kind is DisagreementKind.ENDS_BEFORE:
            return f"{place}: offset {self.offset} is next, {source} ends before {self.high}"
        if self.kind in (DisagreementKind.REMOVED, DisagreementKind.HOLE):
            return f"{place}: offset {self.offset} is next, {source}'s next record is {self.low}"
        return f"{place}: offset {self.offset} holds another record than the one that row {self.seq} decided"


class HistoryRefused(StreamRefused):
    def __init__(self, stream: str, found: Sequence[Disagreement]) -> None:
        self.stream = stream
        self.found = tuple(found)
        shown = "; ".join(disagreement.to_sentence() for disagreement in found[:SHOWN_MAX])
        more = f"; and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        super().__init__(
            f"stream {stream}: {shown}{more}. The stream has stopped and needs an operator: put the newest data back, "
            "or run `payhook recover`. Webhooks are still accepted."
        )


def check_history(
    stream: str,
    state: JournalState,
    reader: JournalReader,
    log: TopicLog,
    topics: Collection[str],
    transactional: Collection[str] = (),
) -> None:
    """Compares what the journal decided last with what Kafka holds; ``reader`` stands at the state's version.

    Of ``transactional`` topics offsets may be missing: those of a transaction's markers.

    :raises HistoryRefused: they disagree
    :raises TopicMissing, KafkaSilent: Kafka doesn't answer
    """
    known = [topic for topic in topics if topic in state.marks]
    if not known:
        return
    held = log.read_held_offsets(known)
    disagreements = [*find_other_topics(state, log.topic_ids(known)), *find_out_of_range(state, held, known)]
    if not disagreements:
        rows = [*read_last_rows(state, reader, known), *read_recent_rows(state, reader, known)]
        disagreements = list(find_other_records(rows, log, held))
        disagreements += find_holes(state, log, held, known, transactional)
    if disagreements:
        raise HistoryRefused(stream, disagreements)


PARTITIONS_NOTE = "partitions"
"""The journal's note of the number of partitions among which entities were divided."""


class PartitionsChanged(StreamRefused):
    def __init__(self, stream: str, decided_by: int, configured: int, undecided: int) -> None:
        self.stream = stream
        self.decided_by = decided_by
        self.configured = configured
        self.undecided = undecided
        super().__init__(
            f"stream {stream}: kafka.events_partitions is {configured}, and {undecided} records are undecided that "
            f"were published by {decided_by}. They are decided first, or an entity's events would change their order: "
            f"set {decided_by} again, wait until `payhook status` shows no lag, then change it"
        )


def read_decided_partitions(state: JournalState) -> int | None:
    return int(state.notes[PARTITIONS_NOTE]) if PARTITIONS_NOTE in state.notes else None


def check_partitions(stream: str, state: JournalState, log: TopicLog, topic: str, configured: int) -> None:
    """
    :raises PartitionsChanged: entities would move to other partitions while some of their records are undecided
    :raises TopicMissing, KafkaSilent: Kafka doesn't answer
    """
    before = read_decided_partitions(state)
    if before is None or before == configured or topic not in state.marks:
        return
    ends = log.read_held_offsets([topic])[topic]
    undecided = sum(max(0, high - state.marks[topic].get(number, 0)) for number, (_, high) in ends.items())
    if undecided:
        raise PartitionsChanged(stream, before, configured, undecided)


def find_other_topics(state: JournalState, ids: Mapping[str, str]) -> Iterator[Disagreement]:
    for topic, topic_id in ids.items():
        if state.history(topic).topic_id not in ("", topic_id):
            yield Disagreement(DisagreementKind.OTHER_TOPIC, topic, -1)


def find_out_of_range(state: JournalState, held: Held, topics: Iterable[str]) -> Iterator[Disagreement]:
    """Finds marks that Kafka can't serve. A partition that came later begins at 0."""
    for topic in topics:
        for number in sorted({*state.marks[topic], *held[topic]}):
            until = state.marks[topic].get(number, 0)
            low, high = held[topic].get(number, (0, 0))
            if until > high:
                yield Disagreement(DisagreementKind.ENDS_BEFORE, topic, number, until, low, high)
            elif until < low:
                yield Disagreement(DisagreementKind.REMOVED, topic, number, until, low, high)


def find_other_records(rows: Iterable[JournalRow], log: TopicLog, held: Held) -> Iterator[Disagreement]:
    """Finds first rows whose offset Kafka holds with another record, or without one. Offsets that Kafka has deleted
    aren't compared.
    """
    compared = {(row.topic, row.partition, row.offset): row for row in rows if _is_held(row, held)}
    records = log.records_at(compared)
    for (topic, partition, offset), row in sorted(compared.items()):
        record = records.get((topic, partition, offset))
        if record is None or not same_record(row, record):
            yield Disagreement(DisagreementKind.OTHER_RECORD, topic, partition, offset, seq=row.seq)


def find_holes(
    state: JournalState, log: TopicLog, held: Held, topics: Iterable[str], transactional: Collection[str]
) -> Iterator[Disagreement]:
    """Finds marks at which Kafka has no record, but has later ones; not in topics that may have gaps."""
    gapless = [topic for topic in topics if topic not in transactional]
    nexts = {(topic, number, until) for topic in gapless for number, until in state.marks[topic].items()}
    for (topic, number, until), offset in sorted(log.next_offsets(nexts).items()):
        if offset > until:
            yield Disagreement(DisagreementKind.HOLE, topic, number, until, offset, held[topic][number][1])


def read_last_rows(state: JournalState, reader: JournalReader, topics: Collection[str]) -> list[JournalRow]:
    seqs = {seq for topic in topics for seq in state.lasts.get(topic, {}).values()}
    unknown = {
        (topic, number): until - 1
        for topic in topics
        for number, until in state.marks[topic].items()
        if until > state.start.get(topic, {}).get(number, until) and number not in state.lasts.get(topic, {})
    }
    seqs.update(reader.seqs_of_offsets(unknown))
    return [row for seq in sorted(seqs) for row in reader.rows_of([seq])]


def read_recent_rows(state: JournalState, reader: JournalReader, topics: Collection[str]) -> list[JournalRow]:
    """Reads first rows since the last look of the process before: Kafka's log may have been replaced since then."""
    if LOOKED_NOTE not in state.notes:
        return []
    since = max(int(state.notes[LOOKED_NOTE]), state.next_seq - 1 - RECENT_ROWS_MAX)
    numbers = {topic: state.history(topic).of_row() for topic in topics}
    ends: dict[tuple[str, int, int], JournalRow] = {}
    for rows in reader.rows_after(since, _COLUMNS):
        for row in rows:
            if row.first and row.topic in numbers and row.history == numbers[row.topic]:
                ends[row.topic, row.partition, row.batch_seq] = row
    return list(ends.values())


def _is_held(row: JournalRow, held: Held) -> bool:
    low, high = held.get(row.topic, {}).get(row.partition, (0, 0))
    return row.offset_until is None and low <= row.offset < high


def find_start_marks(state: JournalState | None, held: Held) -> Marks:
    """Finds where partitions begin that the journal doesn't know.

    Those of a new topic begin at the first offset that Kafka holds. A new partition of a known topic begins at 0, so
    that what Kafka has already deleted of it counts as lost.
    """
    known = {} if state is None else state.marks
    return {
        topic: {number: 0 if topic in known else low for number, (low, _) in ends.items()}
        for topic, ends in held.items()
    }


@dataclass(frozen=True, slots=True)
class DecidedPosition:
    seq: int
    state: JournalState
    lasts: Lasts


class HistoryWatch:
    """Compares every ten seconds, on a thread of its own, what was decided with what the source holds.

    ``refusal`` is set once they disagree; `close` ends the thread. ``by_range`` names the partitions of which the
    source no longer holds the last record that was decided: only topic id and range were compared there.
    """

    def __init__(
        self,
        stream: str,
        position: Callable[[], DecidedPosition],
        log_of: Callable[[], TopicLog],
        topics: Sequence[str],
    ) -> None:
        self._stream = stream
        self._position = position
        self._log_of = log_of
        self._topics = topics
        self._stop = threading.Event()
        self._pending: list[DecidedPosition] = []
        self._thread = threading.Thread(target=self._run, name=f"history-{stream}", daemon=True)
        self.refusal: HistoryRefused | None = None
        self.looked_seq: int | None = None
        self.by_range: Sequence[str] = ()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns once no look is under way, or a moment later if Kafka doesn't answer it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(TICK_S)

    def make_notes(self) -> dict[str, str]:
        return {} if self.looked_seq is None else {LOOKED_NOTE: str(self.looked_seq)}

    def note_position(self) -> None:
        position = self._position()
        if len(self._pending) < KEPT_TICKS_MAX and (not self._pending or self._pending[-1].seq != position.seq):
            self._pending.append(position)

    def compare_noted(self, log_: TopicLog) -> None:
        """Compares what was noted since the last look; sets ``refusal`` where Kafka disagrees.

        :raises TopicMissing, KafkaSilent: Kafka doesn't answer
        """
        noted = list(self._pending)
        if not noted:
            return
        disagreements = self._find_disagreements(noted, log_)
        if disagreements:
            self.refusal = HistoryRefused(self._stream, disagreements)
            return
        self.looked_seq = noted[-1].seq
        del self._pending[: len(noted) - 1]

    def _find_disagreements(self, noted: Sequence[DecidedPosition], log_: TopicLog) -> list[Disagreement]:
        state, topics = noted[-1].state, [topic for topic in self._topics if topic in noted[-1].state.marks]
        held = log_.read_held_offsets(topics)
        disagreements = [*find_other_topics(state, log_.topic_ids(topics)), *find_out_of_range(state, held, topics)]
        rows = {(row.topic, row.partition, row.offset): row for position in noted for row in position.lasts.values()}
        self.by_range = tuple(
            f"{row.topic}[{row.partition}]"
            for row in noted[-1].lasts.values()
            if row.topic in held and row.offset < held[row.topic].get(row.partition, (0, 0))[0]
        )
        return disagreements or list(find_other_records(rows.values(), log_, held))

    def _run(self) -> None:
        source_log, ticks, failed = self._log_of(), 0, False
        while not self._stop.wait(TICK_S) and self.refusal is None:
            self.note_position()
            ticks += 1
            if ticks % LOOK_TICKS:
                continue
            try:
                self.compare_noted(source_log)
                failed = False
            except Exception as problem:
                # Whatever a client raises: a watch that ended in silence would let everything pass after that.
                log.log(
                    logging.DEBUG if failed else logging.WARNING,
                    "%s: the topic can't be compared: %s",
                    self._stream,
                    problem,
                )
                failed = True
        source_log.close()
