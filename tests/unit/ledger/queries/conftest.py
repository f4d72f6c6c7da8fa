"""Ledgers that the tests beside this file ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.small_ledger import SmallLedger


@pytest.fixture
def ledger(tmp_path: Path) -> SmallLedger:
    """An empty one."""
    return SmallLedger(tmp_path / "data")
