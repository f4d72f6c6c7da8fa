"""Dead items of a journal, and an index that follows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dead_items import DeadItems


@pytest.fixture
def items(tmp_path: Path) -> DeadItems:
    return DeadItems(tmp_path)
