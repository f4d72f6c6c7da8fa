"""Commands of reconciliations refuse what makes no sense, and say what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from cli.place import Place
from core.layout import Layout
from core.money import Movement
from ledger.reconciliations import Reconciliations
from operations.audit_log import AuditLog
from tests.damaged_lake import cut_log
from tests.settlement_reports import stripe_csv
from tests.small_ledger import SmallLedger
from tests.unit.ledger.test_repair import MISSING, RUN, RepairProducer


def ledger(folder: Path, *words: str) -> tuple[int, str]:
    said = CliRunner().invoke(main, ["ledger", *words, "--data", str(folder)])
    return said.exit_code, said.output


def reconcile(folder: Path, *words: str) -> tuple[int, str]:
    (folder / "report.csv").write_text("nothing\n")
    report = str(folder / "report.csv")
    return ledger(folder, "reconcile", "--provider", "stripe", "--report", report, *words)


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--repair"], "--repair needs --reason"),
        (["--repair", "--reason", " "], "expected one line of 1 to 500 printable characters"),
        (["--repair", "--reason", "lost", "--json"], "--repair or --json"),
        (["--dry-run"], "--dry-run needs --repair"),
        (["--from", "2026-02-01", "--to", "2026-01-01"], "it must be after --from"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(tmp_path: Path, words: list[str], reported: str) -> None:
    code, said = reconcile(tmp_path, *words)
    assert code == 2
    assert reported in said


def test_a_wrong_file_is_reported_of_in_one_sentence_and_nothing_is_written(tmp_path: Path) -> None:
    code, said = reconcile(tmp_path)
    assert code == 1
    assert said.startswith("payhook: report.csv isn't Stripe's itemised balance report: the columns")
    assert not (tmp_path / "lake").exists()


def test_postings_whose_log_is_damaged_are_one_sentence(tmp_path: Path) -> None:
    booked = SmallLedger(tmp_path)
    booked.add(Movement.CAPTURE)
    booked.commit()
    cut_log(Path(booked.postings))
    report = tmp_path / "settled.csv"
    report.write_bytes(stripe_csv())
    code, said = ledger(tmp_path, "reconcile", "--provider", "stripe", "--report", str(report))
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith(f"payhook: the table {booked.postings} can't be read")


def test_where_nothing_was_reconciled_yet_it_says_how(tmp_path: Path) -> None:
    assert ledger(tmp_path, "reconciliations")[1].startswith(
        "nothing has been reconciled yet: payhook ledger reconcile"
    )
    assert ledger(tmp_path, "reconciliations", "--json") == (0, "[]\n")
    code, said = ledger(tmp_path, "reconciliations", "--run", "of-yore")
    assert code == 1
    assert "there is no reconciliation 'of-yore'" in said


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> RepairProducer:
    """Three facts are missing here; whoever repairs sends them to this producer, which doesn't take the second."""
    producer = RepairProducer(refuses=1)
    missing = [replace(MISSING, fact_key=f"stripe:re_{n}:refund", line=n) for n in (1, 2, 3)]
    monkeypatch.setattr("ledger.reconcile.job.run", lambda *_: RUN)
    monkeypatch.setattr("cli.reconcile_commands.spark_jars", lambda _: [])
    monkeypatch.setattr("cli.reconcile_commands.open_producer", lambda *_: producer)
    monkeypatch.setattr(Place, "kafka", lambda _: None)
    monkeypatch.setattr(Place, "record_keys", lambda _: None)
    monkeypatch.setattr(Reconciliations, "read_differences", lambda *_: missing)
    return producer


def test_a_repair_that_kafka_took_in_part_is_on_record_as_failed_with_what_was_sent(
    tmp_path: Path, producer: RepairProducer
) -> None:
    """What Kafka took is booked, although the rest wasn't taken."""
    code, said = reconcile(tmp_path, "--repair", "--reason", "webhook lost")
    assert (code, "acknowledged 2 events and not 1" in said) == (1, True), said
    [act] = AuditLog(Layout(tmp_path).audit_log).read(10)
    assert (act.action, act.outcome, act.after) == ("repair", "failed", "2 events sent, 1 not acknowledged")


def test_a_repair_is_on_record_with_how_many_events_it_sent(tmp_path: Path, producer: RepairProducer) -> None:
    producer.refuses = None
    reconcile(tmp_path, "--repair", "--reason", "webhook lost")
    [act] = AuditLog(Layout(tmp_path).audit_log).read(10)
    assert (act.action, act.outcome, act.after) == ("repair", "done", "3 events sent")
