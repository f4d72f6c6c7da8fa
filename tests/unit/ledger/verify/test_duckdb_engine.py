"""DuckDB in its own process: what it is told stays, whatever becomes of the process; and it reads bookings strictly."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ledger.verify.duckdb_child import SMALL_BYTES
from ledger.verify.duckdb_engine import FOLDER, STILL_S_MAX, DuckDb, EngineFailed, EngineStoodStill, duckdb_engine
from ledger.verify.engine import read_promise

NUMBERS = pa.table({"number": pa.array([1, 2, 3], pa.int64())})
SUM = "SELECT CAST(sum(number) AS bigint) AS total FROM odd"
ENDLESS = "SELECT count(*) AS n FROM range(10000000000) AS a(x), range(10000000000) AS b(y) WHERE x + y = -1"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDb]:
    with duckdb_engine(tmp_path, "200m") as found:
        found.add_table("numbers", NUMBERS.to_batches(), NUMBERS.schema)
        found.add_view("odd", "SELECT number FROM numbers WHERE number % 2 = 1")
        yield found


def process(engine: DuckDb) -> subprocess.Popen[bytes]:
    assert engine._child is not None
    return engine._child


def test_it_is_begun_again_with_all_that_was_named(engine: DuckDb) -> None:
    assert engine.ask(SUM) == [{"total": 4}]
    process(engine).kill()
    with pytest.raises(EngineFailed, match="its process ended"):
        engine.ask(SUM)
    assert engine.ask(SUM) == [{"total": 4}]


def test_one_that_stands_still_is_killed_and_named(engine: DuckDb) -> None:
    stopped = process(engine)
    os.kill(stopped.pid, signal.SIGSTOP)
    engine._still_s_max = 1.5
    with pytest.raises(EngineStoodStill, match="stood still"):
        engine.ask(SUM)
    assert stopped.poll() is not None
    engine._still_s_max = STILL_S_MAX  # the next process takes its time to begin
    assert engine.ask(SUM) == [{"total": 4}]


def test_one_that_works_for_long_is_left_alone(engine: DuckDb) -> None:
    """It is at work for longer than it may stand still."""
    engine._still_s_max = 2.5
    reported: list[float] = []

    def end_after_five(percent: float) -> None:
        reported.append(percent)
        if len(reported) == 5:
            process(engine).kill()

    engine.progress = end_after_five
    with pytest.raises(EngineFailed, match="its process ended"):
        engine.ask(ENDLESS)
    assert len(reported) == 5


def test_small_files_of_a_table_are_opened_once(engine: DuckDb, tmp_path: Path) -> None:
    """Maintenance may take them off the disk meanwhile. One of an earlier version lacks a column."""
    path = tmp_path / "numbers"
    for table in (NUMBERS, NUMBERS, NUMBERS.append_column("name", pa.array(["a", "b", None]))):
        write_deltalake(path, table, mode="append", schema_mode="merge")
    engine.add_delta("stored", path, 2)
    for file in path.glob("*.parquet"):
        file.unlink()
    assert engine.ask("SELECT count(*) AS n, sum(CAST(number AS int)) AS total, max(name) AS name FROM stored") == [
        {"n": 9, "total": 18, "name": "b"}
    ]


def test_large_files_are_read_where_they_are(engine: DuckDb, tmp_path: Path) -> None:
    path = tmp_path / "texts"
    texts = pa.table({"text": [os.urandom(2 * SMALL_BYTES).hex()]})
    for table in (texts, NUMBERS, NUMBERS):
        write_deltalake(path, table, mode="append", schema_mode="merge")
    engine.add_delta("stored", path, 2)
    question = "SELECT count(*) AS n, count(text) AS texts FROM stored"
    assert engine.ask(question) == [{"n": 7, "texts": 1}]
    [large] = [file for file in path.glob("*.parquet") if file.stat().st_size >= SMALL_BYTES]
    large.unlink()
    with pytest.raises(EngineFailed, match=large.name):
        engine.ask(question)


def test_a_question_that_it_cannot_answer_is_its_answer(engine: DuckDb) -> None:
    with pytest.raises(EngineFailed, match="nowhere"):
        engine.ask("SELECT * FROM nowhere")
    assert engine.ask(SUM) == [{"total": 4}]


def test_no_more_rows_are_given_than_asked_for(engine: DuckDb) -> None:
    assert engine.ask("SELECT number FROM numbers ORDER BY number", 2) == [{"number": 1}, {"number": 2}]


def test_its_folder_is_its_owners_and_goes_with_it(tmp_path: Path) -> None:
    left = tmp_path / f"{FOLDER}{2**22 + 1}-left"
    left.mkdir()
    with duckdb_engine(tmp_path, "200m") as engine:
        assert engine.ask("SELECT 1 AS one") == [{"one": 1}]
        (own,) = tmp_path.iterdir()
        assert own.stat().st_mode & 0o077 == 0, "and what a killed run left is gone"
    assert not list(tmp_path.iterdir())


LINE = '{{"account":"{}","side":"{}","amount_minor":{},"currency":"EUR"}}'


def booked(debit: str, credit: str, account: str = "merchant:m-1:payable") -> str:
    return f"[{LINE.format('provider:stripe:clearing', 'debit', debit)},{LINE.format(account, 'credit', credit)}]"


BOOKINGS = {
    "right": (booked("1250", "1250"), True),
    "an escaped name": (booked("1250", "1250", "merchant:m\\u00fcller:payable"), True),
    "another amount": (booked("1250", "1249"), False),
    "a fraction": (booked("12.5", "12"), False),
    "a fraction beside an escaped name": (booked("12.5", "12", "merchant:m\\u00fcller:payable"), False),
    "a text": (booked('"1250"', "1250"), False),
    "below zero": (booked("-5", "-5"), False),
    "written otherwise": (booked("1250", "1250").replace(":1250", ": 1250"), False),
    "one line": (f"[{LINE.format('provider:stripe:clearing', 'debit', 1250)}]", False),
    "nothing": ("[]", False),
    "no JSON": ("not json", False),
}


def test_only_bookings_as_they_are_written_balance(engine: DuckDb) -> None:
    rows = pa.table(
        {
            "seq": pa.array(range(len(BOOKINGS)), pa.int64()),
            "event_key": list(BOOKINGS),
            "decision": ["applied"] * len(BOOKINGS),
            "postings": [text for text, _ in BOOKINGS.values()],
            "books": [True] * len(BOOKINGS),
        }
    )
    engine.add_table("booked_rows", rows.to_batches(), rows.schema)
    engine.add_view("journal", "SELECT *, lines_of(postings) AS lines FROM booked_rows")
    offenders = {row["event_key"] for row in engine.ask(read_promise("balanced").sql)}
    assert offenders == {name for name, (_, is_right) in BOOKINGS.items() if not is_right}
