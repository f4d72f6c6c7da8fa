"""The ledger bench asks a ledger that adds up, and gives the figures that it promises."""

from pathlib import Path

from rich.console import Console

from ledger.queries import balances, totals
from load.bench.figures import GOALS
from load.bench.ledger_queries import CURRENCIES, MERCHANTS, PROVIDERS, make_postings, measure_queries


def test_the_postings_that_are_made_are_in_balance(tmp_path: Path):
    took: list[int] = []
    make_postings(tmp_path / "postings", 10_000, took.append)
    found = balances(str(tmp_path / "postings"))
    assert took == [10_000]
    assert len(found) == MERCHANTS * len(CURRENCIES) + len(PROVIDERS) * len(CURRENCIES)
    assert all(total.balanced for total in totals(found))


def test_both_figures_are_measured_and_have_a_goal(tmp_path: Path):
    figures = measure_queries(tmp_path / "ledger", Console(quiet=True), rows=2_000)
    assert sorted(figures) == ["ledger.balances_s_10m", "ledger.event_story_s_10m"]
    assert figures.keys() <= GOALS.keys()
    assert all(seconds > 0 for seconds in figures.values())
