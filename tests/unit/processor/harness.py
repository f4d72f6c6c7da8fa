"""The engine without servers: real index and real batches; Kafka, Delta and Spark stand in as lists."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from core import work
from core.clock import ManualClock
from core.decision import Decision, ErrorKind
from core.event import Dedupe, Event, Mode, to_headers
from core.money import Money, MoneyFact
from core.record_keys import Header
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
from journal.index import Index
from journal.schema import JournalRow, stamp_rows, to_arrow
from journal.state import JournalState, Marks
from journal.target import ItemTarget, hash_head
from journal.writer import CommittedBatch
from operations.command import Command
from operations.commands import encode
from operations.done_alone import DoneAlone
from operations.frozen import SelectionFiles
from operations.limits import AloneLimits
from operations.settings import DlqSettings
from processor.decide.admit import BatchLookups
from processor.decide.batch import Batches
from processor.decide.commit import Derived, Journal
from processor.decide.handlers import Handlers
from processor.decide.item import BatchItem
from processor.decide.rereads import Outgoing, Rereads
from processor.errors.classify import Classifier, Failure
from processor.rules import StreamRules
from processor.settings import DeadHead, RetrySettings
from processor.source.records import RECORD_SCHEMA, KafkaRecord, read_table
from processor.source.while_blocked import WhileBlocked
from processor.streams import StreamConfig
from processor.workers.deadlines import AbandonedCalls, Deadlines
from processor.workers.execute import Results
from processor.workers.worker import Chunk, Task, run_chunk
from tests.unit.journal.rows import row_hash

EVENTS, CONTROL = "payments.events", "payments.control"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LINEAGE = "1" * 32
POLICY = "exponential(1s, x2, max 16s, 5 tries, jitter 50%)"


class Stuck(Exception):
    kind = ErrorKind.SNBE


class Down(Exception):
    kind = ErrorKind.SBE


class Crash(Exception):
    """The process ends here."""


@dataclass(frozen=True)
class Call:
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


class Handler:
    """Does what the test says of an event key; applies everything else. ``down_for`` which events nothing works."""

    version = "test-1"

    def __init__(self) -> None:
        self.script: dict[str, Callable[[WorkItem], Outcome]] = {}
        self.down_for: Callable[[WorkItem], bool] = lambda _: False
        self.calls: list[str] = []
        self.log: list[Call] = []

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
            self.log.append(Call(item.event_key, item.entity_key, item.previous is not None, word))

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

    def __init__(self, handler: Handler, *, stop_on_dead: bool = True) -> None:
        self._handler = handler
        # Patient: what a test machine's stalls would do to real deadlines is no part of what is decided here.
        self._task = Task("ledger", Handler, Classifier(), Deadlines(60.0, 100.0), 1, stop_on_dead)

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


def stream_config(
    name: str = "ledger", *, dead_head: DeadHead = DeadHead.WAIT, policy: str = POLICY, **keys: Any
) -> StreamConfig:
    """A stream's configuration with the handler of a test. Money limits nobody."""
    dlq = DlqSettings(alone_amounts_minor_max={}, alone_replay_amounts_minor_max={})
    retry = RetrySettings(default=policy)
    return StreamConfig(name=name, handler="test:handler", dead_head=dead_head, retry=retry, dlq=dlq, **keys)


class Engine:
    """One stream: `post` events, `batch` to decide them, `advance` the clock."""

    def __init__(
        self,
        folder: Path,
        *,
        dead_head: DeadHead = DeadHead.WAIT,
        drain_per_entity_max: int = 100,
        lineage: str = LINEAGE,
        stream: str = "ledger",
    ) -> None:
        self.folder = folder
        self.clock = ManualClock(NOW)
        self.handler = Handler()
        self.journal = ListJournal(marks={EVENTS: {0: 0}, CONTROL: {0: 0}})
        self.bodies = ListBodies()
        self.dead_letters = ListDeadLetters()
        self.rules = StreamRules(
            config=stream_config(stream, dead_head=dead_head),
            due_per_batch_max=1_000,
            drain_per_entity_max=drain_per_entity_max,
            jitter=lambda: 0.0,
        )
        self.adapter = Same()
        self.adapters: dict[str, object] = {"stripe": self.adapter}
        self.kafka_is_down = ""
        self.redis_is_down = ""
        self.freed: list[str] = []
        self.noted: Callable[[], Mapping[str, str]] = dict
        self.lineage = lineage
        self.selections = SelectionFiles(folder / "selections")
        self.backlog_s = 0.0
        self.on_decided: Callable[[Sequence[BatchItem]], None] = lambda _: None
        self._epoch = 0
        self._index_root = folder
        self._offsets = {EVENTS: 0, CONTROL: 0}
        self._pending: list[dict[str, object]] = []
        self._published: list[tuple[bytes, list[tuple[str, bytes]]]] = []
        self.start()

    def configure(self, **changes: object) -> None:
        """Changes keys of the stream's configuration, for the next `start`."""
        self.rules = replace(self.rules, config=self.rules.config.model_copy(update=changes))

    def limit_one_person(self, limits: AloneLimits) -> None:
        """Limits what one person may do alone, from the next `start` on."""
        alone = {f"alone_{name}": limit for name, limit in asdict(limits).items()}
        self.configure(dlq=self.rules.config.dlq.model_copy(update=alone))

    def start(self, *, keeps_index: bool = False) -> None:
        """A new process on the same journal; what wasn't decided is read again.

        ``keeps_index``: it takes over its predecessor's index, and follows what that one missed.
        """
        if self._epoch:
            self.index.close()
        self._epoch += 1
        if not keeps_index:
            self._index_root = self.folder / f"index-{self._epoch}"
        self.index: Index = Index.open(self._index_root, self._epoch)
        self.fill_index()
        state = JournalState(
            epoch=self._epoch,
            version=self.journal.commits,
            next_seq=len(self.journal.rows) + 1,
            marks=self.journal.marks,
            start={},
            published_upto=0,
            chain="",
            notes=self.journal.notes,
            lineage=self.lineage,
        )
        self.batches = self.engine_on(state)

    def engine_on(self, state: JournalState) -> Batches:
        """The stream's batches from a state of the journal on."""
        executor = InlineExecutor(self.handler, stop_on_dead=self.rules.config.dead_head is DeadHead.WAIT)
        self.handlers = Handlers(executor, self.folder / "trying.json", self.clock)
        self.rereads = Rereads(self.rules.name, self.adapters, self._republish)  # type: ignore[arg-type]
        return Batches(
            self.rules,
            Journal(state, self.journal, self.bodies, lambda: self.noted()),  # type: ignore[arg-type]
            BatchLookups(
                self.index,
                self.adapters,  # type: ignore[arg-type]
                rows_of=lambda seqs: {row.seq: row for row in self.journal.rows if row.seq in seqs},
                bodies_of=self.bodies.fetch,
                applied_upto=self._applied_upto,
                done_alone=DoneAlone(self._given_since),
                selections=lambda digest: self.selections.read(digest),
                backlog_s=lambda: self.backlog_s,
                free_claims=self._free_claims,
            ),
            self.handlers,
            Derived(self.index, [], self.dead_letters, on_decided=lambda items: self.on_decided(items)),
            self.rereads,
            self.clock,
        )

    def _free_claims(self, event_keys: Sequence[str]) -> str | None:
        self.freed += [] if self.redis_is_down else event_keys
        return self.redis_is_down or None

    def _given_since(self, since: datetime) -> list[JournalRow]:
        return [row for row in self.journal.rows if row.topic == CONTROL and row.decided_at >= since]

    def fill_index(self) -> None:
        """Brings a new process's index up to the journal's end."""
        self.index.apply_rows(self.journal.rows, self.bodies.by_hash)

    def copy(self) -> ListJournal:
        """The journal as it is now, for `restore`."""
        return replace(self.journal, rows=list(self.journal.rows), notes=dict(self.journal.notes))

    def restore(self, older: ListJournal, lineage: str) -> None:
        """An older copy takes the journal's place, and Kafka goes on from its marks."""
        self.journal, self.lineage = older, lineage
        self._offsets = {topic: partitions[0] for topic, partitions in older.marks.items()}
        self._pending.clear()
        self.start()

    def take_over(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes], marks: Marks) -> None:
        """Another process's journal is this one's from the next `start` on; nothing was decided before."""
        for row in rows:
            row.row_hash = row.row_hash or row_hash(row)
        self.journal = ListJournal([*rows], marks)
        self.bodies.by_hash.update(bodies)
        self._offsets = {topic: partitions[0] for topic, partitions in marks.items()}

    def post(
        self,
        event_id: str,
        entity: str = "e1",
        content: str = "",
        fact: str | None = None,
        fact_sha256: str = "aa" * 32,
        mode: Mode = "live",
        tenant: str | None = None,
        content_version: int = 1,
        account: str = "acct_1",
        traceparent: str | None = None,
    ) -> str:
        """An event in Kafka; returns its key."""
        body = (event_id + content).encode()
        if fact is not None:
            self.adapter.facts.setdefault(body, cast(MoneyFact, NamedFact(fact, fact_sha256)))
        event = Event(
            provider="stripe",
            event_id=event_id,
            event_type="charge.captured",
            event_key=f"stripe:{event_id}:charge.captured",
            entity_key=entity,
            content_sha256=hashlib.sha256(body).hexdigest(),
            content_version=content_version,
            body=body,
            mode=mode,
            account=account,
            fact_key=fact,
            fact_sha256=fact_sha256 if fact else None,
            tenant=tenant,
        )
        self.send(EVENTS, body, to_headers(event, self.clock.now(), Dedupe.CLAIMED, traceparent))
        return event.event_key

    def command(self, item_seq: int, seen_seq: int, command_id: str = "c1") -> None:
        """A replay command in Kafka."""
        self.replay([(item_seq, seen_seq)], command_id)

    def replay(self, targets: Sequence[tuple[int, int]], command_id: str) -> None:
        """A replay command of several items, each with the seq of its last row as it was seen."""
        self.order("replay", targets, command_id)

    def order(self, action: str, targets: Sequence[tuple[int, int]], command_id: str) -> None:
        """A command about several items, each with the seq of its last row as it was seen."""
        named = tuple(self.target(item_seq, seen_seq) for item_seq, seen_seq in targets)
        command = Command(command_id, "ledger", self.lineage, action, named, "ada", "mended", NOW)
        self.send(CONTROL, encode(command), [])

    def target(self, item_seq: int, seen_seq: int) -> ItemTarget:
        """As a command names it; of a row that isn't there with a hash that none has."""
        there = 0 < seen_seq <= len(self.journal.rows)
        return ItemTarget(
            item_seq, seen_seq, hash_head(self.journal.rows[seen_seq - 1].row_hash if there else "0" * 64)
        )

    def send(self, topic: str, value: bytes, headers: Sequence[Header], key: bytes | None = None) -> None:
        """Signed, if the stream wants it."""
        keys = self.rules.record_keys
        self.put(topic, value, headers if keys is None else keys.add_signature(topic, 0, key, value, headers), key)

    def put(self, topic: str, value: bytes, headers: Sequence[Header], key: bytes | None = None) -> None:
        """A record as somebody made it who may write to the topic."""
        self._pending.append(
            {
                "topic": topic,
                "partition": 0,
                "offset": self._offsets[topic],
                "value": value,
                "headers": [{"key": name, "value": text} for name, text in headers],
                "key": key,
            }
        )
        self._offsets[topic] += 1

    def _applied_upto(self, after: Mapping[str, int]) -> dict[str, int]:
        """What the real journal is looked through for."""
        last: dict[str, int] = {}
        for row in self.journal.rows:
            entity = row.entity_key or ""
            if row.decision is Decision.APPLIED and row.item_seq > after.get(entity, row.item_seq):
                last[entity] = max(last.get(entity, 0), row.item_seq)
        return last

    def _republish(self, events: Sequence[Outgoing]) -> str | None:
        """What the engine publishes comes in again with the next batch."""
        if not self.kafka_is_down:
            for event, headers in events:
                self._published.append((event.body, headers))
        return self.kafka_is_down or None

    def batch(self) -> list[JournalRow]:
        """Decides what is pending and due; returns the new rows."""
        before = len(self.journal.rows)
        self.batches.run(table(self._pending))
        self._pending.clear()
        self.arrive()
        return self.journal.rows[before:]

    def pending(self) -> list[KafkaRecord]:
        """What is in Kafka and not decided."""
        marks = self.journal.marks
        self._pending = [one for one in self._pending if one["offset"] >= marks[str(one["topic"])][0]]  # type: ignore[operator]
        return read_table(table(self._pending))

    def obey(self) -> list[JournalRow]:
        """Decides the commands that are pending, and nothing else; returns the new rows."""
        before = len(self.journal.rows)
        self.batches.run_commands(self.pending())
        return self.journal.rows[before:]

    def probe(self) -> list[JournalRow]:
        """One probe of the blocked stream, which may take what is pending; returns the new rows."""
        before = len(self.journal.rows)
        self.batches.probe(self.batches.filter_undecided(self.pending()))
        self.pending()
        return self.journal.rows[before:]

    def run(self, seconds: float) -> None:
        """What a stream does in some seconds: a batch a second, or orders and probes while it is blocked."""
        stop = _StopAfter(self.clock, seconds)
        orders = _PendingOrders(self)
        while_blocked = WhileBlocked(self.batches, self.clock, lambda: orders, stop, lambda: None)
        while not stop.is_set():
            self.pending()
            if while_blocked.wait_while_blocked(table(self._pending)):
                self.batch()
            stop.wait(1)

    def arrive(self) -> None:
        """What was published is in Kafka, whatever became of the batch."""
        for body, headers in self._published:
            self.send(EVENTS, body, headers)
        self._published.clear()

    def advance(self, seconds: float) -> list[JournalRow]:
        self.clock.advance(seconds)
        return self.batch()

    def decided_together(self, *events: Event) -> list[str]:
        """The decisions of events that come in one batch."""
        for event in events:
            self.send(EVENTS, event.body, to_headers(event, NOW, Dedupe.CLAIMED))
        return [row.decision.value for row in self.batch()]

    def decisions(self, event_key: str) -> list[str]:
        return [row.decision.value for row in self.journal.rows if row.event_key == event_key]


class _StopAfter(threading.Event):
    """Set once so many seconds have passed by a clock that waiting moves on."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._until = clock.monotonic_s() + seconds

    def is_set(self) -> bool:
        return self._clock.monotonic_s() >= self._until

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(timeout or 0.0)
        return self.is_set()


@dataclass
class _PendingOrders:
    """The control topic of an `Engine`."""

    engine: Engine

    def read(self, marks: Marks) -> list[KafkaRecord]:
        return [one for one in self.engine.pending() if one.topic == CONTROL]

    def close(self) -> None:
        """Nothing is open."""


def table(records: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([*records, dict.fromkeys(RECORD_SCHEMA.names)], schema=RECORD_SCHEMA)
