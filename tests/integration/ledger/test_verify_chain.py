"""Rows are what their hashes say, and commits what the chain says: what was edited is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from journal.schema import GENESIS, JournalRow
from tests.integration.ledger.conftest import Verify, World
from tests.integration.ledger.findings import problems, wrong


@pytest.mark.row("G7")
@pytest.mark.parametrize(
    "change",
    [
        lambda row: setattr(row, "reason", "nothing to see"),
        lambda row: setattr(row, "decided_at", row.decided_at + timedelta(microseconds=1)),
        lambda row: setattr(row, "headers", '{"ce_id":"a"}'),
        lambda row: setattr(row, "blocking", not row.blocking),
        lambda row: setattr(row, "error_stack", ""),
        lambda row: setattr(row, "row_hash", "0" * 64),
    ],
)
def test_a_row_that_was_edited_is_named(report: Verify, world: World, change: Callable[[JournalRow], None]) -> None:
    change(world.row(8))
    world.rewrite(forge=False)
    found = wrong(report, "chain_whole")
    assert {"problem": "rows don't match their hash", "seq": 8, "rows": 1} in found.offenders


def test_a_row_that_was_edited_with_its_hash_breaks_the_chain(report: Verify, world: World) -> None:
    chain = world.state.chain
    world.row(8).reason = "nothing to see"
    world.rewrite()
    world.state = replace(world.state, chain=chain)
    world.rewrite(forge=False)
    assert "head" in problems(wrong(report, "chain_whole"))


def test_a_commit_of_an_epoch_that_was_over_is_named(report: Verify, world: World) -> None:
    for row in world.rows:
        row.epoch = 2 if row.batch_seq == 1 else 1
    world.rewrite()
    assert "after its successor" in problems(wrong(report, "chain_whole"))


def test_a_chain_without_rows_has_the_first_head(report: Verify, world: World) -> None:
    world.state = replace(world.state, chain=GENESIS)
    world.rewrite(forge=False)
    assert "head" in problems(wrong(report, "chain_whole"))
