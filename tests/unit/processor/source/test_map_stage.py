"""The map stage decides nothing: with it and without it a journal comes out the same."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.work import Ignored, Outcome, PreviousEvent, WorkItem
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.decide.arrivals import make_item
from processor.errors.classify import Classifier
from processor.source.map_stage import MapJob, run_map_stage
from processor.source.records import PACKED, drop_answers, read_table
from processor.workers.deadlines import Deadlines
from processor.workers.payload import Decoding, make_decoder
from processor.workers.worker import Task
from tests.examples import examples
from tests.unit.processor.fakes import Stuck, booked
from tests.unit.processor.harness import CONTROL, Engine, table
from tests.unit.processor.hostile import ODD_ANSWERS


class ByBody:
    """A pure handler: what it answers is written in the event."""

    version = "test-1"
    pure = True
    calls = 0

    def __call__(self, item: WorkItem) -> Outcome:
        ByBody.calls += 1
        if b"stuck" in item.body:
            raise Stuck("not yet")
        if b"exit" in item.body:
            sys.exit(3)
        if b"bug" in item.body:
            raise ValueError("a bug")
        if b"slow" in item.body:
            time.sleep(60.0)
        return Ignored("nobody handles it") if b"other" in item.body else booked()


class Impure(ByBody):
    pure = False


def reported(handler: type[ByBody] = ByBody, deadline_s: float = 60.0) -> MapJob:
    task = Task(handler.__name__, handler, Classifier(), Deadlines(deadline_s, 0.5), 1, stop_on_dead=True)
    return MapJob(task, "live", CONTROL)


def passed(records: pa.Table, to: MapJob) -> pa.Table:
    return pa.Table.from_batches(list(run_map_stage(to, iter(records.combine_chunks().to_batches()))))


class Plain(Engine):
    def start(self, *, keeps_index: bool = False) -> None:
        self.handler = ByBody()  # type: ignore[assignment]
        super().start(keeps_index=keeps_index)


class Passing(Plain):
    """What is read goes through the map stage."""

    def batch(self) -> list[JournalRow]:
        before = len(self.journal.rows)
        self.batches.run(passed(table(self._pending), reported()))
        self._pending.clear()
        return self.journal.rows[before:]


Posted = tuple[str, str, str, str | None, str]
POSTED = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["e1", "e2"]),
    st.sampled_from(["", "stuck", "bug", "other"]),
    st.sampled_from([None, "f1", "f2"]),
    st.sampled_from(["live", "live", "live", "test"]),
)


def run(engine: Engine, batches: Sequence[Sequence[Posted]]) -> list[JournalRow]:
    for posted in batches:
        for event_id, entity, content, fact, mode in posted:
            engine.post(event_id, entity, content, fact, mode="test" if mode == "test" else "live")
        engine.advance(1.1)
    engine.command(1, max(1, len(engine.journal.rows)))
    for _ in range(8):
        engine.advance(20.0)
    return engine.journal.rows


@settings(max_examples=examples(40), deadline=None)
@given(batches=st.lists(st.lists(POSTED, max_size=5), max_size=5))
def test_every_row_is_as_it_would_be_without_a_map_stage(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Posted]]
):
    folder = tmp_path_factory.mktemp("engine")
    plain, passing = Plain(_made(folder / "plain")), Passing(_made(folder / "passing"))
    assert run(passing, batches) == run(plain, batches)
    assert passing.bodies.by_hash == plain.bodies.by_hash


def test_an_event_that_the_map_stage_handled_is_not_handled_again(tmp_path: Path):
    engine = Passing(_made(tmp_path / "one"))
    engine.post("a")
    ByBody.calls = 0
    engine.batch()
    assert ByBody.calls == 1
    assert engine.journal.rows[0].decision == "applied"
    assert engine.journal.rows[0].handler_version == "test-1"


def test_a_handler_that_is_not_pure_sees_nothing_in_the_map_stage(tmp_path: Path):
    engine = Plain(_made(tmp_path / "one"))
    engine.post("a")
    Impure.calls = ByBody.calls = 0
    records = read_table(passed(table(engine._pending), reported(Impure)))
    assert ByBody.calls == 0
    assert [record.early for record in records] == [None]


def test_calls_that_take_too_long_are_left_to_the_batch(tmp_path: Path):
    engine = Plain(_made(tmp_path / "one"))
    engine.post("a", "e1")
    engine.post("b", "e2", "slow")
    engine.post("c", "e3")
    records = read_table(passed(table(engine._pending), reported(deadline_s=2.0)))
    assert [record.early is not None for record in records] == [True, False, False]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_handler_that_exits_is_left_to_the_batch(tmp_path: Path):
    engine = Plain(_made(tmp_path / "one"))
    engine.post("a", "e1", "exit")
    engine.post("b", "e2")
    records = read_table(passed(table(engine._pending), reported()))
    assert [record.early is not None for record in records] == [False, True]


def test_answers_that_may_be_out_of_date_are_taken_away(tmp_path: Path):
    engine = Plain(_made(tmp_path / "one"))
    engine.post("a")
    engine.command(1, 1)
    rows = passed(table(engine._pending), reported())
    stripped = read_table(drop_answers(rows))
    assert [record.early for record in stripped] == [None, None]
    assert [record._replace(early=None) for record in read_table(rows)] == stripped
    assert drop_answers(table([])) == table([])


def test_an_answer_is_not_taken_where_the_handler_is_to_be_reported_more_than_the_event(tmp_path: Path):
    engine = Plain(_made(tmp_path / "one"))
    engine.post("a")
    [record] = read_table(passed(table(engine._pending), reported()))
    item = make_item(record, 1, datetime(2026, 1, 31, tzinfo=UTC), "live")
    assert item.answer is not None
    assert replace(item, previous=PreviousEvent("k", "dead")).answer is None
    assert replace(item, waiting=OpenItem(item.row, item.body, 1, died=True)).answer is None


def test_a_decoders_handler_is_as_pure_as_it_was(tmp_path: Path):
    decoder = make_decoder("json")
    assert Decoding(ByBody, decoder).pure is True
    assert Decoding(Impure, decoder).pure is False


def test_commands_and_what_is_no_event_come_as_they_were(tmp_path: Path):
    engine = Plain(_made(tmp_path / "one"))
    engine.command(1, 1)
    engine.send("payments.events", b"no event", [])
    rows = table(engine._pending)
    assert passed(rows, reported()).schema.names == [PACKED]
    assert read_table(passed(rows, reported())) == read_table(rows)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


class OutcomeByContent(ByBody):
    """Answers as the event's content says."""

    def __call__(self, item: WorkItem) -> Outcome:
        answer = ODD_ANSWERS.get(item.body.decode().removeprefix("evt_1|"), booked)
        return answer()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_what_is_no_outcome_is_left_to_the_batchs_own_job(tmp_path: Path, name: str) -> None:
    """There it ends its event and says why."""
    engine = Plain(tmp_path)
    engine.post("evt_1", content=f"|{name}")
    engine.post("fine")
    odd, fine = read_table(passed(table(engine._pending), reported(OutcomeByContent)))
    assert (odd.early, fine.early is not None) == (None, True)
