"""Maintenance by schedule: when the next round is due, and what ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts.settings import AlertsSettings
from core.clock import to_rfc3339
from core.layout import Layout
from ingest.settings import IngestSettings
from ledger.maintain.tables import LOCK, MaintenanceRunning, hold_maintenance_lock
from ledger.settings import LedgerSettings, MaintainSettings, VerifySettings
from stack.backup import make as making
from stack.backup.make import check_backup, record_failure, run_round
from stack.backup.manifest import choose_backup
from stack.children import choose_ports, list_servers
from stack.maintenance.job import stream_tables
from stack.rounds import FIRST_S, MODULES, ScheduledRound, begin_next_s, schedule_rounds, wait_s
from stack.settings import Settings
from tests.backed_up import SmallLake

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
CHECKOUT = Path(__file__).parents[3]


def ended(report: Path, ago_s: float) -> None:
    report.write_text(json.dumps({"ended_at": to_rfc3339(NOW - timedelta(seconds=ago_s))}), "utf-8")


def test_the_next_round_is_so_long_after_the_last_one_whatever_was_restarted(tmp_path: Path) -> None:
    due = ScheduledRound("maintenance", tmp_path / "maintained.json", 3_600, 3_600, 3_600)
    assert wait_s(due, NOW) == 3_600
    ended(due.report, 600)
    assert wait_s(due, NOW) == 3_000
    ended(due.report, 100_000)
    assert wait_s(due, NOW) == FIRST_S
    due.report.write_text("torn", "utf-8")
    assert wait_s(due, NOW) == 3_600


def test_rounds_begin_so_long_after_each_other_with_a_rest_between_two(tmp_path: Path) -> None:
    due = ScheduledRound("catch-up", tmp_path / "caught-up.json", 240, 30, 240)
    assert begin_next_s(due, 1_000, 1_080) == 1_240
    assert begin_next_s(due, 1_000, 1_230) == 1_230 + FIRST_S
    assert begin_next_s(replace(due, every_s=5), 1_000, 1_004) == 1_009


def test_a_report_of_a_clock_that_ran_ahead_delays_no_round(tmp_path: Path) -> None:
    due = ScheduledRound("backup", tmp_path / "backed-up.json", 24 * 3_600, FIRST_S, 900)
    ended(due.report, -365 * 24 * 3_600)
    assert wait_s(due, NOW) == FIRST_S


def test_every_streams_tables_are_maintained_in_both_modes(tmp_path: Path) -> None:
    found = {one.stream: one for one in stream_tables(Settings(data_dir=tmp_path))}
    assert set(found) == {"ledger", "notify", "ledger-test", "notify-test"}
    assert found["ledger"].readers == (tmp_path / "lake" / "journal" / "notify",)
    assert found["ledger-test"].postings == tmp_path / "lake" / "postings-test"
    assert found["notify"].postings is None and found["notify"].bodies == tmp_path / "lake" / "bodies-notify"


def test_the_stack_runs_it_where_a_schedule_is_set(tmp_path: Path) -> None:
    ledger = LedgerSettings(maintain=MaintainSettings(every_s=0), verify=VerifySettings(every_h=0))
    without = Settings(data_dir=tmp_path, ledger=ledger, ingest=IngestSettings(catch_up_every_s=0))
    ports = choose_ports(without)
    assert "maintenance" not in [one.name for one in list_servers(without, ports, None)]
    [last] = (one for one in list_servers(Settings(data_dir=tmp_path), ports, None) if one.name == "maintenance")
    assert (last.name, last.command[-2:], last.answers()) == ("maintenance", ("-m", "stack.rounds"), True)


def test_the_stack_runs_what_tells_people_where_it_looks_at_all(tmp_path: Path) -> None:
    without = Settings(data_dir=tmp_path, alerts=AlertsSettings(every_s=0))
    ports = choose_ports(without)
    assert "alerts" not in [one.name for one in list_servers(without, ports, None)]
    last = list_servers(Settings(data_dir=tmp_path), ports, None)[-1]
    assert (last.name, last.command[-2:], last.answers()) == ("alerts", ("-m", "stack.alerting"), True)
    assert last.env["PAYHOOK_ALERTS__METRICS_PORT"] == str(ports.alerts_metrics)


# one at a time


def test_a_second_maintenance_is_reported_who_is_at_it(tmp_path: Path) -> None:
    with hold_maintenance_lock(tmp_path, NOW):
        reported = f"process {os.getpid()}, since 2026-01-31T12"
        with pytest.raises(MaintenanceRunning, match=reported), hold_maintenance_lock(tmp_path, NOW):
            raise AssertionError("two at once")
    with hold_maintenance_lock(tmp_path, NOW):
        pass


HOLDS = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from ledger.maintain.tables import hold_maintenance_lock
with hold_maintenance_lock(Path(sys.argv[1]), datetime.now(UTC)):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_of_a_process_that_was_killed_holds_nobody_up(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], cwd=CHECKOUT, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(MaintenanceRunning, match=f"process {holder.pid}"), hold_maintenance_lock(tmp_path, NOW):
            raise AssertionError("two at once")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with hold_maintenance_lock(tmp_path, NOW):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text("utf-8")


# the process of the schedule


def run_until(report: Path, data_dir: Path, **more: str) -> None:
    """Runs rounds by schedule until one has left its report, and ends them."""
    env = {**os.environ, "PAYHOOK_DATA_DIR": str(data_dir), "PYTHONPATH": str(CHECKOUT), **more}
    command = [sys.executable, "-m", "stack.rounds"]
    with subprocess.Popen(command, cwd=CHECKOUT, env=env, stderr=subprocess.PIPE) as running:
        until = time.monotonic() + 120
        while not report.exists():
            assert running.poll() is None and time.monotonic() < until, "no round was run"
            time.sleep(0.05)
        running.terminate()
        assert running.wait(60) == 0


def test_rounds_are_run_by_themselves_and_end_with_their_stack(tmp_path: Path) -> None:
    report = Layout(tmp_path).maintained_file
    run_until(report, tmp_path, PAYHOOK_LEDGER__MAINTAIN__EVERY_S="0.2")
    assert json.loads(report.read_text("utf-8"))["tables"] == []


# backups by the same schedule


def backed_up(folder: Path, **backup: object) -> Settings:
    return Settings(data_dir=folder / "data", backup={"folder": str(folder / "backups"), **backup})


def test_backups_are_scheduled_where_a_folder_is_named(tmp_path: Path) -> None:
    assert "backup" not in [one.name for one in schedule_rounds(Settings(data_dir=tmp_path))]
    maintain, backup, *_ = schedule_rounds(backed_up(tmp_path, every_h=0.5))
    assert (maintain.name, maintain.first_s, maintain.again_s) == ("maintenance", 900, 900)
    assert (backup.name, backup.every_s, backup.first_s, backup.again_s) == ("backup", 1_800, 60, 900)
    assert wait_s(backup, NOW) == FIRST_S


@pytest.mark.more(reason="two processes for each round; one round by itself is an everyday test")
@pytest.mark.parametrize("name", MODULES)
def test_each_round_can_be_run_by_itself_and_says_by_its_exit_code_whether_all_was_done(
    tmp_path: Path, name: str
) -> None:
    env = {**os.environ, "PAYHOOK_DATA_DIR": str(tmp_path / "data"), "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    env["PAYHOOK_BACKUP__FOLDER"] = str(tmp_path / "backups")
    command = [sys.executable, "-m", "stack.rounds", name]
    ran = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == (name == "backup"), ran.stderr
    assert ("no backup was made" in ran.stderr) == (name == "backup")


def test_a_round_of_another_name_is_refused() -> None:
    command = [sys.executable, "-m", "stack.rounds", "everything"]
    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "name one of maintenance, backup, verification, catch-up\n")


def test_a_round_that_makes_no_backup_says_since_when_there_is_none(tmp_path: Path) -> None:
    settings = backed_up(tmp_path)
    assert not run_round(settings)
    first = json.loads(settings.layout.backed_up.read_text("utf-8"))
    assert "nothing was decided" in first["problem"] and first["since"] == first["at"]
    assert not run_round(settings)
    again = json.loads(settings.layout.backed_up.read_text("utf-8"))
    assert again["since"] == first["since"] < again["at"]
    lake = SmallLake(tmp_path)
    lake.commit()
    assert run_round(settings)
    good = json.loads(settings.layout.backed_up.read_text("utf-8"))
    assert good["ok"] and good["since"] == good["good_at"] > again["at"]
    with hold_maintenance_lock(settings.layout.run, NOW):
        assert not run_round(settings), "it is tried again soon; nothing is wrong"
    assert json.loads(settings.layout.backed_up.read_text("utf-8")) == good


def test_a_backup_that_fails_after_a_clock_ran_ahead_counts_from_that_try(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    lake.commit()
    lake.clock.advance(365 * 24 * 3_600)
    lake.back_up()
    lake.clock.set_back(365 * 24 * 3_600)
    record_failure(lake.settings, lake.clock, "the disk is away")
    since = json.loads(lake.settings.layout.backed_up.read_text("utf-8"))["since"]
    assert since == to_rfc3339(lake.clock.now())
    lake.clock.advance(3_600)
    record_failure(lake.settings, lake.clock, "the disk is away")
    assert json.loads(lake.settings.layout.backed_up.read_text("utf-8"))["since"] == since


def test_a_round_that_ends_with_a_bug_is_recorded_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = backed_up(tmp_path)

    def fails(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(making, "back_up", fails)
    with pytest.raises(ZeroDivisionError):
        run_round(settings)
    said = json.loads(settings.layout.backed_up.read_text("utf-8"))
    assert (said["ok"], said["problem"]) == (False, "ZeroDivisionError('a bug')")


def test_a_backup_is_made_by_itself(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    lake.commit()
    run_until(
        lake.settings.layout.backed_up,
        lake.settings.data_dir,
        PAYHOOK_LEDGER__MAINTAIN__EVERY_S="0",
        PAYHOOK_BACKUP__FOLDER=str(lake.backups),
        PAYHOOK_BACKUP__EVERY_H="0.0001",
    )
    assert check_backup(lake.settings, choose_backup(lake.backups, None)) == []
