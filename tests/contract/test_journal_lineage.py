"""A journal that goes on from an older copy of itself says so in every commit, on a disk and on an object store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from core.errors import PayhookError
from journal.errors import Fenced
from journal.histories import LINEAGES_MAX, AbandonedLineage, find_cuts, is_given_up, read_abandoned, to_note
from journal.reader import JournalReader
from journal.state import JournalState
from journal.writer import JournalWriter
from tests.object_store.fixtures import EVERYWHERE, place_on
from tests.unit.journal.rows import STARTS, marks, row

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: object) -> str:
    return place_on(request, tmp_path)  # type: ignore[arg-type]


def begun(path: str) -> tuple[JournalWriter, JournalState]:
    writer = JournalWriter.create_or_open(path, "ledger")
    return writer, writer.begin_epoch(STARTS)


@EVERYWHERE
def test_a_new_lineage_keeps_rows_marks_and_chain_and_fences_the_writer_before(path: str) -> None:
    writer, first = begun(path)
    writer.commit([row(1), row(2)], marks(2), 2, {"anchored": "2"})
    before = JournalReader(path).state()
    after = JournalWriter(path, "ledger").renew_lineage(AT, "the disk died")
    assert (after.chain, after.row_hash, after.marks, after.next_seq) == (
        before.chain,
        before.row_hash,
        marks(2),
        3,
    )
    assert (after.epoch, after.published_upto, after.notes["anchored"]) == (first.epoch + 1, 2, "2")
    assert after.lineage not in ("", first.lineage)
    assert read_abandoned(after.notes) == (AbandonedLineage(first.lineage, 2, AT, "the disk died"),)
    with pytest.raises(Fenced):
        writer.commit([row(3)], marks(3), 0)


def test_every_later_commit_says_which_lineages_were_given_up(tmp_path: object) -> None:
    path = f"{tmp_path}/journal"
    writer, first = begun(path)
    writer.commit([row(1)], marks(1), 1)
    renewed = JournalWriter(path, "ledger").renew_lineage(AT, "r")
    later, state = begun(path)
    later.commit([row(2)], marks(2), 1)
    now = JournalReader(path).state()
    assert now.lineage == state.lineage == renewed.lineage
    assert is_given_up(now.notes, first.lineage, 2) and not is_given_up(now.notes, first.lineage, 1)
    assert not is_given_up(now.notes, now.lineage, 2)
    assert find_cuts(now.notes) == [(1, AT)]


def test_lineages_that_only_the_replaced_journal_knew_are_given_up_whole(tmp_path: object) -> None:
    """From one backup twice: what the first restored journal said is no more true than what the lost one said."""
    older, newer = f"{tmp_path}/older", f"{tmp_path}/newer"
    _, first = begun(older)
    _, lost = begun(newer)
    replaced = replace(JournalWriter(newer, "ledger").renew_lineage(AT, "once"), generation=3)
    again = JournalWriter(older, "ledger").renew_lineage(AT, "twice", replaced=replaced)
    assert (again.epoch, again.generation) == (replaced.epoch + 1, 3), "neither ever goes back"
    for lineage in (lost.lineage, replaced.lineage):
        assert is_given_up(again.notes, lineage, 1)
    assert not is_given_up(again.notes, first.lineage, 0) and is_given_up(again.notes, first.lineage, 1)
    assert find_cuts(again.notes) == [(0, AT)]


def test_dead_letters_are_published_again_where_asked(tmp_path: object) -> None:
    path = f"{tmp_path}/journal"
    writer, _ = begun(path)
    writer.commit([row(1)], marks(1), 1)
    after = JournalWriter(path, "ledger").renew_lineage(AT, "r", publish_again=True)
    assert (after.published_upto, after.generation) == (0, 1)


def test_what_every_commit_carries_is_bounded() -> None:
    many = [AbandonedLineage(f"{number:032x}", number, AT, "r" * 10_000) for number in range(100)]
    kept = read_abandoned({"lineages": to_note(many)})
    assert [one.after for one in kept] == list(range(100 - LINEAGES_MAX, 100))
    assert len(to_note(many)) < 10_000


def test_where_no_journal_is_none_is_made(tmp_path: object) -> None:
    with pytest.raises(PayhookError):
        JournalWriter(f"{tmp_path}/none", "ledger").renew_lineage(AT, "r")
