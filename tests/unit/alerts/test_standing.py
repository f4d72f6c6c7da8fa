"""What pages and commands say of alerts is what the alerts' process left, the critical ones first."""

from __future__ import annotations

from concurrent.futures import wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from alerts.engine import AlertNotice
from alerts.observation import DeadSummary, Observation
from alerts.rules import Severity
from alerts.settings import AlertsSettings
from alerts.standing import AlertsStanding, read_standing
from alerts.watch import AlertWatch
from core.clock import ManualClock

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
SETTINGS = AlertsSettings()


def test_before_anybody_looked_nothing_fires_and_nobody_looks(tmp_path: Path) -> None:
    assert read_standing(tmp_path / "none", SETTINGS, ManualClock(AT)) == AlertsStanding()
    off = AlertsSettings(every_s=0)
    assert read_standing(tmp_path / "none", off, ManualClock(AT)).is_off


def test_what_fires_is_told_with_what_its_last_notice_said_over_a_restart(tmp_path: Path) -> None:
    clock, file = ManualClock(AT), tmp_path / "alerts.json"
    old = DeadSummary(101, AT - timedelta(hours=50))

    def describe(notice: AlertNotice) -> AlertNotice:
        return replace(notice, cause="Rejected", count=101, amounts={"EUR": 5})

    watch = AlertWatch(SETTINGS, lambda: Observation(dead={"ledger": old}), {}, file, clock, describe)
    watch.run_once()
    wait(watch.under_way.values())
    watch.close()
    AlertWatch(SETTINGS, lambda: Observation(dead={"ledger": old}), {}, file, clock).run_once()
    standing = read_standing(file, SETTINGS, clock)
    assert (standing.looks, standing.looked_at) == (True, AT)
    assert [one.rule for one in standing.firing] == ["dlq_escalation", "dlq_age", "dlq_depth"]
    first = standing.firing[0]
    assert (first.severity, first.cause, first.count, first.amounts) == (Severity.CRITICAL, "Rejected", 101, {"EUR": 5})
    assert (first.page, first.runbook) == ("/dlq?stream=ledger", "docs/runbook.md#alert-dlq_escalation")
    assert first.id == "dlq_escalation/ledger/2026-01-31T12:00:00.000000Z"
    clock.advance(61)
    assert not read_standing(file, SETTINGS, clock).looks
