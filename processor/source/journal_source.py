"""What changed another stream's books, as a source: its journal, read with Spark's Delta source from this stream's
marks on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from core.location import Location
from core.routing import is_sparse
from journal.kafka_log import Held
from journal.reader import last_seq, scan
from journal.schema import from_arrow
from journal.state import JournalState, Marks
from processor.source.feed import CHANGED_BOOKS, CHANGED_BOOKS_SQL, RECORD_SCHEMA, FeedRecords, JournalLog
from processor.source.sources import COLUMNS, KafkaSource, tick
from processor.source.while_blocked import Orders

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
"""Each look lists the journal's log. Five a second cost little, and a fifth of a second is short enough to wait."""

RECORDS_PER_BATCH_MAX = 8_000
"""Of the backlog at a start, and as the pace's bound: each record is a call to a receiver that may be slow."""

FILES_PER_BATCH_MAX = 8
"""Commits of the source that one batch takes: at four a second it falls behind by none."""

BESIDE = "journal_"
"""Begins the names of the journal's columns beside Kafka's."""


class FirstNamed:
    """Where the journal stood when this process first heard of a receiver: it may take a while until the stream begins,
    and what is applied meanwhile is the receiver's too.
    """

    def __init__(self) -> None:
        self._following: dict[str, int] = {}

    def named(self, topics: Sequence[str], journal: Location) -> None:
        """Receivers, by their topics, that are named now."""
        if new := [topic for topic in topics if topic not in self._following]:
            following = last_seq(DeltaTable(str(journal))) + 1 if has_journal(journal) else 1
            self._following.update(dict.fromkeys(new, following))

    def start(self, topic: str, following: int) -> int:
        """The first seq for a receiver that has taken nothing yet; ``following``: the one to come."""
        return min(self._following.get(topic, following), following)


class JournalSource:
    """A record for each receiver and row that changed the books; and Kafka's ``control`` topic, for commands.

    At each start the rows since the marks are read in seq order up to one version, however the table's files are laid
    out and whatever the log has forgotten; only what is committed after that comes from the streaming source, which
    gives commits in their order. So nothing above a mark is passed over and nothing below it is taken twice.
    """

    every_s = LOOK_EVERY_S

    def __init__(self, journal: Location, records: FeedRecords, control: KafkaSource, since: FirstNamed) -> None:
        self._since = since
        self._journal = journal
        self._path = str(journal)
        self._records = records
        self._control = control
        self._rows_max = max(1, RECORDS_PER_BATCH_MAX // max(1, len(records.topics)))
        self._version: int | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """A receiver that is no longer named isn't among them; its mark stays, and named again it goes on there."""
        return (*self._control.topics, *self._records.topics)

    def log(self) -> JournalLog:
        return JournalLog(self._control.log(), self._records.stream, self._journal)

    def starts(self, state: JournalState | None, held: Held) -> Marks:
        """A new receiver begins with what is applied since it was first named."""
        control = {topic: ends for topic, ends in held.items() if not is_sparse(topic)}
        sparse = {topic: ends for topic, ends in held.items() if is_sparse(topic)}
        journal: Marks = {topic: {0: self._since.start(topic, ends[0][1])} for topic, ends in sparse.items()}
        return {**self._control.starts(state, control), **journal}

    def backlog(self, marks: Marks) -> Iterator[pa.Table]:
        """What changed the books since the slowest receiver's mark, and pins the version after which `frame` begins."""
        table = DeltaTable(self._path)
        self._version = table.version()
        for window in scan(table, self._lowest(marks) - 1, self._records.columns):
            taken = window.filter(CHANGED_BOOKS)
            for at in range(0, taken.num_rows, self._rows_max):
                yield self._records.table(from_arrow(taken.slice(at, self._rows_max)))

    def frame(self, marks: Marks, records_max: int) -> DataFrame:
        assert self._version is not None, "the backlog is asked for first"
        columns = [f"`{name}` AS {BESIDE}{name}" for name in self._records.columns]
        journal = (
            self._control.session.readStream.format("delta")
            .option("startingVersion", self._version)
            .option("maxFilesPerTrigger", FILES_PER_BATCH_MAX)
            .load(self._path)
            .where(f"({CHANGED_BOOKS_SQL}) AND seq >= {self._lowest(marks)}")
            .selectExpr(*columns)
        )
        control = self._control.topic_frame(marks, records_max).unionByName(tick(self._control.session))
        return control.unionByName(journal, allowMissingColumns=True)

    def collect(self, frame: DataFrame, expected: int) -> pa.Table:  # noqa: ARG002 - nothing is divided by it
        return self.records(frame.toArrow())

    def orders(self) -> Orders:
        return self._control.orders()

    def records(self, table: pa.Table) -> pa.Table:
        """Kafka's records as they are, the journal's rows as records, in seq order."""
        kafka = table.filter(pc.is_valid(table["topic"])).select(COLUMNS)
        names = self._records.columns
        found = table.filter(pc.is_valid(table[f"{BESIDE}seq"])).select([BESIDE + name for name in names])
        rows = from_arrow(found.rename_columns(names).sort_by("seq"))
        return pa.concat_tables([kafka.cast(RECORD_SCHEMA), self._records.table(rows)])

    def _lowest(self, marks: Marks) -> int:
        return min(marks[topic][0] for topic in self._records.topics)


def has_journal(journal: Location) -> bool:
    """Whether the source stream has begun its journal."""
    return DeltaTable.is_deltatable(str(journal))
