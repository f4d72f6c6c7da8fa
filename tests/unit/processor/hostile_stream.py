"""A stream in which handlers, adapters, senders and operators do anything: it goes on, and each costs itself alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st

from core.decision import OPEN_DECISIONS, Decision
from core.event import Dedupe, poison_event, to_headers
from core.work import Outcome, WorkItem
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.limits import AloneLimits
from processor.errors.classify import RETRY_AFTER_S_MAX
from processor.settings import DeadHead
from tests.unit.processor.fakes import Same, booked
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine
from tests.unit.processor.hostile import MADE_SAFE, ODD_ANSWERS, ODD_ERRORS
from tests.unit.processor.hostile_records import (
    ODD_COMMANDS,
    ODD_EVENTS,
    ODD_FACTS,
    ODD_HASHES,
    ODD_HEADERS,
    OddAdapter,
    odd_event,
)
from tests.unit.processor.ordering import command, send_run

ROUNDS_MAX = 60

ANSWERS = {**ODD_ANSWERS, **{name: answer for name, (answer, _) in MADE_SAFE.items()}}
ADAPTERS = {**ODD_HASHES, **ODD_EVENTS, **ODD_FACTS}
ACTIONS = ("replay", "purge", "resolve")


@dataclass(frozen=True)
class HostileBatch:
    """One batch. ``arriving``: events by entity, each with what its tries come to (names of `ANSWERS`, `ODD_ERRORS`);
    then it is applied. ``copy``: which event is delivered again, and by which version of left-out fields. ``adapter``:
    what the adapter does with any body (a name of `ADAPTERS`), or "" for what is right. ``orders``: acts on items by
    their number. ``header`` and ``raw``: an odd record and an odd command.
    """

    arriving: tuple[tuple[str, tuple[str, ...]], ...] = ()
    copy: tuple[int, int] | None = None
    poison: bool = False
    adapter: str = ""
    orders: tuple[tuple[str, int], ...] = ()
    header: str = ""
    raw: str = ""
    seconds: int = 0


def steps() -> st.SearchStrategy[list[HostileBatch]]:
    names = st.sampled_from([*ANSWERS, *ODD_ERRORS])
    tries = st.just(()) | st.lists(names, min_size=1, max_size=3).map(tuple)
    arriving = st.lists(st.tuples(st.sampled_from(["e1", "e1", "e2", "e3"]), tries), max_size=4).map(tuple)
    seldom = st.integers(0, 3).map(lambda number: number == 0)
    step = st.builds(
        HostileBatch,
        arriving=arriving,
        copy=st.none() | st.tuples(st.integers(0, 20), st.sampled_from([1, 9])),
        poison=seldom,
        adapter=st.just("") | st.sampled_from(list(ADAPTERS)),
        orders=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 20)), max_size=3).map(tuple),
        header=st.just("") | st.sampled_from(list(ODD_HEADERS)),
        raw=st.just("") | st.sampled_from(list(ODD_COMMANDS)),
        seconds=st.sampled_from([0, 1, 20]),
    )
    return st.lists(step, min_size=1, max_size=8)


def run(folder: Path, policy: DeadHead, todo: Sequence[HostileBatch]) -> None:
    """
    :raises AssertionError: something wasn't decided, or an order wasn't obeyed; whatever else is raised stopped the
        stream
    """
    engine = Engine(folder, dead_head=policy)
    engine.limit_one_person(AloneLimits(items_max=10**6))
    engine.start()
    stream = HostileStream(engine)
    try:
        for step in todo:
            stream.take(step)
        stream.end_well()
    finally:
        stream.engine.index.close()


class HostileStream:
    """The engine, and what was sent to it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.sent: list[tuple[str, str]] = []
        self.orders = 0

    def take(self, step: HostileBatch) -> None:
        engine = self.engine
        for entity, tries in step.arriving:
            self.sent.append((f"evt_{len(self.sent)}", entity))
            engine.handler.script[engine.post(*self.sent[-1])] = _acts(tries)
        if step.copy is not None and self.sent:
            which, version = step.copy
            engine.post(*self.sent[which % len(self.sent)], content_version=version)
        if step.poison:
            body = b"{%d" % len(engine.journal.rows)
            engine.send(EVENTS, body, to_headers(poison_event("stripe", body, "live", "no JSON"), NOW, Dedupe.CLAIMED))
        if step.header:
            name, value = ODD_HEADERS[step.header]
            headers = [one for one in to_headers(odd_event()()[0], NOW, Dedupe.CLAIMED) if one[0] != name]
            engine.send(EVENTS, b"{}", [*headers, (name, value)])
        if step.raw:
            engine.send(CONTROL, ODD_COMMANDS[step.raw], [])
        engine.adapters["stripe"] = OddAdapter(ADAPTERS[step.adapter]) if step.adapter else Same()
        items = [row for row in self.last_rows() if row.topic == EVENTS]
        for action, which in step.orders if items else ():
            self.order(action, items[which % len(items)])
        engine.clock.advance(step.seconds)
        self.batch()

    def order(self, action: str, *rows: JournalRow) -> None:
        """Has items replayed by a command, or closed by a run."""
        self.orders += 1
        give = command if action == "replay" else send_run
        give(self.engine, action, *map(ItemTarget.of_row, rows), actor=f"ada-{self.orders}")

    def batch(self) -> list[JournalRow]:
        """A batch: whatever was sent is decided in it, each offset once."""
        engine = self.engine
        sent = {(record["topic"], record["offset"]) for record in engine._pending}
        rows = engine.batch()
        assert not engine.batches.is_blocked
        first = [(row.topic, row.offset) for row in rows if row.first]
        assert set(first) == sent and len(first) == len(sent)
        return rows

    def last_rows(self) -> list[JournalRow]:
        """Of each item the last row."""
        return list({row.item_seq: row for row in self.engine.journal.rows}.values())

    def end_well(self) -> None:
        """Handlers and adapters work again, and what is dead is purged: nothing is left, and everything was obeyed."""
        engine = self.engine
        engine.handler.script.clear()
        engine.adapters["stripe"] = Same()
        self.batch()  # in which the last runs act
        for _ in range(ROUNDS_MAX):
            left = [row for row in self.last_rows() if row.topic == EVENTS and row.decision in OPEN_DECISIONS]
            if not left:
                break
            dead = [row for row in left if row.decision is Decision.DEAD]
            if dead:
                self.order("purge", *dead)
            self.batch()
            engine.clock.advance(RETRY_AFTER_S_MAX)
            self.batch()
            decided = {row.item_seq: row.decision for row in self.last_rows()}
            assert all(decided[row.item_seq] is Decision.PURGED for row in dead), "a purge wasn't obeyed"
        else:
            raise AssertionError(f"these never ended: {[(row.event_key, row.decision) for row in left]}")
        self._beside_them_nothing_was_lost()

    def _beside_them_nothing_was_lost(self) -> None:
        """An event that was never tried in an odd way, nor closed by a person, took effect once."""
        applied = [row.event_key for row in self.engine.journal.rows if row.decision is Decision.APPLIED]
        assert len(applied) == len(set(applied))
        odd = {row.event_key for row in self.engine.journal.rows if row.decision in _NOT_FINE}
        assert {f"stripe:{event_id}:charge.captured" for event_id, _ in self.sent} - odd <= set(applied)


_NOT_FINE = frozenset(
    {Decision.DEAD, Decision.RETRY, Decision.IGNORED, Decision.UNKNOWN, Decision.PURGED, Decision.RESOLVED}
)


def _acts(names: Sequence[str]) -> Callable[[WorkItem], Outcome]:
    left = list(names)

    def act(_: WorkItem) -> Outcome:
        if not left:
            return booked()
        name = left.pop(0)
        if name in ODD_ERRORS:
            raise ODD_ERRORS[name]()
        return ANSWERS[name]()  # type: ignore[no-any-return]

    return act


EVERYTHING = tuple(
    replace(HostileBatch(), arriving=(("e1", (name,)), ("e2", ())), copy=(index, 9), adapter=adapter)
    for index, (name, adapter) in enumerate(zip([*ANSWERS, *ODD_ERRORS], list(ADAPTERS) * 4, strict=False))
)
"""Each odd answer and error once, beside an odd adapter and another entity's events."""
