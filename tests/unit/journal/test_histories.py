"""What is derived from a journal follows it only while it is of this journal and not ahead of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import cast

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from journal.bodies import BodyStore
from journal.errors import StreamRefused
from journal.histories import JournalOlder, ReflectedPosition, common_rows, may_follow
from journal.index import Index
from journal.lake import open_table
from journal.reader import JournalReader
from journal.start_checks import check_index
from journal.writer import JournalWriter
from ledger.postings import POSTINGS_SCHEMA, PostingsWriter, position_of
from tests.unit.journal.rows import NOW, begin_journal, marks, row


@dataclass
class Memory:
    """A journal in memory; ``hashes`` of its rows."""

    hashes: tuple[str, ...]
    lineage: str = "a"

    @property
    def last_seq(self) -> int:
        return len(self.hashes)

    def row_hash_at(self, seq: int) -> str | None:
        return self.hashes[seq - 1]


HELD = cast(JournalReader, Memory(("h1", "h2", "h3")))


@pytest.mark.parametrize(
    ("position", "answer"),
    [
        (ReflectedPosition("a", 0, ""), True),
        (ReflectedPosition("a", 2, "h2"), True),
        (ReflectedPosition("", 3, "h3"), True),
        (ReflectedPosition("b", 2, "h2"), True),
        (ReflectedPosition("b", 2, "x2"), False),
        (ReflectedPosition("b", 9, "x9"), False),
        (ReflectedPosition("", 2, "x2"), False),
        (ReflectedPosition("", 9, "x9"), False),
    ],
)
def test_its_own_goes_on_and_another_journals_is_made_again(position: ReflectedPosition, answer: bool) -> None:
    assert may_follow("the index", position, HELD) is answer


@pytest.mark.parametrize(
    ("position", "words"),
    [(ReflectedPosition("a", 5, "h5"), "2 rows ahead"), (ReflectedPosition("a", 2, "x2"), "another row 2")],
)
def test_its_own_that_knows_other_rows_refuses(position: ReflectedPosition, words: str) -> None:
    with pytest.raises(JournalOlder, match=f"{words}.*payhook recover") as refused:
        may_follow("the index", position, HELD)
    assert isinstance(refused.value, StreamRefused)


@pytest.mark.parametrize("same", range(5))
@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (0, 2), (2, 0), (1, 1), (4, 2), (3, 9)])
def test_two_copies_part_after_the_last_row_that_they_share(same: int, ours: int, theirs: int) -> None:
    shared = tuple(f"h{seq}" for seq in range(1, same + 1))
    left, right = (
        cast(JournalReader, Memory((*shared, *(f"{name}{number}" for number in range(own)))))
        for name, own in (("a", ours), ("b", theirs))
    )
    assert common_rows(left, right) == common_rows(right, left) == same


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of two batches; beside it, the copy of after the first one."""
    path = tmp_path / "journal"
    writer = begin_journal(str(path))
    writer.commit([row(1), row(2, decision=Decision.DEAD)], marks(2), 0)
    shutil.copytree(path, tmp_path / "older")
    writer.commit([row(3), row(4)], marks(4), 0)
    return path


def put_back(path: Path) -> JournalReader:
    shutil.rmtree(path)
    shutil.copytree(path.parent / "older", path)
    return JournalReader(str(path))


def grown(path: Path) -> JournalReader:
    """The older copy, which has gone on since."""
    put_back(path)
    writer = JournalWriter.create_or_open(str(path), "ledger")
    writer.begin_epoch({})
    writer.commit([row(3, decided_at=NOW + timedelta(hours=1)), row(4), row(5)], marks(5), 0)
    return JournalReader(str(path))


BACK = pytest.mark.parametrize("back", [put_back, grown])


class AnyBodies(BodyStore):
    """Has every body that is asked for."""

    def fetch(self, hashes: Iterable[str]) -> dict[str, bytes]:
        return dict.fromkeys(hashes, b"body")


@BACK
def test_an_index_refuses_an_older_copy_of_its_journal(path: Path, back: Callable[[Path], JournalReader]) -> None:
    root, bodies, whole = path.parent / "index", AnyBodies(str(path.parent / "bodies")), JournalReader(str(path))
    index = Index.open(root, 1)
    index.catch_up(whole, bodies)
    assert index.position == ReflectedPosition(whole.lineage, 4, whole.row_hash_at(4) or "")
    index.close()
    check_index(root, str(path))
    reader = back(path)
    with pytest.raises(JournalOlder, match="the key index"):
        check_index(root, str(path))
    index = Index.open(root, 2)
    with pytest.raises(JournalOlder):
        index.catch_up(reader, bodies)
    index.close()


@BACK
def test_an_index_is_made_again_for_a_journal_that_was_restored(
    path: Path, back: Callable[[Path], JournalReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.open(path.parent / "index", 1)
    bodies = AnyBodies(str(path.parent / "bodies"))
    index.catch_up(JournalReader(str(path)), bodies)
    back(path)
    monkeypatch.setattr(JournalReader, "lineage", "renewed")
    reader = JournalReader(str(path))
    index.catch_up(reader, bodies)
    assert (index.position.lineage, index.seq) == ("renewed", reader.last_seq)
    index.close()


def booked(path: Path) -> str:
    """Postings that go up to the journal's fourth row."""
    table, reader = str(path.parent / "postings"), JournalReader(str(path))
    postings = PostingsWriter.open(table)
    postings.catch_up(reader)
    postings._commit_lines(POSTINGS_SCHEMA.empty_table(), 4, reader.row_hash_at(4) or "")
    PostingsWriter.check(table, reader)
    return table


@BACK
def test_postings_refuse_an_older_copy_of_their_journal(path: Path, back: Callable[[Path], JournalReader]) -> None:
    table = booked(path)
    reader = back(path)
    with pytest.raises(JournalOlder, match="postings"):
        PostingsWriter.check(table, reader)
    with pytest.raises(JournalOlder, match="postings"):
        PostingsWriter.open(table).catch_up(reader)


@BACK
def test_postings_are_made_again_for_a_journal_that_was_restored(
    path: Path, back: Callable[[Path], JournalReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = booked(path)
    back(path)
    monkeypatch.setattr(JournalReader, "lineage", "renewed")
    reader = JournalReader(str(path))
    PostingsWriter.check(table, reader)
    postings = PostingsWriter.open(table)
    postings.catch_up(reader)
    assert postings.mark_seq == 0, "its rows book nothing"


def test_postings_of_another_journal_give_way_to_those_of_this_one(tmp_path: Path) -> None:
    table, first = str(tmp_path / "postings"), tmp_path / "first"
    for path, amounts in ((first, (5, 6, 7)), (tmp_path / "second", (8,))):
        writer = begin_journal(str(path))
        lines = [
            (
                Posting("provider:stripe:clearing", "debit", Money(one, "EUR")),
                Posting("merchant:m-1:payable", "credit", Money(one, "EUR")),
            )
            for one in amounts
        ]
        rows = [row(seq, postings=postings_to_json(one)) for seq, one in enumerate(lines, 1)]
        writer.commit(rows, marks(len(rows)), 0)
        reader = JournalReader(str(path))
        PostingsWriter.open(table).catch_up(reader)
        debits = DeltaTable(table).to_pyarrow_dataset().filter(ds.field("side") == "debit").to_table().sort_by("seq")
        assert debits["amount_minor"].to_pylist() == [*amounts]
        assert position_of(table, open_table(table)) == ReflectedPosition(
            reader.lineage, len(rows), reader.row_hash_at(len(rows)) or ""
        )
