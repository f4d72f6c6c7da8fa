"""A backup is a whole copy that was looked at, or it is none."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from core.decision import Decision
from journal.reader import JournalReader
from ledger.maintain.tables import MaintenanceRunning, hold_maintenance_lock
from stack.backup.copying import PinnedTable, pin_table
from stack.backup.make import back_up
from stack.backup.manifest import (
    BackupImpossible,
    choose_backup,
    list_complete_backups,
    list_tables,
    read_manifest,
)
from stack.backup.restore import restore
from stack.backup.trees import tree_at
from stack.settings import Settings
from tests.backed_up import SmallLake, changed, parquet_of

# what is copied


def test_a_backup_holds_each_table_as_it_was_and_says_so(lake: SmallLake) -> None:
    lake.commit(3)
    lake.act("item 1")
    lake.redacted(1)
    lake.settings.layout.users.parent.mkdir(parents=True)
    lake.settings.layout.users.write_text("{}")
    lake.settings.layout.secrets.mkdir()
    (lake.settings.layout.secrets / "stripe").write_text("whsec_secret")
    report = lake.back_up()
    assert (report.ok, report.journals, report.kept) == (True, {"ledger": 3}, (report.name,))
    lake.commit(2)
    backup = Path(str(choose_backup(lake.backups, None)))
    manifest = read_manifest(backup)
    assert set(manifest.tables) == {"journal/ledger", "bodies", "redactions", "acts"}
    copied = JournalReader(str(backup / "lake" / "journal" / "ledger"))
    state = lake.state()
    assert (copied.last_seq, copied.state().lineage) == (3, state.lineage)
    assert manifest.journals["journal/ledger"].chain == copied.state().chain != state.chain
    assert "console/users.json" in manifest.files
    assert "whsec_secret" not in "".join(path.read_text("latin-1") for path in backup.rglob("*") if path.is_file())


def test_only_its_owner_may_read_a_backup(lake: SmallLake) -> None:
    lake.commit()
    before = os.umask(0)
    try:
        lake.back_up()
    finally:
        os.umask(before)
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in [lake.backups, *lake.backups.rglob("*")]}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_a_second_backup_copies_what_is_new_and_links_the_rest(lake: SmallLake) -> None:
    lake.commit(100)
    first = lake.back_up()
    lake.commit(1)
    second = lake.back_up()
    old = parquet_of(lake.backups / first.name, "bodies")[0]
    assert (lake.backups / second.name / "lake" / "bodies" / old.name).samefile(old)
    source = Path(str(lake.places.bodies_table)) / old.name
    assert not source.samefile(old), "the lake's own file must not be in a backup"
    assert second.ok and second.copied_bytes < second.bytes


def test_a_log_whose_entries_were_cleared_is_copied_from_its_checkpoint(lake: SmallLake) -> None:
    for _ in range(4):
        lake.commit(2)
    table = DeltaTable(str(lake.places.journal))
    table.create_checkpoint()
    log = Path(str(lake.places.journal)) / "_delta_log"
    for number in range(table.version() - 1):
        (log / f"{number:020}.json").unlink()
    lake.commit(2)
    report = lake.back_up()
    assert (report.problems, report.journals) == ((), {"ledger": 10})


def test_a_journal_behind_maintenance_commits_keeps_what_its_last_writer_said(lake: SmallLake) -> None:
    """Compaction's commits and a checkpoint come after the last commit that says marks, chain and lineage."""
    for _ in range(3):
        lake.commit(2)
    state = lake.state()
    table = DeltaTable(str(lake.places.journal))
    table.optimize.compact()
    table.create_checkpoint()
    report = lake.back_up()
    assert report.ok
    fields = read_manifest(lake.backups / report.name).journals["journal/ledger"]
    assert (fields.lineage, fields.epoch, fields.chain) == (state.lineage, state.epoch, state.chain)


def test_what_refers_to_something_is_pinned_before_it(tmp_path: Path) -> None:
    order = [table.path for table in list_tables(Settings(data_dir=tmp_path))]
    for before, after in [
        ("journal/notify", "journal/ledger"),
        ("journal/ledger", "bodies"),
        ("journal/notify", "bodies-notify"),
        ("journal/ledger-test", "bodies-test"),
        ("journal/ledger", "acts"),
        ("receipts", "journal/ledger"),
        ("reconciliation-runs-test", "journal/ledger-test"),
    ]:
        assert order.index(before) < order.index(after), (before, after)
    assert not [path for path in order if "postings" in path]


def test_a_batch_that_is_committed_between_two_pins_leaves_no_row_without_its_body(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(2)

    def and_a_batch(*given: Any, **more: Any) -> PinnedTable:
        pinned = pin_table(*given, **more)
        lake.commit(3, Decision.DEAD, blocking=True)
        return pinned

    monkeypatch.setattr("stack.backup.make.pin_table", and_a_batch)
    report = lake.back_up()
    assert (report.problems, report.journals) == ((), {"ledger": 2})


# what goes on around it


def test_the_newest_are_kept_and_what_was_never_completed_goes(lake: SmallLake) -> None:
    lake.commit()
    (lake.backups / "20250101T000000Z").mkdir(parents=True)
    (lake.backups / "20250101T000000Z.partial").write_text("")
    (lake.backups / "notes").mkdir()
    made = [lake.back_up(keep=2).name for _ in range(4)]
    assert sorted(path.name for path in lake.backups.iterdir()) == [".lock", *made[2:], "notes"]


def test_a_backup_is_the_newest_one_after_a_clock_that_ran_ahead(lake: SmallLake) -> None:
    day_s = 24 * 3_600
    lake.commit()
    lake.clock.advance(day_s)
    ahead = lake.back_up()
    lake.clock.set_back(day_s)
    lake.commit()
    report = lake.back_up(keep=1)
    assert report.kept == (report.name,) and report.name > ahead.name
    assert choose_backup(lake.backups, None) == lake.backups / report.name
    assert read_manifest(lake.backups / report.name).began_at == report.good_at == lake.clock.now()


def test_two_backups_within_a_second_have_two_names(lake: SmallLake) -> None:
    lake.commit()
    first, second = (back_up(lake.settings, lake.backups, 7, lake.clock) for _ in range(2))
    assert second.kept == (first.name, second.name)


def test_one_at_a_time_and_none_beside_maintenance(lake: SmallLake) -> None:
    lake.commit()
    with hold_maintenance_lock(lake.settings.layout.run, lake.clock.now()), pytest.raises(MaintenanceRunning):
        lake.back_up()
    assert lake.back_up().ok


def test_two_lakes_do_not_share_a_folder(lake: SmallLake, tmp_path: Path) -> None:
    lake.commit()
    lake.back_up()
    other = SmallLake(tmp_path / "other", clock=lake.clock)
    other.commit()
    other.backups_at = lake.backups
    with pytest.raises(BackupImpossible, match="another lake"):
        other.back_up()


def test_a_folder_stays_one_lakes_after_a_backup_that_was_not_good(lake: SmallLake, tmp_path: Path) -> None:
    lake.commit(2)
    first = lake.back_up()
    changed(lake.backups / first.name)
    assert not lake.back_up().ok
    other = SmallLake(tmp_path / "other", clock=lake.clock)
    other.commit()
    other.backups_at = lake.backups
    with pytest.raises(BackupImpossible, match="another lake"):
        other.back_up()


def test_where_nothing_was_decided_and_in_the_data_folder_none_is_made(lake: SmallLake, tmp_path: Path) -> None:
    with pytest.raises(BackupImpossible, match="in the data folder"):
        back_up(lake.settings, lake.settings.data_dir / "backups", 1, lake.clock)
    with pytest.raises(BackupImpossible, match="nothing was decided"):
        back_up(Settings(data_dir=tmp_path / "empty"), lake.backups, 1, lake.clock)


def test_a_file_of_the_lake_that_is_shorter_than_its_table_says_makes_no_backup(lake: SmallLake) -> None:
    lake.commit(5)
    [file] = Path(str(lake.places.bodies_table)).glob("*.parquet")
    os.truncate(file, file.stat().st_size - 1)
    for _ in range(2):
        with pytest.raises(BackupImpossible, match="the lake is damaged"):
            lake.back_up()
    assert [path.name for path in lake.backups.iterdir()] == [".lock"], "what was copied until then is gone"


# the newest backup as an anchor outside


def whole_older(lake: SmallLake) -> None:
    """The data folder as it was after three rows: of its inside all agrees."""
    shutil.rmtree(lake.settings.data_dir)
    shutil.copytree(lake.root / "older", lake.settings.data_dir)


def whole_older_and_gone_on(lake: SmallLake) -> None:
    whole_older(lake)
    lake.begin()
    lake.commit(9)


@pytest.mark.parametrize(
    ("back", "said"),
    [(whole_older, "row 5, which it lacks"), (whole_older_and_gone_on, "row 5, which it has another row for")],
)
def test_a_lake_that_went_back_as_a_whole_is_found_by_its_newest_backup(
    lake: SmallLake, back: Callable[[SmallLake], None], said: str
) -> None:
    lake.commit(3)
    shutil.copytree(lake.settings.data_dir, lake.root / "older")
    lake.commit(2)
    name = lake.back_up(keep=1).name
    back(lake)
    for _ in range(2):
        with pytest.raises(BackupImpossible, match=f"{name}.*{said}.*payhook restore"):
            lake.back_up(keep=1)
    assert list_complete_backups(tree_at(lake.backups)) == [name], "the newer rows are still there"
    lake.clock.advance(60)
    assert (
        restore(lake.settings, lake.backups, lake.clock, actor="ada", replace_newer=True, reason="went back")
        is not None
    )
    lake.begin()
    lake.commit(1)
    assert lake.back_up().journals == {"ledger": 6}


def test_a_journal_that_was_restored_from_an_earlier_backup_is_backed_up(lake: SmallLake) -> None:
    lake.commit(3)
    first = lake.back_up()
    lake.commit(2)
    lake.back_up()
    lake.clock.advance(60)
    assert restore(
        lake.settings, lake.backups, lake.clock, actor="ada", reason="drill", name=first.name, replace_newer=True
    )
    assert lake.back_up().journals == {"ledger": 3}
