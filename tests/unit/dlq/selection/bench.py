"""Selections over a real engine and a real journal: what is sent is decided, what is decided is followed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from core.decision import Decision
from core.layout import Layout
from dlq.commands import Command, ReplayMode, decode
from dlq.index import DeadLetterIndex
from dlq.limits import AloneLimits
from dlq.selection import (
    FactFinder,
    Outcomes,
    Run,
    Runner,
    SelectionFile,
    Selections,
    SelectionSettings,
)
from dlq.selection.live import Load
from journal.bodies import BodyStore
from journal.writer import JournalWriter
from processor.settings import DeadHead
from tests.unit.processor.harness import CONTROL, EVENTS, Engine, ListJournal

SETTINGS = SelectionSettings(command_items_max=3)
ALONE = AloneLimits(items_max=4)


class Acknowledged:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class EngineKafka:
    """A control topic that the engine reads. ``loses``: it takes a command and never says so; ``down``: it doesn't."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sent: list[Command] = []
        self.loses = self.down = False

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        assert (topic, key.decode()) == (CONTROL, decode(value).command_id)
        if self.down:
            on_delivery("broker down", None)
            return
        self._engine.send(CONTROL, value, [])
        self.sent.append(decode(value))
        if not self.loses:
            on_delivery(None, Acknowledged(len(self.sent) - 1))

    def flush(self, timeout: float) -> int:
        return 0


class Told:
    """Live traffic as a test tells it."""

    def __init__(self) -> None:
        self.behind_s, self._looks = 0.1, 0
        self.stopped: str | None = None

    def read(self, _now: object) -> Load:
        self._looks += 1
        return Load(self.behind_s, self.stopped, str(self._looks))


class Bodies:
    """The stream's bodies as the engine wrote them."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path, self._engine = path, engine
        self._written: set[str] = set()
        self._store = BodyStore(str(path))

    def write(self) -> None:
        fresh = {key: body for key, body in self._engine.bodies.by_hash.items() if key not in self._written}
        self._store.append(list(fresh.items()))
        self._written |= fresh.keys()

    def drop(self, sha256: str) -> None:
        DeltaTable(str(self._path)).delete(f"body_sha256 = '{sha256}'")


class SelectionBench:
    """`dead` events, `selections` to freeze and start them, `round` to let runner, stream and journal go on."""

    def __init__(
        self,
        folder: Path,
        settings: SelectionSettings = SETTINGS,
        alone: AloneLimits = ALONE,
        dead_head: DeadHead = DeadHead.WAIT,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.settings, self.alone = folder, settings, alone
        places = Layout(folder).ledger()
        self.journal = places.journal
        self.engine = Engine(folder, dead_head=dead_head, lineage=self._begin())
        self.finder = FactFinder(places.board, places.journal, places.bodies)
        self.bodies = Bodies(Path(places.bodies), self.engine)
        self.kafka = EngineKafka(self.engine)
        self.load = Told()
        self.board = DeadLetterIndex(places.board, places.journal, places.bodies, self.engine.clock)
        self.file = SelectionFile(places.selections)
        self.outcomes = Outcomes(self.file, self.journal, CONTROL)
        self.selections = Selections(
            "ledger",
            self.file,
            self.board,
            self.outcomes,
            settings,
            alone,
            self.engine.clock,
        )
        self.runner = self.another("console-1")

    def _begin(self) -> str:
        """A journal without rows; its lineage."""
        self._writer = JournalWriter.create_or_open(str(self.journal), "ledger")
        self._written = 0
        return self._writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}}).lineage

    def restore(self, older: ListJournal) -> None:
        """An older copy takes the journal's place, under a lineage of its own."""
        shutil.rmtree(str(self.journal))
        self.engine.restore(older, self._begin())
        self.commit()

    def another(self, owner: str, producer: Any = None) -> Runner:
        """Another process's runner on the same file; ``producer``: to a Kafka of its own."""
        return Runner(
            "ledger",
            self.file,
            self.outcomes,
            producer or self.kafka,
            CONTROL,
            self.load,
            self.settings,
            self.engine.clock,
            owner,
        )

    def dead(self, count: int, entity: str = "", times: int = 1) -> list[str]:
        """Events that die ``times`` times, each of an entity of its own where none is named."""
        keys = []
        for number in range(count):
            name = f"evt_{len(self.engine.journal.rows)}_{number}"
            key = self.engine.post(name, entity or name)
            self.engine.handler.fails(key, ZeroDivisionError("division by zero"), times=times)
            keys.append(key)
        self.decide()
        return keys

    def decide(self) -> None:
        """One batch, and its rows in the journal."""
        self.engine.batch()
        self.commit()

    def commit(self) -> None:
        """What the engine decided since, each batch in a commit of its own."""
        rows = self.engine.journal.rows[self._written :]
        if rows:
            self.bodies.write()
            for _, batch in groupby(rows, key=lambda row: row.batch_seq):
                commit = list(batch)
                self._writer.commit(commit, self.engine.journal.marks_after[commit[-1].seq], 0)
        self._written = len(self.engine.journal.rows)

    def round(self, times: int = 1, seconds: float = 1.0, runner: Runner | None = None) -> None:
        """The runner does what it may, the stream decides, time passes."""
        for _ in range(times):
            (runner or self.runner).step()
            self.decide()
            self.engine.clock.advance(seconds)

    def counts(self, number: int) -> dict[str, int]:
        """Items of a run by state, without those that there are none of."""
        return {state.value: count for state, count in self.selections.progress(number).counts.items() if count}

    def states(self, number: int) -> list[str]:
        return [one.state.value for one in self.selections.items(number, limit=1_000)]

    def replay(self, number: int, **more: Any) -> None:
        more["mode"] = ReplayMode(more.get("mode", "alone"))
        self.selections.start(number, Run("replay", "mended", **more), "ada")

    def applied(self) -> int:
        return sum(row.decision is Decision.APPLIED for row in self.engine.journal.rows)


__all__ = ["SETTINGS", "SelectionBench"]
