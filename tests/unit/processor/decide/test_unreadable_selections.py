"""A selection that is gone, was changed, or can't be read: its command ends, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.decision import Decision
from tests.unit.processor.decide.selection_runs import dead, decisions, frozen, go, order, portions
from tests.unit.processor.harness import Engine


@pytest.fixture
def engine(three_items_a_portion: None, tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def test_a_selection_that_is_gone_or_was_changed_runs_nothing_and_stops_no_stream(engine: Engine) -> None:
    dead(engine, 7)
    digest = frozen(engine)
    order(engine, digest)
    engine.advance(1)
    file = engine.folder / "selections" / f"{digest}.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    engine.start()
    go(engine, 4)
    reported = portions(engine)[-1]
    assert (reported.ended, reported.over) == ("broken", True)
    assert "isn't what was frozen" in str(order(engine, frozen_and_broken(engine)).reason)
    assert "there is no selection" in str(order(engine, "0" * 64).reason)
    engine.post("evt_live")
    assert [row.decision for row in engine.batch()] == [Decision.APPLIED]


def written_otherwise(engine: Engine, digest: str, change: Callable[[pa.Table, dict[str, Any]], pa.Table]) -> str:
    """The digest of a file like that of a selection, as other code than this might have made it."""
    folder = engine.folder / "selections"
    table = pq.read_table(folder / f"{digest}.parquet")
    header = json.loads(table.schema.metadata[b"payhook.selection"])
    table = change(table, header).replace_schema_metadata({"payhook.selection": json.dumps(header)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    raw = bytes(sink.getvalue())
    other = hashlib.sha256(raw).hexdigest()
    (folder / f"{other}.parquet").write_bytes(raw)
    return other


def test_what_newer_code_adds_to_a_selection_is_passed_over(engine: Engine) -> None:
    dead(engine, 3)

    def newer(table: pa.Table, header: dict[str, Any]) -> pa.Table:
        header["zone"] = "eu"
        return table.append_column("zone", pa.array(["eu"] * 3))

    digest = written_otherwise(engine, frozen(engine), newer)
    assert order(engine, digest).decision is Decision.REPLAYED
    go(engine)
    assert decisions(engine) == {"applied": 3}


@pytest.mark.parametrize("name", ["count", "amounts", "frozen_at", "lineage"])
def test_a_header_that_cannot_be_read_ends_its_command_alone(engine: Engine, name: str) -> None:
    dead(engine, 3)

    def wrong(table: pa.Table, header: dict[str, Any]) -> pa.Table:
        header[name] = {"EUR": "much"}
        return table

    assert_refused_alone(engine, written_otherwise(engine, frozen(engine), wrong))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["line"]),
        lambda table: table.slice(1),
        lambda table: table.set_column(1, "seen_seq", pa.array(["1", "x", "3"])),
        lambda table: table.set_column(1, "seen_seq", pa.array([1, None, 3], pa.int64())),
        lambda table: table.set_column(0, "item_seq", pa.array([-1, 2, 3], pa.int64())),
        lambda table: table.set_column(0, "item_seq", pa.array([1, 1, 3], pa.int64())),
    ],
)
def test_items_that_cannot_be_read_end_their_command_alone(
    engine: Engine, change: Callable[[pa.Table], pa.Table]
) -> None:
    dead(engine, 3)
    assert_refused_alone(engine, written_otherwise(engine, frozen(engine), lambda table, _: change(table)))


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" + bytes(40) + b"\x08\0\0\0PAR1"])
def test_a_file_that_is_no_parquet_ends_its_command_alone(engine: Engine, raw: bytes) -> None:
    dead(engine, 3)
    frozen(engine)
    digest = hashlib.sha256(raw).hexdigest()
    (engine.folder / "selections" / f"{digest}.parquet").write_bytes(raw)
    assert_refused_alone(engine, digest)


def assert_refused_alone(engine: Engine, digest: str) -> None:
    row = order(engine, digest)
    assert (row.decision, "select again" in str(row.reason)) == (Decision.IGNORED, True)
    engine.post("evt_live")
    assert [one.decision for one in engine.batch()] == [Decision.APPLIED]
    assert decisions(engine) == {"dead": 3, "applied": 1}


def frozen_and_broken(engine: Engine) -> str:
    digest = frozen(engine)
    (engine.folder / "selections" / f"{digest}.parquet").write_bytes(b"PAR1")
    return digest
