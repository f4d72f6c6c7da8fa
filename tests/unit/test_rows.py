"""Which test shows which row of the requirements."""

from __future__ import annotations

from pathlib import Path

from tests.rows import ROWS, find_problems, find_tests, page

PAGE = Path(__file__).parents[2] / "docs" / "rows.md"
FILE = """
import pytest

@pytest.mark.row("A1")
@pytest.mark.row("A2")
def test_both(): pass

class TestShards:
    @pytest.mark.row("A2")
    @pytest.mark.parametrize("n", [1, 2])
    def test_each(self, n): pass

def test_none(): pass
"""


def test_a_test_is_found_under_each_row_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_it.py").write_text(FILE)
    both, each = "tests/unit/test_it.py::test_both", "tests/unit/test_it.py::test_each"
    assert find_tests(tmp_path / "tests") == {"A1": [both], "A2": [both, each]}


def test_a_row_without_a_test_and_a_test_of_no_row_are_named() -> None:
    rows, tests = {"A1": "load", "A2": "once"}, {"A1": ["f::test_load"], "A9": ["f::test_clocks"]}
    assert find_problems(tests, rows) == ["A2 has no test: once", "f::test_clocks: there is no row A9"]


def test_every_row_has_a_test() -> None:
    assert find_problems(find_tests(), ROWS) == []


def test_the_page_is_what_make_docs_writes() -> None:
    assert page(find_tests()) == PAGE.read_text("utf-8"), "write it again: make docs"
