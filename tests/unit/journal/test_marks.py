"""Marks, and what a batch must account for."""

from __future__ import annotations

import pytest

from journal.errors import BatchInvalid
from journal.state import Marks, check_movement, marks_from_json, marks_to_json, with_starts
from tests.unit.journal.rows import row

BEFORE: Marks = {"a": {0: 5, 1: 0}, "b": {0: 2}}


def test_marks_survive_their_json_whatever_the_order() -> None:
    text = marks_to_json({"b": {0: 2}, "a": {11: 1, 2: 5}})
    assert text == '{"a":{"2":5,"11":1},"b":{"0":2}}'
    assert marks_from_json(text) == {"a": {2: 5, 11: 1}, "b": {0: 2}}


def test_a_start_never_moves_a_partition_that_is_known() -> None:
    assert with_starts(BEFORE, {"a": {0: 9, 2: 7}, "c": {0: 1}}) == {"a": {0: 5, 1: 0, 2: 7}, "b": {0: 2}, "c": {0: 1}}


def test_offsets_that_the_marks_pass_have_one_first_row_each() -> None:
    rows = [row(1, 5, topic="a"), row(2, 6, topic="a"), row(3, 2, topic="b"), row(4, 5, first=False, item_seq=1)]
    check_movement(rows, BEFORE, {"a": {0: 7, 1: 0}, "b": {0: 3}})


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ([], {"a": {0: 6, 1: 0}, "b": {0: 2}}),
        ([row(1, 5, topic="a")], BEFORE),
        ([row(1, 6, topic="a")], {"a": {0: 7, 1: 0}, "b": {0: 2}}),
        ([row(1, 5, topic="a"), row(2, 5, topic="a")], {"a": {0: 6, 1: 0}, "b": {0: 2}}),
        ([row(1, 5, topic="a")], {"a": {0: 6, 1: 0}}),
        ([row(1, 0, topic="c")], {**BEFORE, "c": {0: 1}}),
        ([], {**BEFORE, "c": {0: 1}}),
        ([], {"a": {0: 4, 1: 0}, "b": {0: 2}}),
        ([row(7, 5, topic="a", item_seq=3)], {"a": {0: 6, 1: 0}, "b": {0: 2}}),
        ([row(7, 5, topic="a", first=False)], BEFORE),
    ],
    ids=[
        "an offset without a row",
        "a row beyond the marks",
        "a hole",
        "an offset decided twice",
        "a partition dropped",
        "a topic that no epoch named",
        "a mark that no epoch named",
        "a mark that goes back",
        "a first row of another item",
        "a later row that is its item's first",
    ],
)
def test_anything_else_is_refused(rows: list[object], after: Marks) -> None:
    with pytest.raises(BatchInvalid):
        check_movement(rows, BEFORE, after)  # type: ignore[arg-type]
