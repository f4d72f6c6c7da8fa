"""The evidence for invariants: a journal pinned to one version, and what everything else held around that moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.event import Mode
from core.layout import LEDGER, StreamLayout
from core.location import Location
from core.routing import Shard, base_of, dlq_topic, mode_of, topics_of
from journal.anchors import AnchorKeys
from journal.histories import life_of
from journal.index import Index
from journal.journals import own_after, shard_in
from journal.schema import GENESIS, extend_chain
from journal.state import JournalState, Marks
from ledger.verify.engine import SqlEngine, read_promise
from ledger.verify.kafka import Ends, Kafka
from ledger.verify.views import COMMITS, Base, build_row_hash_sql


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """Offsets of one partition that one history decided: from ``start`` to before ``until``."""

    topic: str
    history: int
    partition: int
    start: int
    until: int

    @property
    def history_name(self) -> str:
        return life_of(self.topic, self.history)


@dataclass(frozen=True, slots=True)
class Lake:
    """A stream's journal, and what is derived from it.

    ``dead_letters``: the topic of its dead letters, where it isn't named after the stream.
    """

    places: StreamLayout
    dead_letters: str = ""

    @classmethod
    def from_data_dir(
        cls, data_dir: Path, stream: str = LEDGER, lake: Location | None = None, dead_letters: str = ""
    ) -> Lake:
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
        return base_of(self.stream) == LEDGER

    @property
    def journal(self) -> Location:
        return self.places.journal

    @property
    def bodies_table(self) -> Location:
        return self.places.bodies_table

    @property
    def postings(self) -> Location:
        return self.places.postings

    @property
    def index(self) -> Path:
        return self.places.index

    @property
    def receipts(self) -> Location:
        return self.places.shared_table("receipts")

    @property
    def redactions_table(self) -> Location:
        return self.places.shared_table("redactions")

    @property
    def audit_log(self) -> Location:
        return self.places.lake / "acts"


def is_partition_read(lake: Lake, shard: Shard, topic: str, partition: int) -> bool:
    return topic != topics_of(lake.mode).events or shard.has_partition(partition)


@dataclass(frozen=True, slots=True)
class VerifyLimits:
    sample_max: int = 10
    """Offenders that one invariant names at most."""

    anchor_age_s_max: float = 3_600.0
    """A journal whose last row is older than this and isn't anchored is an offence."""

    in_flight_age_s_max: float = 86_400.0
    """An offset that waits undecided, or an event that waits parked, for longer is an offence."""

    refund_awaits_days_max: float = 30.0
    """A refund that waits for its capture for longer is an offence."""


@dataclass(frozen=True, slots=True)
class CommitDigest:
    batch_seq: int
    last_seq: int
    decided_at: datetime
    digest: str


_TAKEN_BACK = """
    SELECT count(*) AS count FROM own_lines
    WHERE mine AND entity_key IS NOT NULL AND account LIKE 'merchant:%' AND split_part(account, ':', 3) <> 'payouts'
          AND NOT (split_part(account, ':', 3) = 'payable' AND side = 'credit')
"""
_NAMELESS = """
    SELECT count(*) AS count FROM journal
    WHERE books AND mine AND entity_key NOT LIKE '%:%:%' AND size(lines) > 0
"""


@dataclass
class Evidence:
    """Evidence up to ``seq``, the last row of the pinned journal; marks are how far each derived thing goes.

    The engine has these names: ``whole``, the journal from its first row (`ledger.verify.views.build_journal_sql`);
    ``journal``, its rows after ``base``; ``indexed``, those up to the index's mark; ``postings``; ``receipts`` where
    they are collected; ``every_row`` and ``every_line``, rows and postings of all shards, each once;
    ``spans`` and ``marks``, how far each partition is; ``asked``, one row of what this verification asks.
    """

    engine: SqlEngine
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
    limits: VerifyLimits
    base: Base
    postings_mark: int | None
    """None: there is no table of postings."""

    lowest: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The lowest offset of each history and partition among the rows that are looked at, where not all are."""

    every_mark: Marks = field(default_factory=dict)
    """The marks of all shards together."""

    every_end: Ends = field(default_factory=dict)
    """Of all partitions, whichever shard reads them."""

    sources: Mapping[str, str] = field(default_factory=dict)
    """The views of the journals that the stream reads, by their stream's name."""

    no_index: str = ""
    """Why there is none."""

    is_divided: bool = False

    not_divided: str | None = None
    """Why what they took of it can't be compared."""

    _commits: Sequence[CommitDigest] | None = None
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def seq(self) -> int:
        return self.state.next_seq - 1

    @property
    def shard(self) -> Shard:
        return shard_in(self.state.notes)

    @property
    def own_after(self) -> int:
        """The last row of the journal that this one began as a copy of; rows after it are its own."""
        return own_after(self.state.notes)

    @property
    def dlq_ends(self) -> dict[int, tuple[int, int]]:
        return self.ends.get(self.lake.dlq_topic, {})

    @property
    def sample_max(self) -> int:
        return self.limits.sample_max

    def is_mine(self, topic: str, partition: int) -> bool:
        return is_partition_read(self.lake, self.shard, topic, partition)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return self.engine.ask(sql)

    def ask_sample(self, sql: str) -> list[dict[str, Any]]:
        return self.engine.ask(sql, self.sample_max)

    def search_offenders(self, promise: str) -> list[dict[str, Any]]:
        return self.ask_sample(read_promise(promise).sql)

    def add_rows(self, name: str, schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> None:
        self.engine.add_table(name, pa.Table.from_pylist(list(rows), schema).to_batches(), schema)

    def read_commits(self) -> Sequence[CommitDigest]:
        """Reads every commit in order; ``commits`` and ``chain_heads`` are named then."""
        if self._commits is None:
            commits = COMMITS.format(joined=self.engine.joined, computed_hash=build_row_hash_sql())
            self.engine.add_result("commits", commits)
            columns = "batch_seq, last_seq, decided_at, digest"
            rows = self.rows(f"SELECT {columns} FROM commits ORDER BY batch_seq")  # noqa: S608 - words of our own
            self._commits = [CommitDigest(**row) for row in rows]
            head = self.base.chain
            if head is not None:
                for commit in self._commits:
                    head = extend_chain(head, commit.digest)
            heads = [] if head is None else [{"computed": head, "recorded": self.state.chain or GENESIS}]
            self.add_rows("chain_heads", pa.schema([("computed", pa.string()), ("recorded", pa.string())]), heads)
        return self._commits

    def count_taken_back(self) -> int:
        return self._count_once(_TAKEN_BACK)

    def count_nameless(self) -> int:
        return self._count_once(_NAMELESS)

    def _count_once(self, sql: str) -> int:
        if sql not in self._counts:
            [row] = self.rows(sql)
            self._counts[sql] = int(row["count"])
        return self._counts[sql]

    def last_row_age_s(self) -> float:
        commits = self.read_commits()
        return (self.now - commits[-1].decided_at).total_seconds() if commits else 0.0

    @property
    def first_seq(self) -> int:
        return self.base.seq + 1

    @property
    def is_whole(self) -> bool:
        return self.base.seq == 0

    def explain_part(self, not_looked_at: str) -> str | None:
        """Says what wasn't looked at; None where all rows were."""
        return None if self.is_whole else not_looked_at

    def partitions(self) -> Iterator[tuple[str, int, int, int]]:
        """Yields topic, partition, first and next offset, as the journal's metadata has them.

        Where not all rows are looked at, the first offset is the lowest one among them.
        """
        for topic, untils in sorted(self.state.marks.items()):
            for number, until in sorted(untils.items()):
                start = self.state.start.get(topic, {}).get(number, until)
                if not self.is_whole:
                    start = self._find_lowest(life_of(topic, self.state.history(topic).number), number, until)
                yield topic, number, start, until

    def spans(self) -> Iterator[OffsetSpan]:
        for topic, history in sorted(self.state.histories.items()):
            for ended in history.ended:
                for number, until in sorted(ended.end.items()):
                    span = OffsetSpan(topic, ended.number, number, ended.start.get(number, until), until)
                    yield (
                        span
                        if self.is_whole
                        else replace(span, start=self._find_lowest(span.history_name, number, until))
                    )
        for topic, number, start, until in self.partitions():
            yield OffsetSpan(topic, self.state.history(topic).number, number, start, until)

    def _find_lowest(self, life: str, number: int, until: int) -> int:
        return self.lowest.get((life, number), until)
