"""Rows are numbered from first to last: what was removed, cut off or numbered twice is named."""

from __future__ import annotations

from tests.integration.ledger.conftest import Verify, World
from tests.integration.ledger.findings import failed, problems, wrong


def test_a_row_that_was_removed_is_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.seq != 2]
    world.rewrite()
    found = failed(report())
    assert found["seq_without_gaps"].offenders[0]["rows"] == 5
    assert "offsets_accounted" in found


def test_a_number_that_was_given_twice_is_named(report: Verify, world: World) -> None:
    world.row(9).seq = 8
    world.rewrite()
    assert "aren't numbered once each" in problems(wrong(report, "seq_without_gaps"))


def test_a_commit_that_was_removed_is_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.batch_seq != 7]
    world.rewrite()
    assert wrong(report, "seq_without_gaps").offenders[0]["expected"] == 7


def test_rows_that_were_cut_off_at_the_end_are_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.seq <= 11]
    world.rewrite()
    assert "missing at the end" in problems(wrong(report, "seq_without_gaps"))
