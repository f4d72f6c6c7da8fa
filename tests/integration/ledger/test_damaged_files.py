"""A file of a table that Spark can't read ends a command in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.money import Movement
from tests.damaged_lake import cut_files
from tests.small_ledger import SmallLedger

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.more(reason="a Spark of its own")
def test_a_journal_that_spark_cannot_read_is_one_sentence(tmp_path: Path) -> None:
    ledger = SmallLedger(tmp_path)
    ledger.add(Movement.CAPTURE, 1_000, "EUR")
    ledger.commit()
    cut_files(Path(ledger.journal))
    command = [sys.executable, "-m", "cli.main", "ledger", "rebuild-postings", "--data", str(tmp_path)]
    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    *_, said = ran.stderr.splitlines()
    assert (ran.returncode, "\tat " in ran.stderr) == (1, False)
    assert said.startswith("payhook: Spark failed: ") and f"{ledger.journal}/part-" in said
