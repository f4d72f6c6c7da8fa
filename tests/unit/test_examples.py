"""A seed means the same examples in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

DRAWS = """
import importlib, sys
from hypothesis import given, seed, strategies as st
from tests import examples
examples.load()
for module in sys.argv[1:]:
    importlib.import_module(module)

@seed(0)
@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.binary())))
def draws(drawn):
    print(drawn)

draws()
"""


def drawn(tmp_path: Path, *modules: str) -> str:
    """What a test draws in a process that has loaded these modules, too."""
    path = tmp_path / "draws.py"
    path.write_text(DRAWS)
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, str(path), *modules]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.row("F8")
def test_examples_are_the_same_whatever_was_loaded_before(tmp_path: Path) -> None:
    assert drawn(tmp_path) == drawn(tmp_path, "core.money", "ledger.accounts", "journal.schema")
