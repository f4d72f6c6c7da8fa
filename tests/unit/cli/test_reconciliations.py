"""Commands of reconciliations refuse what makes no sense, and say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main


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
        (["--repair"], "--repair asks for --reason"),
        (["--repair", "--reason", " "], "printable characters is wanted"),
        (["--repair", "--reason", "lost", "--json"], "--repair or --json"),
        (["--dry-run"], "--dry-run is for --repair"),
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


def test_where_nothing_was_reconciled_yet_it_says_how(tmp_path: Path) -> None:
    assert ledger(tmp_path, "reconciliations")[1].startswith(
        "nothing has been reconciled yet: payhook ledger reconcile"
    )
    assert ledger(tmp_path, "reconciliations", "--json") == (0, "[]\n")
    code, said = ledger(tmp_path, "reconciliations", "--run", "of-yore")
    assert code == 1
    assert "there is no reconciliation 'of-yore'" in said
