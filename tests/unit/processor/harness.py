"""The engine without servers: real index and real batches; `fakes` stand in for Kafka, Delta and Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from core.clock import ManualClock
from core.decision import Decision
from core.event import Dedupe, Event, Mode, to_headers
from core.money import MoneyFact
from core.record_keys import Header
from journal.index import Index
from journal.schema import JournalRow
from journal.state import JournalState, Marks
from journal.target import ItemTarget, hash_head
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
from processor.rules import StreamRules
from processor.settings import DeadHead, RetrySettings
from processor.source.records import RECORD_SCHEMA, KafkaRecord, read_table
from processor.source.while_blocked import WhileBlocked
from processor.streams import StreamConfig
from tests.events import make_event
from tests.unit.journal.rows import row_hash
from tests.unit.processor.fakes import (
    InlineExecutor,
    ListBodies,
    ListDeadLetters,
    ListJournal,
    NamedFact,
    Same,
    ScriptedHandler,
)

EVENTS, CONTROL = "payments.events", "payments.control"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LINEAGE = "1" * 32
POLICY = "exponential(1s, x2, max 16s, 5 tries, jitter 50%)"


def stream_config(
    name: str = "ledger", *, dead_head: DeadHead = DeadHead.WAIT, policy: str = POLICY, **keys: Any
) -> StreamConfig:
    """A stream's configuration with the handler of a test. Money limits nobody."""
    dlq = DlqSettings(alone_amounts_minor_max={}, alone_replay_amounts_minor_max={})
    retry = RetrySettings(default=policy)
    return StreamConfig(name=name, handler="test:handler", dead_head=dead_head, retry=retry, dlq=dlq, **keys)


def find_applied_upto(rows: Iterable[JournalRow], after: Mapping[str, int]) -> dict[str, int]:
    """What the real journal is looked through for."""
    last: dict[str, int] = {}
    for row in rows:
        entity = row.entity_key or ""
        if row.decision is Decision.APPLIED and row.item_seq > after.get(entity, row.item_seq):
            last[entity] = max(last.get(entity, 0), row.item_seq)
    return last


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
        self.handler = ScriptedHandler()
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
                applied_upto=lambda after: find_applied_upto(self.journal.rows, after),
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
        event = make_event(
            event_id,
            body=body,
            entity_key=entity,
            content_version=content_version,
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
        named = tuple(self.target(item_seq, seen_seq) for item_seq, seen_seq in targets)
        command = Command(command_id, "ledger", self.lineage, "replay", named, "ada", "mended", NOW)
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
        self._pending = [record for record in self._pending if record["offset"] >= marks[str(record["topic"])][0]]  # type: ignore[operator]
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
        return [record for record in self.engine.pending() if record.topic == CONTROL]

    def close(self) -> None:
        """Nothing is open."""


def table(records: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([*records, dict.fromkeys(RECORD_SCHEMA.names)], schema=RECORD_SCHEMA)
