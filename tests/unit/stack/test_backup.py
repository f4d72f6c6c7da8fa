"""A backup is a whole copy that was looked at, or it is none."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from core.decision import Decision
from journal.reader import JournalReader
from journal.schema import JOURNAL_SCHEMA, row_hashes
from ledger.maintain.tables import MaintenanceRunning, hold_maintenance_lock
from stack.backup.copying import PinnedTable, pin_table
from stack.backup.make import back_up, check_backup, last_good
from stack.backup.manifest import (
    MANIFEST,
    REJECTED,
    BackupImpossible,
    NoBackup,
    choose_backup,
    list_complete_backups,
    list_tables,
    read_manifest,
)
from stack.backup.restore import restore
from stack.backup.trees import tree_at
from stack.settings import Settings
from tests.backed_up import SmallLake
from tests.rewritten_files import Rows, rewrite
from tests.unit.journal.rows import marks, row


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)


def parquet_of(backup: Path, table: str) -> list[Path]:
    return sorted((backup / "lake" / table).glob("*.parquet"))


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
    assert "whsec_secret" not in "".join(one.read_text("latin-1") for one in backup.rglob("*") if one.is_file())


def test_only_its_owner_may_read_a_backup(lake: SmallLake) -> None:
    lake.commit()
    before = os.umask(0)
    try:
        lake.back_up()
    finally:
        os.umask(before)
    modes = {(one.is_dir(), stat.S_IMODE(one.stat().st_mode)) for one in [lake.backups, *lake.backups.rglob("*")]}
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
    order = [one.path for one in list_tables(Settings(data_dir=tmp_path))]
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
    assert not [one for one in order if "postings" in one]


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


# what isn't a backup


def changed(backup: Path) -> None:
    file = parquet_of(backup, "bodies")[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def missing(backup: Path) -> None:
    parquet_of(backup, "journal/ledger")[0].unlink()


def truncated(backup: Path) -> None:
    file = parquet_of(backup, "journal/ledger")[0]
    os.truncate(file, file.stat().st_size - 10)


def log_changed(backup: Path) -> None:
    entry = sorted((backup / "lake" / "journal" / "ledger" / "_delta_log").glob("*.json"))[-1]
    entry.write_text(entry.read_text().replace("payhook.seq", "payhook.sep"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (changed, "its hash differs"),
        (missing, "can't be read: No such file"),
        (truncated, "bytes, "),
        (log_changed, "its hash differs"),
    ],
)
def test_damage_is_found(lake: SmallLake, damage: Callable[[Path], None], said: str) -> None:
    lake.commit(5)
    backup = lake.backups / lake.back_up().name
    assert check_backup(lake.settings, backup) == []
    damage(backup)
    [problem] = check_backup(lake.settings, backup)
    assert said in problem


def test_a_manifest_that_is_cut_short_makes_no_backup(lake: SmallLake) -> None:
    lake.commit()
    manifest = lake.backups / lake.back_up().name / MANIFEST
    whole = manifest.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 3):
        manifest.write_bytes(whole[:length])
        with pytest.raises(NoBackup, match="isn't whole"):
            read_manifest(manifest.parent)
    manifest.unlink()
    with pytest.raises(NoBackup, match="no complete backup"):
        choose_backup(lake.backups, None)


def edited(backup: Path, change: Callable[[dict[str, object]], None]) -> None:
    """The manifest as somebody wants it, with the hashes of files left as they are."""
    fields = json.loads((backup / MANIFEST).read_text())
    change(fields)
    (backup / MANIFEST).write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("chain", "f" * 64, "was recorded"), ("seq", 9, "was recorded"), ("lineage", "x", "says")],
)
def test_a_journal_that_is_not_the_one_that_was_recorded_is_found(
    lake: SmallLake, field: str, value: object, said: str
) -> None:
    lake.commit(5)
    backup = lake.backups / lake.back_up().name
    edited(backup, lambda fields: fields["journals"]["journal/ledger"].update({field: value}))  # type: ignore[index]
    assert said in " ".join(check_backup(lake.settings, backup))


def test_a_path_out_of_the_backup_is_refused(lake: SmallLake) -> None:
    lake.commit()
    backup = lake.backups / lake.back_up().name
    edited(backup, lambda fields: fields["files"].update({"../../secret": {"size": 0, "sha256": "0" * 64}}))  # type: ignore[attr-defined]
    with pytest.raises(NoBackup, match="leads out"):
        read_manifest(backup)


def amount(rows: Rows) -> None:
    """149.69 becomes 969.41; the row's hash stays."""
    rows[1]["postings"] = rows[1]["postings"].replace("14969", "96941")


def one_less(rows: Rows) -> None:
    del rows[1]


def exchanged(rows: Rows) -> None:
    rows[0]["seq"], rows[1]["seq"] = rows[1]["seq"], rows[0]["seq"]


def copied(rows: Rows) -> None:
    """One decision stands in the place of another, with its own right hash."""
    rows[1] = {**rows[0], "seq": rows[1]["seq"]}


def with_its_hash(rows: Rows) -> None:
    """The row and its hash agree; the chain over the hashes is another."""
    amount(rows)
    rows[1]["row_hash"] = row_hashes(pa.Table.from_pylist(rows, JOURNAL_SCHEMA))[1]


def later(rows: Rows) -> None:
    rows[1]["pair"] = "+stripe:pi_1"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (amount, r"of ledger don't match their hash: 1, seq 4 is the first"),
        (later, r"of ledger don't match their hash: 1, seq 4 is the first"),
        (copied, r"of ledger don't match their hash: 1, seq 4 is the first"),
        (exchanged, r"of ledger don't match their hash: 2, seq 3 is the first"),
        (with_its_hash, r"the rows of ledger end at seq 5, chain \w+…; seq 5, \w+… was recorded"),
        (one_less, r"seq 1 to 5 aren't there once each"),
    ],
)
def test_a_row_that_was_changed_makes_no_backup_and_pushes_no_good_one_out(
    lake: SmallLake, change: Callable[[Rows], None], problem: str
) -> None:
    lake.commit(2)
    good = lake.back_up(keep=1)
    lake.commit(3, postings='[{"amount_minor": 14969}]')
    rewrite(lake.settings.data_dir / "lake" / "journal" / "ledger", change)
    for _ in range(3):
        report = lake.back_up(keep=1)
        assert re.search(problem, "\n".join(report.problems)), report.problems
        assert (report.ok, report.kept, report.good_at) == (False, (good.name,), good.good_at)
        assert check_backup(lake.settings, lake.backups / good.name) == []


def test_a_row_that_was_changed_in_a_backup_with_every_file_hash_made_right_is_found(lake: SmallLake) -> None:
    """As somebody would who can write to the backups, and to their manifest."""
    lake.commit(3, postings='[{"amount_minor": 14969}]')
    backup = lake.backups / lake.back_up().name
    rewrite(backup / "lake" / "journal" / "ledger", amount)

    def make_right(fields: dict[str, Any]) -> None:
        for path, file in fields["files"].items():
            data = (backup / path).read_bytes()
            file["size"], file["sha256"] = len(data), hashlib.sha256(data).hexdigest()

    edited(backup, make_right)
    [found] = check_backup(lake.settings, backup)
    assert "rows of ledger don't match their hash: 1, seq 2 is the first" in found


def reason(rows: Rows) -> None:
    rows[0]["reason"] = "nothing to see"


@pytest.mark.parametrize(
    ("table", "change", "problem"),
    [
        ("acts", reason, "isn't what it was when it was recorded, number 2, actor ada"),
        ("acts", list.clear, "its last row, 2, is missing"),
        ("redactions", reason, "row 2 doesn't follow"),
    ],
)
def test_a_record_of_people_that_was_changed_makes_no_backup(
    lake: SmallLake, table: str, change: Callable[[Rows], None], problem: str
) -> None:
    lake.commit(2)
    lake.act("ledger item 1")
    lake.act("ledger item 2")
    lake.redacted(1)
    assert lake.back_up().ok
    rewrite(lake.settings.data_dir / "lake" / table, change)
    report = lake.back_up()
    assert re.search(problem, "\n".join(report.problems)), report.problems


def test_an_open_event_without_its_body_makes_no_backup(lake: SmallLake) -> None:
    lake.commit(1)
    lake.writer.commit([row(2, decision=Decision.DEAD, blocking=True)], marks(2), 0)
    report = lake.back_up()
    assert "of an open event is missing" in report.problems[0]
    assert (lake.backups / report.name / REJECTED).exists() and report.kept == ()
    assert last_good(lake.settings, lake.clock.now()) is None


def test_after_a_bad_backup_every_file_is_copied_again(lake: SmallLake) -> None:
    """The damage may be in a file that both backups share."""
    lake.commit(5)
    first = lake.back_up()
    changed(lake.backups / first.name)
    second = lake.back_up()
    assert not second.ok and second.good_at == last_good(lake.settings, lake.clock.now()) is not None
    changed(lake.settings.data_dir)
    again = lake.back_up()
    assert "bodies" in again.problems[0], "a file of the lake that was damaged before it was copied is no backup either"
    assert not again.ok and sorted(one.name for one in lake.backups.glob("2*")) == [first.name, again.name]
    changed(lake.settings.data_dir)
    third = lake.back_up()
    assert third.ok and third.copied_bytes == third.bytes
    assert third.kept == (first.name, third.name) and not (lake.backups / second.name).exists()


# what goes on around it


def test_the_newest_are_kept_and_what_was_never_completed_goes(lake: SmallLake) -> None:
    lake.commit()
    (lake.backups / "20250101T000000Z").mkdir(parents=True)
    (lake.backups / "20250101T000000Z.partial").write_text("")
    (lake.backups / "notes").mkdir()
    made = [lake.back_up(keep=2).name for _ in range(4)]
    assert sorted(one.name for one in lake.backups.iterdir()) == [".lock", *made[2:], "notes"]


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
    assert [one.name for one in lake.backups.iterdir()] == [".lock"], "what was copied until then is gone"


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
