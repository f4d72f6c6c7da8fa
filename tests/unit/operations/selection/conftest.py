"""Selections of what is dead in an engine without servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.operations.selection.bench import SelectionBench


@pytest.fixture
def bench(tmp_path: Path) -> SelectionBench:
    return SelectionBench(tmp_path)
