"""Selections over a real engine and a real journal: what is ordered is decided, what is decided is followed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from core.decision import Decision
from core.layout import Layout
from core.status_file import StreamStatuses
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.payload import Payloads
from journal.bodies import BodyStore
from journal.writer import JournalWriter
from operations.audit_log import AuditEntry
from operations.command import Command, ReplayMode
from operations.commands import decode, encode
from operations.frozen import PortionResult, SelectionFiles
from operations.limits import AloneLimits
from operations.orders import OrderSender
from operations.recorder import Recorder
from operations.selection.dry_run import DryRuns
from operations.selection.facts import FactFinder
from operations.selection.journal import RunLog
from operations.selection.model import RunRequest
from operations.selection.runs import RunOrders
from operations.selection.selections import IgnoredEventFinder, Selections
from processor.decide import runs
from processor.settings import DeadHead
from tests.unit.dlq.publishing import Acknowledged
from tests.unit.processor.fakes import ListJournal
from tests.unit.processor.harness import CONTROL, EVENTS, Engine

ALONE = AloneLimits(items_max=4)
PORTION = 3


class Acts:
    """What was recorded."""

    def __init__(self) -> None:
        self.acts: list[AuditEntry] = []

    def record(self, entry: AuditEntry) -> object:
        self.acts.append(entry)
        return entry


class EngineKafka:
    """A control topic that the bench's engine reads. ``down``: it takes no command; ``late``: it takes the next
    one and doesn't say so in time. ``first``: what comes before the next one; ``then``: what comes after each."""

    def __init__(self, bench: SelectionBench) -> None:
        self._bench = bench
        self.down = self.late = False
        self.first: Callable[[], None] = lambda: None
        self.then: Callable[[], None] = lambda: None

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        assert (topic, key.decode()) == (CONTROL, decode(value).command_id)
        first, self.first = self.first, lambda: None
        first()
        if self.down:
            on_delivery("broker down", None)
            return
        self._bench.send(decode(value))
        late, self.late = self.late, False
        on_delivery("timed out" if late else None, Acknowledged())
        self.then()

    def flush(self, timeout: float) -> int:
        return 0


class EngineBodies:
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
    """`dead` events, `selections` to freeze and start them, `round` to let stream and journal go on.

    ``portion``: most items that a run takes at a time.
    """

    def __init__(
        self,
        folder: Path,
        portion: int = PORTION,
        alone: AloneLimits = ALONE,
        dead_head: DeadHead = DeadHead.WAIT,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.alone, self.kafka = folder, alone, EngineKafka(self)
        self.portion = portion
        self.places = places = Layout(folder).ledger()
        self.journal, self.status = places.journal, places.status
        self.engine = Engine(folder, dead_head=dead_head, lineage=self._begin())
        self.engine.selections = SelectionFiles(places.selections)
        self.finder = FactFinder(places.dead_letter_index, places.journal, places.bodies_table)
        self.bodies = EngineBodies(Path(places.bodies_table), self.engine)
        payloads = Payloads(places.bodies_table)
        self.index = DeadLetterIndex(places.dead_letter_index, places.journal, payloads, self.engine.clock)
        self.sent: list[Command] = []
        self.acts = Acts()
        self.status_urls: Sequence[str] = ()
        self.selections, self.runs = self.another()
        self.dry_runs = DryRuns(self.selections.files, self.index, self.finder, self.engine.clock)

    def another(self, acts: Any = None, channel: str = "cli") -> tuple[Selections, RunOrders]:
        """Another process on the same stream. What it orders is decided while it waits."""
        clock, log = self.engine.clock, RunLog(self.places.journal, CONTROL)
        recorder = Recorder(acts or self.acts, clock, channel)
        selections = Selections(
            self.places,
            log,
            self.index,
            clock,
            recorder,
            IgnoredEventFinder(self.places.journal, Payloads(self.places.bodies_table).fetch_kept, None),
            StreamStatuses({self.places.stream: self.places.status}, self.status_urls),
        )
        orders = OrderSender(lambda: self.kafka, CONTROL, recorder)
        return selections, RunOrders(selections, orders, self.alone, clock, lambda _: self.decide())

    def send(self, command: Command) -> None:
        """Into Kafka."""
        self.sent.append(command)
        self.engine.send(CONTROL, encode(command), [])

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
        with pytest.MonkeyPatch.context() as patched:
            for name in ("WINDOW_FIRST", "WINDOW_MAX"):
                patched.setattr(runs, name, self.portion)
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

    def round(self, times: int = 1, seconds: float = 1.0) -> None:
        """The stream decides, time passes."""
        for _ in range(times):
            self.decide()
            self.engine.clock.advance(seconds)

    def counts(self, number: int) -> dict[str, int]:
        """Items of a run by state, without those that there are none of."""
        return {state.value: count for state, count in self.selections.progress(number).counts.items() if count}

    def states(self, number: int) -> list[str]:
        return [one.state.value for one in self.selections.items(number, limit=1_000)]

    def replay(self, number: int, **more: Any) -> None:
        more["mode"] = ReplayMode(more.get("mode", "alone"))
        self.runs.start(number, RunRequest("replay", "mended", **more), "ada")

    def applied(self) -> int:
        return sum(row.decision is Decision.APPLIED for row in self.engine.journal.rows)

    def portions(self) -> list[PortionResult]:
        rows = self.engine.journal.rows
        return [PortionResult.of_headers(row.headers) for row in rows if row.decision is Decision.PORTION]


__all__ = ["SelectionBench"]
