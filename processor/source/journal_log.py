"""What a check of positions asks of a stream that reads another one's journal, beside Kafka's control topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.clock import to_rfc3339
from core.location import Location
from core.routing import is_sparse, receiver_of
from journal.kafka_log import Held, KafkaLog, Point
from journal.lake import has_table
from journal.reader import JournalReader
from journal.records import Record
from journal.schema import JournalRow, from_arrow
from processor.source.feed import NAMED_COLUMNS, changed_books, event_key_of


class JournalLog:
    """`journal.kafka_log.Log` of Kafka's topics, and of ``journal.<source>/<receiver>``, whose offsets are seqs.

    Of a journal's record key and time are known. Its body is a feed's, which a newer version may word otherwise.
    Belongs to one thread.
    """

    def __init__(self, kafka: KafkaLog, stream: str, journal: Location) -> None:
        """
        :param stream: the one that reads
        :param journal: the source's
        """
        self._kafka = kafka
        self._stream = stream
        self._path = str(journal)

    def close(self) -> None:
        self._kafka.close()

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Of Kafka's topics. Rows of a journal say by themselves whether it is another."""
        return self._kafka.topic_ids([topic for topic in topics if not is_sparse(topic)])

    def held(self, topics: Sequence[str]) -> Held:
        """A receiver's part of the journal begins with seq 1 and ends before the one to come; gone, before 1."""
        held = self._kafka.held([topic for topic in topics if not is_sparse(topic)])
        following = JournalReader(self._path).last_seq + 1 if has_table(self._path) else 1
        return {**held, **{topic: {0: (1, following)} for topic in topics if is_sparse(topic)}}

    def records_at(self, points: Iterable[Point]) -> Mapping[Point, Record]:
        wanted = list(points)
        found = dict(self._kafka.records_at([point for point in wanted if not is_sparse(point[0])]))
        sparse = [point for point in wanted if is_sparse(point[0])]
        rows = self._rows({seq for _, _, seq in sparse})
        return {**found, **{point: self._record(point[0], rows[point[2]]) for point in sparse if point[2] in rows}}

    def next_offsets(self, points: Iterable[Point]) -> Mapping[Point, int]:
        """Of Kafka's topics. Between the seqs of a receiver's records there are others."""
        return self._kafka.next_offsets([point for point in points if not is_sparse(point[0])])

    def _rows(self, seqs: set[int]) -> dict[int, JournalRow]:
        """Those that became records, by seq."""
        if not has_table(self._path):
            return {}
        reader = JournalReader(self._path)
        there = sorted(seq for seq in seqs if 0 < seq <= reader.last_seq)
        rows = from_arrow(reader.tables_of(there, NAMED_COLUMNS)) if there else []
        return {row.seq: row for row in rows if changed_books(row)}

    def _record(self, topic: str, row: JournalRow) -> Record:
        key = event_key_of(self._stream, receiver_of(topic), row)
        headers = (("event_key", key.encode()), ("received_at", to_rfc3339(row.decided_at).encode()))
        return Record(row.seq, None, headers, body_known=False)
