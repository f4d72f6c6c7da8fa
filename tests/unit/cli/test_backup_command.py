"""`payhook backup` and `payhook restore` on a small lake: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli import lake_commands
from cli.main import main
from core.layout import Layout
from journal.reader import JournalReader
from operations.audit_log import AuditLog
from stack.backup import restore as restoring
from stack.supervisor import sole_supervisor
from tests.backed_up import SmallLake


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    lake = SmallLake(tmp_path)
    lake.commit(3)
    return lake


def payhook(lake: SmallLake, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--data", str(lake.settings.data_dir)], env={"COLUMNS": "80"})


def test_a_backup_is_made_checked_and_put_back(lake: SmallLake) -> None:
    made = payhook(lake, "backup", "--to", str(lake.backups))
    assert made.exit_code == 0 and "journals: ledger 3" in made.stdout and "verified in" in made.stdout
    assert "own disk" in made.stderr
    assert max(map(len, made.stdout.splitlines()[1:])) <= 80
    [name] = [one.name for one in lake.backups.iterdir() if one.is_dir()]
    checked = payhook(lake, "backup", "--to", str(lake.backups), "--check")
    assert (checked.exit_code, checked.stdout) == (0, f"{name} is valid: every file, table and journal\n")
    lake.commit(2)
    refused = payhook(lake, "restore", str(lake.backups), "--reason", "drill")
    assert refused.exit_code == 2 and "2 of ledger" in refused.stderr
    restored = payhook(lake, "restore", str(lake.backups), "--reason", "drill", "--replace-newer")
    assert restored.exit_code == 0, restored.output
    assert "ledger: 3 rows as of" in restored.stdout and "2 set aside" in restored.stdout
    assert JournalReader(str(lake.places.journal)).last_seq == 3
    [act] = AuditLog(lake.settings.layout.audit_log).read(10)
    assert (act.action, act.reason, act.what) == ("restore", "drill", f"backup {name}")


def test_a_restore_that_another_run_completes_is_on_record_as_whose_it_was(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = lake.back_up().name
    lake.commit(2)

    def killed(layout: Layout) -> bool:
        if layout.restore_moves.exists():
            raise SystemExit(137)
        return False

    with monkeypatch.context() as dying:
        dying.setattr(restoring, "finish", killed)
        dying.setattr(lake_commands, "this_account", lambda: "ada")
        payhook(lake, "restore", str(lake.backups), "--reason", "the disk died", "--replace-newer")
    assert AuditLog(lake.settings.layout.audit_log).read(10) == [], "nothing is put back yet"
    completed = payhook(lake, "restore", str(lake.backups), "--reason", "again")
    assert completed.exit_code == 0 and "completed an interrupted restore" in completed.stdout
    [act] = AuditLog(lake.settings.layout.audit_log).read(10)
    assert (act.actor, act.action, act.reason, act.what) == ("ada", "restore", "the disk died", f"backup {name}")
    assert json.loads(act.after or "")["set_aside"] == {"ledger": 2}


def test_results_are_json_where_asked(lake: SmallLake) -> None:
    made = json.loads(payhook(lake, "backup", "--to", str(lake.backups), "--json").stdout)
    assert made["ok"] and made["journals"] == {"ledger": 3} and made["kept"] == [made["name"]]
    checked = json.loads(payhook(lake, "backup", "--to", str(lake.backups), "--check", "--json").stdout)
    assert checked == {"ok": True, "backup": str(lake.backups / made["name"]), "problems": []}
    done = json.loads(payhook(lake, "restore", str(lake.backups), "--reason", "drill", "--json").stdout)
    assert (done["name"], done["journals"], done["set_aside"]) == (made["name"], {"ledger": 3}, {"ledger": 0})


def test_a_damaged_backup_is_exit_1_and_is_not_put_back(lake: SmallLake) -> None:
    payhook(lake, "backup", "--to", str(lake.backups))
    [file] = lake.backups.rglob("bodies/*.parquet")
    file.write_bytes(b"x" + file.read_bytes()[1:])
    checked = payhook(lake, "backup", "--to", str(lake.backups), "--check")
    assert checked.exit_code == 1 and "its hash differs" in checked.stderr and "is invalid" in checked.stdout
    assert payhook(lake, "restore", str(lake.backups), "--reason", "drill").exit_code == 2


def test_what_cannot_be_done_is_exit_2_with_a_reason(lake: SmallLake, tmp_path: Path) -> None:
    none = payhook(lake, "backup")
    assert none.exit_code == 2 and "--to FOLDER" in none.stderr
    inside = payhook(lake, "backup", "--to", str(lake.settings.data_dir / "x"))
    assert inside.exit_code == 2 and "in the data folder" in inside.stderr
    empty = payhook(lake, "restore", str(tmp_path / "none"), "--reason", "drill")
    assert empty.exit_code == 2 and "can't be read" in empty.stderr
    with sole_supervisor(lake.settings.layout):
        running = payhook(lake, "restore", str(tmp_path / "none"), "--reason", "drill")
    assert running.exit_code == 2 and "payhook down" in running.stderr
    (tmp_path / "link").symlink_to(lake.settings.data_dir)
    by_link = payhook(lake, "backup", "--to", str(tmp_path / "link" / "x"))
    assert by_link.exit_code == 2 and "in the data folder" in by_link.stderr


@pytest.mark.parametrize("part", ["journals", "tables"])
def test_a_manifest_without_journals_or_tables_is_no_backups(lake: SmallLake, part: str) -> None:
    payhook(lake, "backup", "--to", str(lake.backups))
    [manifest] = lake.backups.rglob("manifest.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), part: {}}))
    for words in (
        ["backup", "--to", str(lake.backups), "--check"],
        ["restore", str(lake.backups), "--reason", "drill"],
    ):
        said = payhook(lake, *words)
        assert (said.exit_code, "its manifest isn't whole" in said.stderr) == (2, True), said.output
