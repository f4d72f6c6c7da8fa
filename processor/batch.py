"""One micro-batch, in the six steps; the journal commit is the only point at which anything is decided."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from core.clock import Clock, to_micros
from core.crash import crash_point
from core.decision import Decision
from core.errors import PayhookError
from core.event import Mode
from core.work import WorkItem
from journal.bodies import BodyStore
from journal.index import Index
from journal.marks import Marks
from journal.open_item import OpenItem
from journal.schema import JournalRow
from journal.state import JournalState
from journal.writer import JournalWriter
from processor.admission import Admission, ContentHash, Group
from processor.commands import CommandDesk
from processor.execute import Executor
from processor.intake import Item, KafkaRecord, new_item, read_table, take
from processor.retry import RetryPolicy
from processor.settings import DeadHead
from processor.settle import Settling

log = logging.getLogger(__name__)

PROBE_S_FIRST = 1.0
CLOSE_S_MAX = 5.0


class IndexBehind(PayhookError):
    """The index doesn't reflect the last committed row: deciding by it could decide twice."""

    def __init__(self, index_seq: int, journal_seq: int) -> None:
        self.index_seq = index_seq
        self.journal_seq = journal_seq
        super().__init__(f"the index is at seq {index_seq}, the journal at {journal_seq}; restart to let it catch up")


class Follower(Protocol):
    """Something derived from the journal's rows, by seq."""

    def follow(self, rows: Sequence[JournalRow]) -> None: ...


class DeadLetters(Protocol):
    """The DLQ topic's publisher; never blocks the caller."""

    @property
    def published_upto(self) -> int: ...
    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None: ...
    def passed(self, seq: int) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class StreamRules:
    """What a work stream's configuration says about deciding."""

    name: str
    events_topic: str
    control_topic: str
    policy: RetryPolicy
    dead_head: DeadHead
    due_per_batch_max: int
    drain_per_entity_max: int
    probe_s_max: float
    mode: Mode = "live"


@dataclass(slots=True)
class Progress:
    """What the last batch did; for status and metrics. Times in seconds."""

    batches: int = 0
    rows: int = 0
    taken: int = 0
    seconds: float = 0.0
    fetch_s: float = 0.0
    read_s: float = 0.0
    step_s: dict[str, float] = field(default_factory=dict)
    blocked_reason: str | None = None


class Batches:
    """The engine of one work stream. Not thread-safe: Spark runs one batch at a time.

    ``suspect`` says that the process before this one ended while it tried the same offsets.
    """

    def __init__(
        self,
        rules: StreamRules,
        state: JournalState,
        writer: JournalWriter,
        index: Index,
        bodies: BodyStore,
        followers: Sequence[Follower],
        dead_letters: DeadLetters,
        executor: Executor,
        adapters: Mapping[str, ContentHash],
        clock: Clock,
        trying: Path,
        *,
        on_rows: Callable[[Sequence[JournalRow]], None] = lambda rows: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._rules = rules
        self._writer = writer
        self._index = index
        self._bodies = bodies
        self._followers = followers
        self._dead_letters = dead_letters
        self._executor = executor
        self._adapters = adapters
        self._clock = clock
        self._trying = trying
        self._on_rows = on_rows
        self._jitter = jitter
        self._epoch = state.epoch
        self._next_seq = state.next_seq
        self._marks: Marks = state.marks
        self._probe_s = PROBE_S_FIRST
        self._suspect = self._tried_before()
        self.progress = Progress()

    @property
    def marks(self) -> Marks:
        """The next offset of each topic partition."""
        return self._marks

    @property
    def seq(self) -> int:
        """The last committed row's."""
        return self._next_seq - 1

    @property
    def blocked(self) -> bool:
        """Whether the last batch found the whole stream blocked."""
        return self.progress.blocked_reason is not None

    @property
    def probe_s(self) -> float:
        """Seconds until the next probe of a blocked stream."""
        return self._probe_s

    def status(self) -> dict[str, Any]:
        """Figures for the status file; counts are of open events, times in seconds."""
        return {
            "epoch": self._epoch,
            "seq": self.seq,
            "marks": self._marks,
            "open": self._index.open_count(),
            "dead": self._index.dead_count(),
            "published_upto": self._dead_letters.published_upto,
            "blocked": self.progress.blocked_reason,
            "batches": self.progress.batches,
            "batch_rows": self.progress.rows,
            "batch_s": round(self.progress.seconds, 4),
            "step_s": {step: round(seconds, 4) for step, seconds in self.progress.step_s.items()},
        }

    def run(self, table: pa.Table) -> None:
        """A batch of Kafka's records (columns as `read_table` takes them) and of what is due."""
        self._dead_letters.poll()
        started = self._clock.monotonic()
        records, marks = take(read_table(table), self._marks)
        self.progress.read_s = self._clock.monotonic() - started
        due = self._index.due(self._clock.now(), self._rules.due_per_batch_max)
        crash_point("processor.after_read")
        if records or due:
            self._decide(records, marks, due)

    def probe(self) -> None:
        """Tries one due event of a blocked stream; nothing new is taken."""
        self._dead_letters.poll()
        due = self._index.due(self._clock.now(), 1)
        if due:
            self._decide([], self._marks, due)

    def close(self) -> None:
        """After the last batch: dead letters get their time, and the index is free for the next writer."""
        self._dead_letters.close(CLOSE_S_MAX)
        self._index.close()

    def _decide(self, records: Sequence[KafkaRecord], marks: Marks, due: Sequence[OpenItem]) -> None:
        if self._index.seq != self.seq:
            raise IndexBehind(self._index.seq, self.seq)
        started = self._clock.monotonic()
        events, commands = self._number(records)
        admission = self._admit(events, due)
        lookups_s = self._clock.monotonic() - started
        settling = self._handle(admission)
        handled_s = self._clock.monotonic() - started
        rows, bodies = self._rows(admission, settling, commands)
        if not rows:
            return
        self._commit(rows, bodies, marks)
        committed_s = self._clock.monotonic() - started
        self._derive(rows, bodies)
        self._learn(settling)
        done_s = self._clock.monotonic() - started
        self.progress.batches += 1
        self.progress.rows, self.progress.taken, self.progress.seconds = len(rows), len(records), done_s
        self.progress.step_s = {
            "fetch": self.progress.fetch_s,
            "read": self.progress.read_s,
            "lookup": lookups_s,
            "handle": handled_s - lookups_s,
            "commit": committed_s - handled_s,
            "derive": done_s - committed_s,
        }

    def _number(self, records: Sequence[KafkaRecord]) -> tuple[list[Item], list[tuple[KafkaRecord, int]]]:
        """Every offset gets a number in Kafka's order; it is provisional until all rows are known."""
        now = self._clock.now()
        events: list[Item] = []
        commands: list[tuple[KafkaRecord, int]] = []
        for seq, record in enumerate(records, self._next_seq):
            if record.topic == self._rules.control_topic:
                commands.append((record, seq))
            else:
                events.append(new_item(record, seq, now, self._rules.mode))
        return events, commands

    def _admit(self, events: Sequence[Item], due: Sequence[OpenItem]) -> Admission:
        admission = Admission(self._index, self._adapters, self._clock.now(), self._rules.drain_per_entity_max)
        for waiting in due:
            admission.take_up(waiting)
        for item in events:
            admission.admit(item)
        return admission

    def _handle(self, admission: Admission) -> Settling:
        work = [tasks for group in admission.groups.values() if (tasks := _work(group))]
        self._remember_trying()
        results = self._executor.run(work, suspect=self._suspect)
        crash_point("processor.after_handlers")
        settling = Settling(
            results, self._rules.policy, self._rules.dead_head, self._clock.now(), self._probe_s, self._jitter
        )
        settling.settle(admission.groups.values())
        return settling

    def _rows(
        self, admission: Admission, settling: Settling, commands: Sequence[tuple[KafkaRecord, int]]
    ) -> tuple[list[JournalRow], dict[str, bytes]]:
        """Every row of the batch in seq order, and the bodies that came with them.

        Events taken up again come first, then the new offsets in Kafka's order, so that an entity's rows
        follow one another as its events do; what commands did to items comes last.
        """
        now = self._clock.now()
        decided = admission.settled + settling.decided
        again = [item for item in decided if not item.new]
        new = [item for item in decided if item.new]
        for item in new:
            _shift(item, len(again))
        desk = CommandDesk(self._rules.name, self._rules.mode, self._index, now, {item.seq for item in again})
        for record, seq in commands:
            desk.decide(record, seq + len(again))
        new = sorted(new + desk.decided, key=lambda item: item.seq)
        every = again + new + desk.rows
        for seq, item in enumerate(every, self._next_seq):
            item.row.seq = seq
            item.row.decided_at = now
        bodies = {item.row.body_sha256: item.body for item in every if item.row.body_sha256 is not None}
        return [item.row for item in every], bodies

    def _commit(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes], marks: Marks) -> None:
        fresh = {row.body_sha256 for row in rows if row.first and row.decision is not Decision.DUPLICATE}
        self._bodies.append([(sha256, body) for sha256, body in bodies.items() if sha256 in fresh])
        crash_point("processor.before_commit")
        committed = self._writer.commit(rows, marks, self._dead_letters.published_upto)
        crash_point("processor.after_commit")
        self._marks = marks
        self._next_seq = committed.last_seq + 1
        self._suspect = False

    def _derive(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes]) -> None:
        self._index.apply(rows, bodies)
        crash_point("processor.after_index")
        for follower in self._followers:
            follower.follow(rows)
        crash_point("processor.after_postings")
        dead = [(row, bodies.get(row.body_sha256 or "", b"")) for row in rows if row.decision is Decision.DEAD]
        self._dead_letters.publish(dead)
        self._dead_letters.passed(self.seq)
        crash_point("processor.after_dlq")
        self._on_rows(rows)

    def _learn(self, settling: Settling) -> None:
        failure = settling.blocked_by
        if failure is None:
            self._probe_s = PROBE_S_FIRST
            self.progress.blocked_reason = None
            return
        self._probe_s = min(self._probe_s * 2, self._rules.probe_s_max)
        self.progress.blocked_reason = f"{failure.error_class}: {failure.message}"
        log.warning("the stream is blocked (%s); next probe in %.0f s", failure.error_class, self._probe_s)

    def _remember_trying(self) -> None:
        self._trying.write_text(json.dumps({"seq": self.seq, "at_us": to_micros(self._clock.now())}), "utf-8")

    def _tried_before(self) -> bool:
        try:
            return bool(json.loads(self._trying.read_text("utf-8"))["seq"] == self.seq)
        except (OSError, ValueError, KeyError):
            return False


def _shift(item: Item, count: int) -> None:
    """Moves a new item's provisional number past the rows of those taken up again."""
    item.row.item_seq += count
    if item.row.cause_seq is not None:
        item.row.cause_seq += count


def _work(group: Group) -> list[WorkItem]:
    """The events of a group that a handler must see, in order."""
    return [
        WorkItem(
            item_seq=item.seq,
            event_key=item.row.event_key or "",
            entity_key=item.row.entity_key or "",
            provider=item.row.provider or "",
            account=item.row.account or "",
            event_type=item.row.event_type or "",
            body=item.body,
            fact_key=item.row.fact_key,
            attempt=item.row.attempt,
            tenant=item.row.tenant,
        )
        for item in group.items
        if item.known_fact is None
    ]
