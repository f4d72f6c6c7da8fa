"""Stand-ins for what the engine calls: a handler, an executor and an adapter, and lists for Kafka and Delta."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from core import work
from core.decision import ErrorKind
from core.money import Money, MoneyFact
from core.work import (
    Applied,
    DownstreamHeld,
    Ignored,
    MissingPredecessor,
    Outcome,
    Posting,
    PreviousEventDead,
    Unknown,
    WorkItem,
)
from dlq.record import build_record
from journal.schema import JournalRow, stamp_rows, to_arrow
from journal.state import Marks
from journal.writer import CommittedBatch
from processor.errors.classify import Classifier, Failure
from processor.workers.deadlines import AbandonedCalls, Deadlines
from processor.workers.execute import Results
from processor.workers.worker import Chunk, Task, run_chunk


class Stuck(Exception):
    kind = ErrorKind.SNBE


class Down(Exception):
    kind = ErrorKind.SBE


class Crash(Exception):
    """The process ends here."""


@dataclass(frozen=True)
class HandlerCall:
    """One call of the handler, and what came of it: applied, ignored, or a word for the error (`OUTCOMES`)."""

    event_key: str
    entity_key: str
    previous_dead: bool
    outcome: str


OUTCOMES: dict[type, str] = {
    Applied: "applied",
    Ignored: "ignored",
    Unknown: "unknown",
    Stuck: "stuck",
    Down: "down",
    DownstreamHeld: "held",
    MissingPredecessor: "missing",
    PreviousEventDead: "after_dead",
}


class ScriptedHandler:
    """Does what the test says of an event key; applies everything else. ``down_for`` which events nothing works."""

    version = "test-1"

    def __init__(self) -> None:
        self.script: dict[str, Callable[[WorkItem], Outcome]] = {}
        self.down_for: Callable[[WorkItem], bool] = lambda _: False
        self.calls: list[str] = []
        self.log: list[HandlerCall] = []

    def __call__(self, item: WorkItem) -> Outcome:
        self.calls.append(item.event_key)
        act = self.script.get(item.event_key)
        came: object = None
        try:
            if self.down_for(item):
                raise Down("401 Unauthorized")
            came = act(item) if act is not None else booked()
            return came
        except Exception as error:
            came = error
            raise
        finally:
            word = OUTCOMES.get(type(came), "bug")
            self.log.append(HandlerCall(item.event_key, item.entity_key, item.previous is not None, word))

    def fails(self, event_key: str, error: Exception, times: int = 10**6) -> None:
        left = [times]

        def act(_: WorkItem) -> Outcome:
            if left[0] > 0:
                left[0] -= 1
                raise error
            return booked()

        self.script[event_key] = act


def booked() -> Outcome:
    return Applied((Posting("a", "debit", Money(5, "EUR")), Posting("b", "credit", Money(5, "EUR"))))


def ignored(_: WorkItem) -> Outcome:
    return Ignored("nobody handles it")


def unknown(_: WorkItem) -> Outcome:
    return Unknown("type", "no table knows its type")


def run_groups(
    task: Task, handler: work.Handler, groups: list[list[WorkItem]], abandoned: AbandonedCalls | None = None
) -> list[tuple[int, Outcome | Failure]]:
    """Runs the groups in this process, their calls unlimited; results by ``item_seq``."""
    return run_chunk(task, handler, Chunk(groups), AbandonedCalls() if abandoned is None else abandoned).results


class InlineExecutor:
    """Runs groups in this process, by the executors' own code."""

    def __init__(self, handler: ScriptedHandler, *, stop_on_dead: bool = True) -> None:
        self._handler = handler
        # Patient: what a test machine's stalls would do to real deadlines is no part of what is decided here.
        self._task = Task("ledger", ScriptedHandler, Classifier(), Deadlines(60.0, 100.0), 1, stop_on_dead)

    def run(self, groups: Sequence[list[WorkItem]], *, suspect: bool = False) -> Results:
        answers = dict(run_groups(self._task, self._handler, list(groups))) if groups else {}
        return Results(self._handler.version, answers)


@dataclass
class ListJournal:
    """What was committed. Checks what the real writer checks of seq, marks and texts.

    ``marks_after``: by the last seq of each commit. ``crash``: the process ends "before" or "after" the next commit.
    """

    rows: list[JournalRow] = field(default_factory=list)
    marks: Marks = field(default_factory=dict)
    marks_after: dict[int, Marks] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    commits: int = 0
    crash: str = ""

    def commit(
        self, rows: Sequence[JournalRow], marks: Marks, published_upto: int, notes: Mapping[str, str]
    ) -> CommittedBatch:
        wanted = range(len(self.rows) + 1, len(self.rows) + 1 + len(rows))
        assert [row.seq for row in rows] == list(wanted)
        to_arrow(rows)
        crash, self.crash = self.crash, ""
        if crash == "before":
            raise Crash
        stamp_rows(rows, 1, rows[0].seq)
        self.rows += rows
        self.marks = self.marks_after[rows[-1].seq] = marks
        self.notes |= notes
        self.commits += 1
        if crash == "after":
            raise Crash
        return CommittedBatch(self.commits, rows[0].seq, rows[-1].seq, f"{self.commits:064x}")


class ListBodies:
    """Bodies by hash."""

    def __init__(self) -> None:
        self.by_hash: dict[str, bytes] = {}

    def append(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        self.by_hash.update(bodies)

    def fetch(self, hashes: Iterable[str]) -> dict[str, bytes]:
        return {sha256: self.by_hash[sha256] for sha256 in hashes if sha256 in self.by_hash}


class ListDeadLetters:
    """Dead rows as published."""

    def __init__(self) -> None:
        self.published: list[JournalRow] = []
        self.published_upto = 0
        self.unacknowledged = 0
        self.waiting_s = 0.0

    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None:
        for row, body in rows:
            build_record(row, body, "ledger")
        self.published += [row for row, _ in rows]

    def on_passed(self, seq: int) -> None:
        self.published_upto = seq

    def poll(self) -> None:
        """Nothing is under way."""

    def close(self, timeout_s: float) -> None:
        """Nothing is left."""


@dataclass(frozen=True, slots=True)
class NamedFact:
    """A fact of which nothing is known but its names."""

    fact_key: str
    sha256: str
    money: None = None


class Same:
    """An adapter whose content hash is the body's, and whose money is what the test says of a body."""

    def __init__(self) -> None:
        self.facts: dict[bytes, MoneyFact] = {}

    def content_sha256(self, body: bytes, version: int) -> str:
        return hashlib.sha256(body).hexdigest()

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        """What the test said of the body, or posted with it."""
        return self.facts.get(body)
