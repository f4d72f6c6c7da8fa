"""The engine without servers, as most tests want it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.processor.harness import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)
