"""Selections on the command line: what is printed, and what became of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli import dlq_watch
from cli.acting import this_account
from cli.dlq_watch import describe_outcome, watch
from cli.main import main
from cli.place import Place
from core.layout import Layout
from operations.audit_log import AuditLog
from stack.settings import Settings
from tests.unit.operations.selection.bench import SelectionBench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SelectionBench:
    """What is ordered is decided at once."""
    bench = SelectionBench(tmp_path)
    monkeypatch.setattr(dlq_watch, "open_order_producer", lambda _: bench.kafka)
    bench.kafka.then = bench.decide
    return bench


def payhook(bench: SelectionBench, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["dlq", *arguments, "--data", str(bench.folder)])


def test_from_select_over_a_dry_run_to_a_replay_that_is_watched(bench: SelectionBench) -> None:
    bench.dead(5)
    reported = payhook(bench, "select", "--class", "ZeroDivisionError", "--note", "mended")
    assert reported.output.startswith("frozen as s1: 5 items")
    dry = payhook(bench, "replay", "s1", "--dry-run")
    assert "        5  dies" in dry.output, "no adapter can read these bodies"
    assert "0 would be applied; 0 more would run, outcome unknown" in dry.output
    assert "Nothing was sent" in dry.output
    begun = payhook(bench, "replay", "s1", "--rate", "100", "--reason", "mended", "--no-wait")
    assert begun.output.splitlines() == ["s1: 5 not sent", "no processor reports its status: see `payhook status`"]
    final = watch(bench.selections, 1, sleep=lambda _: bench.round())
    assert describe_outcome(final) == "s1: 5 applied"
    assert "5 applied" in payhook(bench, "selections", "s1").output
    [one] = json.loads(payhook(bench, "selections", "--json").output)["selections"]
    assert (one["number"], one["run"]["state"], one["run"]["actor"]) == (1, "sent", this_account())
    acts = AuditLog(Layout(bench.folder).audit_log).read(10)
    assert [(act.action, act.outcome, act.channel) for act in reversed(acts)] == [
        ("select", "done", "cli"),
        ("replay", "done", "cli"),
    ]


def test_who_stops_watching_is_told_how_to_hold_that_run(
    bench: SelectionBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the options of its command that would be another stream's run, or a live one in place of a test's."""
    bench.dead(5)
    payhook(bench, "select")
    payhook(bench, "replay", "s1", "--rate", "1", "--no-wait")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    place = Place(Settings(data_dir=bench.folder), None, "test", "ledger.1")
    watch(bench.selections, 1, place.options_again, interrupted)
    assert "stop it with `payhook dlq pause s1 --stream ledger.1 --test`" in capsys.readouterr().err


def test_a_second_replay_of_a_selection_says_so(bench: SelectionBench) -> None:
    bench.dead(1)
    payhook(bench, "select")
    payhook(bench, "replay", "s1", "--no-wait", "--rate", "5")
    again = payhook(bench, "replay", "s1", "--no-wait", "--rate", "5")
    assert "already started s1: nothing is sent twice" in again.output
    other = payhook(bench, "replay", "s1", "--no-wait")
    assert (other.exit_code, "select again what is left" in other.output) == (1, True)


def test_single_items_are_frozen_for_what_needs_a_selection(bench: SelectionBench) -> None:
    bench.dead(3)
    reported = payhook(bench, "resolve", "1", "3", "--reason", "booked by hand", "--no-wait")
    assert "dead: 2 of 2; frozen as s1" in reported.output
    bench.round(4)
    assert bench.states(1) == ["resolved", "resolved"]


def test_a_purge_of_many_tells_how_it_is_approved_and_by_whom_not(bench: SelectionBench) -> None:
    bench.dead(101)
    payhook(bench, "select")
    reported = payhook(bench, "purge", "s1", "--reason", "test payments")
    assert "Needs approval: 101 items (limit 100 a day)" in reported.output
    assert (
        "Ask another admin to open /dlq/selections/1 on the management listener. Nothing is done yet."
        in reported.output
    )
    assert "s1" in payhook(bench, "proposals").output
    assert "cancelled" in payhook(bench, "cancel", "s1").output


def test_a_replay_that_is_proposed_tells_how_it_is_approved(bench: SelectionBench) -> None:
    bench.dead(2)
    reported = payhook(bench, "replay", "1", "2", "--propose", "--no-wait")
    assert (
        "Ask another admin to open /dlq/selections/1 on the management listener. Nothing is done yet."
        in reported.output
    )
    bench.round(4)
    bench.runs.approve(1, "bob", "looked")
    bench.round(4)
    assert bench.states(1) == ["applied", "applied"]


def test_pause_and_resume(bench: SelectionBench) -> None:
    bench.dead(1)
    payhook(bench, "select")
    payhook(bench, "replay", "s1", "--no-wait", "--rate", "1")
    assert payhook(bench, "pause", "s1").output == "s1 is paused\n"
    assert f"replay by {this_account()}, paused: " in payhook(bench, "selections", "s1").output
    assert json.loads(payhook(bench, "resume", "s1", "--json").output)["state"] == "running"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("replay", "s1", "s2"), "'s1' is neither an item's ID nor a selection"),
        (("replay", "x"), "'x' is neither"),
        (("pause", "3"), "'3' isn't a selection"),
        (("selections", "s9"), "there is no selection s9"),
        (("purge", "s1"), "Missing option '--reason'"),
        (("select", "--state", "waiting"), "events of this state can't be selected"),
        (("select", "--provider", "nobody"), "no events match the filter"),
        (("replay", "7"), "there is no item 7"),
    ],
)
def test_what_is_wrong_is_said(bench: SelectionBench, arguments: tuple[str, ...], reported: str) -> None:
    answer = payhook(bench, *arguments)
    assert answer.exit_code != 0
    assert reported in answer.output
