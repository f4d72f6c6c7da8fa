"""Journals on an object store are divided as on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.writer import JournalWriter
from stack.maintenance.split import split
from tests.divided_lake import LAST, POISON, DividedLake
from tests.unit.journal.rows import TOPIC

pytestmark = pytest.mark.more(reason="on an object store; tests/unit/stack/test_split has a disk")


@pytest.fixture
def lake(tmp_path: Path, store_folder: str) -> DividedLake:
    return DividedLake(tmp_path, f"{store_folder}/lake")


def test_each_open_item_is_in_one_shard_though_the_division_was_interrupted(
    lake: DividedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(JournalWriter, "divide_journal", interrupted)
        with pytest.raises(KeyboardInterrupt):
            split(lake.settings, 2, lake.clock)
    (divided,) = split(lake.settings, 2, lake.clock)
    assert divided.journals == {"ledger": LAST, "ledger.1": LAST}
    assert lake.open_items(2) == [{5, 7, 9, 11}, {6, 8, 10, 12, POISON}]
    assert [lake.state(shard).marks for shard in (0, 1)] == [{TOPIC: {0: 3, 2: 3}}, {TOPIC: {1: 4, 3: 3}}]


def interrupted(*_given: object, **_named: object) -> None:
    raise KeyboardInterrupt
