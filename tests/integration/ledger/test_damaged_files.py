"""A file of a table that Spark can't read ends a command in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.money import Movement
from tests.damaged_lake import cut_files
from tests.settlement_reports import stripe_csv
from tests.small_ledger import SmallLedger

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.more(reason="a Spark of its own")
def test_a_table_that_spark_cannot_read_is_one_sentence(tmp_path: Path) -> None:
    ledger = SmallLedger(tmp_path)
    ledger.add(Movement.CAPTURE, 1_000, "EUR")
    ledger.commit()
    cut_files(Path(ledger.postings))
    report = tmp_path / "settled.csv"
    report.write_bytes(stripe_csv())
    command = [sys.executable, "-m", "cli.main", "ledger", "reconcile", "--data", str(tmp_path)]
    command += ["--provider", "stripe", "--report", str(report), "--from", "2020-01-01", "--to", "2100-01-01"]
    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    *_, said = ran.stderr.splitlines()
    assert (ran.returncode, "\tat " in ran.stderr) == (1, False)
    assert said.startswith("payhook: Spark failed: ") and f"{ledger.postings}/part-" in said
