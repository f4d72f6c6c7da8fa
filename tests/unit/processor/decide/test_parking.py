"""Any interleaving of arrivals, failures, restarts and orders does what a plain model says, and loses nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.keys import join_key
from core.work import DownstreamHeld, MissingPredecessor, Outcome, WorkItem
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import PROPOSE_RUN, Command, ReplayMode, approve
from operations.commands import encode
from operations.settings import DlqSettings
from processor.settings import DeadHead
from tests.examples import examples
from tests.unit.processor.fakes import Crash, Down, Stuck, booked, ignored, unknown
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine
from tests.unit.processor.ordering import send_run
from tests.unit.processor.parking_model import Model, Order
from tests.unit.processor.parking_walk import HELD_S, ModelEvent

ENTITIES = st.sampled_from(["e1", "e1", "e1", "e2"])
TRIES = st.sampled_from(
    [
        *[[]] * 5,
        *[["bug"]] * 2,
        *[["bug"] * 4] * 3,
        *[["ignored"]] * 2,
        *[["unknown"]] * 2,
        ["ignored", "unknown", "stuck"],
        ["ignored", "bug"],
        ["missing", "ignored", "missing", "bug"],
        ["stuck", "ignored"],
        ["stuck"],
        ["stuck", "held", "stuck"],
        ["stuck", "bug"],
        ["stuck"] * 7,
        ["held"],
        ["down"],
        ["missing"],
        ["missing"] * 6,
        ["bug", "bug"],
        ["bug", "missing", "bug"],
        ["bug", "stuck"],
        ["bug", "held", "missing"],
        ["missing"] * 6 + ["missing", "bug"],
    ]
)
"""What becomes of an event's tries, one after the other; then it is applied."""

CRASHES = st.sampled_from(["", "", "", "", "before", "after"])
RESTARTS = st.sampled_from(["", "", "", "", "index kept", "index lost"])
ORDERS = st.tuples(
    st.sampled_from([*["replay"] * 3, "purge", "resolve", "release", *["replay ignored"] * 2]),
    st.sets(st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([*[ReplayMode.ALONE] * 3, ReplayMode.WITH_FOLLOWERS]),
    st.sampled_from([False, False, True]),
)
"""What is ordered: the act, which of the events, and how a replay is to run."""

SECONDS = st.sampled_from([0, 0, 1, 2, 4, 20])
ROUNDS_MAX = 1_000


def acts(key: str, words: list[str]) -> Outcome:
    """What the handler does next with an event; everything works once the words are used up."""
    match words.pop(0) if words else "applied":
        case "stuck":
            raise Stuck("no answer")
        case "bug":
            raise ZeroDivisionError("division by zero")
        case "held":
            raise DownstreamHeld("merchants", HELD_S)
        case "missing":
            raise MissingPredecessor(key, "its capture")
        case "down":
            raise Down("the directory is down")
        case "ignored":
            return ignored(None)  # type: ignore[arg-type]
        case "unknown":
            return unknown(None)  # type: ignore[arg-type]
    return booked()


class Parking(RuleBasedStateMachine):
    """The engine beside the model; what is in Kafka and not decided yet waits in ``sent``."""

    @initialize(
        policy=st.sampled_from(list(DeadHead)),
        drain_max=st.sampled_from([1, 2, 3, 100]),
        replays_max=st.sampled_from([1, 1, 2, 5]),
        due_max=st.sampled_from([1, 2, 3, 1_000, 1_000]),
    )
    def begins(self, policy: DeadHead, drain_max: int, replays_max: int, due_max: int) -> None:
        self.folder = tempfile.mkdtemp()
        self.engine = Engine(Path(self.folder), dead_head=policy, drain_per_entity_max=drain_max)
        self.engine.rules = replace(self.engine.rules, due_per_batch_max=due_max)
        self.engine.configure(dlq=DlqSettings(replays_max=replays_max))
        self.engine.start()
        self.model = Model(policy, drain_max, replays_max, due_max)
        self.sent: list[tuple[str, ModelEvent]] = []
        self.commands: list[Order] = []
        self.began: list[Order] = []
        self.runs: list[Order] = []
        self.proposed: list[tuple[Order, Command]] = []
        self.bodies: list[tuple[str, str, str]] = []
        self.offset = 0
        self.fresh = self.given = 0

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self._everything_ends_well()
            self.engine.index.close()
            shutil.rmtree(self.folder)

    # One rule: Hypothesis leaves rules out of whole examples, and every part is needed for the others to matter.
    @rule(
        arriving=st.lists(st.tuples(ENTITIES, TRIES), max_size=4),
        again=st.none() | st.tuples(st.integers(0, 50), st.booleans()),
        orders=st.just([]) | st.lists(ORDERS, min_size=1, max_size=3),
        seconds=SECONDS,
        crash=CRASHES,
        restart=RESTARTS,
    )
    def time_passes(
        self,
        arriving: list[tuple[str, list[str]]],
        again: tuple[int, bool] | None,
        orders: list[tuple[str, set[int], ReplayMode, bool]],
        seconds: float,
        crash: str,
        restart: str,
    ) -> None:
        """A batch of new events, perhaps one that is delivered again, changed or not, and a command; then a new process
        follows, or must.
        """
        for entity, words in arriving:
            self._arrives(entity, words)
        if again is not None and self.bodies:
            self._arrives_again(*again)
        self._approve()
        for order in orders:
            self._order(*order)
        self.engine.clock.advance(seconds)
        self.engine.journal.crash = crash
        crashed = self._batch()
        self.engine.journal.crash = ""
        if crashed or restart:
            self.engine.start(keeps_index=restart != "index lost")
            if restart == "index lost":
                self.model.loses_index()

    def _arrives(self, entity: str, words: list[str]) -> None:
        self.fresh += 1
        key = self._send(f"evt_{self.fresh}", entity, changed=False)
        left = list(words)

        def act(_: WorkItem) -> Outcome:
            return acts(key, left)

        self.engine.handler.script[key] = act
        self.bodies.append((f"evt_{self.fresh}", entity, key))

    def _arrives_again(self, which: int, changed: bool) -> None:
        """Every second time one whose key was freed, where there is one."""
        released = {event.key for event in self.model.events() if event.state == "released"}
        freed = [body for body in self.bodies if body[2] in released]
        bodies = freed if freed and which % 2 else self.bodies
        event_id, entity, _ = bodies[which % len(bodies)]
        self._send(event_id, entity, changed=changed)

    def _send(self, event_id: str, entity: str, *, changed: bool) -> str:
        key = self.engine.post(event_id, entity, "changed" if changed else "")
        event = ModelEvent(key, self.offset, is_changed=changed)
        self.sent.append((entity, event))
        self.offset += 1
        return key

    def _order(self, action: str, which: set[int], mode: ReplayMode, force: bool) -> None:
        """What can be replayed are dead events, or ignored ones; what is closed is dead."""
        events = [event for event in self.model.events() if self._may_be_ordered(action, event)]
        chosen = tuple((event, event.version) for number, event in enumerate(events) if number in which)
        if not chosen:
            return
        if action == "replay ignored":
            self._send_order(Order("replay", chosen))
        elif action == "replay":
            self._send_order(Order(action, chosen, mode, force))
        else:
            self._send_order(Order(action, chosen))

    def _may_be_ordered(self, action: str, event: ModelEvent) -> bool:
        if action == "replay ignored":
            return event.state in ("ignored", "unknown", "applied", "replayed")
        return event.is_dead

    def _send_order(self, how: Order) -> None:
        """Sends a replay as a command of its own where it can be one, else as a run. The run of a release is proposed
        first (`_approve`)."""
        targets = tuple(ItemTarget.of_row(self._last(event)) for event, _ in how.targets)
        self.given += 1
        if (how.action, how.mode, how.force) == ("replay", ReplayMode.ALONE, False):
            number = f"c{self.given}"
            command = Command(number, "ledger", self.engine.lineage, "replay", targets, "ada", "mended", NOW)
            self.engine.send(CONTROL, encode(command), [])
            self.commands.append(how)
        elif how.action == "release":
            self.proposed.append((how, send_run(self.engine, how.action, *targets, action=PROPOSE_RUN)))
        else:
            send_run(self.engine, how.action, *targets, mode=how.mode, force=how.force)
            self.began.append(how)

    def _approve(self) -> None:
        """Another person approves the releases whose proposal is decided."""
        decided = {row.event_key for row in self.engine.journal.rows}
        for how, first in list(self.proposed):
            if join_key("payhook", first.command_id, first.action) not in decided:
                continue
            self.proposed.remove((how, first))
            self.engine.send(CONTROL, encode(approve(first, "grace", "checked", NOW, first.command_id)), [])
            self.began.append(how)

    def _batch(self) -> bool:
        """One batch, or orders and a probe where the stream is blocked, in the engine and in the model; whether it
        crashed."""
        if self.engine.batches.is_blocked:
            return self._decides(self.engine.obey, self._obeyed) or self._decides(self.engine.probe, self._probed)
        return self._decides(self.engine.batch, self._batched)

    def _decides(self, decide: Callable[[], object], follow: Callable[[], None]) -> bool:
        """``follow``: what the model does unless the batch was lost in a crash, before it had any row."""
        rows, crashed = len(self.engine.journal.rows), False
        self.engine.handler.log.clear()
        try:
            decide()
        except Crash:
            crashed = True
        if not crashed or len(self.engine.journal.rows) > rows:
            self.model.begins_batch()
            follow()
            self.model.ends_batch(self.engine.clock.now(), crashed=crashed)
        if not crashed:
            self._agrees()
        return crashed

    def _batched(self) -> None:
        for entity, event in self.sent:
            self.model.entities.setdefault(entity, []).append(event)
        self.sent = []
        now, log = self.engine.clock.now(), list(self.engine.handler.log)
        assert self.model.batch(now, log) == self.engine.batches.is_blocked
        runs, self.runs = self.runs, []
        self._obeyed()
        self._carry_out(runs)

    def _probed(self) -> None:
        now, log = self.engine.clock.now(), list(self.engine.handler.log)
        is_tried = bool(self.sent or self.model.due(now))
        taken = self.model.probe(now, log, self.sent)
        del self.sent[: len(taken)]
        assert self.engine.batches.is_blocked == (is_tried and all(call.outcome != "applied" for call in log))

    def _obeyed(self) -> None:
        """Commands are carried out at once; runs that begin act in the next batch of a stream that isn't blocked."""
        commands, self.commands = self.commands, []
        self._carry_out(commands)
        self.runs += self.began
        self.began = []

    def _carry_out(self, orders: Sequence[Order]) -> None:
        for order in orders:
            if order.action == "replay":
                self.model.replay(order, self.engine.clock.now())
            else:
                self.model.close(order)

    def _last(self, event: ModelEvent) -> JournalRow:
        return next(
            row for row in reversed(self.engine.journal.rows) if (row.topic, row.offset) == (EVENTS, event.order)
        )

    def _agrees(self) -> None:
        self.model.check_decided({event: self._last(event) for event in self.model.events()}, self.engine.index)

    @invariant()
    def every_offset_has_one_first_row(self) -> None:
        if not hasattr(self, "engine"):
            return
        first = [(row.topic, row.offset) for row in self.engine.journal.rows if row.first]
        assert len(first) == len(set(first))
        for topic, partitions in self.engine.journal.marks.items():
            assert sorted(offset for name, offset in first if name == topic) == list(range(partitions[0]))

    @invariant()
    def what_waits_is_woken_by_time_or_by_a_person(self) -> None:
        if not hasattr(self, "engine"):
            return
        for events in self.model.entities.values():
            head = next((event for event in events if event.is_open and event.holds), None)
            assert head is None or head.is_dead or head.due is not None
            assert all(event.due is not None for event in events if event.state == "retry")

    def _everything_ends_well(self) -> None:
        """Handlers work again, time passes, and every dead event is replayed: nothing is lost, and all is in order."""
        self.engine.handler.script.clear()
        for _ in range(ROUNDS_MAX):
            on_way = [*self.sent, *self.commands, *self.began, *self.runs]
            if on_way or any(self._is_left(event) for event in self.model.events()):
                left = [event for event in self.model.events() if event.is_dead and self._is_left(event)]
                if left and not self.began and not self.runs:
                    self._send_order(Order("replay", tuple((event, event.version) for event in left), force=True))
                self.engine.clock.advance(60)
                self._batch()
        assert not [event.key for event in self.model.events() if self._is_left(event)], "these never ended"
        assert not self.sent
        self._applied_once_and_in_order()

    def _is_left(self, event: ModelEvent) -> bool:
        return event.is_open and event.kind == "event"

    def _applied_once_and_in_order(self) -> None:
        """A row that says ``out_of_order`` comes after a later one of its entity, and no other row does."""
        applied: dict[str, list[int]] = {}
        keys: set[str | None] = set()
        for row in self.engine.journal.rows:
            if row.decision.value == "applied":
                before = applied.setdefault(row.entity_key or "", [])
                assert row.item_seq not in before
                assert row.event_key not in keys, "two contents of one key took effect"
                keys.add(row.event_key)
                assert row.out_of_order == any(other > row.item_seq for other in before)
                before.append(row.item_seq)


Parking.TestCase.settings = settings(
    max_examples=examples(25), stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestParking = Parking.TestCase


def test_a_purge_wakes_nobody_behind_an_event_that_died_in_the_same_batch() -> None:
    """An ignored event is replayed beside its entity's queue, dies, and so holds back what waits there; the head of
    the queue is purged in that batch. Who comes next is behind the dead one, and waits."""
    parking = Parking()
    parking.begins(policy=DeadHead.WAIT, drain_max=1, replays_max=1, due_max=1_000)
    alone = (ReplayMode.ALONE, False)
    try:
        _step(parking, arriving=[["ignored", "bug"], [], ["bug"], []])
        for _ in range(3):
            _step(parking)
        states = [event.state for event in parking.model.events()]
        assert states == ["ignored", "applied", "dead", "parked"]
        _step(parking, orders=[("replay ignored", {0}, *alone), ("purge", {0}, *alone)])
        _step(parking)
        woken = parking.model.events()[-1].due
        states = [event.state for event in parking.model.events()]
        assert (woken, states) == (None, ["dead", "applied", "purged", "parked"])
    finally:
        parking.teardown()


def _step(
    parking: Parking,
    arriving: Sequence[list[str]] = (),
    orders: Sequence[tuple[str, set[int], ReplayMode, bool]] = (),
    seconds: float = 0,
) -> None:
    """One batch of an entity's new events and of orders, without a crash."""
    new = [("e1", words) for words in arriving]
    parking.time_passes(arriving=new, again=None, orders=list(orders), seconds=seconds, crash="", restart="")
