"""One pass over the ledger that clears what is in order: nearly all of it, at a fraction of what a search costs.

Every invariant asks the fast path first. What it clears needs no other look; what it doubts is searched exactly, by
Spark SQL over the tables, so that only a ledger that is wrong pays for its offenders' names. Portions are looked at by
Spark's Python workers that read Parquet natively, a few thousand rows at a time, whatever the ledger's size.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ledger.verify.fast_path.bookings import doubts_of
from ledger.verify.fast_path.commits import COMMIT, Commits
from ledger.verify.fast_path.files import FileRange, Portion, file_ranges, portions
from ledger.verify.fast_path.hashes import KeyDigest, is_doubtful
from ledger.verify.fast_path.items import Items, OpenItems, items
from ledger.verify.fast_path.offsets import Runs, follow, joined
from ledger.verify.fast_path.portion import Kind, Question, Share, look
from ledger.verify.fast_path.results import BucketResult, Doubt, PortionResult, Tables


def gather(shares: Iterable[Share], question: Question) -> Iterator[PortionResult | BucketResult]:
    """What portions found goes through; of the buckets, what was found in each."""
    buckets: dict[int, dict[Kind, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for bucket, what in shares:
        if isinstance(what, PortionResult):
            yield what
        else:
            kind, some = what
            buckets[bucket][kind].append(some)
    for kinds in buckets.values():
        yield _found(kinds, question)


def _found(kinds: dict[Kind, list[np.ndarray]], question: Question) -> BucketResult:
    whole = question.since <= 1
    doubts = doubts_of(kinds[Kind.PAYMENT])
    if is_doubtful(kinds[Kind.EVENT], whole=whole):
        doubts.add(Doubt.EVENTS)
    if is_doubtful(kinds[Kind.FACT], whole=whole):
        doubts.add(Doubt.FACTS)
    found = items(kinds[Kind.ITEM])
    if found.doubtful:
        doubts.add(Doubt.ITEMS)
    return BucketResult(doubts, found, _indexed(kinds[Kind.ITEM], found, question.tables))


def _indexed(parts: list[np.ndarray], whole: Items, tables: Tables) -> Items:
    """Of the rows that the index reflects."""
    if tables.index_seq >= tables.last_seq:
        return whole
    return items([some[some["seq"] <= tables.index_seq] for some in parts])


log = logging.getLogger(__name__)

HERE_ROWS_MAX = 50_000
"""Fewer than this aren't worth the start of Python workers."""

ROWS_PER_BUCKET = 1_000_000
"""Some 100 MB of keys, items and lines, sorted in one worker at a time."""

POLL_S = 0.3
JOB_GROUP = "payhook-fast-path"

Progress = Callable[[int, int], None]
"""Called with the number of portions that are done, and of all."""


@dataclass(frozen=True, slots=True)
class FastPath:
    """What was found; of no use for what is among ``doubts``. By default everything is."""

    doubts: frozenset[Doubt] = frozenset(Doubt)
    rows: int = 0
    commits: Commits = field(default_factory=lambda: Commits(np.empty(0, COMMIT)))
    runs: Runs = field(default_factory=dict)
    events: KeyDigest = field(default_factory=KeyDigest)
    facts: KeyDigest = field(default_factory=KeyDigest)
    open: OpenItems = field(default_factory=OpenItems)
    open_indexed: OpenItems = field(default_factory=OpenItems)
    elsewhere_indexed: OpenItems = field(default_factory=OpenItems)
    reversed_items: tuple[int, ...] = ()
    reversed_indexed: tuple[int, ...] = ()
    reopened_items: tuple[int, ...] = ()
    reopened_indexed: tuple[int, ...] = ()
    purged: frozenset[str] = frozenset()
    dead_rows: int = 0
    taken_back: int = 0
    nameless: int = 0
    late: int = 0

    def clears(self, *doubts: Doubt) -> bool:
        return self.doubts.isdisjoint(doubts)


def take_fast_path(
    session: SparkSession, tables: Tables, salt: bytes, since: int = 1, progress: Progress = lambda done, of: None
) -> FastPath:
    """Looks at every row from ``since`` on, and at every line of the postings.

    A ledger that can't be read in this way is doubted in everything.
    """
    lines = [] if tables.postings is None else file_ranges(tables.postings, tables.postings_version)
    files = [one for one in file_ranges(tables.journal, tables.journal_version) if one.last >= since]
    rows = sum(one.rows for one in files)
    buckets = 1 + rows // ROWS_PER_BUCKET
    question = Question(tables, salt, buckets, since)
    wanted = portions(files, lines)
    try:
        if rows <= HERE_ROWS_MAX:
            found = list(_here(wanted, question, progress))
        else:
            found = _on_spark(session, wanted, question, progress)
    except (ValueError, pa.ArrowException, OSError, PySparkException, Py4JError) as unfit:
        log.warning("the ledger can't be verified on the fast path, all of it is searched: %s", unfit)
        return FastPath()
    return _put_together(found, question, lines)


def _here(wanted: Sequence[Portion], question: Question, progress: Progress) -> Iterator[PortionResult | BucketResult]:
    def shares() -> Iterator[Share]:
        for number, portion in enumerate(wanted):
            yield from look(portion, question)
            progress(number + 1, len(wanted))

    return gather(shares(), question)


def _on_spark(
    session: SparkSession, wanted: Sequence[Portion], question: Question, progress: Progress
) -> list[PortionResult | BucketResult]:
    def look_at(some: Iterable[Portion]) -> Iterator[Share]:
        _use_one_core()
        for portion in some:
            yield from look(portion, question)

    def put_together(shares: Iterable[Share]) -> Iterator[PortionResult | BucketResult]:
        return gather(shares, question)

    context = session.sparkContext
    context.setJobGroup(JOB_GROUP, "payhook verify: fast path")
    shares = context.parallelize(wanted, len(wanted)).mapPartitions(look_at)
    with _watched(session, len(wanted), progress):
        found: list[PortionResult | BucketResult] = (
            shares.partitionBy(question.buckets, int).mapPartitions(put_together).collect()
        )
    return found


def _use_one_core() -> None:
    """A worker has one core: more of Arrow's threads would only wait for each other."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


@contextlib.contextmanager
def _watched(session: SparkSession, count: int, progress: Progress) -> Iterator[None]:
    """Reports how many tasks are done, for as long as the ``with`` lasts."""
    tracker, over = session.sparkContext.statusTracker(), threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            jobs = (tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(JOB_GROUP))
            stages = (tracker.getStageInfo(min(job.stageIds)) for job in jobs if job is not None and job.stageIds)
            done = max((stage.numCompletedTasks for stage in stages if stage is not None), default=0)
            progress(min(done, count), count)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        progress(count, count)


def _put_together(
    found: Sequence[PortionResult | BucketResult], question: Question, lines: Sequence[FileRange]
) -> FastPath:
    facts = [one for one in found if isinstance(one, PortionResult)]
    buckets = [one for one in found if isinstance(one, BucketResult)]
    doubts = set[Doubt]().union(*(one.doubts for one in found))
    commits = Commits(np.concatenate([np.empty(0, COMMIT), *(one.commits for one in facts)]))
    if not commits.are_whole():
        doubts.add(Doubt.ORDER)
    if not _every_line(facts, question, lines):
        doubts.add(Doubt.POSTINGS)
    if Doubt.ORDER in doubts or not _follow(facts):
        doubts.add(Doubt.PLACES)
    found_items, indexed = [one.items for one in buckets], [one.indexed for one in buckets]
    return FastPath(
        doubts=frozenset(doubts),
        rows=sum(one.rows for one in facts),
        commits=commits,
        runs=joined(one.runs for one in facts),
        events=sum((one.events for one in facts), KeyDigest()),
        facts=sum((one.facts for one in facts), KeyDigest()),
        open=OpenItems.of(one.open for one in found_items),
        open_indexed=OpenItems.of(one.open for one in indexed),
        elsewhere_indexed=OpenItems.of(one.elsewhere for one in indexed),
        reversed_items=tuple(item for one in facts for item, _ in one.reversals),
        reversed_indexed=tuple(
            item for one in facts for item, seq in one.reversals if seq <= question.tables.index_seq
        ),
        reopened_items=tuple(item for one in found_items for item in one.reopened.tolist()),
        reopened_indexed=tuple(item for one in indexed for item in one.reopened.tolist()),
        purged=frozenset(key for one in facts for key in one.purged),
        dead_rows=sum(one.dead for one in facts),
        taken_back=sum(one.taken_back for one in facts),
        nameless=sum(one.nameless for one in facts),
        late=sum(one.late for one in facts),
    )


def _follow(facts: Sequence[PortionResult]) -> bool:
    """Whether no portion's offsets come before those of an earlier one."""
    before: Runs = {}
    for one in sorted((one for one in facts if len(one.commits)), key=lambda one: int(one.commits["first_seq"].min())):
        if not follow(one.runs, before):
            return False
        before = joined((before, one.runs))
    return True


def _every_line(facts: Sequence[PortionResult], question: Question, lines: Sequence[FileRange]) -> bool:
    """Whether each line of the table was met, and was as it should be: none is beside what was looked at."""
    if question.since > 1:
        return True
    counted = {name: rows for one in facts for name, rows in one.files.items()}
    matched = sum(one.lines for one in facts)
    return counted.keys() == {one.name for one in lines} and matched == sum(counted.values())
