"""Every future of two entities in a small world, decided by the engine and by the model side by side.

A world is what the journal's rows have made so far. Each one is continued with every input that the scope allows
(arrivals, orders, time, and each answer to each call) and each time by a new process, as after a crash. Worlds that
can't be told apart by what comes are one world: the search ends when there is no new one.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import permutations, product
from pathlib import Path

import pyarrow as pa

from core.clock import ManualClock
from journal import index_layout
from journal.index import Index
from journal.schema import JournalRow
from journal.state import JournalState, Marks
from journal.target import ItemTarget, hash_head
from operations.command import RUN, Command, ReplayMode
from operations.commands import encode
from operations.frozen import SCHEMA, FrozenSelection, Selection, command_id_of
from processor.decide.admit import BatchLookups
from processor.decide.batch import Batches
from processor.decide.commit import Derived, Journal
from processor.decide.rereads import Rereads
from processor.rules import StreamRules
from processor.settings import DeadHead
from processor.source.records import PACKED, KafkaRecord, ParsedRecord
from tests.unit.processor.fakes import ListDeadLetters, NamedFact, Same
from tests.unit.processor.harness import CONTROL, EVENTS, LINEAGE, NOW, find_applied_upto, stream_config
from tests.unit.processor.memory import RETRY_S, DictStore, Forgetful, Oracle, UnwrittenJournal
from tests.unit.processor.parking_model import Model, Order
from tests.unit.processor.parking_walk import ModelEvent

FACT_SHA256 = "aa" * 32


@dataclass(frozen=True)
class Arrival:
    """A record to come. ``copy_of``: the number of an earlier event that is delivered again, perhaps ``changed``."""

    entity: str = "e1"
    fact: str | None = None
    copy_of: int | None = None
    changed: bool = False


@dataclass(frozen=True)
class SearchAct:
    """An order about one event, or about two, by their order."""

    action: str
    events: tuple[int, ...]
    mode: ReplayMode = ReplayMode.ALONE


@dataclass(frozen=True)
class RunToCome:
    """What a run does with events: each by its order, with its version as it was seen."""

    action: str
    targets: tuple[tuple[int, int], ...]
    mode: ReplayMode


@dataclass(frozen=True)
class Scope:
    """What may happen. ``events_max``: first deliveries; ``records_max``: copies too."""

    policy: DeadHead
    answers: tuple[str, ...]
    arrivals: tuple[tuple[Arrival, ...], ...]
    actions: tuple[str, ...]
    events_max: int
    records_max: int
    drain_max: int = 100

    @property
    def rules(self) -> StreamRules:
        config = stream_config(dead_head=self.policy, policy=f"fixed({RETRY_S}s x1)")
        config = config.model_copy(update={"dlq": config.dlq.model_copy(update={"replays_max": 1})})
        return StreamRules(
            config=config, due_per_batch_max=1_000, drain_per_entity_max=self.drain_max, jitter=lambda: 0.0
        )


@dataclass
class SearchState:
    """Where things stand after some batches."""

    model: Model
    clock: datetime
    store: Mapping[bytes, bytes] = field(default_factory=dict)
    last: Mapping[int, JournalRow] = field(default_factory=dict)
    seqs: Mapping[int, int] = field(default_factory=dict)
    next_seq: int = 1
    marks: Marks = field(default_factory=lambda: {EVENTS: {0: 0}, CONTROL: {0: 0}})
    notes: Mapping[str, str] = field(default_factory=dict)
    sent: tuple[tuple[str, ModelEvent, KafkaRecord], ...] = ()
    bodies: tuple[tuple[str, str | None], ...] = ()
    """Entity and fact of each first delivery."""
    runs: tuple[RunToCome, ...] = ()
    """Runs that began and act in the next batch."""
    begun: Mapping[int, JournalRow] = field(default_factory=dict)
    """The rows of runs' commands, by seq."""

    @property
    def records(self) -> int:
        return self.marks[EVENTS][0] + len(self.sent)

    def key(self, scope: Scope) -> bytes:
        """Equal for worlds that have the same futures: what the model knows, and how much of each kind the index keeps.
        Commands' own keys don't count, and entities by no more than which one came first: a scope treats all alike.
        """
        ranks = {entity: rank for rank, entity in enumerate(dict.fromkeys(entity for entity, _ in self.bodies))}
        events = sorted(self.model.events(), key=lambda event: event.order)
        said = [
            (
                *(event.key, event.order, event.kind, event.state, event.attempt, event.holds, event.died),
                *(event.out_of_order, event.replays, event.saw_closed, event.came_before_closing, event.suspect),
                *(event.held, event.is_changed, event.fact, event.told.out_of_order),
                self._in(event.due),
            )
            for event in events
        ]
        waits = [(ranks[entity], event.key, event.is_changed, event.fact) for entity, event, _ in self.sent]
        names = [ranks[entity] for entity in self.model.entities]
        bodies = [(ranks[entity], fact) for entity, fact in self.bodies]
        by_order = {event.order: event for event in events}
        runs = [
            (run.action, run.mode, [(order, by_order[order].version == seen) for order, seen in run.targets])
            for run in self.runs
        ]
        index = Counter(key[:1] for key in self.store if not key.startswith(index_layout.EVENT))
        facts, free = sorted(self.model.facts), sorted(self.model.free)
        whole = (said, waits, names, facts, free, bodies, self._blocked(), sorted(index.items()), runs)
        return hashlib.sha256(repr(whole).encode()).digest()

    def _in(self, due: datetime | None) -> float | None:
        return None if due is None else max(0.0, (due - self.clock).total_seconds())

    def _blocked(self) -> str:
        return self.notes.get("blocked", "").partition('"probe_s"')[0]


def named_record(event_id: str, entity: str, content: str, fact: str | None) -> ParsedRecord:
    body = (event_id + content).encode()
    digest = hashlib.sha256(body).hexdigest()
    return ParsedRecord(
        body=body,
        poison=None,
        event_key=f"stripe:{event_id}:captured",
        entity_key=entity,
        fact_key=fact,
        fact_sha256=FACT_SHA256 if fact is not None else None,
        provider="stripe",
        account="acct_1",
        event_type="captured",
        mode="live",
        tenant=None,
        zone=None,
        occurred_at=None,
        received_at=NOW,
        content_sha256=digest,
        content_version=1,
        body_sha256=digest,
        original_sha256=None,
        original_content_sha256=None,
        dedupe="claimed",
        actor=None,
        headers="{}",
    )


class Search:
    """Goes through all worlds of a scope; what differs from the model raises AssertionError with the way there."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._rules = scope.rules
        self.states = 0
        self.batches = 0
        self._adapter = Same()
        self._bodies: dict[str, bytes] = {}
        self._frozen: dict[str, FrozenSelection] = {}

    def run(self) -> None:
        """Until no world is new."""
        first = self._first()
        seen = {first.key(self.scope)}
        frontier = [first]
        while frontier:
            following = []
            for world in frontier:
                for after in self._futures(world):
                    key = after.key(self.scope)
                    if key not in seen:
                        seen.add(key)
                        following.append(after)
            frontier = following
        self.states = len(seen)

    def _first(self) -> SearchState:
        scope = self.scope
        return SearchState(
            Model(scope.policy, scope.drain_max, replays_max=1, retries_s=(RETRY_S,), held_s=RETRY_S), NOW
        )

    def _futures(self, world: SearchState) -> Iterator[SearchState]:
        for arrivals, acts, seconds in self._inputs(world):
            beginnings: list[list[str]] = [[]]
            while beginnings:
                given = beginnings.pop()
                after, answered = self._decide(world, arrivals, acts, seconds, given)
                yield after
                for number in range(len(given), len(answered)):
                    beginnings += [[*answered[:number], word] for word in self.scope.answers[1:]]

    def _inputs(self, world: SearchState) -> Iterator[tuple[tuple[Arrival, ...], tuple[SearchAct, ...], float]]:
        arrivals = [several for several in self.scope.arrivals if self._may_arrive(world, several)]
        acts = list(self._acts(world))
        waits = any(event.due is not None and event.due > world.clock for event in world.model.events())
        for several in arrivals:
            yield several, (), 0.0
            if waits:
                yield several, (), RETRY_S
        for act in acts:
            yield (), (act,), 0.0
        for several, act in product(arrivals[1:2], acts):
            yield several, (act,), 0.0
        for one, other in permutations(acts, 2):
            if one.events == other.events:
                yield (), (one, other), 0.0

    def _may_arrive(self, world: SearchState, several: Sequence[Arrival]) -> bool:
        first = sum(arrival.copy_of is None for arrival in several)
        there = len(world.bodies)
        if there + first > self.scope.events_max or world.records + len(several) > self.scope.records_max:
            return False
        return all(arrival.copy_of is None or arrival.copy_of < there for arrival in several)

    def _acts(self, world: SearchState) -> Iterator[SearchAct]:
        for event in world.model.events():
            for action in self.scope.actions:
                if action == "replay ignored":
                    if event.state in ("ignored", "unknown", "replayed"):
                        yield SearchAct("replay", (event.order,))
                elif event.is_dead and (action == "replay" or not world.runs):
                    yield SearchAct(action, (event.order,))
        if "replay" in self.scope.actions and not world.runs:
            for events in world.model.entities.values():
                dead = tuple(event.order for event in events if event.is_dead)
                if len(dead) > 1:
                    yield SearchAct("replay", dead, ReplayMode.WITH_FOLLOWERS)

    def _decide(
        self,
        world: SearchState,
        arrivals: Sequence[Arrival],
        acts: Sequence[SearchAct],
        seconds: float,
        words: Sequence[str],
    ) -> tuple[SearchState, list[str]]:
        """One batch by a new process, or obeying and a probe where the stream is blocked; compared with the model.

        Returns what it came to, and all answers that were given: ``words``, then the scope's first one each time.
        """
        self.batches += 1
        sent_before = tuple((entity, event.copy(), record) for entity, event, record in world.sent)
        now = world.clock + timedelta(seconds=seconds)
        after = replace(world, model=world.model.copy(), clock=now, sent=sent_before)
        for arrival in arrivals:
            self._arrive(after, arrival)
        orders, begins, records = self._orders(after, acts)
        clock = ManualClock(after.clock)
        journal = UnwrittenJournal(marks=after.marks, notes=dict(after.notes))
        store = DictStore(after.store)
        oracle = Oracle(words, self.scope.answers[0], stop_on_dead=self.scope.policy is DeadHead.WAIT)
        engine = self._engine(after, journal, store, oracle, clock)
        sent = [record for _, _, record in after.sent]
        if engine.is_blocked:
            self._while_blocked(after, engine, oracle, orders, records, sent, journal)
        else:
            batch_of(engine, [*sent, *records])
            self._batched(after, engine, oracle, orders, journal)
        assert len(oracle.log) >= len(words), "not every answer was asked for"
        after.marks, after.notes, after.store = journal.marks, journal.notes, store.kept
        after.next_seq += len(journal.rows)
        after.runs += begins
        after.begun = {**after.begun, **{row.seq: row for row in journal.rows if row.event_type == RUN and row.first}}
        after.last = {**after.last, **{row.offset: row for row in journal.rows if row.topic == EVENTS}}
        self._agrees(after, engine)
        return after, [call.outcome for call in oracle.log]

    def _engine(
        self, world: SearchState, journal: UnwrittenJournal, store: DictStore, oracle: Oracle, clock: ManualClock
    ) -> Batches:
        state = JournalState(
            epoch=1,
            version=1,
            next_seq=world.next_seq,
            marks=world.marks,
            start={},
            published_upto=0,
            chain="",
            notes=world.notes,
            lineage=LINEAGE,
        )
        index = Index(store)  # type: ignore[arg-type]
        rows = {row.seq: row for row in world.last.values()} | dict(world.begun)
        known = BatchLookups(
            index,
            {"stripe": self._adapter},  # type: ignore[dict-item]
            rows_of=lambda seqs: {seq: rows[seq] for seq in seqs if seq in rows},
            bodies_of=lambda hashes: {sha256: self._bodies[sha256] for sha256 in hashes},
            applied_upto=lambda after: find_applied_upto(world.last.values(), after),
            selections=self._frozen.__getitem__,
        )
        return Batches(
            self._rules,
            Journal(state, journal, journal),  # type: ignore[arg-type]
            known,
            Forgetful(oracle, Path(), clock),
            Derived(index, [], ListDeadLetters()),
            Rereads("ledger", {}),
            clock,
        )

    def _arrive(self, world: SearchState, arrival: Arrival) -> None:
        number = len(world.bodies) if arrival.copy_of is None else arrival.copy_of
        if arrival.copy_of is None:
            world.bodies = (*world.bodies, (arrival.entity, arrival.fact))
        entity, fact = world.bodies[number]
        content = "changed" if arrival.changed else ""
        named = named_record(f"evt_{number}", entity, content, fact)
        self._bodies[named.body_sha256] = named.body
        if fact is not None:
            self._adapter.facts[named.body] = NamedFact(fact, FACT_SHA256)  # type: ignore[assignment]
        event = ModelEvent(named.event_key, world.records, is_changed=arrival.changed, fact=fact)
        record = KafkaRecord(EVENTS, 0, event.order, None, [], named)
        world.sent = (*world.sent, (entity, event, record))

    def _orders(
        self, world: SearchState, acts: Sequence[SearchAct]
    ) -> tuple[list[Order], tuple[RunToCome, ...], list[KafkaRecord]]:
        """Replays of their own, which the next batch obeys, the runs that begin in it, and the records of both."""
        by_order = {event.order: event for event in world.model.events()}
        orders, begins, records = [], [], []
        for number, act in enumerate(acts):
            events = [by_order[order] for order in act.events]
            rows = [world.last[event.order] for event in events]
            targets = tuple(ItemTarget(row.item_seq, row.seq, hash_head(row.row_hash)) for row in rows)
            offset = world.marks[CONTROL][0] + number
            if act.action == "replay" and act.mode is ReplayMode.ALONE:
                command = Command(f"c{offset}", "ledger", LINEAGE, act.action, targets, "ada", "mended", NOW)
                orders.append(Order(act.action, tuple((event, event.version) for event in events)))
            else:
                digest = self._freeze(targets, offset)
                name = command_id_of(digest)
                command = Command(
                    name,
                    "ledger",
                    LINEAGE,
                    RUN,
                    (),
                    "ada",
                    "mended",
                    NOW,
                    None,
                    act.mode,
                    selection=digest,
                    act=act.action,
                )
                begins.append(RunToCome(act.action, tuple((event.order, event.version) for event in events), act.mode))
            records.append(KafkaRecord(CONTROL, 0, offset, encode(command), []))
        return orders, tuple(begins), records

    def _freeze(self, targets: Sequence[ItemTarget], offset: int) -> str:
        """A selection of its own for each command."""
        digest = hashlib.sha256(repr((offset, targets)).encode()).hexdigest()
        if digest not in self._frozen:
            frozen = sorted(targets, key=lambda target: target.item_seq)
            rows = [(target.item_seq, target.seen_seq, int(target.seen_hash, 16), 0) for target in frozen]
            columns = [list(column) for column in zip(*rows, strict=True)]
            table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
            selection = Selection("ledger", NOW, "ada", "", "{}", len(rows), 0, LINEAGE, digest=digest)
            self._frozen[digest] = FrozenSelection(selection, table)
        return digest

    def _batched(
        self, world: SearchState, engine: Batches, oracle: Oracle, orders: Sequence[Order], journal: UnwrittenJournal
    ) -> None:
        assert journal.rows or not (world.sent or orders)
        for entity, event, _ in world.sent:
            world.model.entities.setdefault(entity, []).append(event)
        world.sent = ()
        world.model.begins_batch()
        assert world.model.batch(world.clock, oracle.log) == engine.is_blocked
        by_order = {event.order: event for event in world.model.events()}
        runs = [
            Order(run.action, tuple((by_order[order], seen) for order, seen in run.targets), run.mode)
            for run in world.runs
        ]
        world.runs = ()
        self._obeyed(world, [*orders, *runs])

    def _while_blocked(
        self,
        world: SearchState,
        engine: Batches,
        oracle: Oracle,
        orders: Sequence[Order],
        records: Sequence[KafkaRecord],
        sent: Sequence[KafkaRecord],
        journal: UnwrittenJournal,
    ) -> None:
        if records:
            engine.run_commands(records)
            world.model.begins_batch()
            self._obeyed(world, orders)
            return
        before = len(journal.rows)
        engine.probe(engine.filter_undecided(sent))
        if len(journal.rows) > before or oracle.log:
            world.model.begins_batch()
            taken = world.model.probe(world.clock, oracle.log, [(entity, event) for entity, event, _ in world.sent])
            world.sent = world.sent[len(taken) :]
            world.model.ends_batch(world.clock)
            assert engine.is_blocked == all(call.outcome != "applied" for call in oracle.log)
        else:
            journal.notes = {**journal.notes, **engine._blocked.make_note()}

    def _obeyed(self, world: SearchState, orders: Sequence[Order]) -> None:
        for order in orders:
            if order.action == "replay":
                world.model.replay(order, world.clock)
            else:
                world.model.close(order)
        world.model.ends_batch(world.clock)

    def _agrees(self, world: SearchState, engine: Batches) -> None:
        last = {event: world.last[event.order] for event in world.model.events()}
        world.model.check_decided(last, engine._known.index)
        for events in world.model.entities.values():
            head = next((event for event in events if event.is_open and event.holds), None)
            assert head is None or head.is_dead or head.due is not None, f"nothing wakes {head}"
        booked = [event.fact for event in world.model.events() if event.state == "applied" and event.fact is not None]
        assert len(booked) == len(set(booked)), "one fact was booked twice"


def batch_of(engine: Batches, records: Sequence[KafkaRecord]) -> None:
    """A batch of records, as they come from the map stage."""
    blob = pickle.dumps([(*record[:5], tuple(record.named) if record.named else None, None) for record in records])
    engine.run(pa.table({PACKED: pa.array([blob], pa.binary())}))
