"""`payhook verify`: what is asked for, and what a person, a pipe and a machine see. Invariants have their own tests."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import stack.maintenance.verification
from cli.main import main
from cli.verify_command import print_report, show_bars
from core.routing import Shard
from journal.journals import shard_note
from journal.writer import JournalWriter
from ledger.verify import Finding, Options, Report, VerifyImpossible, VerifyProgress
from ledger.verify.body_checks import BodiesWhole, BookingsAreInBodies
from ledger.verify.job import INVARIANTS, list_invariant_types

AT = datetime(2026, 1, 31, tzinfo=UTC)
HOLDS = Finding("balanced", "Debits equal credits.")
BROKEN = Finding("one_mode", "One mode.", ({"seq": 7},), {"mode": "live"}, "rows before")


def report_of(*findings: Finding, since: int = 1) -> Report:
    return Report("ledger", 3, 14, AT, 1.25, findings, since)


@pytest.fixture
def answers() -> dict[str, Report]:
    """By stream."""
    return {}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: dict[str, Report]) -> list[dict[str, Any]]:
    """What the verification was asked; it answers that all holds, or what ``answers`` say."""
    calls: list[dict[str, Any]] = []

    def run(*_: object, **given: Any) -> Report:
        calls.append(given)
        return answers.get(given["stream"], report_of(HOLDS))

    monkeypatch.setattr(stack.maintenance.verification, "run", run)
    monkeypatch.setattr(stack.maintenance.verification, "spark_jars", lambda _lake: [])
    monkeypatch.setenv("PAYHOOK_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path))
    return calls


def payhook(*words: str) -> Result:
    return CliRunner().invoke(main, ["verify", *words])


@pytest.mark.parametrize("name", list_invariant_types())
def test_an_invariant_is_explained_by_its_sentence_and_its_query(asked: list[dict[str, Any]], name: str) -> None:
    found = payhook("--explain", name)
    assert (found.exit_code, asked) == (0, []), "nothing is verified"
    said = " ".join(line.removeprefix("-- ") for line in found.output.splitlines())
    sentences = {one.name: one.sentence for one in INVARIANTS}
    sentences |= {one.name: one.sentence for one in (BodiesWhole, BookingsAreInBodies)}
    assert said.startswith(sentences[name])
    assert "SELECT" in said or "see ledger/verify/" in said


def test_what_no_invariant_is_called_is_said(asked: list[dict[str, Any]]) -> None:
    found = payhook("--explain", "all_is_well")
    assert (found.exit_code, asked) == (2, [])
    assert "there is no invariant all_is_well: choose one of anchors_hold, " in found.output


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], Options()),
        (["--deep"], Options(deep=True)),
        (["--since", "1200"], Options(since=1200)),
        (["--since", "2026-01-31"], Options(since=AT)),
        (["--since", "2026-01-31T00:00:00Z", "--deep"], Options(deep=True, since=AT)),
    ],
)
def test_it_asks_for_what_the_options_say(asked: list[dict[str, Any]], words: list[str], options: Options) -> None:
    assert payhook(*words).exit_code == 0
    assert asked[0]["options"] == options


UNCHECKED = Finding("index_equals_journal", "The index knows.", not_checked="there is no index")


@pytest.mark.parametrize(
    ("ledger", "notify", "code"),
    [(HOLDS, HOLDS, 0), (BROKEN, UNCHECKED, 1), (HOLDS, UNCHECKED, 2), (UNCHECKED, BROKEN, 1), (HOLDS, BROKEN, 1)],
)
def test_every_stream_that_has_a_journal_is_verified(
    asked: list[dict[str, Any]],
    answers: dict[str, Report],
    tmp_path: Path,
    ledger: Finding,
    notify: Finding,
    code: int,
) -> None:
    JournalWriter.create_or_open(str(tmp_path / "lake" / "journal" / "notify"), "notify")
    answers |= {"ledger": report_of(ledger), "notify": report_of(notify)}
    assert payhook().exit_code == code
    assert [one["stream"] for one in asked] == ["ledger", "notify"]


def test_one_stream_is_verified_alone(asked: list[dict[str, Any]]) -> None:
    assert payhook("--stream", "notify", "--test").exit_code == 0
    assert [(one["stream"], one["dead_letters"]) for one in asked] == [("notify-test", "dlq.notify-test")]
    said = payhook("--stream", "nobody")
    assert said.exit_code == 2 and "choose one of ledger, notify" in said.output


class TestTwoShards:
    """Two of them: a journal each, which says so."""

    @pytest.fixture(autouse=True)
    def divided(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
        for number, stream in enumerate(("ledger", "ledger.1")):
            writer = JournalWriter.create_or_open(str(tmp_path / "lake" / "journal" / stream), stream)
            writer.begin_epoch({}, notes=shard_note(Shard(number, 2)))

    @pytest.mark.parametrize(
        ("words", "streams"),
        [
            ([], ["ledger", "ledger.1"]),
            (["--stream", "ledger"], ["ledger", "ledger.1"]),
            (["--stream", "ledger.1"], ["ledger.1"]),
        ],
    )
    def test_all_are_verified_or_the_one_that_is_named(
        self, asked: list[dict[str, Any]], words: list[str], streams: list[str]
    ) -> None:
        assert payhook(*words).exit_code == 0
        assert [(one["stream"], one["dead_letters"]) for one in asked] == [(name, f"dlq.{name}") for name in streams]

    def test_a_shard_of_test_traffic_is_named_as_that_of_live_traffic(
        self, asked: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        assert payhook("--stream", "ledger.1", "--test").exit_code == 0
        assert [one["stream"] for one in asked] == ["ledger-test.1"]

    @pytest.mark.parametrize("name", ["ledger.2", "ledger.0", "ledger.x", "notify.1"])
    def test_one_that_there_is_not_is_refused(self, asked: list[dict[str, Any]], name: str) -> None:
        said = payhook("--stream", name)
        assert (said.exit_code, asked) == (2, [])
        assert f"there is no stream {name}: choose one of ledger, notify, ledger.1" in said.output

    def test_another_number_than_the_journals_name_is_said(
        self, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "1")
        said = payhook()
        assert (said.exit_code, asked) == (2, [])
        assert "processor.shards is 1, and its journal is one of 2" in said.output


def test_a_stream_that_cannot_be_verified_leaves_the_others_their_report(
    asked: list[dict[str, Any]], answers: dict[str, Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **given: Any) -> Report:
        if given["stream"] == "ledger":
            raise VerifyImpossible("there is no journal")
        return answers.get("notify", report_of(HOLDS))

    monkeypatch.setattr(stack.maintenance.verification, "run", run)
    JournalWriter.create_or_open(str(tmp_path / "lake" / "journal" / "notify"), "notify")
    said = payhook()
    assert said.exit_code == 2
    assert "ok  balanced" in said.output and "payhook: ledger: can't verify: there is no journal" in said.output
    reported = json.loads(CliRunner().invoke(main, ["verify", "--json"]).stdout)
    assert (reported["ok"], len(reported["streams"])) == (False, 1)
    answers["notify"] = report_of(BROKEN)
    assert payhook().exit_code == 1


def test_a_since_that_is_neither_a_row_nor_a_time_is_refused(asked: list[dict[str, Any]]) -> None:
    said = payhook("--since", "yesterday")
    assert (said.exit_code, asked) == (2, [])
    assert "is no time" in said.output


def test_a_pipe_gets_one_line_an_invariant(asked: list[dict[str, Any]]) -> None:
    said = payhook().output.splitlines()
    assert said == [
        "ledger: journal version 3, seq 14, 1.2 s",
        "ok  balanced: Debits equal credits.",
        "verified: all of it holds",
    ]


def test_json_has_every_key_of_every_invariant(asked: list[dict[str, Any]]) -> None:
    whole = json.loads(payhook("--json").output)
    assert whole.keys() == {"ok", "streams"}
    [reported] = whole["streams"]
    assert reported.keys() == {"ok", "stream", "version", "seq", "since", "at", "seconds", "invariants"}
    assert reported["invariants"] == [
        {
            "name": "balanced",
            "ok": True,
            "sentence": "Debits equal credits.",
            "unknown": None,
            "not_checked": None,
            "figures": {},
            "offenders": [],
        }
    ]


def shown(report: Report, *, terminal: bool) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, force_terminal=terminal, width=100, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_offenders_and_what_was_not_looked_at_are_reported(terminal: bool) -> None:
    said = shown(report_of(HOLDS, BROKEN, since=9), terminal=terminal)
    assert "rows 9 to 14" in said
    assert "NO" in said
    assert "not checked by one_mode: rows before" in said
    assert 'one_mode: {"seq": 7}' in said
    assert "not verified: see the offenders above" in said


def test_what_could_not_be_checked_is_not_called_verified(monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    unchecked = replace(HOLDS, name="index_equals_journal", not_checked="there is no key index here")
    monkeypatch.setattr(stack.maintenance.verification, "run", lambda *_, **__: report_of(HOLDS, unchecked))
    said = payhook()
    assert said.exit_code == 2
    assert "--  index_equals_journal" in said.output
    assert "index_equals_journal: not checked: there is no key index here" in said.output
    assert "not verified: see what couldn't be checked above" in said.output
    monkeypatch.setattr(stack.maintenance.verification, "run", lambda *_, **__: report_of(BROKEN, unchecked))
    assert payhook().exit_code == 1


def test_the_newest_rows_alone_are_not_called_all() -> None:
    assert "all that was checked holds" in shown(report_of(HOLDS, since=9), terminal=False)


def test_bars_are_drawn_on_a_terminal_only() -> None:
    terminal, pipe = io.StringIO(), io.StringIO()
    for out in (terminal, pipe):
        with show_bars(Console(file=out, force_terminal=out is terminal, width=100)) as watch:
            follow(watch)
    assert "the query that is under way" in terminal.getvalue() and "50/100" in terminal.getvalue()
    assert "one_mode doesn't hold" in terminal.getvalue()
    assert pipe.getvalue() == ""


def test_json_is_silent_on_a_terminal_too() -> None:
    out = io.StringIO()
    with show_bars(Console(file=out, force_terminal=True), silent=True) as watch:
        follow(watch)
    assert out.getvalue() == ""


def follow(watch: VerifyProgress) -> None:
    watch.show_start(2)
    watch.show_percent(50.0)
    watch.show_finding(HOLDS)
    watch.show_finding(BROKEN)
