"""Property tests take the same examples in every run, and others in a search."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]

DRAWS = """
import importlib, sys
from hypothesis import given, settings, strategies as st
from tests import examples
examples.load()
for module in sys.argv[1:]:
    importlib.import_module(module)

@settings(max_examples=examples.examples(20))
@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.binary())))
def draws(drawn):
    print(drawn)

draws()
"""


def drawn(tmp_path: Path, *modules: str, profile: str = "test") -> str:
    """What a test draws in a process that has loaded these modules, too."""
    path = tmp_path / "draws.py"
    path.write_text(DRAWS)
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HYPOTHESIS_PROFILE": profile}
    command = [sys.executable, str(path), *modules]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout


def test_they_are_the_same_whatever_was_loaded_before(tmp_path: Path) -> None:
    assert drawn(tmp_path) == drawn(tmp_path, "core.money", "ledger.accounts", "journal.schema")


def test_a_search_takes_others_each_time(tmp_path: Path) -> None:
    assert drawn(tmp_path, profile="faults") != drawn(tmp_path, profile="faults")
