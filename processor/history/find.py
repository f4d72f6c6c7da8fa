"""Where the journal and Kafka part: for each partition, from which offset on another history is held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from journal.kafka_log import Held, Log
from journal.reader import JournalReader
from journal.schema import JournalRow, same_record
from journal.state import JournalState
from processor.history.check import (
    Disagreement,
    Kind,
    holes,
    last_rows,
    other_records,
    other_topics,
    out_of_range,
    recent_rows,
)

SPREAD = 200
"""Offsets of each partition that are compared besides the newest ones."""

Seqs = Mapping[int, int]
"""The seq of an offset's first row."""


@dataclass(frozen=True, slots=True)
class Parting:
    """One partition: the journal's next offset is ``until``, Kafka holds ``low`` to before ``high``, and the next
    history begins at ``begins``.
    """

    topic: str
    partition: int
    until: int
    low: int
    high: int
    begins: int

    @property
    def decided_beyond(self) -> int:
        """Offsets that the journal decided and Kafka holds with other records, or no longer: they stay decided."""
        return max(0, self.until - max(self.begins, self.low))

    @property
    def to_decide(self) -> int:
        """Records that Kafka holds and the next history decides."""
        return max(0, self.high - self.begins)

    @property
    def lost(self) -> tuple[int, int] | None:
        """Offsets that were never decided and that Kafka doesn't hold any more: from, to before."""
        return (self.until, self.begins) if self.begins > self.until else None


@dataclass(frozen=True, slots=True)
class Parted:
    """A topic whose history is another one now."""

    topic: str
    topic_id: str
    partings: tuple[Parting, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What disagrees between one stream's journal and Kafka. ``seq``: the journal's last row when it was looked at."""

    stream: str
    seq: int
    disagreements: tuple[Disagreement, ...] = ()
    parted: tuple[Parted, ...] = field(default=())


def find(
    stream: str,
    state: JournalState,
    reader: JournalReader,
    log: Log,
    topics: Collection[str],
    transactional: Collection[str] = (),
) -> Findings:
    """Compares more than a start does, and finds for each partition where the histories part.

    :raises TopicMissing, KafkaSilent: Kafka doesn't tell
    """
    known = [topic for topic in topics if topic in state.marks]
    held, ids = log.held(known), log.topic_ids(known)
    found = [*other_topics(state, ids), *out_of_range(state, held, known)]
    found += holes(state, log, held, known, transactional)
    newest = [*last_rows(state, reader, known), *recent_rows(state, reader, known)]
    parted = []
    for topic in known:
        seqs = _seqs(state, reader, topic)
        rows = [row for row in newest if row.topic == topic] + _spread(seqs, reader)
        found += other_records(rows, log, held)
        own = [one for one in found if one.topic == topic]
        if own:
            parted.append(_part(state, reader, log, held, topic, ids.get(topic, ""), seqs, own))
    return Findings(stream, state.next_seq - 1, tuple(dict.fromkeys(found)), tuple(parted))


def _part(
    state: JournalState,
    reader: JournalReader,
    log: Log,
    held: Held,
    topic: str,
    topic_id: str,
    seqs: Mapping[int, Seqs],
    found: Sequence[Disagreement],
) -> Parted:
    partings = []
    for number in sorted({*state.marks[topic], *held[topic]}):
        until = state.marks[topic].get(number, 0)
        low, high = held[topic].get(number, (0, 0))
        own = [one for one in found if one.partition in (number, -1)]
        begins = _begins(own, log, reader, seqs.get(number, {}), (topic, number, until, low, high))
        partings.append(Parting(topic, number, until, low, high, begins))
    return Parted(topic, topic_id, tuple(partings))


def _begins(
    found: Sequence[Disagreement],
    log: Log,
    reader: JournalReader,
    seqs: Seqs,
    place: tuple[str, int, int, int, int],
) -> int:
    """Where the next history begins: at the first offset that Kafka holds with another record than the journal decided.

    Up to there both hold the same, because a log only grows at its end.
    """
    topic, number, until, low, high = place
    if not found:
        return until
    if until < low:
        return low
    for one in found:
        if one.kind is Kind.HOLE:
            return one.low
    compared = sorted(offset for offset in seqs if low <= offset < min(until, high))
    if not compared:
        return min(low, high)

    def agrees(offset: int) -> bool:
        [row] = reader.rows_of([seqs[offset]])
        record = log.records_at([(topic, number, offset)]).get((topic, number, offset))
        return record is not None and same_record(row, record)

    wrong = min((one.offset for one in found if one.kind is Kind.OTHER_RECORD), default=None)
    upto = compared if wrong is None else [offset for offset in compared if offset <= wrong]
    first = _first_that_fails(upto, agrees)
    if first is not None:
        return low if first == compared[0] else first
    return min(until, high)


def _first_that_fails(offsets: Sequence[int], agrees: Callable[[int], bool]) -> int | None:
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if agrees(offsets[middle]):
            low = middle + 1
        else:
            high = middle
    return None if low == len(offsets) else offsets[low]


def _seqs(state: JournalState, reader: JournalReader, topic: str) -> dict[int, Seqs]:
    """By partition and offset: first rows of the topic's current history."""
    table = reader.offsets_of(topic, state.history(topic).number)
    found: dict[int, dict[int, int]] = {}
    names = ("partition", "offset", "seq")
    for number, offset, seq in zip(*(table[name].to_pylist() for name in names), strict=True):
        found.setdefault(number, {})[offset] = seq
    return dict(found)


def _spread(seqs: Mapping[int, Seqs], reader: JournalReader) -> list[JournalRow]:
    wanted = []
    for of_partition in seqs.values():
        every = max(1, len(of_partition) // SPREAD)
        wanted += sorted(of_partition.values())[::every]
    return [row for at in range(0, len(wanted), SPREAD) for row in reader.rows_of(sorted(wanted[at : at + SPREAD]))]
