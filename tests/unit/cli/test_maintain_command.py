"""`payhook ledger maintain` and `redact`, on a small lake: neither needs Spark for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.acting import this_account
from cli.lake_commands import format_size
from cli.main import main
from core.decision import Decision
from core.layout import Layout
from journal.bodies import BodyStore
from ledger.maintain.tables import hold_maintenance_lock
from ledger.rebuild import BookingUnreadable, RebuildResult
from operations.audit_log import AuditLog
from tests.unit.journal.rows import begin_journal, marks, row, sha

KEY = "stripe:evt_0:charge.succeeded"


def payhook(folder: Path, *words: str, columns: int = 200) -> Result:
    return CliRunner().invoke(main, [*words, "--data", str(folder)], env={"COLUMNS": str(columns)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal of two events: the first is applied, the second is dead."""
    places = Layout(tmp_path).ledger()
    writer = begin_journal(str(places.journal))
    BodyStore(str(places.bodies_table)).append([(sha(f"body {n}"), f"body {n}".encode()) for n in range(2)])
    writer.commit([row(1), row(2, decision=Decision.DEAD)], marks(2), 0)
    return tmp_path


def test_where_nothing_was_decided_it_says_so(tmp_path: Path) -> None:
    answer = payhook(tmp_path, "ledger", "maintain")
    assert (answer.exit_code, answer.output) == (0, "nothing has been decided yet: there is no table to maintain\n")


def test_a_table_is_shown_with_its_files_before_and_after(folder: Path) -> None:
    answer = payhook(folder, "ledger", "maintain")
    assert answer.exit_code == 0
    assert "journal" in answer.output and "all tables are maintained" in answer.output
    dry = payhook(folder, "ledger", "maintain", "--dry-run")
    assert "dry run: nothing was changed" in dry.output


def test_the_report_is_json_where_asked(folder: Path) -> None:
    reported = json.loads(payhook(folder, "ledger", "maintain", "--json").output)
    assert reported["ok"] and [one["table"] for one in reported["tables"]] == ["journal", "bodies"]
    assert (reported["tables"][0]["files_before"], reported["tables"][0]["files_after"]) == (1, 1)
    assert json.loads((folder / "run" / "maintained.json").read_text("utf-8")) == reported


def test_a_second_one_says_that_the_first_is_at_it(folder: Path) -> None:
    with hold_maintenance_lock(folder / "run", datetime.now(UTC)):
        for words in (("maintain",), ("redact", KEY, "--reason", "asked")):
            answer = payhook(folder, "ledger", *words)
            assert answer.exit_code == 1 and "maintenance is running already" in answer.output


def test_a_table_that_cannot_be_maintained_is_named_and_the_exit_is_1(folder: Path) -> None:
    checkpoint = Layout(folder).ledger().journal / "_delta_log" / f"{0:020}.json"
    Path(checkpoint).write_text("torn", "utf-8")
    answer = payhook(folder, "ledger", "maintain")
    assert answer.exit_code == 1
    assert "journal of ledger: " in answer.output and "some tables were not maintained" in answer.output


def test_a_redacted_body_is_reported_of_in_its_events_story(folder: Path) -> None:
    assert "redacted" not in payhook(folder, "ledger", "event", KEY).output
    answer = payhook(folder, "ledger", "redact", KEY, "--reason", "request 17")
    assert answer.exit_code == 0 and sha("body 0") in answer.output
    shown = payhook(folder, "ledger", "event", KEY).output
    assert f"body {sha('body 0')}: redacted by {this_account()} at " in shown and ": request 17" in shown
    (reported,) = json.loads(payhook(folder, "ledger", "event", KEY, "--json").output)[KEY]["bodies"]
    assert (reported["status"], reported["actor"], reported["reason"]) == ("redacted", this_account(), "request 17")


def test_a_second_redaction_says_that_the_first_had_removed_it(folder: Path) -> None:
    payhook(folder, "ledger", "redact", KEY, "--reason", "request 17")
    said = payhook(folder, "ledger", "redact", KEY, "--reason", "request 18").output
    assert f"body {sha('body 0')} (row 1) was already removed, ordered by {this_account()} at " in said
    assert said.rstrip().endswith(": request 17") and "is removed;" not in said
    (reported,) = json.loads(payhook(folder, "ledger", "event", KEY, "--json").output)[KEY]["bodies"]
    assert reported["actor"] == this_account()


@pytest.mark.parametrize(
    ("key", "problem"),
    [("stripe:evt_1:charge.succeeded", "item 2 is open"), ("stripe:evt_9:charge.succeeded", "knows no body")],
)
def test_what_is_open_or_unknown_is_refused_with_the_reason(folder: Path, key: str, problem: str) -> None:
    answer = payhook(folder, "ledger", "redact", key, "--reason", "asked")
    assert answer.exit_code == 1 and problem in answer.output
    assert not (folder / "lake" / "redactions").exists()


def test_where_there_is_no_journal_no_event_is_known(tmp_path: Path) -> None:
    answer = payhook(tmp_path, "ledger", "redact", KEY, "--reason", "asked")
    assert answer.exit_code == 1 and "knows no body" in answer.output


def test_sizes_are_for_people() -> None:
    assert [format_size(count) for count in (0, 999, 1_500, 2_340_000, 12_000_000_000)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.3 MB",
        "12.0 GB",
    ]


def test_postings_that_are_made_again_are_an_act_on_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How they are made is tested in tests/integration/ledger/test_rebuild.py."""
    monkeypatch.setattr(
        "ledger.rebuild.rebuild_postings", lambda *_: RebuildResult(before=7, lines=4, mark=2, version=5, seconds=1.5)
    )
    answer = payhook(folder, "ledger", "rebuild-postings")
    assert (answer.exit_code, "the journal up to row 2: 4 lines" in answer.output) == (0, True), answer.output
    [act] = AuditLog(Layout(folder).audit_log).read(10)
    assert (act.actor, act.action, act.outcome, act.what) == (this_account(), "rebuild_postings", "done", "ledger")
    assert (act.before, act.after) == ("7 lines", "4 lines of the journal up to row 2, version 5 of the postings")


def test_postings_that_could_not_be_made_again_are_on_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(journal: object, *_: object) -> RebuildResult:
        raise BookingUnreadable(str(journal), 2)

    monkeypatch.setattr("ledger.rebuild.rebuild_postings", unreadable)
    assert payhook(folder, "ledger", "rebuild-postings").exit_code == 1
    [act] = AuditLog(Layout(folder).audit_log).read(10)
    assert (act.action, act.outcome, act.after) == ("rebuild_postings", "refused", None)
