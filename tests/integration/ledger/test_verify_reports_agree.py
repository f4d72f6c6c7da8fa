"""A provider's own report is held against the ledger: what differs is settled, or named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ledger.reconciliations import KINDS, Reconciliation, Reconciliations
from ledger.verify import Finding
from ledger.verify.report_checks import ReportsAgree
from tests.integration.ledger.conftest import AT, Look, World

DAY = timedelta(days=1)


@pytest.fixture
def runs(world: World) -> Reconciliations:
    shared = world.lake.places.shared
    found = Reconciliations(shared("reconciliation"), shared("reconciliation-runs"))
    found.make()
    return found


def reconciled(runs: Reconciliations, run_id: str, days_ago: float, missing: int = 0, **more: Any) -> None:
    """A run of a period that ended so many days ago; so much was missing in the ledger."""
    until = AT - days_ago * DAY
    counts = dict.fromkeys(KINDS, 0) | {"missing_here": missing}
    about: dict[str, Any] = {"provider": "stripe", "tenant": None, "report_name": f"{run_id}.csv", "at": AT}
    about |= {"since": until - 30 * DAY, "until": until, "report_sha256": "0" * 64, "lines": 9, "compared": 9}
    about |= {"agreed": 9 - missing, "not_compared": {}, "journal_version": 1, "journal_seq": 9}
    about |= {"postings_version": 1, "seconds": 0.1, **more}
    runs.add(Reconciliation(run_id=run_id, counts=counts, **about))


@pytest.fixture
def check(look: Look) -> Any:
    def found() -> Finding:
        return look(ReportsAgree)

    return found


def test_where_nothing_was_reconciled_nothing_differs(check: Any) -> None:
    found = check()
    assert found.ok and found.figures == {"reports": 0, "differences": 0, "awaiting": 0}


def test_a_difference_is_an_offence_once_it_is_old(runs: Reconciliations, check: Any) -> None:
    reconciled(runs, "r-clean", 90)
    reconciled(runs, "r-new", 29, missing=2)
    found = check()
    assert found.ok and found.figures == {"reports": 2, "differences": 2, "awaiting": 2}
    reconciled(runs, "r-old", 31, missing=3)
    found = check()
    assert [(one["run_id"], one["missing_here"]) for one in found.offenders] == [("r-old", 3)]
    assert found.figures == {"reports": 3, "differences": 5, "awaiting": 2}


def test_the_newest_run_of_a_period_counts(runs: Reconciliations, check: Any) -> None:
    reconciled(runs, "r-1", 60, missing=1, at=AT - 2 * DAY)
    reconciled(runs, "r-2", 60, at=AT - DAY)
    assert check().ok
    reconciled(runs, "r-3", 60, missing=1, provider="adyen")
    assert [one["provider"] for one in check().offenders] == ["adyen"]
