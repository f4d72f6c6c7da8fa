"""What the benches make of what they measured."""

import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from load.bench import e2e
from load.bench.__main__ import GROUPS
from load.bench.drain import Drained
from load.bench.e2e import Held, Window
from load.bench.figures import GOALS, Goal, Group, Run
from load.bench.plain import batches_s
from load.bench.retry import Try, lateness

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def nothing(_: Run) -> dict[str, float]:
    return {}


def test_a_retry_is_late_by_what_passed_since_it_was_due_and_early_below_zero():
    tries: list[Try] = [(at(1), at(0)), (at(5), at(1.5)), (None, at(4.75))]
    assert lateness([tries]) == [0.5, -0.25]


def test_what_was_never_due_again_is_no_retry():
    assert lateness([[(None, at(0))], [(None, at(0)), (None, at(1))]]) == []


@pytest.mark.row("D6")
def test_the_time_to_recover_is_held_against_what_was_said_beforehand():
    said = {"at": "2026-01-31T12:00:00.000000Z", "seconds": 40.0}
    assert Drained(8_000, at(50), said).off_forecast == pytest.approx(0.25)
    assert Drained(8_000, at(30), said).off_forecast == pytest.approx(0.25)
    assert Drained(8_000, at(30), None).off_forecast is None


def test_figures_of_a_shorter_run_are_marked():
    group = Group("one", nothing, 600, 60)
    assert group.named({"one.rate": 1.0}, short=False) == {"one.rate": 1.0}
    assert group.named({"one.rate": 1.0}, short=True) == {"one.rate.short": 1.0}


def test_a_goal_says_whether_it_is_reached():
    assert Goal(at_least=2).reached_by(2)
    assert not Goal(at_least=2).reached_by(1.9)
    assert Goal(at_most=0).reached_by(0)
    assert not Goal(at_most=0).reached_by(1)


@pytest.mark.row("A1")
def test_every_goal_is_a_figure_of_a_group_that_runs():
    assert {name.partition(".")[0] for name in GOALS} <= {group.name for group in GROUPS}


@pytest.mark.parametrize(("sent_per_s", "figures"), [(1_190.0, {"cost.cpu_s_per_1000_events.short": 0.5}), (900.0, {})])
def test_a_rate_that_couldnt_be_sent_is_reported_and_gives_no_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sent_per_s: float, figures: dict[str, float]
):
    monkeypatch.setattr(Window, "at", lambda _, rate: Held(rate, sent_per_s, 0.2, 0.9))
    cpu_s = iter((100.0, 118.0))
    monkeypatch.setattr(e2e, "cpu_seconds", lambda _: next(cpu_s))
    monkeypatch.setattr(e2e, "embedded_stack", contextlib.nullcontext)
    console = Console(record=True, width=200)
    (group,) = (one for one in GROUPS if one.name == "cost")
    assert group.named(group.measure(Run(tmp_path, console, short=True)), short=True) == figures
    assert ("1,200/s couldn't be sent: 900/s were" in console.export_text()) == (not figures)


def batch(number: int, second: int, took_ms: int, rows: int = 1_000) -> dict[str, object]:
    """As Spark tells it."""
    return {
        "batchId": number,
        "timestamp": f"2026-01-31T12:00:{second:02}.250Z",
        "numInputRows": rows,
        "durationMs": {"triggerExecution": took_ms, "addBatch": took_ms - 100},
    }


def test_the_plain_drain_takes_from_its_first_batchs_start_to_its_last_ones_end():
    assert batches_s([batch(0, 3, 7_500)]) == 7.5
    assert batches_s([batch(0, 3, 2_000), batch(1, 6, 4_000), batch(2, 30, 10, rows=0)]) == 7.0


@pytest.mark.parametrize("progress", [[], [batch(0, 3, 10, rows=0)], [batch(7, 3, 2_000)]])
def test_a_plain_drain_whose_first_batch_isnt_known_gives_no_time(progress: list[dict[str, object]]):
    with pytest.raises(RuntimeError, match="doesn't begin with its first batch"):
        batches_s(progress)


def test_a_rate_that_the_stack_doesnt_take_costs_its_figure_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def too_slow(_: Window, __: float) -> Held:
        raise TimeoutError

    monkeypatch.setattr(Window, "at", too_slow)
    monkeypatch.setattr(e2e, "_settle", lambda _: None)
    monkeypatch.setattr(e2e, "cpu_seconds", lambda _: 0.0)
    monkeypatch.setattr(e2e, "embedded_stack", contextlib.nullcontext)
    console = Console(record=True, width=200)
    (group,) = (one for one in GROUPS if one.name == "cost")
    assert group.measure(Run(tmp_path, console, short=True)) == {}
    assert "1,200/s wasn't taken. No figure is given" in console.export_text()
