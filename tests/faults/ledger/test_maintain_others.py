"""Tables that are no work stream's are maintained too: few files, and their readers and `verify` say what they said."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from core.clock import ManualClock, SystemClock
from core.layout import StreamLayout
from journal.reader import dataset_of
from journal.rewrite import take_snapshot
from ledger.maintain.job import MaintenanceReport, count_log_entries, maintain
from ledger.maintain.tables import Kind, LakeTable, list_other_tables
from ledger.receipts import RECEIPTS_SCHEMA, ReceiptsTable
from ledger.reconciliations import DIFFERENCES_SCHEMA, Reconciliation, Reconciliations
from ledger.redactions import ORDERED, Redaction, Redactions
from ledger.verify import Lake as Verified
from ledger.verify import verify
from ledger.verify.duckdb_engine import duckdb_engine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.job import INVARIANTS
from operations.audit_log import AuditEntry, AuditLog, AuditOutcome
from tests.integration.ledger.conftest import KEYS as ANCHOR_KEYS
from tests.integration.ledger.conftest import FakeKafka
from tests.integration.ledger.lakes import Lake, job
from tests.settlement_reports import make_run
from tests.unit.journal.rows import NOW, TOPIC, sha

COMMITS = 12
NOT_MADE = frozenset({"records_are_those_decided", "index_equals_journal"})
"""Checks of what this ledger never had: records in Kafka, and an index."""
FOLDERS: tuple[Kind, ...] = ("acts", "receipts", "redactions", "reconciliation", "reconciliation-runs")


@dataclass
class Others:
    """The tables beside a ledger's, each written to as its writer does: one small commit after the other."""

    folder: Path
    lake: Lake

    def __post_init__(self) -> None:
        self.audit_log = AuditLog(self.folder / "acts")
        self.redactions = Redactions(self.folder / "redactions")
        self.receipts = ReceiptsTable(str(self.folder / "receipts"))
        self.found = Reconciliations(self.folder / "reconciliation", self.folder / "reconciliation-runs")
        self.found.make_tables()

    def tables(self) -> list[LakeTable]:
        return list(list_other_tables((kind, self.folder / kind) for kind in FOLDERS))

    def commit(self, number: int, tmp_path: Path) -> None:
        """One of each."""
        self.audit_log.record(act(number))
        ordered = Redaction(0, ORDERED, "ledger", f"stripe:evt_{number}:x", 1, sha(f"b{number}"), "ada", "asked", NOW)
        self.redactions.add_acts([ordered])
        self.receipts.append(number % 2, receipts(number), number + 1)
        self.found.append_differences([staged(tmp_path, number)])
        self.found.add_run(run(number))

    def reported(self) -> dict[str, Any]:
        """What each table's readers say."""
        runs = self.found.list_runs()
        return {
            "acts": (self.audit_log.read(100), self.audit_log.read(3, before=7), self.audit_log.head()),
            "redactions": (self.redactions.read_all(), self.redactions.find_unfinished("ledger")),
            "receipts": rows_of(self.folder / "receipts", "partition", "offset"),
            "next receipts": [self.receipts.next_offset(one) for one in (0, 1, 2)],
            "runs": runs,
            "differences": {one.run_id: list(self.found.read_differences(one.run_id)) for one in runs},
            "counts": {one.run_id: self.found.count_differences(one.run_id) for one in runs},
            "verified": self.verified(),
        }

    def verified(self) -> list[tuple[str, bool]]:
        """What `payhook verify` finds: acts and receipts are among what it looks at."""
        places = Verified(StreamLayout(Path("none"), self.folder, "ledger"))
        kafka = FakeKafka({TOPIC: {0: (0, self.lake.seq)}, "dlq.ledger": {0: (0, 0)}})
        settings, made = VerifyLimits(anchor_age_s_max=1e12), {one.name for one in INVARIANTS} - NOT_MADE
        with duckdb_engine(self.folder, "1g") as engine:
            report = verify(engine, places, kafka, ANCHOR_KEYS, settings, SystemClock(), names=made)
        assert report.ok, report.as_json()
        named = {one.name: one.figures for one in report.findings}
        assert named["audit_log_whole"]["entries"] == self.audit_log.head().seq
        assert named["receipts_have_decisions"]["receipts"] == rows_of(self.folder / "receipts", "offset").num_rows
        return [(one.name, not one.offenders) for one in report.findings]


def act(number: int) -> AuditEntry:
    return AuditEntry(
        at=NOW, actor="ada", action="replay", outcome=AuditOutcome.DONE, channel="api", what=f"item {number}"
    )


def receipts(number: int) -> pa.Table:
    """Answers to events that the lake has decided, a repeat of the first among them."""
    rows = [
        {
            "partition": number % 2,
            "offset": number,
            "line": line,
            "at": NOW,
            "provider": "stripe",
            "event_key": f"stripe:evt_{line}:charge.succeeded",
            "outcome": "claimed",
            "status": 200,
        }
        for line in range(2)
    ]
    return pa.Table.from_pylist(rows, schema=RECEIPTS_SCHEMA)


def staged(folder: Path, number: int) -> Path:
    """A file of two differences, as a comparison leaves it."""
    rows = [
        {
            "run_id": f"run-{number}",
            "at": NOW,
            "provider": "stripe",
            "report_name": "r.csv",
            "report_sha256": sha("r"),
            "kind": kind,
            "fact_key": f"stripe:{kind}-{number}",
            "absent": False,
            "line": 1,
        }
        for kind in ("missing_here", "twice")
    ]
    file = folder / f"staged-{number}.parquet"
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema=DIFFERENCES_SCHEMA), file)
    return file


def run(number: int) -> Reconciliation:
    return make_run(NOW + timedelta(seconds=number), run_id=f"run-{number}", since=None, until=None)


def rows_of(path: Path, *by: str) -> pa.Table:
    return dataset_of(DeltaTable(str(path))).to_table().sort_by([(one, "ascending") for one in by])


@pytest.fixture
def others(tmp_path: Path) -> Others:
    lake = Lake.under(tmp_path)
    lake.commit(count=4)
    made = Others(tmp_path / "lake", lake)
    for number in range(COMMITS):
        made.commit(number, tmp_path)
    return made


def only(report: MaintenanceReport, table: str) -> Any:
    (found,) = (one for one in report.tables if one.table == table)
    return found


def test_readers_and_verify_say_the_same_of_few_files_as_of_many(spark: SparkSession, others: Others) -> None:
    before = others.reported()
    report = maintain([], job(spark), others.tables())
    assert [(one.stream, one.table, one.files_before, one.files_after, one.problem) for one in report.tables] == [
        ("", name, COMMITS, 1, None) for name in FOLDERS
    ]
    assert [count_log_entries(one.path) for one in report.tables] == [0] * len(FOLDERS)
    assert others.reported() == before


def test_writers_go_on_from_where_they_were(spark: SparkSession, others: Others, tmp_path: Path) -> None:
    """Appenders that are open all the while, and those that are opened again."""
    maintain([], job(spark), others.tables())
    for number in range(COMMITS, 2 * COMMITS):
        others.commit(number, tmp_path)
    assert [one.number for one in others.audit_log.read(100)] == list(range(2 * COMMITS, 0, -1))
    assert [one.number for one in others.redactions.read_all()] == list(range(1, 2 * COMMITS + 1))
    assert others.receipts.next_offset(1) == 2 * COMMITS
    maintain([], job(spark, file_rows=1_000), others.tables())
    assert {len(take_snapshot(one.path).names) for one in others.tables()} == {1}
    others.verified()


def test_acts_are_put_on_record_while_their_table_is_rewritten(spark: SparkSession, others: Others) -> None:
    stop = threading.Event()

    def act_on() -> int:
        acts, done = AuditLog(others.folder / "acts"), 0
        while not stop.is_set():
            acts.record(act(done))
            done += 1
            time.sleep(0.01)
        return done

    with ThreadPoolExecutor(2) as pool:
        acting = [pool.submit(act_on) for _ in range(2)]
        try:
            reports = [maintain([], job(spark), others.tables()) for _ in range(3)]
        finally:
            stop.set()
        done = sum(one.result() for one in acting)
    assert all(report.ok for report in reports), reports
    assert done > 10, "next to nothing was done meanwhile"
    assert [one.number for one in reversed(others.audit_log.read(10_000))] == list(range(1, COMMITS + done + 1))
    others.verified()


def test_an_act_that_is_changed_is_found_after_maintenance_as_before(spark: SparkSession, others: Others) -> None:
    maintain([], job(spark), others.tables())
    (file,) = take_snapshot(others.folder / "acts").names
    rows = pa.parquet.read_table(others.folder / "acts" / file)
    whats = ["item 99" if one == "item 5" else one for one in rows["what"].to_pylist()]
    changed = rows.set_column(rows.schema.get_field_index("what"), rows.schema.field("what"), pa.array([*whats]))
    pa.parquet.write_table(changed, others.folder / "acts" / file)
    with pytest.raises(AssertionError, match="audit_log_whole"):
        others.verified()


def test_old_entries_of_their_logs_go_and_a_writer_that_slept_meanwhile_goes_on(
    spark: SparkSession, others: Others, tmp_path: Path
) -> None:
    """Of a stream's log its own writer alone removes them (`journal.checkpoints`)."""
    sleeper = AuditLog(others.folder / "acts")
    sleeper.record(act(0))
    others.audit_log.record(act(1))
    others.lake.commits(11)
    streams = [others.lake.tables.journal, others.lake.tables.bodies]
    for folder in [*(one.path for one in others.tables()), *streams]:
        for entry in (Path(folder) / "_delta_log").glob("0*.json"):
            os.utime(entry, (0, 0))
    entries = [len(list((Path(one) / "_delta_log").glob("0*.json"))) for one in streams]
    assert maintain([others.lake.tables], job(spark), others.tables()).ok
    for table in others.tables():
        assert len(list((Path(table.path) / "_delta_log").glob("0*.json"))) <= 2, table.name
    assert [len(list((Path(one) / "_delta_log").glob("0*.json"))) for one in streams] == [one + 1 for one in entries]
    for number in (2, 3):
        sleeper.record(act(number))
    others.receipts = ReceiptsTable(str(others.folder / "receipts"))
    others.commit(COMMITS, tmp_path)
    assert others.audit_log.head().seq == COMMITS + 5
    others.verified()


def test_what_was_replaced_leaves_the_disk_after_the_retention_and_no_session_is_opened_for_it(
    spark: SparkSession, others: Others
) -> None:
    acts = others.folder / "acts"
    at = time.time() - 50 * 3_600
    for file in acts.glob("*.parquet"):
        os.utime(file, (at, at))
    earlier = ManualClock(datetime.now(UTC) - timedelta(hours=23))
    maintain([], job(spark, earlier), others.tables())
    idle, later = job(None), job(None, retention_h=22)  # type: ignore[arg-type]
    for one in (idle, later):
        one.session._open = lambda: pytest.fail("Spark was started for nothing")
    assert only(maintain([], idle, others.tables()), "acts").freed_files == 0
    assert only(maintain([], later, others.tables()), "acts").freed_files == COMMITS
    others.verified()
