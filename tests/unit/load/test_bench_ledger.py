"""The ledger bench asks a ledger that adds up, and gives the figures that it promises."""

from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console

from journal.reader import JournalReader
from ledger.postings import flatten_postings
from ledger.queries.balances import sum_balances, sum_totals
from load.bench.figures import GOALS, Run
from load.bench.ledger import CURRENCIES, MERCHANTS, PROVIDERS, made, make_postings, measure_queries


def test_the_postings_that_are_made_are_in_balance(tmp_path: Path):
    took: list[float] = []
    make_postings(tmp_path / "postings", 10_000, took.append)
    found = sum_balances(str(tmp_path / "postings"))
    assert took == [10_000]
    assert len(found) == MERCHANTS * len(CURRENCIES) + len(PROVIDERS) * len(CURRENCIES)
    assert all(total.balanced for total in sum_totals(found))


def test_both_figures_are_measured_and_have_a_goal(tmp_path: Path):
    figures = measure_queries(Run(tmp_path / "ledger", Console(quiet=True), size=2_000))
    assert sorted(figures) == ["ledger.balances_s_10m", "ledger.event_story_s_10m"]
    assert figures.keys() <= GOALS.keys()
    assert all(seconds > 0 for seconds in figures.values())


def test_every_figure_of_the_group_has_a_goal():
    assert {"ledger.verify_rows_per_s", "ledger.bytes_per_event"} <= GOALS.keys()


def test_the_ledger_whose_size_is_measured_is_a_whole_one(tmp_path: Path):
    """Rows, bodies and lines by their real writers; no two ids have anything in common."""
    tables = made(tmp_path / "size", 40)
    rows = [row for some in JournalReader(str(tables.journal)).rows_after(0) for row in some]
    lines = (
        DeltaTable(str(tables.postings))
        .to_pyarrow_dataset()
        .to_table()
        .sort_by([("seq", "ascending"), ("line", "ascending")])
    )
    bodies = DeltaTable(str(tables.bodies)).to_pyarrow_dataset().to_table().to_pylist()
    assert len(rows) == 40
    assert lines.equals(flatten_postings(rows))
    assert {one["body_sha256"] for one in bodies} == {row.body_sha256 for row in rows}
    assert all(1_100 < len(one["body"]) < 1_400 for one in bodies), [len(one["body"]) for one in bodies]
    assert len({row.event_key for row in rows}) == len({row.entity_key for row in rows}) == 40
