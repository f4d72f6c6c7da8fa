"""Orders on a real Delta journal whose folder was put back from a copy: the index is made of what is there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from core.decision import Decision
from journal.reader import JournalReader, lineage_of
from journal.schema import JournalRow
from journal.state import Marks
from journal.writer import CommittedBatch, JournalWriter
from operations.command import PROPOSE_REVERSAL, Command, approve
from operations.commands import encode
from operations.orders import DeltaView, OrderedItem, as_seen
from tests.unit.processor.fakes import ListJournal, ignored
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine
from tests.unit.processor.ordering import decided, decided_run, given_run

START: Marks = {EVENTS: {0: 0}, CONTROL: {0: 0}}


class RestorableJournal(ListJournal):
    """A journal on Delta, as its newest writer has it."""

    def __init__(self, path: Path) -> None:
        self.writer = JournalWriter.create_or_open(str(path), "ledger")
        state = self.writer.begin_epoch(START)
        rows = [row for some in JournalReader(str(path)).rows_after(0) for row in some]
        super().__init__(rows=rows, marks=state.marks)

    def commit(
        self, rows: Sequence[JournalRow], marks: Marks, published_upto: int, notes: Mapping[str, str]
    ) -> CommittedBatch:
        super().commit(rows, marks, published_upto, notes)
        return self.writer.commit(rows, marks, published_upto, notes)


class DeltaEngine(Engine):
    """`Engine` over a journal on Delta."""

    def __init__(self, folder: Path) -> None:
        self.path, self.kept = folder / "journal", folder / "copy"
        super().__init__(folder)
        self.journal = RestorableJournal(self.path)
        self.lineage = lineage_of(str(self.path))
        self.start()

    def fill_index(self) -> None:
        if self.path.exists():
            self.index.catch_up(JournalReader(str(self.path)), self.bodies)  # type: ignore[arg-type]

    def keep(self) -> None:
        """Copies the journal's folder."""
        shutil.copytree(self.path, self.kept)

    def put_back(self) -> None:
        """The copy takes the journal's place."""
        shutil.rmtree(self.path)
        shutil.copytree(self.kept, self.path)
        self.restore(RestorableJournal(self.path), lineage_of(str(self.path)))

    def seen(self, action: str, item_seq: int) -> Command:
        """An order as its makers build it: of what the journal holds now."""
        view = DeltaView(self.path, CONTROL)
        [row] = view.last_rows([item_seq]).values()
        [target] = (
            as_seen([OrderedItem(item_seq)], {item_seq: row})
            if row.decision is Decision.DEAD
            else [self.target(item_seq, row.seq)]
        )
        return Command(f"{action}-{item_seq}", "ledger", view.lineage(), action, (target,), "ada", "garbage", NOW)

    def give(self, command: Command) -> JournalRow:
        self.send(CONTROL, encode(command), [])
        return decided(self)


@pytest.fixture
def engine(tmp_path: Path) -> DeltaEngine:
    engine = DeltaEngine(tmp_path)
    engine.post("evt_1", "e1")
    engine.batch()
    engine.keep()
    return engine


def second(engine: DeltaEngine, event_id: str, came: str) -> str:
    """The event that is item 2, and dies, is ignored or is applied."""
    key = engine.post(event_id, f"of {event_id}")
    if came == "dead":
        engine.handler.fails(key, ZeroDivisionError("division by zero"))
    elif came == "ignored":
        engine.handler.script[key] = ignored
    [row] = engine.batch()
    assert (row.item_seq, row.seq, row.decision.value) == (2, 2, came)
    return key


@pytest.mark.parametrize("act", ["replay", "purge", "resolve"])
def test_a_run_of_before_closes_no_other_event(engine: DeltaEngine, act: str) -> None:
    second(engine, "evt_2", "dead")
    run = given_run(engine, act, *engine.seen("replay", 2).targets)
    engine.put_back()
    other = second(engine, "evt_3", "dead")
    engine.send(CONTROL, encode(run), [])
    assert "item 2 has another row 2 than the one that was seen" in decided_run(engine, run).refusals
    assert engine.decisions(other) == ["dead"]


@pytest.mark.row("F1")
@pytest.mark.parametrize("came", ["dead", "ignored"])
def test_an_order_of_before_does_nothing_to_the_event_that_has_its_number_now(engine: DeltaEngine, came: str) -> None:
    second(engine, "evt_2", came)
    order = engine.seen("replay", 2)
    engine.put_back()
    other = second(engine, "evt_3", came)
    assert engine.lineage == order.lineage
    control = engine.give(order)
    assert (control.decision, engine.decisions(other)) == (Decision.IGNORED, [came])
    assert "item 2 has another row 2 than the one that was seen: the journal was restored since" in str(control.reason)


def test_an_approved_reversal_of_before_reverses_nothing(engine: DeltaEngine) -> None:
    second(engine, "evt_2", "applied")
    booked = engine.seen("reverse", 2).targets
    first = Command.with_new_id("ledger", engine.lineage, PROPOSE_REVERSAL, booked, "ada", "captured twice", NOW)
    engine.put_back()
    other = second(engine, "evt_3", "applied")
    for command in (first, approve(first, "bob", "I looked", NOW)):
        assert "restored" in str(engine.give(command).reason)
    assert engine.decisions(other) == ["applied"]


def test_what_is_seen_after_the_restore_is_carried_out(engine: DeltaEngine) -> None:
    second(engine, "evt_2", "dead")
    engine.put_back()
    other = second(engine, "evt_3", "dead")
    engine.restore(RestorableJournal(engine.path), engine.lineage)
    control = engine.give(engine.seen("replay", 2))
    assert (control.decision, engine.decisions(other)) == (Decision.REPLAYED, ["dead", "replayed"])
