"""A Spark session, and a small clean lake that every verification test copies before it plants its corruption."""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from core.clock import ManualClock, to_rfc3339
from core.decision import Decision, ErrorKind
from core.money import Money
from core.work import Posting, postings_to_json
from dlq.record import DlqRecord, build_record
from journal.anchors import Anchor, AnchorKeys
from journal.bodies import BodyStore
from journal.histories import histories_to_json
from journal.index import Index
from journal.kafka_log import Point
from journal.reader import JournalReader
from journal.schema import GENESIS, JOURNAL_SCHEMA, JournalRow, TopicRecord, commit_digest, extend_chain, to_arrow
from journal.state import JournalState, marks_to_json
from journal.writer import JournalWriter
from ledger.postings import PostingsWriter
from ledger.spark import open_read_session
from ledger.verify import Finding, Lake, Options, Report, verify
from ledger.verify.duckdb_engine import duckdb_engine
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.job import list_invariant_types
from ledger.verify.kafka import Ends
from ledger.verify.report import Invariant
from ledger.verify.spark_engine import SparkEngine
from stack.jars import spark_jars
from tests.unit.journal.rows import row_hash

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
EVENTS, CONTROL, DLQ, ANCHORS = "payments.events", "payments.control", "dlq.ledger", "payments.anchors"
RECEIPTS = "payments.receipts"
KEYS = AnchorKeys(["k" * 64])
STARTS = {EVENTS: {0: 100, 1: 0}, CONTROL: {0: 0}}

Verify = Callable[..., Report]
Look = Callable[[type[Invariant]], Finding]


SESSION = pytest.StashKey[SparkSession]()


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """One session for all modules of this folder that a process runs in a row."""
    stash = request.config.stash
    if SESSION not in stash:
        stash[SESSION] = open_read_session("tests", "local[2]", "2g", spark_jars(), tmp_path_factory.mktemp("spark"))
    return stash[SESSION]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the session behind the folder's last test: another folder's would be the same one with other settings."""
    stash = item.config.stash
    if (nextitem is None or Path(__file__).parent not in nextitem.path.parents) and SESSION in stash:
        stash[SESSION].stop()
        del stash[SESSION]


@pytest.fixture(scope="module", params=["duckdb", pytest.param("spark", marks=pytest.mark.more)])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlEngine]:
    """Each of the two that a verification may ask."""
    if request.param == "spark":
        yield SparkEngine(request.getfixturevalue("spark"))
        return
    with duckdb_engine(tmp_path_factory.mktemp("engine"), "1g") as found:
        yield found


SPARK_TESTS = 2
"""So many tests of each invariant, and of each file, run on Spark at once."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One text runs on both engines. DuckDB gets all tests at once, Spark the first ones that name an invariant and
    the first ones of each file. It gets all of them with the slow tests.
    """
    invariants = {word: name for name, kind in list_invariant_types().items() for word in (name, kind.__name__)}
    seen = Counter[str | Path]()
    for item in items:
        if Path(__file__).parent not in item.path.parents or not isinstance(item, pytest.Function):
            continue
        called_with: dict[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
        if called_with.get("engine") != "spark":
            continue
        said = inspect.getsource(item.function) + repr(called_with)
        shown: set[str | Path] = {
            item.path,
            *(invariants[word] for word in re.findall(r"\w+", said) if word in invariants),
        }
        if all(seen[shows] >= SPARK_TESTS for shows in shown):
            item.add_marker(pytest.mark.slow(reason="Spark gets few of these; DuckDB gets all in `make test`"))
        else:
            seen.update(shown)


@dataclass
class FakeKafka:
    """Ends of partitions as the test sets them, records of the topics of dead letters and of anchors from memory."""

    held: Ends
    letters: list[DlqRecord] = field(default_factory=list)
    anchors: list[bytes] = field(default_factory=list)
    audit_anchors: list[bytes] = field(default_factory=list)
    written_at: datetime = AT
    decided: Sequence[JournalRow] = ()
    """Rows whose records it holds; ``bodies`` by their hash."""
    bodies: dict[str | None, bytes] = field(default_factory=dict)
    planted: dict[Point, TopicRecord | None] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    receipts: list[bytes] = field(default_factory=lambda: [orjson.dumps({"status": 401, "at": to_rfc3339(AT)})])

    def find_ends(self, topics: Sequence[str]) -> Ends:
        dlq = {number: [one for one in self.letters if one.partition == number] for number in (0, 1)}
        known: Ends = {
            RECEIPTS: {0: (0, len(self.receipts))},
            ANCHORS: {0: (0, len(self.anchors) + len(self.audit_anchors))},
            **self.held,
        }
        known = {**known, DLQ: self.held.get(DLQ) or {number: (0, len(found)) for number, found in dlq.items()}}
        return {topic: known[topic] for topic in topics if topic in known}

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        return self.written_at

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return {topic: self.ids.get(topic, "id-1") for topic in topics}

    def records_at(self, points: Collection[Point]) -> dict[Point, TopicRecord]:
        there = self._records()
        return {point: there[point] for point in points if point in there}

    def _records(self) -> dict[Point, TopicRecord]:
        """Of each offset what its newest history decided."""
        found: dict[Point, TopicRecord | None] = {}
        for row in sorted(self.decided, key=lambda row: (row.history or 1, -row.seq)):
            if row.first and row.offset_until is None:
                key = b"" if row.event_key is None else row.event_key.encode()
                at = b"" if row.received_at is None else to_rfc3339(row.received_at).encode()
                headers = (("event_key", key or None), ("received_at", at or None))
                found[row.topic, row.partition, row.offset] = TopicRecord(
                    row.offset, self.bodies.get(row.body_sha256), headers
                )
        return {point: one for point, one in {**found, **self.planted}.items() if one is not None}

    def records(self, topic: str) -> Iterator[tuple[int, TopicRecord]]:
        if topic == ANCHORS:
            said = [(b"ledger", one) for one in self.anchors] + [(b"@acts", one) for one in self.audit_anchors]
            yield from ((0, TopicRecord(n, value, key=key)) for n, (key, value) in enumerate(said))
        elif topic == RECEIPTS:
            yield from ((0, TopicRecord(n, value)) for n, value in enumerate(self.receipts))
        elif topic == DLQ:
            yield from (
                (one.partition, TopicRecord(n, one.value, tuple(one.headers))) for n, one in enumerate(self.letters)
            )
        else:
            yield from ((partition, one) for (name, partition, _), one in self._records().items() if name == topic)


@dataclass
class World:
    """A lake and its Kafka. ``rows`` are the journal's, for a test to change before `rewrite`."""

    lake: Lake
    kafka: FakeKafka
    rows: list[JournalRow]
    state: JournalState

    def add_commit(self, *rows: JournalRow) -> None:
        """One more commit, of rows that continue the journal's numbers; marks follow it, the index doesn't."""
        for row in rows:
            row.batch_seq, row.epoch = rows[0].seq, 1
            if row.first:
                self.state.marks[row.topic][row.partition] = row.offset + 1
        self.rows += rows
        self.state = replace(self.state, next_seq=rows[-1].seq + 1)
        forged(self.rows)

    def index_commit(self, *forgotten: bytes) -> None:
        """The index follows the newest commit, and then loses these keys."""

        def follow(index: Index) -> None:
            index.apply_rows([row for row in self.rows if row.batch_seq == self.rows[-1].batch_seq], {})
            for key in forgotten:
                index._store._db.delete(key)

        self.index(follow)

    def rewrite(self, *, forge: bool = True) -> None:
        """Writes the journal again from ``rows`` and ``state``.

        ``forge``: hashes and chain are made to fit, as a bug (or a careful forger) would.
        """
        if forge:
            self.state = replace(self.state, chain=forged(self.rows))
        shutil.rmtree(self.lake.journal)
        table = DeltaTable.create(str(self.lake.journal), JOURNAL_SCHEMA)
        metadata = {
            "payhook.stream": "ledger",
            "payhook.epoch": str(self.state.epoch),
            "payhook.seq": str(self.state.next_seq - 1),
            "payhook.marks": marks_to_json(self.state.marks),
            "payhook.start": marks_to_json(self.state.start),
            "payhook.chain": self.state.chain,
            "payhook.published_upto": str(self.state.published_upto),
            "payhook.histories": histories_to_json(self.state.histories),
        } | {f"payhook.{name}": text for name, text in self.state.notes.items()}
        properties = CommitProperties(custom_metadata=metadata)
        write_deltalake(table, to_arrow(self.rows), mode="append", commit_properties=properties)

    def rewrite_postings(self, change: Callable[[list[dict[str, Any]]], None]) -> None:
        """Appends the lines that ``change`` leaves to a table made again, with the same mark."""
        path = str(self.lake.postings)
        table = DeltaTable(path)
        mark, schema = PostingsWriter.open(path).mark_seq, table.to_pyarrow_dataset().schema
        lines = table.to_pyarrow_dataset().to_table().to_pylist()
        change(lines)
        shutil.rmtree(path)
        writer = PostingsWriter.open(path)
        writer._commit_lines(schema.empty_table().from_pylist(lines, schema=schema), mark)

    def anchor(self, *, batches: int | None = None, keys: AnchorKeys | None = None) -> None:
        """Anchors every commit of the journal as it is now, or its first ones."""
        numbers = sorted({row.batch_seq for row in self.rows})[:batches]
        for number in numbers:
            rows = [row for row in self.rows if row.batch_seq <= number]
            reported = Anchor("ledger", 1, rows[-1].seq, forged(rows), AT)
            self.kafka.anchors.append((keys or KEYS).encode(reported))

    def remember_anchored(self, seq: int) -> None:
        """The journal's last commit notes that this row's anchor was acknowledged."""
        self.state = replace(self.state, notes={"anchored": str(seq)})
        self.rewrite()

    def index(self, change: Callable[[Index], None]) -> None:
        index = Index.open(self.lake.index, 1)
        change(index)
        index.close()

    def row(self, seq: int) -> JournalRow:
        return next(row for row in self.rows if row.seq == seq)

    def verify(
        self,
        engine: SqlEngine,
        *names: str,
        after: timedelta = timedelta(),
        options: Options | None = None,
        keys: AnchorKeys = KEYS,
        limits: VerifyLimits | None = None,
    ) -> Report:
        """What these invariants find, or all of them, so long after the world was made."""
        clock = ManualClock(AT + after)
        return verify(engine, self.lake, self.kafka, keys, limits or VerifyLimits(), clock, options, names=names)


def forged(rows: Sequence[JournalRow]) -> str:
    head = GENESIS
    for batch in sorted({row.batch_seq for row in rows}):
        mine = sorted((row for row in rows if row.batch_seq == batch), key=lambda row: row.seq)
        for row in mine:
            row.row_hash = row_hash(row)
        head = extend_chain(head, commit_digest(row.row_hash for row in mine))
    return head


@pytest.fixture(scope="session")
def clean_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, by the real writers."""
    folder = tmp_path_factory.mktemp("clean")
    lake = Lake.from_data_dir(folder)
    writer = JournalWriter.create_or_open(str(lake.journal), "ledger")
    writer.begin_epoch(STARTS)
    bodies, postings, index = (
        BodyStore(str(lake.bodies_table)),
        PostingsWriter.open(str(lake.postings)),
        Index.open(lake.index, 1),
    )
    marks = {topic: dict(partitions) for topic, partitions in STARTS.items()}
    published_upto = 0
    for rows in batches():
        for row in rows:
            if row.first:
                marks[row.topic][row.partition] = row.offset + 1
        found = {row.body_sha256: body_of(row) for row in rows if row.body_sha256 is not None}
        bodies.append(list(found.items()))
        writer.commit(rows, {topic: dict(held) for topic, held in marks.items()}, published_upto)
        index.apply_rows(rows, found)
        postings.follow(rows)
        published_upto = rows[-1].seq
    index.close()
    return folder


@pytest.fixture
def world(clean_lake: Path, tmp_path: Path) -> World:
    """A copy of the clean lake that a test may damage."""
    return world_in(tmp_path / "data", clean_lake)


def world_in(folder: Path, clean_lake: Path) -> World:
    """A copy of the clean lake in a new folder."""
    shutil.copytree(clean_lake, folder)
    lake = Lake.from_data_dir(folder)
    reader = JournalReader(str(lake.journal))
    rows = [row for chunk in reader.rows_after(0) for row in chunk]
    state = reader.state()
    held = {topic: {number: (0, until) for number, until in untils.items()} for topic, untils in state.marks.items()}
    dead = [row for row in rows if row.decision is Decision.DEAD and row.seq <= state.published_upto]
    letters = [build_record(row, body_of(row), "payhook-ledger") for row in dead]
    bodies = {row.body_sha256: body_of(row) for row in rows}
    return World(lake, FakeKafka(held, letters, decided=rows, bodies=bodies), rows, state)


@pytest.fixture
def report(engine: SqlEngine, world: World) -> Verify:
    """Verifies the world: by every invariant, or by those that are named."""

    def check(*names: str, options: Options | None = None) -> Report:
        return world.verify(engine, *names, after=timedelta(minutes=5), options=options)

    return check


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Look:
    """What one question finds about the world as the test changed it."""

    def answer(invariant: type[Invariant]) -> Finding:
        world.rewrite()
        return world.verify(engine, invariant.name).findings[0]

    return answer


def body_of(row: JournalRow) -> bytes:
    return f'{{"of": "{row.event_key}", "content": "{row.content_sha256}"}}'.encode()


def booking(*, capture: bool, amount_minor: int = 1_000) -> str | None:
    money = Money(amount_minor, "EUR")
    clearing, payable = "provider:stripe:clearing", "merchant:m-1:payable"
    return posted(*((clearing, payable) if capture else (payable, clearing)), money)


def posted(debit: str, credit: str, money: Money) -> str | None:
    return postings_to_json([Posting(debit, "debit", money), Posting(credit, "credit", money)])


def new_row(
    seq: int, topic: str, partition: int, offset: int, decision: Decision, event: str, **more: Any
) -> JournalRow:
    content = hashlib.sha256(f"{event}{more.pop('content', '')}".encode()).hexdigest()
    row = JournalRow(
        seq=seq,
        item_seq=seq,
        first=True,
        topic=topic,
        partition=partition,
        offset=offset,
        decision=decision,
        decided_at=AT + timedelta(seconds=seq),
        received_at=AT,
        occurred_at=AT - timedelta(seconds=5),
        event_key=f"stripe:{event}:charge",
        entity_key=f"stripe:acct_1:{event}",
        provider="stripe",
        account="acct_1",
        event_type="charge",
        mode="live",
        content_sha256=content,
        content_version=1,
        dedupe="claimed",
        handler_version="ledger-1",
        headers='{"ce_id":"ä"}',
    )
    for name, value in more.items():
        setattr(row, name, value)
    row.body_sha256 = hashlib.sha256(body_of(row)).hexdigest()
    return row


def fact(name: str) -> dict[str, str]:
    return {"fact_key": f"stripe:{name}", "fact_sha256": hashlib.sha256(name.encode()).hexdigest()}


def later_row(of: JournalRow, seq: int, decision: Decision, **more: Any) -> JournalRow:
    row = replace(of, seq=seq, first=False, decision=decision, headers=None, decided_at=AT + timedelta(seconds=seq))
    for name, value in more.items():
        setattr(row, name, value)
    return row


def batches() -> list[list[JournalRow]]:
    """Three commits with every kind of decision in them."""
    died = {"error_class": "MerchantUnknown", "error_message": "no merchant", "error_kind": ErrorKind.SNBE}
    refused = {"error_message": "other content", "error_kind": ErrorKind.NRE, "handler_version": None}
    conflict: dict[str, Any] = {"error_class": "EventConflict", **refused}
    waits = {"blocking": True, "due_at": AT + timedelta(seconds=60)}
    payout = posted("merchant:m-1:payouts", "provider:stripe:clearing", Money(1_000, "EUR"))
    first = [
        new_row(1, EVENTS, 0, 100, Decision.APPLIED, "evt_1", postings=booking(capture=True), **fact("ch_1")),
        new_row(2, EVENTS, 0, 101, Decision.DUPLICATE, "evt_1", **fact("ch_1")),
        new_row(3, EVENTS, 0, 102, Decision.DUPLICATE_FACT, "evt_2", **fact("ch_1")),
        new_row(4, EVENTS, 1, 0, Decision.DEAD, "evt_1", content="other", **conflict),
        new_row(5, EVENTS, 1, 1, Decision.RETRY, "evt_3", attempt=1, **waits, **died, **fact("ch_3")),
        new_row(6, EVENTS, 1, 2, Decision.PARKED, "evt_4", blocking=True),
    ]
    second = [
        new_row(7, CONTROL, 0, 0, Decision.REPLAYED, "cmd_1"),
        new_row(8, EVENTS, 0, 103, Decision.IGNORED, "evt_5"),
        new_row(9, EVENTS, 1, 3, Decision.APPLIED, "evt_6", postings=payout, **fact("po_1")),
        later_row(first[4], 10, Decision.DEAD, due_at=None, attempt=5),
        later_row(first[5], 11, Decision.APPLIED, blocking=False, postings=booking(capture=True), **fact("ch_4")),
    ]
    third = [
        new_row(12, EVENTS, 0, 104, Decision.DEAD, "evt_7", **died),
        new_row(13, EVENTS, 1, 4, Decision.RETRY, "evt_8", attempt=1, **waits, **died),
        later_row(second[3], 14, Decision.REPLAYED, attempt=0, due_at=AT, cause_seq=7, actor="ada", reason="mended"),
    ]
    return [first, second, third]
