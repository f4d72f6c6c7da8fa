"""What is counted as code, and what as hard to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.code_size import find_token_lines, is_inverted, is_one_word, measure_checkout, sum_up

CHECKOUT = Path(__file__).parents[2]

MODULE = '''
"""Of a module,
in two lines."""

import os  # beside code


class Seen:
    """What was seen."""

    number: int
    """Its number."""

    # a comment
    def run(self):
        """Count it."""
        text = """two
lines"""
        return text
'''
OTHER = """
class Seen: ...
class Row: ...
async def read_row(): ...
def _poll(): ...
def __dir__(): ...
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "core/seen.py": MODULE,
        "core/deep/other.py": OTHER,
        "tests/test_seen.py": "class Seen: ...",
        "setup.py": "x = 1",
        ".venv/hidden.py": "x = 1",
        "core/__pycache__/built.py": "x = 1",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_lines_are_counted_without_blanks_comments_and_docstrings(checkout: Path) -> None:
    sizes = measure_checkout(checkout)
    assert {name: (size.files, size.lines) for name, size in sizes.items()} == {
        "core": (2, 7 + 5),
        "tests": (1, 1),
        ".": (1, 1),
    }


def test_names_are_counted(checkout: Path) -> None:
    core = measure_checkout(checkout)["core"]
    assert core.shared_classes == {"Seen": 2}
    assert core.one_word_functions == {"run": 1, "poll": 1}
    assert core.functions.total() == 4
    assert (len(core.docstrings), core.inverted_docstrings) == (3, 2)
    assert sum_up(measure_checkout(checkout)).shared_classes == {"Seen": 3}


def test_a_text_of_several_lines_is_code_to_its_end() -> None:
    assert find_token_lines('a = """x\n\ny"""\n\n# no\nb = 1\n') == {1, 2, 3, 6}


@pytest.mark.parametrize(
    ("name", "one_word"),
    [("run", True), ("_run", True), ("read_row", False), ("_read_row", False), ("__init__", False)],
)
def test_a_name_of_one_word_that_isnt_pythons_own(name: str, one_word: bool) -> None:
    assert is_one_word(name) is one_word


@pytest.mark.parametrize(
    ("text", "inverted"),
    [
        *((text, True) for text in ("What it says.", "Of each\nrow.", "None where nothing is.", "As far as it goes.")),
        *((text, False) for text in ("Counts rows.", "Whatever it is.", "None of it counts.", "Offsets by topic.", "")),
    ],
)
def test_a_docstring_that_begins_inverted(text: str, inverted: bool) -> None:
    assert is_inverted(text) is inverted


def test_the_program_prints_a_table_of_another_checkout(checkout: Path) -> None:
    command = [sys.executable, "-m", "tests.code_size", str(checkout)]
    printed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "| **product** | 3 | 13 | 3 | 1 | 4 | 2 | 2 | 3 | 67 % |" in printed
    assert printed[-1] == "names of several classes: Seen 2"
