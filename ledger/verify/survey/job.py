"""One pass over the ledger that clears what is in order: by far the most of it, at a fraction of what proving costs.

Every invariant asks the survey first. What it clears needs no other look; what it doubts is searched exactly, by Spark
SQL over the tables, so that only a ledger that is wrong pays for its offenders' names. Portions are looked at by
Python workers of Spark that read Parquet natively, a few thousand rows at a time, whatever the ledger's size.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.clock import from_micros
from ledger.verify.survey.commits import COMMIT, Commits
from ledger.verify.survey.digests import KeyDigest, together
from ledger.verify.survey.facts import Doubt, Facts, Gathered
from ledger.verify.survey.files import FileRange, file_ranges
from ledger.verify.survey.gather import gather
from ledger.verify.survey.items import OPEN
from ledger.verify.survey.offsets import Runs, follow, joined
from ledger.verify.survey.portion import Question, Share, look
from ledger.verify.survey.portions import Portion, portions

log = logging.getLogger(__name__)

HERE_ROWS_MAX = 50_000
"""Fewer than this aren't worth the start of Python workers."""

ROWS_PER_BUCKET = 1_000_000
"""Some 100 MB of keys, items and lines, sorted in one worker at a time."""

POLL_S = 0.3
JOB_GROUP = "payhook-survey"

Told = Callable[[int, int], None]
"""Portions that are done, and all."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What is looked at, each at one version. ``postings``: None where there are none."""

    journal: str
    journal_version: int
    last_seq: int
    postings: str | None
    postings_version: int
    postings_mark: int
    index_seq: int
    mode: str


@dataclass(frozen=True, slots=True)
class OpenItems:
    """Items that are open, by their number."""

    found: np.ndarray

    def waiting(self) -> int:
        return int(np.count_nonzero(~self.found["dead"]))

    def dead(self) -> int:
        return int(np.count_nonzero(self.found["dead"]))

    def oldest_waiting(self) -> tuple[int, datetime] | None:
        """The item that has waited longest, and since when."""
        waiting = self.found[~self.found["dead"]]
        if not len(waiting):
            return None
        oldest = waiting[np.lexsort((waiting["item"], waiting["since"]))[0]]
        return int(oldest["item"]), from_micros(int(oldest["since"]))

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        """Item, seq of its last row, whether it is dead."""
        return zip(self.found["item"].tolist(), self.found["last"].tolist(), self.found["dead"].tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found; of what is among ``doubts`` it says nothing."""

    doubts: frozenset[Doubt]
    rows: int
    commits: Commits
    runs: Runs
    events: KeyDigest
    facts: KeyDigest
    open: OpenItems
    open_indexed: OpenItems
    reversed_items: tuple[int, ...]
    reversed_indexed: tuple[int, ...]
    reopened_items: tuple[int, ...]
    reopened_indexed: tuple[int, ...]
    purged: frozenset[str]
    dead_rows: int
    taken_back: int
    nameless: int
    late: int

    def clears(self, *doubts: Doubt) -> bool:
        return self.doubts.isdisjoint(doubts)


def survey(
    session: SparkSession, tables: Tables, salt: bytes, since: int = 1, told: Told = lambda done, of: None
) -> Survey:
    """Looks at every row from ``since`` on, and at every line of the postings.

    A ledger that can't be read in this way is doubted in everything.
    """
    lines = [] if tables.postings is None else file_ranges(tables.postings, tables.postings_version)
    files = [one for one in file_ranges(tables.journal, tables.journal_version) if one.last >= since]
    rows = sum(one.rows for one in files)
    buckets = 1 + rows // ROWS_PER_BUCKET
    question = Question(
        tables.journal,
        tables.postings,
        tables.postings_mark,
        tables.index_seq,
        tables.mode,
        salt,
        buckets,
        since,
    )
    wanted = portions(files, lines)
    try:
        if rows <= HERE_ROWS_MAX:
            found = list(_here(wanted, question, tables.last_seq, told))
        else:
            found = _on_spark(session, wanted, question, tables.last_seq, told)
    except (ValueError, pa.ArrowException, OSError, PySparkException, Py4JError) as unfit:
        log.warning("the ledger couldn't be surveyed, all of it is searched: %s", unfit)
        return doubtful()
    return _put_together(found, question, lines)


def doubtful() -> Survey:
    """A survey that clears nothing."""
    nothing = OpenItems(np.empty(0, OPEN))
    none = KeyDigest()
    return Survey(
        frozenset(Doubt),
        0,
        Commits(np.empty(0, COMMIT)),
        {},
        none,
        none,
        nothing,
        nothing,
        (),
        (),
        (),
        (),
        frozenset(),
        0,
        0,
        0,
        0,
    )


def _here(wanted: Sequence[Portion], question: Question, last_seq: int, told: Told) -> Iterator[Facts | Gathered]:
    def shares() -> Iterator[Share]:
        for number, portion in enumerate(wanted):
            yield from look(portion, question)
            told(number + 1, len(wanted))

    return gather(shares(), question, last_seq)


def _on_spark(
    session: SparkSession, wanted: Sequence[Portion], question: Question, last_seq: int, told: Told
) -> list[Facts | Gathered]:
    def look_at(some: Iterable[Portion]) -> Iterator[Share]:
        _sparing()
        for portion in some:
            yield from look(portion, question)

    def put_together(shares: Iterable[Share]) -> Iterator[Facts | Gathered]:
        return gather(shares, question, last_seq)

    context = session.sparkContext
    context.setJobGroup(JOB_GROUP, "payhook verify: survey")
    shares = context.parallelize(wanted, len(wanted)).mapPartitions(look_at)
    with _watched(session, len(wanted), told):
        found: list[Facts | Gathered] = shares.partitionBy(question.buckets, int).mapPartitions(put_together).collect()
    return found


def _sparing() -> None:
    """A worker has one core: Arrow's threads would only get into each other's way."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


class _watched:  # noqa: N801 - used as a function is
    """Tells how many tasks are done, for as long as the ``with`` lasts."""

    def __init__(self, session: SparkSession, count: int, told: Told) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._count = count
        self._told = told
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._told(self._count, self._count)

    def _watch(self) -> None:
        while not self._over.wait(POLL_S):
            self._told(min(self._done(), self._count), self._count)

    def _done(self) -> int:
        jobs = (self._tracker.getJobInfo(number) for number in self._tracker.getJobIdsForGroup(JOB_GROUP))
        stages = (self._tracker.getStageInfo(min(job.stageIds)) for job in jobs if job is not None and job.stageIds)
        return max((stage.numCompletedTasks for stage in stages if stage is not None), default=0)


def _put_together(found: Sequence[Facts | Gathered], question: Question, lines: Sequence[FileRange]) -> Survey:
    facts = [one for one in found if isinstance(one, Facts)]
    buckets = [one for one in found if isinstance(one, Gathered)]
    doubts = set[Doubt]().union(*(one.doubts for one in found))
    commits = Commits(np.concatenate([np.empty(0, COMMIT), *(one.commits for one in facts)]))
    if not commits.are_whole():
        doubts.add(Doubt.ORDER)
    if not _every_line(facts, question, lines):
        doubts.add(Doubt.POSTINGS)
    if Doubt.ORDER in doubts or not _follow(facts):
        doubts.add(Doubt.PLACES)
    none = np.empty(0, OPEN)
    return Survey(
        doubts=frozenset(doubts),
        rows=sum(one.rows for one in facts),
        commits=commits,
        runs=joined(one.runs for one in facts),
        events=together(one.events for one in facts),
        facts=together(one.facts for one in facts),
        open=OpenItems(np.concatenate([none, *(one.open for one in buckets)])),
        open_indexed=OpenItems(np.concatenate([none, *(one.open_indexed for one in buckets)])),
        reversed_items=tuple(item for one in facts for item, _ in one.reversals),
        reversed_indexed=tuple(item for one in facts for item, seq in one.reversals if seq <= question.index_seq),
        reopened_items=tuple(item for one in buckets for item in one.reopened.tolist()),
        reopened_indexed=tuple(item for one in buckets for item in one.reopened_indexed.tolist()),
        purged=frozenset(key for one in facts for key in one.purged),
        dead_rows=sum(one.dead for one in facts),
        taken_back=sum(one.taken_back for one in facts),
        nameless=sum(one.nameless for one in facts),
        late=sum(one.late for one in facts),
    )


def _follow(facts: Sequence[Facts]) -> bool:
    """Whether no portion's offsets come before those of an earlier one."""
    before: Runs = {}
    for one in sorted((one for one in facts if len(one.commits)), key=lambda one: int(one.commits["first_seq"].min())):
        if not follow(one.runs, before):
            return False
        before = joined((before, one.runs))
    return True


def _every_line(facts: Sequence[Facts], question: Question, lines: Sequence[FileRange]) -> bool:
    """Whether each line of the table was met, and was as it should be: none is beside what was looked at."""
    if question.since > 1:
        return True
    counted = {name: rows for one in facts for name, rows in one.files.items()}
    matched = sum(one.lines for one in facts)
    return counted.keys() == {one.name for one in lines} and matched == sum(counted.values())


__all__ = ["OpenItems", "Survey", "Tables", "Told", "doubtful", "survey"]
