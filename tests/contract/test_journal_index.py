"""What the index promises, on a real RocksDB: it follows the journal's rows and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rocksdict import WriteBatch

from core.decision import Decision
from journal.bodies import BodyStore
from journal.errors import BodyMissing, RowsOutOfOrder
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from tests.unit.journal.rows import NOW, begin_journal, event_count, marks, row, sha

BODY = b"the body"


def history() -> list[JournalRow]:
    """A journal in which every kind of state is left over."""
    body: dict[str, Any] = {"body_sha256": sha("the body")}
    later = NOW + timedelta(seconds=5)
    parked: dict[str, Any] = {"decision": Decision.PARKED, "blocking": True, "entity_key": "e-waits", **body}
    return [
        row(1, fact_key="stripe:re_1:refund", fact_sha256="ab" * 32, original_content_sha256=sha("card 1")),
        row(2, decision=Decision.RETRY, due_at=later, attempt=1, blocking=True, entity_key="e-waits", headers="{}",
            **body),
        row(3, **parked),
        row(4, decision=Decision.DEAD, error_class="EventConflict", event_key=row(1).event_key,
            original_content_sha256=sha("card 4"), **body),
        row(5, decision=Decision.DUPLICATE, event_key=row(1).event_key),
        row(6, decision=Decision.DEAD, error_class="ZeroDivisionError", blocking=True, entity_key="e-dead", **body),
        row(7, item_seq=2, offset=1, first=False, decision=Decision.RETRY, due_at=NOW, attempt=2, blocking=True,
            entity_key="e-waits", **body),
    ]  # fmt: skip


@pytest.fixture
def bodies(tmp_path: Path) -> BodyStore:
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([(sha("the body"), BODY)])
    return store


@pytest.fixture
def journal(tmp_path: Path) -> str:
    path = str(tmp_path / "journal")
    writer = begin_journal(path)
    rows = history()
    writer.commit(rows[:3], marks(3), 0)
    writer.commit(rows[3:], marks(6), 0)
    return path


def assert_reflects_history(index: Index) -> None:
    first = row(1)
    assert index.seq == 7
    assert index.known_event(first.event_key or "") is not None
    assert index.known_event("stripe:evt_99:charge.succeeded") is None
    assert index.known_conflict(first.event_key or "", row(4).content_sha256 or "")
    assert index.known_original(first.event_key or "", sha("card 1"))
    assert index.known_conflict(first.event_key or "", sha("card 4"))
    assert not index.known_conflict(first.event_key or "", sha("card 1"))
    assert not index.known_original(first.event_key or "", sha("card 4"))
    assert index.known_fact("stripe:re_1:refund") == b"\xab" * 8
    assert [item.row.item_seq for item in index.queue("e-waits")] == [2, 3]
    assert [item.row.item_seq for item in index.find_due(NOW, 10)] == [2]
    assert index.find_due(NOW - timedelta(microseconds=1), 10) == []
    assert list(index.queue("e-dead")) and not list(index.queue(first.entity_key or ""))
    assert (index.open_count(), index.dead_count()) == (4, 2)
    head = index.open_item(2)
    assert head is not None
    assert (head.last_seq, head.row.attempt, head.body, head.row.headers) == (7, 2, BODY, "{}")


def test_rows_applied_one_by_one_or_caught_up_from_the_journal_give_the_same(
    tmp_path: Path, journal: str, bodies: BodyStore
) -> None:
    one_by_one = Index.open(tmp_path / "a", 1)
    for one in history():
        one_by_one.apply_rows([one], {sha("the body"): BODY})
    assert_reflects_history(one_by_one)
    caught_up = Index.open(tmp_path / "b", 1)
    caught_up.catch_up(JournalReader(journal), bodies)
    assert_reflects_history(caught_up)


def test_a_closed_index_is_taken_over_by_the_next_writer(tmp_path: Path, journal: str, bodies: BodyStore) -> None:
    root = tmp_path / "index"
    first = Index.open(root, 1)
    first.catch_up(JournalReader(journal), bodies)
    first.close()
    second = Index.open(root, 2)
    assert second.seq == 7
    assert [folder.name for folder in root.iterdir()] == ["epoch-00000002"]
    second.catch_up(JournalReader(journal), bodies)
    assert_reflects_history(second)


def caught_up(root: Path, journal: str, bodies: BodyStore, epoch: int = 1) -> Index:
    index = Index.open(root, epoch)
    index.catch_up(JournalReader(journal), bodies)
    return index


def test_an_index_of_another_journal_is_made_again(tmp_path: Path, journal: str, bodies: BodyStore) -> None:
    index = caught_up(tmp_path / "index", journal, bodies)
    other = str(tmp_path / "other")
    writer = begin_journal(other)
    writer.commit([row(1, event_key="adyen:x:CAPTURE:true")], marks(1), 0)
    index.catch_up(JournalReader(other), bodies)
    assert (index.seq, index.open_count(), event_count(index)) == (1, 0, 1)


def test_a_deleted_index_is_built_from_the_journal(tmp_path: Path, journal: str, bodies: BodyStore) -> None:
    caught_up(tmp_path / "index", journal, bodies).close()
    shutil.rmtree(tmp_path / "index")
    assert_reflects_history(caught_up(tmp_path / "index", journal, bodies, epoch=2))


def test_an_index_that_lost_its_last_write_catches_up(tmp_path: Path, journal: str, bodies: BodyStore) -> None:
    """The process ended between the journal's commit and the index's write."""
    index = Index.open(tmp_path / "index", 1)
    reader = JournalReader(journal, 4)
    assert reader.last_seq == 3
    index.catch_up(reader, bodies)
    assert index.seq == 3
    index.catch_up(JournalReader(journal), bodies)
    assert_reflects_history(index)


def test_a_batch_and_the_seq_that_it_reaches_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.open(tmp_path / "index", 1)
    written: list[WriteBatch] = []
    write = index._store.write

    def counting(batch: WriteBatch) -> None:
        if written:
            raise OSError("the disk is gone")
        written.append(batch)
        write(batch)

    monkeypatch.setattr(index._store, "write", counting)
    index.apply_rows(history()[:3], {})
    with pytest.raises(OSError):
        index.apply_rows(history()[3:], {})
    assert (index.seq, index.open_count()) == (3, 2)
    index.close()
    again = Index.open(tmp_path / "index", 2)
    assert (again.seq, again.open_count(), event_count(again)) == (3, 2, 3)


def test_an_item_keeps_its_body_when_later_rows_come_without_it(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", 1)
    index.apply_rows(history()[:6], {sha("the body"): BODY})
    index.apply_rows(history()[6:], {})
    assert_reflects_history(index)


def test_rows_given_twice_change_nothing_and_a_gap_is_refused(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", 1)
    index.apply_rows(history()[:3], {sha("the body"): BODY})
    index.apply_rows(history()[1:], {sha("the body"): BODY})
    index.apply_rows(history(), {sha("the body"): BODY})
    assert_reflects_history(index)
    with pytest.raises(RowsOutOfOrder):
        index.apply_rows([row(9)], {})
    assert index.seq == 7


def test_a_damaged_index_is_made_again(tmp_path: Path, journal: str, bodies: BodyStore) -> None:
    root = tmp_path / "index"
    index = Index.open(root, 1)
    index.catch_up(JournalReader(journal), bodies)
    index.close()
    for manifest in root.rglob("MANIFEST-*"):
        manifest.write_bytes(b"not a manifest")
    again = Index.open(root, 2)
    again.catch_up(JournalReader(journal), bodies)
    assert_reflects_history(again)


def test_a_reader_sees_the_index_beside_its_writer(tmp_path: Path, journal: str, bodies: BodyStore) -> None:
    index = Index.open(tmp_path / "index", 1)
    index.catch_up(JournalReader(journal), bodies)
    beside = Index.read_only(tmp_path / "index")
    assert_reflects_history(beside)


def test_an_open_event_whose_body_is_gone_stops_the_start(tmp_path: Path, journal: str) -> None:
    shutil.rmtree(tmp_path / "bodies", ignore_errors=True)
    index = Index.open(tmp_path / "index", 1)
    with pytest.raises(BodyMissing):
        index.catch_up(JournalReader(journal), BodyStore(str(tmp_path / "no-bodies")))


APPLIER = """
import sys
from pathlib import Path
from journal.index import Index
from tests.unit.journal.rows import row
index = Index.open(Path(sys.argv[1]), 1)
for batch in range(1_000_000):
    seqs = range(batch * 20 + 1, batch * 20 + 21)
    index.apply_rows([row(seq, fact_key=f"fact-{seq}", fact_sha256="ab" * 32) for seq in seqs], {})
    print(index.seq, flush=True)
"""


@pytest.mark.parametrize("batches", [1, 40, 400])
def test_a_killed_writers_index_holds_whole_batches_and_says_which(tmp_path: Path, batches: int) -> None:
    command = [sys.executable, "-c", APPLIER, str(tmp_path / "index")]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(batches)]
        process.kill()
        reported += [int(line) for line in process.stdout.read().split()[:-1]]
    index = Index.open(tmp_path / "index", 2)
    assert index.seq % 20 == 0 and index.seq >= reported[-1]
    assert event_count(index) == index.seq
    assert index.known_fact(f"fact-{index.seq}") is not None and index.known_fact(f"fact-{index.seq + 1}") is None


def test_an_open_event_whose_file_of_bodies_is_lost_names_the_file(
    tmp_path: Path, journal: str, bodies: BodyStore
) -> None:
    file = min(Path(bodies._path).glob("*.parquet"))
    file.unlink()
    index = Index.open(tmp_path / "index", 1)
    with pytest.raises(BodyMissing, match=rf"can't be read: .*{file.name} \(it is gone\).*restore the table of bodies"):
        index.catch_up(JournalReader(journal), bodies)
