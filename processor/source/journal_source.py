"""Reads what changed another stream's books, from its journal with Spark's Delta source, from this stream's marks
on."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from core.location import Location
from core.routing import is_sparse, receiver_of, source_of
from journal.journals import own_rows_after
from journal.kafka_log import Held
from journal.lake import open_table
from journal.reader import scan_rows
from journal.schema import from_arrow
from journal.state import JournalState, Marks
from processor.source.feed import CHANGED_BOOKS, CHANGED_BOOKS_SQL, FeedRecords, JournalLog, read_next_seq
from processor.source.records import RECORD_SCHEMA
from processor.source.sources import KafkaSource, make_tick_frame
from processor.source.while_blocked import OrderReader

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
"""Each look lists the journal's log. Five a second cost little, and a fifth of a second is short enough to wait."""

RECORDS_PER_BATCH_MAX = 8_000
"""Of the backlog at a start, and as the pace's bound: each record is a call to a receiver that may be slow."""

FILES_PER_BATCH_MAX = 8
"""Commits of the source that one batch takes: at four a second it falls behind by none."""

BESIDE = "journal_"
"""Begins the names of the journal's columns beside Kafka's."""

SOURCE = f"{BESIDE}source"
"""Names the column that says whose journal a row is of."""


class FirstNamed:
    """Remembers where the journals stood when this process first heard of a receiver.

    It may take a while until the stream begins, and what is applied meanwhile is the receiver's too.
    """

    def __init__(self) -> None:
        self._following: dict[str, int] = {}

    def note_receivers(self, topics: Sequence[str], journal: Location) -> None:
        if new := [topic for topic in topics if topic not in self._following]:
            self._following.update(dict.fromkeys(new, read_next_seq(str(journal))))

    def start(self, topic: str, following: int) -> int:
        return min(self._following.get(topic, following), following)


class JournalSource:
    """Gives a record for each receiver and row that changed the books; and commands from Kafka's ``control`` topic.

    A start reads the rows since the marks up to one version, in seq order. Only later commits come from the streaming
    source, which gives them in order. So no row above a mark is skipped, and none below it is taken twice.

    Where one journal began as a copy of another one, the copied rows are read in the other one only, and first.
    """

    every_s = LOOK_EVERY_S

    def __init__(
        self, journals: Mapping[str, Location], records: FeedRecords, control: KafkaSource, since: FirstNamed
    ) -> None:
        self._since = since
        self._journals = journals
        self._records = records
        self._control = control
        self._rows_max = max(1, RECORDS_PER_BATCH_MAX * len(journals) // max(1, len(records.topics)))
        self._versions: dict[str, int] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """Returns the topics of named receivers. One that is no longer named keeps its mark, and goes on there once it
        is named again.
        """
        return (*self._control.topics, *self._records.topics)

    def log(self) -> JournalLog:
        return JournalLog(self._control.log(), self._records.stream, self._journals)

    def find_start_marks(self, state: JournalState | None, held: Held) -> Marks:
        """Lets a new receiver begin with what is applied since it was first named.

        One for which another journal is read already begins with a new journal's first own row.
        """
        control = {topic: ends for topic, ends in held.items() if not is_sparse(topic)}
        sparse = {topic: ends for topic, ends in held.items() if is_sparse(topic)}
        known = {receiver_of(topic) for topic in (state.marks if state is not None else ()) if is_sparse(topic)}
        copied = {source: own_rows_after(journal) for source, journal in self._journals.items()}
        journal: Marks = {}
        for topic, ends in sparse.items():
            first_own = copied[source_of(topic)] + 1
            is_new_journal = first_own > 1 and receiver_of(topic) in known
            journal[topic] = {0: first_own if is_new_journal else self._since.start(topic, ends[0][1])}
        return {**self._control.find_start_marks(state, control), **journal}

    def describe_start(self, state: JournalState | None, held: Held, marks: Marks) -> str | None:  # noqa: ARG002 - one place
        if any(is_sparse(topic) for topic in (state.marks if state is not None else ())):
            return None
        return f"begins with what {', '.join(self._journals)} applies from now on"

    def read_backlog(self, marks: Marks) -> Iterator[pa.Table]:
        """Reads what changed the books since the slowest receiver's mark; sets the versions after which `open_frame`
        begins.
        """
        tables = {source: open_table(str(journal)) for source, journal in self._journals.items()}
        self._versions = {source: table.version() for source, table in tables.items()}
        for source, table in tables.items():
            for window in scan_rows(table, self._find_lowest_mark(source, marks) - 1, self._records.columns):
                taken = window.filter(CHANGED_BOOKS)
                for at in range(0, taken.num_rows, self._rows_max):
                    yield self._records.make_table(source, from_arrow(taken.slice(at, self._rows_max)))

    def open_frame(self, marks: Marks, records_max: int) -> DataFrame:
        frame = self._control.topic_frame(marks, records_max).unionByName(make_tick_frame(self._control.session))
        for source in self._journals:
            frame = frame.unionByName(self._journal_frame(source, marks), allowMissingColumns=True)
        return frame

    def _journal_frame(self, source: str, marks: Marks) -> DataFrame:
        assert self._versions, "the backlog is asked for first"
        columns = [f"`{name}` AS {BESIDE}{name}" for name in self._records.columns]
        return (
            self._control.session.readStream.format("delta")
            .option("startingVersion", self._versions[source])
            .option("maxFilesPerTrigger", FILES_PER_BATCH_MAX)
            .load(str(self._journals[source]))
            .where(f"({CHANGED_BOOKS_SQL}) AND seq >= {self._find_lowest_mark(source, marks)}")
            .selectExpr(f"'{source}' AS {SOURCE}", *columns)
        )

    def collect(self, frame: DataFrame, expected: int) -> pa.Table:  # noqa: ARG002 - nothing is divided by it
        return self.records(frame.toArrow())

    def open_orders(self) -> OrderReader:
        return self._control.open_orders()

    def records(self, table: pa.Table) -> pa.Table:
        kafka = table.filter(pc.is_valid(table["topic"])).select(RECORD_SCHEMA.names)
        return pa.concat_tables(
            [kafka.cast(RECORD_SCHEMA), *(self._make_records(source, table) for source in self._journals)]
        )

    def _make_records(self, source: str, table: pa.Table) -> pa.Table:
        names = self._records.columns
        own_rows = table.filter(pc.equal(table[SOURCE], source)).select([BESIDE + name for name in names])
        return self._records.make_table(source, from_arrow(own_rows.rename_columns(names).sort_by("seq")))

    def _find_lowest_mark(self, source: str, marks: Marks) -> int:
        return min(marks[topic][0] for topic in self._records.topics_of(source))
