"""What the invariants look at: a journal pinned to one version, and what everything else held around that moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from core.event import Mode
from core.layout import LEDGER, StreamLayout
from core.location import Location
from core.routing import Shard, base_of, dlq_topic, mode_of, topics_of
from journal.anchors import AnchorKeys
from journal.histories import life_of
from journal.index import Index
from journal.shards import own_after, shard_in
from journal.state import JournalState, Marks
from ledger.verify.fast_path import Doubt, FastPath, Progress, Tables, take_fast_path
from ledger.verify.fast_path.commits import CommitDigest
from ledger.verify.fast_path.hashes import SALT_BYTES
from ledger.verify.kafka import Ends, Kafka
from ledger.verify.views import Base, collect, commit_digests


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition that one history decided: from ``start`` to before ``until``."""

    topic: str
    history: int
    partition: int
    start: int
    until: int

    @property
    def life(self) -> str:
        """Topic and history in one word (`journal.histories.life_of`)."""
        return life_of(self.topic, self.history)


@dataclass(frozen=True, slots=True)
class Lake:
    """One stream's journal, and what is derived from it.

    ``dead_letters``: the topic of its dead letters, where it isn't named after the stream.
    """

    places: StreamLayout
    dead_letters: str = ""

    @classmethod
    def under(cls, data_dir: Path, stream: str = LEDGER, lake: Location | None = None, dead_letters: str = "") -> Lake:
        """Of a data folder, whose tables are in its ``lake`` unless that is elsewhere."""
        return cls(StreamLayout(data_dir, lake or data_dir / "lake", stream), dead_letters)

    @property
    def stream(self) -> str:
        return self.places.stream

    @property
    def mode(self) -> Mode:
        return mode_of(self.stream)

    @property
    def dlq_topic(self) -> str:
        return self.dead_letters or dlq_topic(self.stream)

    @property
    def is_ledger(self) -> bool:
        """Whether its events are money; other streams have no bookings."""
        return base_of(self.stream) == LEDGER

    @property
    def journal(self) -> Location:
        return self.places.journal

    @property
    def bodies(self) -> Location:
        return self.places.bodies

    @property
    def postings(self) -> Location:
        return self.places.postings

    @property
    def index(self) -> Path:
        return self.places.index

    @property
    def receipts(self) -> Location:
        """Of all shards."""
        return self.places.shared("receipts")

    @property
    def redactions(self) -> Location:
        """The record of who had which bodies removed, of all streams and shards of the mode."""
        return self.places.shared("redactions")

    @property
    def audit_log(self) -> Location:
        """The audit log; of all streams."""
        return self.places.lake / "acts"


def reads(lake: Lake, shard: Shard, topic: str, partition: int) -> bool:
    """Whether a stream's shard reads a partition of a topic."""
    return topic != topics_of(lake.mode).events or shard.reads(partition)


@dataclass(frozen=True, slots=True)
class Limits:
    """What is called too old, and how much is named."""

    sample_max: int = 10
    """Offenders that one invariant names at most."""

    anchor_age_s_max: float = 3_600.0
    """A journal whose last row is older than this and isn't anchored is an offence."""

    in_flight_age_s_max: float = 86_400.0
    """An offset that waits undecided, or an event that waits parked, for longer is an offence."""

    refund_awaits_days_max: float = 30.0
    """A refund that waits for its capture for longer is an offence."""


@dataclass
class Evidence:
    """Everything is up to ``seq``, the last row of the pinned journal; marks are how far each derived thing goes.

    The views ``journal`` (see `journal_view`), ``postings`` and, where they are collected, ``receipts`` are registered
    in ``session``; and the journal up to the mark of what is derived from it: ``booked`` for the postings, ``indexed``
    for the index. All begin with the row after ``base``; ``whole`` is the journal from its first row. ``every_row`` and
    ``every_line`` are the rows and the postings of all shards, each once (`journal.shards`).
    """

    session: SparkSession
    lake: Lake
    state: JournalState
    kafka: Kafka
    anchor_keys: AnchorKeys
    ends: Ends
    """Of the partitions that it reads."""

    anchor_ends: dict[int, tuple[int, int]]
    has_receipts: bool
    index: Index | None
    now: datetime
    limits: Limits
    tables: Tables
    base: Base
    has_every_line: bool = False
    """Whether each shard has a table of postings."""

    every_mark: Marks = field(default_factory=dict)
    """The marks of all shards together."""

    every_end: Ends = field(default_factory=dict)
    """Of all partitions, whichever shard reads them."""

    sources: Mapping[str, DataFrame] = field(default_factory=dict)
    """The journals that the stream reads, by their stream's name, as `journal_view`."""

    no_index: str = ""
    """Why there is none."""

    progress: Progress = lambda done, of: None
    salt: bytes = field(default_factory=lambda: os.urandom(SALT_BYTES))
    """Of the digests by which keys are compared."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _fast_path: FastPath | None = None
    _commits: Sequence[CommitDigest] | None = None

    @property
    def seq(self) -> int:
        return self.state.next_seq - 1

    @property
    def shard(self) -> Shard:
        """Which part of the events the journal decides."""
        return shard_in(self.state.notes)

    @property
    def own_after(self) -> int:
        """Rows up to here are those of the journal that this one began as a copy of."""
        return own_after(self.state.notes)

    @property
    def postings_mark(self) -> int | None:
        """None: there is no table of postings."""
        return None if self.tables.postings is None else self.tables.postings_mark

    @property
    def dlq_ends(self) -> dict[int, tuple[int, int]]:
        return self.ends.get(self.lake.dlq_topic, {})

    @property
    def sample_max(self) -> int:
        return self.limits.sample_max

    def is_mine(self, topic: str, partition: int) -> bool:
        """Whether the stream reads a partition: of the events only those of its shard."""
        return reads(self.lake, self.shard, topic, partition)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The result of a query, for results that are small by construction: one job."""
        return collect(self.session.sql(sql))

    def sample(self, sql: str) -> list[dict[str, Any]]:
        """At most ``sample_max`` rows of a query's result: one job."""
        return collect(self.session.sql(sql).limit(self.sample_max))

    def fast_path(self) -> FastPath:
        """What one pass over the ledger clears, made once. What it doubts is to be looked at by itself."""
        with self._lock:
            if self._fast_path is None:
                self._fast_path = take_fast_path(self.session, self.tables, self.salt, self.since, self.progress)
            return self._fast_path

    def search(self, doubt: Doubt, sql: str) -> list[dict[str, Any]]:
        """At most ``sample_max`` rows of a query's result; none where the fast path has no such doubt."""
        return [] if self.fast_path().clears(doubt) else self.sample(sql)

    def commits(self) -> Sequence[CommitDigest]:
        """Every commit's digest in order, one a commit."""
        with self._lock:
            if self._commits is None:
                self._commits = (
                    self.fast_path().commits if self.fast_path().clears(Doubt.ORDER) else self._search_commits()
                )
            return self._commits

    def _search_commits(self) -> list[CommitDigest]:
        """However their rows lie: one job over the journal."""
        table = commit_digests(self.session.table("journal")).toArrow().sort_by("batch_seq")
        return [CommitDigest(**row) for row in table.to_pylist()]

    def last_row_age_s(self) -> float:
        """Since the journal's last row was decided; 0 of an empty one."""
        commits = self.commits()
        return (self.now - commits[-1].decided_at).total_seconds() if commits else 0.0

    @property
    def since(self) -> int:
        """The first row that is looked at; 1: all are."""
        return self.base.seq + 1

    @property
    def is_whole(self) -> bool:
        return self.base.seq == 0

    def in_part(self, not_looked_at: str) -> str | None:
        """What wasn't looked at, where only the newest rows were."""
        return None if self.is_whole else not_looked_at

    def partitions(self) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, first and next offset, as the journal's metadata has them.

        Where not all rows are looked at, the first offset is the lowest one among them.
        """
        for topic, untils in sorted(self.state.marks.items()):
            for number, until in sorted(untils.items()):
                start = self.state.start.get(topic, {}).get(number, until)
                if not self.is_whole:
                    start = self._lowest(life_of(topic, self.state.history(topic).number), number, until)
                yield topic, number, start, until

    def spans(self) -> Iterator[Span]:
        """As `partitions`, of every history."""
        for topic, history in sorted(self.state.histories.items()):
            for ended in history.ended:
                for number, until in sorted(ended.end.items()):
                    span = Span(topic, ended.number, number, ended.start.get(number, until), until)
                    yield span if self.is_whole else replace(span, start=self._lowest(span.life, number, until))
        for topic, number, start, until in self.partitions():
            yield Span(topic, self.state.history(topic).number, number, start, until)

    def _lowest(self, life: str, number: int, until: int) -> int:
        """The lowest offset among the rows that are looked at."""
        return min((low for low, _ in self.fast_path().runs.get((life, number), ())), default=until)
