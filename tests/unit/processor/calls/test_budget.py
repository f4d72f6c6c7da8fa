"""Budgets are divided without growing, and reports of a batch's tasks become one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from processor.calls.budget import Budget, Budgets, CallReport, merge_reports

COUNTS = st.integers(0, 1_000)


@given(calls=COUNTS, retries=COUNTS, at_once=COUNTS, parts=st.integers(1, 40), turn=st.integers(0, 1_000))
def test_shares_add_up_to_no_more_than_the_whole(calls: int, retries: int, at_once: int, parts: int, turn: int) -> None:
    whole = Budgets({"merchants": Budget(calls, retries, at_once, failures=5)})
    shares = [share.by_name["merchants"] for share in whole.make_shares(parts, turn)]
    assert sum(share.calls for share in shares) <= calls
    assert sum(share.retries for share in shares) == retries
    assert sum(share.at_once for share in shares) == at_once
    assert all(share.calls == 0 for share in shares if share.at_once == 0)
    if at_once >= parts:
        assert sum(share.calls for share in shares) == calls


def test_one_probe_goes_round_among_the_tasks() -> None:
    probe = Budgets({"merchants": Budget(1, 1, 1, failures=1, probing=True)})
    having = [[share.by_name["merchants"].calls for share in probe.make_shares(3, turn)] for turn in range(3)]
    assert sorted(having) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_a_new_downstream_has_the_budget_of_its_longest_pattern() -> None:
    any_one, subscriber = Budget(9, 9, 9, 9), Budget(3, 3, 3, 3)
    budgets = Budgets({"subscriber:b": Budget(1, 1, 1, 1)}, {"*": any_one, "subscriber:*": subscriber})
    assert budgets.find_budget("merchants") == any_one
    assert budgets.find_budget("subscriber:a") == subscriber
    assert budgets.find_budget("subscriber:b") == Budget(1, 1, 1, 1)
    assert Budgets().find_budget("merchants") is None


def test_a_second_job_gets_what_the_first_one_left() -> None:
    budgets = Budgets({"a": Budget(10, 4, 2, 5)}, {"*": Budget(6, 6, 6, 6)})
    left = budgets.subtract_reports({"a": CallReport(calls=7, retries=4), "new": CallReport(calls=2)})
    assert left.find_budget("a") == Budget(3, 0, 2, 5)
    assert left.find_budget("new") == Budget(4, 6, 6, 6)


def test_a_lost_job_may_have_made_the_probes_so_that_nobody_makes_them_again() -> None:
    probing, usual = Budget(3, 3, 3, 1, probing=True), Budget(10, 4, 2, 5)
    left = Budgets({"a": probing, "b": usual}).subtract_loss()
    assert left.by_name["a"].calls == 0
    assert left.by_name["b"] == usual


def test_failures_at_the_end_of_tasks_side_by_side_are_one_row() -> None:
    reports = [
        {"a": CallReport(calls=5, failed=2, failed_in_a_row=2, peak=2)},
        {"a": CallReport(calls=1, failed=1, failed_in_a_row=1, peak=1)},
    ]
    whole = merge_reports(reports)["a"]
    assert (whole.calls, whole.failed, whole.failed_in_a_row, whole.peak) == (6, 3, 3, 3)


def test_a_good_call_of_a_later_job_ends_the_row_of_an_earlier_one() -> None:
    report = CallReport(calls=2, failed=2, failed_in_a_row=2)
    report.follow(CallReport(calls=1, failed=1, failed_in_a_row=1))
    assert report.failed_in_a_row == 3
    report.follow(CallReport(calls=2, failed=1, failed_in_a_row=1))
    assert (report.failed, report.failed_in_a_row) == (4, 1)
