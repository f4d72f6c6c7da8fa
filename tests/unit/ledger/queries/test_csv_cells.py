"""Cells of a CSV file: no text is calculated, every text comes back."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.queries.export import cells

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
    table = cells(pa.table({"n": list(range(len(values))), "text": pa.array(values, pa.string())}))
    lines = list(csv.reader(io.StringIO(written(table), newline="")))[1:]
    assert not any(text.startswith(FORMULA) for _, text in lines)
    assert [text.removeprefix("'") for _, text in lines] == values


@pytest.mark.parametrize("text", ["stripe:evt_1", "a=b", "1.50", "é"])
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert cells(pa.table({"text": [text]}))["text"].to_pylist() == [text]


def test_numbers_stay_numbers_below_zero_too() -> None:
    table = cells(pa.table({"minor": [-5, 7], "amount": ["-0.05", "0.07"]}), numbers=frozenset({"amount"}))
    assert table.to_pydict() == {"minor": [-5, 7], "amount": ["-0.05", "0.07"]}
    assert written(table).splitlines()[1] == '-5,"-0.05"'


def test_times_are_rfc_3339_in_utc_to_the_microsecond() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    column = pa.array([at, None], pa.timestamp("us", tz="UTC"))
    assert cells(pa.table({"at": column}))["at"].to_pylist() == ["2026-01-31T12:00:00.000005Z", None]


def test_nothing_and_an_empty_text_are_reported_apart() -> None:
    table = cells(pa.table({"n": [1, 2], "text": pa.array(["", None], pa.string())}))
    assert written(table).splitlines()[1:] == ['1,""', "2,"]
