"""``payhook alerts``: what fires, which receivers get it, and whether its process runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import wait
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from alerts.observation import DeadSummary, Observation
from alerts.receivers import make_receivers
from alerts.watch import AlertWatch
from cli.main import main
from core.clock import ManualClock, SystemClock
from core.layout import Layout
from stack.settings import load_settings
from tests.unit.notify.receiver import SubscriberServer, receiving, status


@pytest.fixture
def server() -> Iterator[SubscriberServer]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def config(tmp_path: Path, server: SubscriberServer) -> Path:
    file = tmp_path / "payhook.toml"
    hook = f'url = "http://127.0.0.1:{server.port}/x?token=secret"\nhttp = true\nports = [{server.port}]\n'
    file.write_text(
        f'[alerts.receivers.team]\n{hook}networks = ["127.0.0.1/32"]\n'
        '[alerts.receivers.boss]\ncommand = ["/bin/false"]\nonly_critical = true\n'
    )
    return file


def run(config: Path, *words: str) -> Result:
    options = ["--data", str(config.parent / "data"), "--config", str(config)]
    return CliRunner().invoke(main, ["alerts", *words, *options])


def look(config: Path, dead: DeadSummary, ago: timedelta = timedelta()) -> None:
    """The alerts' process looked once, so long ago."""
    settings = load_settings(config)
    clock, file = ManualClock(SystemClock().now() - ago), Layout(settings.data_dir).alerts
    watch = AlertWatch(
        settings.alerts, lambda: Observation(dead={"ledger": dead}), make_receivers(settings.alerts), file, clock
    )
    watch.run_once()
    wait(watch.under_way.values())
    watch.close()


def test_before_anybody_looked_it_says_so(config: Path) -> None:
    answer = run(config)
    assert answer.exit_code == 1
    assert "the alerts' process isn't running (it last looked: never)" in answer.output
    # In containers `payhook up` would start another stack.
    assert "start it: `payhook up`, or the service of `python -m stack.alerting`" in answer.output


def test_where_alerts_are_off_nobody_is_told_to_start_what_would_not_look(config: Path) -> None:
    config.write_text(f"[alerts]\nevery_s = 0\n{config.read_text()}")
    answer = run(config)
    assert answer.exit_code == 1
    assert "alerts are off: alerts.every_s is 0" in answer.output and "start it" not in answer.output


def test_all_is_well(config: Path) -> None:
    look(config, DeadSummary(3, datetime.now(UTC)))
    answer = run(config)
    assert answer.exit_code == 0, answer.output
    assert "dlq_depth" in answer.output and "isn't running" not in answer.output
    reported = json.loads(run(config, "--json").output)
    assert (reported["looks"], reported["firing"]) == (True, [])
    assert reported["values"]["dlq_depth"] == {"ledger": 3} and reported["thresholds"]["dlq_depth"] == 100


def test_what_fires_is_shown_with_who_was_reported_and_who_was_not(config: Path, server: SubscriberServer) -> None:
    look(config, DeadSummary(101, datetime.now(UTC) - timedelta(hours=49)))
    answer = run(config)
    assert answer.exit_code == 1
    assert "dlq_depth: 101 dead events of ledger need an operator" in answer.output
    assert "/bin/false ended with 1" in answer.output and "secret" not in answer.output
    reported = json.loads(run(config, "--json").output)
    assert [one["rule"] for one in reported["firing"]] == ["dlq_escalation", "dlq_age", "dlq_depth"]
    assert (reported["receivers"]["team"]["waiting"], reported["receivers"]["boss"]["waiting"]) == (0, 1)
    assert len(server.requests) == 3


def test_a_last_look_of_long_ago_is_no_look(config: Path) -> None:
    look(config, DeadSummary(0, None), ago=timedelta(minutes=2))
    answer = run(config)
    assert answer.exit_code == 1 and "isn't running" in answer.output


def test_a_test_reaches_everyone_and_says_who_did_not_take_it(config: Path, server: SubscriberServer) -> None:
    answer = run(config, "test")
    assert answer.exit_code == 1
    assert f"team: sent (http://127.0.0.1:{server.port}/…)" in answer.output
    assert "boss: /bin/false ended with 1" in answer.output
    (request,) = server.requests
    assert json.loads(request.body)["kind"] == "test"


def test_a_test_of_one_receiver_alone(config: Path, server: SubscriberServer) -> None:
    assert run(config, "test", "--receiver", "team").exit_code == 0
    server.replies(status(500))
    assert run(config, "test", "--receiver", "team").exit_code == 1
    answer = run(config, "test", "--receiver", "nobody")
    assert answer.exit_code == 1 and "there is no receiver 'nobody'" in answer.output
    assert "team, boss" in answer.output


def test_without_receivers_a_test_says_how_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "payhook.toml"
    file.write_text("")
    answer = run(file, "test")
    assert answer.exit_code == 1 and "alerts.receivers in payhook.toml names none" in answer.output
