"""What a command's row says of single items; of a command that was refused whole it says nothing of any."""

from __future__ import annotations

import pytest

from dlq.refusals import older_than_restore
from dlq.selection.outcomes import _told


def test_each_refused_item_is_told_by_itself() -> None:
    row = "1 of 3 accepted; refused: item 4 has moved on since row 4; look again; item 9 isn't dead"
    assert _told(row) == {4: "item 4 has moved on since row 4; look again", 9: "item 9 isn't dead"}


@pytest.mark.parametrize("row", ["", "3 of 3 accepted", older_than_restore("a" * 32, "b" * 32)])
def test_a_row_that_names_no_item_tells_of_none(row: str) -> None:
    assert _told(row) == {}
