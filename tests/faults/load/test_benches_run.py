"""The benches that start processors or verify on made data, at sizes that take a minute: they run, and measure."""

from pathlib import Path

import pytest
from rich.console import Console

from core.layout import Layout
from journal.reader import JournalReader
from load.bench.drain import drain_once, kafka_with_backlog
from load.bench.figures import Run
from load.bench.ledger_verify import measure_verify
from load.bench.recovery import recover
from load.bench.start import measure_start


def test_starts_with_and_without_an_index_are_measured(tmp_path: Path):
    figures = measure_start(Run(tmp_path / "start", Console(quiet=True), size=20_000))
    assert figures["start.ready_s_at_10m"] > 0
    assert figures["start.rebuild_s_at_10m"] > 0
    assert figures["start.snapshot_s_at_10m"] > 0
    # One row for each of the four starts before it.
    assert "begins with the snapshot at row 20004" in (tmp_path / "history-20000" / "processor.log").read_text()


def test_a_drain_is_measured(tmp_path: Path):
    with kafka_with_backlog(Run(tmp_path, Console(quiet=True)), 5_000) as kafka:
        drained = drain_once(tmp_path / "payhook", kafka, 5_000, tmp_path / "records")
    assert drained.per_s > 0


@pytest.mark.row("D6")
def test_a_recovery_is_measured_while_events_go_on_coming(tmp_path: Path):
    with kafka_with_backlog(Run(tmp_path, Console(quiet=True)), 5_000) as kafka:
        took_s, _ = recover(tmp_path / "payhook", kafka, 5_000, tmp_path / "records")
    assert took_s > 0
    rows = JournalReader(str(Layout(tmp_path / "payhook").ledger().journal)).last_seq
    assert rows > 5_000, "what came meanwhile was decided too"


def test_a_verification_is_measured(tmp_path: Path):
    figures = measure_verify(Run(tmp_path / "verify", Console(quiet=True), size=2_000))
    assert figures["ledger.verify_rows_per_s"] > 0
