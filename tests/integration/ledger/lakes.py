"""Lakes of many small commits, by the real writers: what maintenance finds."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from core.clock import Clock, SystemClock
from core.decision import Decision
from core.layout import StreamLayout
from core.location import Location
from core.money import Money
from core.work import Posting, postings_to_json
from journal.bodies import BodyStore
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.maintain.compact import CompactionLimits as Sizes
from ledger.maintain.compact import LazySparkSession
from ledger.maintain.job import MaintenanceJob
from ledger.maintain.tables import StreamTables
from ledger.postings import PostingsWriter
from ledger.settings import MaintainSettings
from ledger.verify import Lake as Verified
from ledger.verify import Options, verify
from ledger.verify.duckdb_engine import duckdb_engine
from ledger.verify.evidence import VerifyLimits
from tests.integration.ledger.conftest import KEYS, FakeKafka
from tests.unit.journal.rows import TOPIC, begin_journal, marks, row, sha


def job(spark: SparkSession, clock: Clock | None = None, *, dry_run: bool = False, **settings: Any) -> MaintenanceJob:
    days, limits = settings.pop("bodies_days", 0), Sizes(settings.pop("file_rows", 1_000), files_min=8)
    return MaintenanceJob(
        LazySparkSession(lambda: spark), MaintainSettings(**settings), clock or SystemClock(), dry_run, days, limits
    )


@dataclass
class Lake:
    """A ledger stream's tables and their one writer."""

    tables: StreamTables
    writer: JournalWriter
    bodies: BodyStore
    postings: PostingsWriter
    seq: int = 0
    slowest_s: float = 0.0
    at: datetime | None = field(default=None)

    @classmethod
    def under(cls, folder: Path) -> Lake:
        return cls.at_place(folder / "lake")

    @classmethod
    def at_place(cls, lake: Location) -> Lake:
        tables = StreamTables("ledger", lake / "journal" / "ledger", lake / "bodies", lake / "postings")
        writer = begin_journal(str(tables.journal))
        assert tables.postings is not None
        return cls(tables, writer, BodyStore(str(tables.bodies)), PostingsWriter.open(str(tables.postings)))

    def commit(self, count: int = 2, **changes: Any) -> list[JournalRow]:
        """A batch as the processor commits it: bodies, journal, postings."""
        began_s = time.monotonic()
        at = self.at or datetime.now(UTC)
        rows = [row(seq, **self._booked(seq, at, changes)) for seq in range(self.seq + 1, self.seq + 1 + count)]
        self.bodies.append([(sha(f"body {one.seq - 1}"), f"body {one.seq - 1}".encode()) for one in rows])
        self.writer.commit(rows, marks(rows[-1].seq), rows[0].seq - 1, {"breakers": f"after {self.seq}"})
        self.postings.follow(rows)
        self.seq = rows[-1].seq
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        return rows

    def follow(
        self, of: JournalRow, decision: Decision, at: datetime | None = None, *, published: bool = True
    ) -> JournalRow:
        """One more row of an item; whether its dead letters are on their topic by then."""
        self.seq += 1
        changes = {"item_seq": of.item_seq, "first": False, "decision": decision, "event_key": of.event_key}
        later = row(self.seq, of.offset, body_sha256=of.body_sha256, decided_at=at or datetime.now(UTC), **changes)
        until = max(one[0] for one in JournalReader(str(self.tables.journal)).state().marks.values())
        self.writer.commit([later], marks(until), self.seq - 1 if published else 0)
        return later

    def commits(self, batches: int, **changes: Any) -> None:
        for _ in range(batches):
            self.commit(**changes)

    @contextmanager
    def committing(self, every_s: float = 0.02) -> Iterator[None]:
        """Batch after batch for as long as the ``with`` lasts; what one raises is raised at its end."""
        stop = threading.Event()

        def commit_on() -> None:
            while not stop.wait(every_s):
                self.commit()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(commit_on)
            try:
                yield
            finally:
                stop.set()
            writing.result()

    def _booked(self, seq: int, at: datetime, changes: dict[str, Any]) -> dict[str, Any]:
        money = Money(1_000 + seq, "EUR")
        lines = (("provider:stripe:clearing", "debit"), ("merchant:m-1:payable", "credit"))
        booked = postings_to_json([Posting(account, side, money) for account, side in lines])  # type: ignore[arg-type]
        about = {"provider": "stripe", "mode": "live", "fact_key": f"stripe:ch_{seq}", "fact_sha256": sha(f"ch {seq}")}
        settled = {"postings": booked} if changes.get("decision", Decision.APPLIED) is Decision.APPLIED else {}
        return {"decided_at": at, "received_at": at, **about, **settled, **changes}


def verified(lake: Lake, *, deep: bool = False) -> bool:
    """Whether `payhook verify` finds nothing wrong; fails the test where it does. There is no index to look at."""
    assert lake.tables.postings is not None
    journal = lake.tables.journal
    places = Verified(StreamLayout(Path("none"), journal.parent.parent, "ledger"))
    decided = [row for rows in JournalReader(str(journal)).rows_after(0) for row in rows]
    bodies: dict[str | None, bytes] = {sha(f"body {number}"): f"body {number}".encode() for number in range(lake.seq)}
    held = {TOPIC: {0: (0, lake.seq)}, "dlq.ledger": {0: (0, 0)}}
    kafka = FakeKafka(held, decided=decided, bodies=bodies)
    limits, options = VerifyLimits(anchor_age_s_max=1e12), Options(deep=deep)
    with tempfile.TemporaryDirectory() as folder, duckdb_engine(Path(folder), "1g") as engine:
        report = verify(engine, places, kafka, KEYS, limits, SystemClock(), options=options)
    assert not report.has_offenders, report.as_json()
    assert [finding.name for finding in report.findings if not finding.ok] == ["index_equals_journal"]
    return True
