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
    shared = world.lake.places.shared_table
    found = Reconciliations(shared("reconciliation"), shared("reconciliation-runs"))
    found.make_tables()
    return found


def reconciled(runs: Reconciliations, run_id: str, days_ago: float, missing: int = 0, **more: Any) -> None:
    """A run of a period that ended so many days ago; so much was missing in the ledger."""
    until = AT - days_ago * DAY
    counts = dict.fromkeys(KINDS, 0) | {"missing_here": missing}
    about: dict[str, Any] = {"provider": "stripe", "tenant": None, "report_name": f"{run_id}.csv", "at": AT}
    about |= {"since": until - 30 * DAY, "until": until, "report_sha256": "0" * 64, "lines": 9, "compared": 9}
    about |= {"agreed": 9 - missing, "not_compared": {}, "journal_version": 1, "journal_seq": 9}
    about |= {"postings_version": 1, "seconds": 0.1, **more}
    runs.add_run(Reconciliation(run_id=run_id, counts=counts, **about))


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


def test_each_account_has_its_own_newest_run(runs: Reconciliations, check: Any) -> None:
    reconciled(runs, "r-1", 60, missing=1, at=AT - 3 * DAY, account="acct_1")
    reconciled(runs, "r-2", 60, at=AT - 2 * DAY, account="acct_2")
    reconciled(runs, "r-3", 60, at=AT - DAY)
    assert [(one["run_id"], one["account"]) for one in check().offenders] == [("r-1", "acct_1")]
    reconciled(runs, "r-4", 60, account="acct_1")
    assert check().ok


def test_a_report_whose_account_was_left_out_is_settled_by_itself_with_one(runs: Reconciliations, check: Any) -> None:
    about: dict[str, Any] = {"report_sha256": "a" * 64}
    reconciled(runs, "r-1", 60, missing=1, at=AT - 3 * DAY, **about)
    reconciled(runs, "r-2", 60, at=AT - 2 * DAY, account="acct_1")
    assert [one["run_id"] for one in check().offenders] == ["r-1"]
    reconciled(runs, "r-3", 60, at=AT - DAY, account="acct_1", **about)
    assert check().ok


def period(since: float | None, until: float | None) -> dict[str, Any]:
    """By the days since the first of all."""
    first = AT - 365 * DAY
    return {name: None if day is None else first + day * DAY for name, day in (("since", since), ("until", until))}


@pytest.mark.parametrize(
    ("older", "newer", "replaces"),
    [
        ((1, 30), (1, 30), True),
        ((1, 30), (1, 31), True),
        ((1, 30), (0, 30), True),
        ((1, 30), (2, 30), False),
        ((1, 30), (1, 29), False),
        ((1, 30), (31, 60), False),
        ((None, 30), (1, 30), True),
        ((None, 30), (1, 29), False),
        ((1, None), (0, 2), True),
        ((1, None), (2, 3), False),
        ((None, None), (1, 2), True),
        ((None, None), (None, None), True),
        ((1, 30), (None, 30), False),
        ((1, 30), (1, None), False),
    ],
)
def test_a_later_run_replaces_those_whose_period_is_within_its_own(
    runs: Reconciliations, check: Any, older: Any, newer: Any, replaces: bool
) -> None:
    reconciled(runs, "r-1", 90, missing=1, at=AT - 40 * DAY, **period(*older))
    reconciled(runs, "r-2", 90, at=AT - DAY, **period(*newer))
    found = check()
    assert ([one["run_id"] for one in found.offenders] == []) is replaces
    assert found.figures["reports"] == (1 if replaces else 2)


def test_an_earlier_run_of_a_longer_period_replaces_none(runs: Reconciliations, check: Any) -> None:
    reconciled(runs, "r-1", 90, at=AT - 2 * DAY, **period(0, 90))
    reconciled(runs, "r-2", 90, missing=1, at=AT - DAY, **period(1, 30))
    assert [one["run_id"] for one in check().offenders] == ["r-2"]
