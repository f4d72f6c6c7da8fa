"""A lake on an object store is backed up to a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from stack.backup.make import check_backup
from stack.backup.manifest import RestoreRefused
from stack.backup.restore import restore
from tests.backed_up import SmallLake


def test_a_lake_on_an_object_store_is_backed_up_whole(tmp_path: Path, store_folder: str) -> None:
    lake = SmallLake(tmp_path, lake_url=store_folder)
    lake.commit(3)
    lake.commit(1, Decision.DEAD, blocking=True)
    lake.act("item 4")
    first = lake.back_up()
    lake.commit(2)
    second = lake.back_up()
    assert (first.problems, second.problems) == ((), ())
    assert (first.journals, second.journals) == ({"ledger": 4}, {"ledger": 6})
    assert second.copied_bytes < second.bytes
    assert check_backup(lake.settings, lake.backups / first.name) == []
    with pytest.raises(RestoreRefused, match="any tool copies"):
        restore(lake.settings, lake.backups, lake.clock)
