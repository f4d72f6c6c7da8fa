"""A small lake, for backups and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backed_up import SmallLake


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)
