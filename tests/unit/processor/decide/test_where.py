"""What isn't a stream's business: no call, no row of its own, and each offset is accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from core.event import ELSEWHERE_TYPE
from core.where import HeaderFilter
from journal.errors import BatchInvalid
from journal.schema import JournalRow
from journal.state import check_movement
from processor.source.map_stage import run_map_stage
from tests.unit.processor.harness import EVENTS, Engine, table
from tests.unit.processor.source.test_map_stage import ByBody, reported

EU = {"tenant": "eu-*"}


def routed(folder: Path, where: dict[str, str] = EU) -> Engine:
    engine = Engine(folder)
    engine.configure(where=where)
    engine.start()
    return engine


def spans(rows: Sequence[JournalRow]) -> list[tuple[int, int | None, str]]:
    return [(row.offset, row.offset_until, row.decision.value) for row in rows]


def test_two_thousand_events_of_others_are_one_row_and_no_call(tmp_path: Path) -> None:
    engine = routed(tmp_path)
    for number in range(2_000):
        engine.post(f"evt_{number}", f"e{number % 7}", tenant="us-shop")
    rows = engine.batch()
    assert spans(rows) == [(0, 2_000, "ignored")]
    assert (rows[0].event_type, rows[0].reason) == (ELSEWHERE_TYPE, "not this stream's, which takes tenant = eu-*")
    assert engine.handler.calls == []
    assert engine.journal.marks[EVENTS] == {0: 2_000}


def test_two_streams_divide_what_comes_by_turns_and_each_has_its_own(tmp_path: Path) -> None:
    east, west = routed(tmp_path / "east"), routed(tmp_path / "west", {"tenant": "!eu-*"})
    for engine in (east, west):
        for number in range(6):
            engine.post(f"evt_{number}", tenant=("eu-shop", "us-shop", None)[number % 3])
    assert spans(east.batch()) == [(0, None, "applied"), (1, 6, "ignored"), (3, None, "applied")]
    assert spans(west.batch()) == [
        *[(0, 4, "ignored"), (1, None, "applied"), (2, None, "applied")],
        *[(4, None, "applied"), (5, None, "applied")],
    ]
    both = [*east.handler.calls, *west.handler.calls]
    assert sorted(key.split(":")[-2] for key in both) == [f"evt_{number}" for number in range(6)]
    for engine in (east, west):
        check_movement(engine.journal.rows, {EVENTS: {0: 0}}, {EVENTS: {0: 6}})


def test_what_is_elsewhere_must_lie_within_the_marks_movement_and_leave_no_gap(tmp_path: Path) -> None:
    engine = routed(tmp_path)
    for number in range(4):
        engine.post(f"evt_{number}", tenant=("eu-shop", "us-shop")[number % 2])
    rows = engine.batch()
    for since, until in ((1, 4), (0, 3), (0, 5)):
        with pytest.raises(BatchInvalid):
            check_movement(rows, {EVENTS: {0: since}}, {EVENTS: {0: until}})
    with pytest.raises(BatchInvalid):
        check_movement([row for row in rows if row.offset_until is None], {EVENTS: {0: 0}}, {EVENTS: {0: 4}})


def test_after_a_restart_it_goes_on_behind_what_it_passed_over(tmp_path: Path) -> None:
    engine = routed(tmp_path)
    engine.post("evt_1", tenant="us-shop")
    engine.batch()
    engine.start()
    engine.post("evt_2", tenant="eu-shop")
    assert spans(engine.batch()) == [(1, None, "applied")]


def test_a_record_of_the_other_mode_is_passed_over_where_the_stream_says_so_and_dead_else(tmp_path: Path) -> None:
    routed_by_mode = routed(tmp_path / "routed", {"mode": "live"})
    unrouted = routed(tmp_path / "unrouted", {})
    for engine in (routed_by_mode, unrouted):
        engine.post("evt_1", mode="test")
    assert spans(routed_by_mode.batch()) == [(0, 1, "ignored")]
    assert spans(unrouted.batch()) == [(0, None, "dead")]


def test_what_can_t_be_read_is_every_streams(tmp_path: Path) -> None:
    engine = routed(tmp_path)
    engine.send(EVENTS, b"no event", [("tenant", b"us-shop")])
    assert spans(engine.batch()) == [(0, None, "dead")]


def test_the_map_stage_hands_over_the_offset_alone_and_the_rows_are_the_same(tmp_path: Path) -> None:
    plain, staged = routed(tmp_path / "plain"), routed(tmp_path / "staged")
    for engine in (plain, staged):
        for number in range(5):
            engine.post(f"evt_{number}", tenant=("eu-shop", "us-shop")[number % 2])
    plain.batch()
    ByBody.calls = 0
    stage = replace(reported(), where=HeaderFilter.read(EU))
    records = table(staged._pending).combine_chunks().to_batches()
    packed = pa.Table.from_batches(list(run_map_stage(stage, iter(records))))
    staged.batches.run(packed)
    assert spans(staged.journal.rows) == spans(plain.journal.rows)
    assert ByBody.calls == 3
    assert b"evt_1" not in packed.column(0).to_pylist()[0]
