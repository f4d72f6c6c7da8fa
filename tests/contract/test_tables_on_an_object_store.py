"""The ledger's tables on a real S3-compatible server, and what becomes of a commit when its network fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from core.decision import ErrorKind
from core.location import LakeUrl, location_of
from journal.bodies import BodyStore
from journal.errors import CommitUnknown, Fenced, StorageDown
from journal.log import Overtaken
from journal.reader import JournalReader
from journal.rewrite import Rewriter, Snapshot, take_snapshot
from journal.state import commits_of
from journal.storage import file_system, open_storage
from journal.writer import JournalWriter, Tenure
from ledger.postings import PostingsRefused, PostingsWriter
from ledger.receipts import RECEIPTS_SCHEMA, ReceiptsTable
from operations.audit_log import AuditEntry, AuditLog, AuditOutcome
from tests.object_store import ObjectStore, Relay
from tests.object_store.fixtures import reach
from tests.unit.journal.rows import NOW, STARTS, begin_journal, marks, row, sha

pytestmark = pytest.mark.more(reason="on an object store, over a network that loses answers")

NOW_MS = 1_800_000_000_000
TIMEOUT_S = 10.0


@pytest.fixture
def relay(object_store: ObjectStore) -> Iterator[Relay]:
    with Relay(object_store.address) as relay:
        yield relay


@pytest.fixture
def folder(object_store: ObjectStore, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty folder, reached by way of ``relay``."""
    return reach(object_store, monkeypatch, relay.endpoint, timeout_s=TIMEOUT_S)


@pytest.fixture
def path(folder: str) -> str:
    return f"{folder}/journal/ledger"


def commit(writer: JournalWriter, *seqs: int) -> None:
    writer.commit([row(seq) for seq in seqs], marks(seqs[-1]), 0)


def seqs(path: str) -> list[int]:
    return [one.seq for rows in JournalReader(path).rows_after(0) for one in rows]


# a commit that the network gets in the way of


@pytest.mark.row("F4")
def test_a_commit_whose_answer_is_lost_is_there_once(path: str, relay: Relay) -> None:
    writer = begin_journal(path)
    relay.lose(2)
    commit(writer, 1)
    assert relay.to_be_lost == 0
    commit(writer, 2)
    assert seqs(path) == [1, 2]


def test_a_store_that_stops_answering_ends_the_writer_and_another_goes_on_when_it_is_back(
    path: str, relay: Relay
) -> None:
    """What a stream does that outlasts its storage (`processor.application`)."""
    tenure = Tenure("this process")
    writer = begin_journal(path, tenure)
    commit(writer, 1)
    relay.cut()
    with pytest.raises(CommitUnknown) as unknown:
        commit(writer, 2)
    with pytest.raises(StorageDown) as down:
        begin_journal(path, tenure)
    assert unknown.value.kind is down.value.kind is ErrorKind.SBE
    relay.open()
    again = JournalWriter.create_or_open(path, "ledger", tenure)
    state = again.begin_epoch(STARTS, tenure)
    assert (state.epoch, state.next_seq) == (2, 2)
    commit(again, 2)
    with pytest.raises(CommitUnknown):
        commit(writer, 2)
    assert seqs(path) == [1, 2]


def test_of_two_processors_that_commit_at_once_one_is_fenced_whatever_the_network_loses(
    path: str, relay: Relay
) -> None:
    one, other = begin_journal(path), begin_journal(path)
    together = threading.Barrier(2)

    def go_on(writer: JournalWriter) -> int | type[Exception]:
        together.wait(30)
        try:
            commit(writer, 1)
        except (Fenced, CommitUnknown) as ended:
            return type(ended)
        return 1

    relay.lose(3)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(go_on, (one, other))) == [Fenced, 1]
    assert seqs(path) == [1]


# maintenance


def rewrite(path: str, tmp_path: Path, before: Snapshot, rewriter: Rewriter) -> None:
    """All of a snapshot's files into one."""
    staged = tmp_path / "staged.parquet"
    names = [one.name for one in sorted(before.files, key=lambda one: one.first or 0)]
    pq.write_table(pa.concat_tables([pq.read_table(name, filesystem=file_system(path)) for name in names]), staged)
    rewriter.replace_files(before.files, [staged], NOW_MS)


def test_a_rewrite_that_loses_the_race_steps_over_the_commit_and_takes_the_next_place(
    path: str, relay: Relay, tmp_path: Path
) -> None:
    writer = begin_journal(path)
    for seq in (1, 2):
        commit(writer, seq)
    before = take_snapshot(location_of(path), "seq")
    rewriter = Rewriter(before)
    commit(writer, 3)
    relay.lose(2)
    rewrite(path, tmp_path, before, rewriter)
    commit(writer, 4)
    assert seqs(path) == [1, 2, 3, 4]
    assert len(take_snapshot(location_of(path)).names) == 3
    version = DeltaTable(path).version()
    assert [commit.version for commit in commits_of(path, [3, 4]).values()] == [version - 2, version]


def test_a_rewrite_of_files_that_another_one_replaced_gives_way_and_leaves_nothing(path: str, tmp_path: Path) -> None:
    writer = begin_journal(path)
    for seq in (1, 2):
        commit(writer, seq)
    before = take_snapshot(location_of(path), "seq")
    first, late = Rewriter(before), Rewriter(before)
    rewrite(path, tmp_path, before, first)
    there = {one.name for one in open_storage(path).files()}
    with pytest.raises(Overtaken):
        rewrite(path, tmp_path, before, late)
    assert {one.name for one in open_storage(path).files()} == there
    assert seqs(path) == [1, 2]


def test_of_delta_rs_writers_that_race_none_replaces_anothers_commit(path: str) -> None:
    """What tables are made, checkpointed and reconciled by."""
    begin_journal(path)
    table = f"{path}-other"
    schema = pa.schema([pa.field("n", pa.int64())])
    DeltaTable.create(table, schema)
    together = threading.Barrier(3)

    def write(first: int) -> None:
        together.wait(30)
        for n in range(first, first + 4):
            write_deltalake(table, pa.table({"n": [n]}, schema=schema), mode="append")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, (0, 4, 8)))
    assert sorted(DeltaTable(table).to_pyarrow_dataset().to_table()["n"].to_pylist()) == list(range(12))


# the other tables


def test_bodies_postings_and_receipts_are_written_and_read(folder: str, path: str) -> None:
    writer, bodies = begin_journal(path), BodyStore(f"{folder}/bodies")
    bodies.append([(sha("a"), b"a"), (sha("b"), b"b")])
    commit(writer, 1)
    assert bodies.fetch([sha("b"), sha("c")]) == {sha("b"): b"b"}
    postings = PostingsWriter.open(f"{folder}/postings")
    postings.catch_up(JournalReader(path))
    receipts = ReceiptsTable(f"{folder}/receipts")
    assert receipts.next_offset(0) is None
    receipts.append(0, RECEIPTS_SCHEMA.empty_table(), 7)
    assert receipts.next_offset(0) == 7


def test_what_people_did_is_put_on_record_and_a_look_tells_whether_there_is_more(folder: str) -> None:
    acts = AuditLog(location_of(f"{folder}/acts"))
    stamps = [acts.read_stamp()]
    for number in (1, 2):
        act = AuditEntry(
            at=NOW, actor="ada", action="replay", outcome=AuditOutcome.DONE, channel="api", what=f"item {number}"
        )
        acts.record(act)
        stamps.append(acts.read_stamp())
    assert stamps == sorted(set(stamps)), "each is another"
    assert [one.number for one in acts.read(10)] == [2, 1]


def test_what_can_not_be_reached_pauses_the_stream(folder: str, relay: Relay) -> None:
    bodies, postings = BodyStore(f"{folder}/bodies"), f"{folder}/postings"
    PostingsWriter.open(postings)
    relay.cut()
    with pytest.raises(StorageDown):
        bodies.append([(sha("a"), b"a")])
    with pytest.raises(StorageDown):
        BodyStore(f"{folder}/bodies")
    with pytest.raises(PostingsRefused):
        PostingsWriter.open(postings)


def test_a_place_is_written_as_a_path_is() -> None:
    lake = location_of("s3://bucket/lake")
    assert isinstance(lake, LakeUrl)
    assert str(lake / "journal" / "ledger") == "s3://bucket/lake/journal/ledger"
    assert (lake / "journal").name == "journal"
    assert (lake / "journal").parent == lake
    assert location_of("/lake") / "journal" == Path("/lake/journal")
