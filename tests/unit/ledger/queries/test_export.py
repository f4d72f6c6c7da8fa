"""Exports: whole or not at all, in seq order, readable by anybody; no text of a cell is calculated."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.money import Movement
from ledger.queries.export import Form, NothingBooked, OutExists, OutUnwritable, export_table, format_cells
from ledger.queries.export import export_table as export_function
from ledger.queries.lake import LedgerUnreadable
from tests.small_ledger import START, SmallLedger, lines_of

module = __import__("sys").modules[export_function.__module__]
FORMS: Sequence[Form] = ("csv", "parquet")


@pytest.fixture
def reported(ledger: SmallLedger) -> SmallLedger:
    """Three currencies, a key that is a formula, a merchant with a comma and quotes."""
    ledger.add(Movement.CAPTURE, 123_450, "EUR", event_key="=HYPERLINK(1):evt:capture")
    ledger.add(Movement.CAPTURE, 1_234, "JPY", merchant='say "a, b"')
    ledger.add(None)
    ledger.add(Movement.REFUND, 1_005, "KWD")
    ledger.commit()
    return ledger


def csv_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_file_reads_back_as_the_postings_are(reported: SmallLedger, tmp_path: Path) -> None:
    done = export_table(reported.postings, "postings", tmp_path / "out.csv", "csv")
    lines = csv_of(tmp_path / "out.csv")
    wanted = lines_of(reported.rows)
    assert (done.rows, len(lines)) == (6, 6)
    for line, posting in zip(lines, wanted, strict=True):
        assert (int(line["seq"]), int(line["line"])) == (posting["seq"], posting["line"])
        assert int(line["amount_minor"]) == posting["amount_minor"]
        for name in ("event_key", "fact_key", "entity_key", "provider", "merchant", "account", "side", "currency"):
            assert line[name].removeprefix("'") == posting[name]
    assert lines[0]["event_key"] == "'=HYPERLINK(1):evt:capture"
    assert [line["amount"] for line in lines[::2]] == ["1234.50", "1234", "1.005"]
    assert lines[0]["decided_at"] == "2026-01-31T12:01:00.000000Z"


def test_lines_end_as_rfc_4180_says_and_text_is_utf_8(reported: SmallLedger, tmp_path: Path) -> None:
    export_table(reported.postings, "postings", tmp_path / "out.csv", "csv")
    raw = (tmp_path / "out.csv").read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n") == 7
    assert raw.startswith(b'"seq","line","event_key"')
    assert raw.decode("utf-8")


def test_a_parquet_file_holds_the_postings_with_their_types(reported: SmallLedger, tmp_path: Path) -> None:
    export_table(reported.postings, "postings", tmp_path / "out.parquet", "parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.drop_columns(["amount"]).to_pylist() == lines_of(reported.rows)
    assert table["amount"].to_pylist()[::2] == ["1234.50", "1234", "1.005"]
    assert table.schema.field("decided_at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("form", FORMS)
def test_the_journal_is_exported_with_every_column(form: Form, reported: SmallLedger, tmp_path: Path) -> None:
    assert export_table(reported.journal, "journal", tmp_path / "out", form).rows == 4
    if form == "csv":
        lines = csv_of(tmp_path / "out")
        assert [line["decision"] for line in lines] == ["applied", "applied", "ignored", "applied"]
        assert [line["row_hash"] for line in lines] == [row.row_hash for row in reported.rows]
        assert (lines[0]["first"], lines[0]["tenant"], lines[0]["headers"]) == ("true", "", reported.rows[0].headers)
    else:
        assert pq.read_table(tmp_path / "out")["seq"].to_pylist() == [1, 2, 3, 4]


def test_a_span_begins_with_its_first_moment_and_ends_before_its_last(reported: SmallLedger, tmp_path: Path) -> None:
    second, fourth = START + timedelta(minutes=2), START + timedelta(minutes=4)
    export_table(reported.postings, "postings", tmp_path / "out.csv", "csv", since=second, until=fourth)
    assert {line["seq"] for line in csv_of(tmp_path / "out.csv")} == {"2"}


@pytest.mark.parametrize("form", FORMS)
def test_a_span_without_rows_is_a_file_without_rows(form: Form, reported: SmallLedger, tmp_path: Path) -> None:
    assert export_table(reported.postings, "postings", tmp_path / "out", form, until=START).rows == 0
    rows = csv_of(tmp_path / "out") if form == "csv" else pq.read_table(tmp_path / "out").to_pylist()
    assert rows == []


@pytest.mark.parametrize("form", FORMS)
def test_windows_follow_one_another_in_order(
    form: Form, ledger: SmallLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEQS_PER_WINDOW", 3)
    for _ in range(10):
        ledger.add(Movement.CAPTURE)
        ledger.commit()
    reported: list[tuple[int, int]] = []
    export_table(
        ledger.postings, "postings", tmp_path / "out", form, progress=lambda done, rows: reported.append((done, rows))
    )
    read: list[dict[str, Any]] = (
        list(csv_of(tmp_path / "out")) if form == "csv" else pq.read_table(tmp_path / "out").to_pylist()
    )
    assert [(int(line["seq"]), int(line["line"])) for line in read] == [(n, m) for n in range(1, 11) for m in (0, 1)]
    assert reported == [(6, 20), (12, 20), (18, 20), (20, 20)]


def test_a_file_that_is_there_stays_unless_it_is_to_be_replaced(reported: SmallLedger, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    with pytest.raises(OutExists, match="--overwrite"):
        export_table(reported.postings, "postings", out, "csv")
    assert out.read_text() == "mine"
    export_table(reported.postings, "postings", out, "csv", overwrite=True)
    assert len(csv_of(out)) == 6


def test_what_is_no_file_is_never_replaced(reported: SmallLedger, tmp_path: Path) -> None:
    out = tmp_path / "pipe"
    os.mkfifo(out)
    with pytest.raises(OutUnwritable, match="isn't a file"):
        export_table(reported.postings, "postings", out, "csv", overwrite=True)
    assert out.is_fifo()


def test_a_file_that_comes_while_an_export_runs_stays(reported: SmallLedger, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    def theirs(done: int, rows: int) -> None:
        out.write_text("theirs")

    with pytest.raises(OutExists):
        export_table(reported.postings, "postings", out, "csv", progress=theirs)
    assert out.read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out.csv"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_export_that_fails_leaves_what_was_there_and_nothing_else(
    overwrite: bool, reported: SmallLedger, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    if overwrite:
        out.write_text("mine")

    def full(done: int, rows: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OutUnwritable, match="No space left"):
        export_table(reported.postings, "postings", out, "csv", overwrite=overwrite, progress=full)
    assert {path.name for path in tmp_path.iterdir()} == ({"data", "out.csv"} if overwrite else {"data"})
    assert not overwrite or out.read_text() == "mine"


def test_a_folder_that_is_not_there_is_an_error_that_says_so(reported: SmallLedger, tmp_path: Path) -> None:
    with pytest.raises(OutUnwritable, match="No such file or directory"):
        export_table(reported.postings, "postings", tmp_path / "nowhere" / "out.csv", "csv")


def test_nothing_to_export_is_an_error_and_no_empty_file(tmp_path: Path) -> None:
    with pytest.raises(NothingBooked, match="nothing has been decided yet"):
        export_table(str(tmp_path / "postings"), "postings", tmp_path / "out.csv", "csv")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_table_is_an_error_and_no_half_a_file(reported: SmallLedger, tmp_path: Path) -> None:
    for file in Path(reported.postings).glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    with pytest.raises(LedgerUnreadable):
        export_table(reported.postings, "postings", tmp_path / "out.csv", "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
texts = st.text(st.characters(exclude_categories=["Cs"]))


def written(table: pa.Table) -> str:
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink, pa_csv.WriteOptions(eol="\r\n"))
    return sink.getvalue().decode("utf-8")


@given(st.lists(texts, min_size=1))
@example(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'", "'=1", "''", "", "a,b", '"', 'a"b', "a\r\nb"])
@example(["=cmd|' /C calc'!A0", "−1", "\ufeff=1", "\x00"])
def test_any_text_is_no_formula_and_comes_back(values: list[str]) -> None:
    table = format_cells(pa.table({"n": list(range(len(values))), "text": pa.array(values, pa.string())}))
    lines = list(csv.reader(io.StringIO(written(table), newline="")))[1:]
    assert not any(text.startswith(FORMULA) for _, text in lines)
    assert [text.removeprefix("'") for _, text in lines] == values


@pytest.mark.parametrize("text", ["stripe:evt_1", "a=b", "1.50", "é"])
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert format_cells(pa.table({"text": [text]}))["text"].to_pylist() == [text]


def test_numbers_stay_numbers_below_zero_too() -> None:
    table = format_cells(pa.table({"minor": [-5, 7], "amount": ["-0.05", "0.07"]}), numbers=frozenset({"amount"}))
    assert table.to_pydict() == {"minor": [-5, 7], "amount": ["-0.05", "0.07"]}
    assert written(table).splitlines()[1] == '-5,"-0.05"'


def test_times_are_rfc_3339_in_utc_to_the_microsecond() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    column = pa.array([at, None], pa.timestamp("us", tz="UTC"))
    assert format_cells(pa.table({"at": column}))["at"].to_pylist() == ["2026-01-31T12:00:00.000005Z", None]


def test_nothing_and_an_empty_text_are_reported_apart() -> None:
    table = format_cells(pa.table({"n": [1, 2], "text": pa.array(["", None], pa.string())}))
    assert written(table).splitlines()[1:] == ['1,""', "2,"]
