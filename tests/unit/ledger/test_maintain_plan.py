"""Which files are rewritten together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.rewrite import DataFile
from ledger.maintain.compact import FILES_MAX, MS_A_DAY, CompactionLimits, plan_groups

FILES_MIN = 8
LIMITS = CompactionLimits(rows_max=100, bytes_max=10_000, files_min=FILES_MIN)


def files(*rows: int, size: int = 10) -> list[DataFile]:
    found, seq = [], 1
    for number, count in enumerate(rows):
        found.append(DataFile(f"f{number}", size, count, number, seq, seq + count - 1))
        seq += count
    return found


def names(groups: list[list[DataFile]]) -> list[list[str]]:
    return [[one.name for one in group] for group in groups]


def test_small_files_that_follow_one_another_go_together_up_to_the_limit() -> None:
    groups = plan_groups(files(*[10] * 25), LIMITS)
    assert [len(group) for group in groups] == [10, 10]


def test_what_is_half_as_large_as_wanted_is_left_alone() -> None:
    groups = plan_groups(files(*[5] * 8, 50, *[5] * 8), LIMITS)
    assert names(groups) == [[f"f{n}" for n in range(8)], [f"f{n}" for n in range(9, 17)]]
    assert plan_groups(files(*[1] * 20, size=5_000), LIMITS) == []


def test_a_few_are_left_until_there_are_more() -> None:
    assert plan_groups(files(*[1] * (FILES_MIN - 1)), LIMITS) == []
    assert len(plan_groups(files(*[1] * FILES_MIN), LIMITS)) == 1


def test_even_two_go_together_where_they_make_a_large_one() -> None:
    assert names(plan_groups(files(40, 45, 30), LIMITS)) == [["f0", "f1"]]


def test_no_group_is_longer_than_its_commit_may_be() -> None:
    groups = plan_groups(files(*[1] * (FILES_MAX + FILES_MIN)), CompactionLimits(10**9, 10**9, FILES_MIN))
    assert [len(group) for group in groups] == [FILES_MAX, FILES_MIN]


def test_files_of_different_days_stay_apart_where_asked() -> None:
    days = [DataFile(f"f{n}", 10, 1, n // 8 * MS_A_DAY + n) for n in range(16)]
    assert [len(group) for group in plan_groups(days, LIMITS, by_day=True)] == [8, 8]
    assert [len(group) for group in plan_groups(days, LIMITS)] == [16]


@given(st.lists(st.integers(1, 200), max_size=80), st.randoms())
def test_groups_are_small_files_once_each_and_nothing_lies_between_two_of_one(rows: list[int], order: object) -> None:
    there = files(*rows)
    shuffled = list(there)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    groups = plan_groups(shuffled, LIMITS)
    chosen = [one.name for group in groups for one in group]
    assert len(chosen) == len(set(chosen))
    assert all(LIMITS.is_small(one) for group in groups for one in group)
    for group in groups:
        assert sum(one.rows for one in group) <= LIMITS.rows_max
        first, last = there.index(group[0]), there.index(group[-1])
        assert there[first : last + 1] == group
