"""An uploaded report is compared by the command itself: the run that it made is read again by its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.pages.ledger import open_reconciliations
from console.uploads import ReconcileFailed, ReportAsked
from core.layout import Layout
from core.money import Money, MoneyFact, Movement
from ledger.queries.journals import LedgerJournals
from stack.services.listener import compare_by_command
from stack.settings import Settings
from tests.settlement_reports import stripe_csv, stripe_line
from tests.small_ledger import START, SmallLedger

pytestmark = pytest.mark.more(reason="a Spark of its own; tests/integration/ledger compares reports")


def test_an_uploaded_report_is_a_run_like_any_other(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ledger = SmallLedger(data)
    row = ledger.add(Movement.CAPTURE, 1_000, payment="pi_1", fact_key="stripe:ch_1:capture")
    ledger.commit()
    fact = MoneyFact("stripe:ch_1:capture", Movement.CAPTURE, "acct", "pi_1", Money(1_000, "EUR"))
    report = tmp_path / "jan.csv"
    report.write_bytes(stripe_csv(stripe_line(fact, row.occurred_at or START)))
    settings = Settings(data_dir=data)
    run_id = compare_by_command(settings, ReportAsked("live", "stripe", "acct"), report)
    run = open_reconciliations(LedgerJournals(Layout(data).all_ledgers())).find_run(run_id)
    assert (run.report_name, run.compared, run.agreed, run.clean) == ("jan.csv", 1, 1, True)
    report.write_text("not,a,report\n")
    with pytest.raises(ReconcileFailed, match=r"jan\.csv isn't Stripe's itemised balance report"):
        compare_by_command(settings, ReportAsked("live", "stripe", "acct"), report)
