"""Damaged files, changed rows and a manifest that was cut short make no backup."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.decision import Decision
from journal.schema import JOURNAL_SCHEMA, row_hashes
from stack.backup.make import check_backup, last_good
from stack.backup.manifest import (
    MANIFEST,
    REJECTED,
    NoBackup,
    choose_backup,
    read_manifest,
)
from tests.backed_up import SmallLake, changed, parquet_of
from tests.rewritten_files import Rows, rewrite
from tests.unit.journal.rows import marks, row


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
    assert not again.ok and sorted(path.name for path in lake.backups.glob("2*")) == [first.name, again.name]
    changed(lake.settings.data_dir)
    third = lake.back_up()
    assert third.ok and third.copied_bytes == third.bytes
    assert third.kept == (first.name, third.name) and not (lake.backups / second.name).exists()
