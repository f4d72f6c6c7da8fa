"""Backups of a lake that is written to and maintained meanwhile: each is whole, and goes on when it is put back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from journal.reader import JournalReader
from ledger.maintain.job import maintain
from ledger.maintain.tables import hold_maintenance_lock
from stack.backup.make import back_up, check_backup
from stack.backup.manifest import read_manifest
from stack.backup.restore import restore
from stack.settings import Settings
from tests.backed_up import AT
from tests.integration.ledger.lakes import Lake, job, verified


@pytest.mark.slow
def test_backups_before_during_and_after_maintenance_are_whole_and_go_on(spark: SparkSession, tmp_path: Path) -> None:
    settings, backups, clock = Settings(data_dir=tmp_path / "data"), tmp_path / "backups", ManualClock(AT)
    lake = Lake.under(settings.data_dir)
    lake.commits(30)
    names: list[str] = []

    def backed_up() -> None:
        clock.advance(60)
        report = back_up(settings, backups, 10, clock)
        assert report.problems == ()
        names.append(report.name)

    with lake.committing():
        backed_up()
        for _ in range(2):
            with hold_maintenance_lock(settings.layout.run, clock.now()):
                assert maintain([lake.tables], job(spark)).ok
            backed_up()
    seqs = [read_manifest(backups / name).journals["journal/ledger"].seq for name in names]
    assert 60 <= seqs[0] < seqs[1] < seqs[2] <= lake.seq
    for name in names:
        assert check_backup(settings, backups / name) == [], "a later round or backup changed an earlier one"

    for name, seq in reversed(list(zip(names, seqs, strict=True))):
        clock.advance(60)
        assert restore(settings, backups, clock, actor="ada", reason="drill", name=name, replace_newer=True) is not None
        again = Lake.under(settings.data_dir)
        reader = JournalReader(str(again.tables.journal))
        again.seq = reader.last_seq
        assert again.seq == seq
        again.postings.catch_up(reader)
        with again.committing():
            assert maintain([again.tables], job(spark)).ok
        assert again.seq > seq
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        assert verified(again)
