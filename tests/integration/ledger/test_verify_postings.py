"""The postings are the lines that the journal booked: any other line is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from journal.reader import JournalReader
from ledger.postings import PostingsWriter
from ledger.verify.duckdb_engine import DuckDb
from tests.integration.ledger.conftest import AT, Verify, World
from tests.integration.ledger.findings import wrong

CHANGES: list[tuple[Callable[[list[dict[str, Any]]], Any], str]] = [
    (lambda lines: lines.pop(), "a line is missing"),
    (lambda lines: lines.append(dict(lines[0])), "a line is there twice"),
    (lambda lines: lines[0].update(amount_minor=1), "an amount was changed"),
    (lambda lines: lines[0].update(account="merchant:m-2:payable"), "an account was changed"),
    (lambda lines: lines[0].update(merchant="m-2"), "a merchant was changed"),
    (lambda lines: lines[0].update(occurred_at=AT), "a time was changed"),
    (lambda lines: lines.append(lines[0] | {"seq": 12}), "a line was made up"),
    (lambda lines: lines.append(lines[0] | {"seq": 99}), "a line is ahead of the journal"),
]


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_postings_that_are_not_the_journals_are_named(
    report: Verify, world: World, change: Callable[[list[dict[str, Any]]], None], name: str
) -> None:
    world.rewrite_postings(change)
    assert wrong(report, "postings_equal_journal").offenders, name


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_they_are_named_too_where_the_rows_are_looked_at_in_portions(
    report: Verify,
    world: World,
    change: Callable[[list[dict[str, Any]]], None],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DuckDb, "portion_rows", 5)
    assert report("postings_equal_journal").ok
    world.rewrite_postings(change)
    assert wrong(report, "postings_equal_journal").offenders, name


def test_older_postings_are_behind_and_right_and_whole_once_they_have_followed(report: Verify, world: World) -> None:
    path = str(world.lake.postings)
    shutil.rmtree(path)
    writer = PostingsWriter.open(path)
    writer.follow([row for row in world.rows if row.seq <= 6])
    older = report("postings_equal_journal").findings[0]
    assert (older.offenders, older.figures) == ((), {"mark": 6, "behind": 8})
    PostingsWriter.open(path).catch_up(JournalReader(str(world.lake.journal)))
    followed = report("postings_equal_journal").findings[0]
    assert (followed.offenders, followed.figures["behind"]) == ((), 0)
    assert report("postings_equal_journal").ok
