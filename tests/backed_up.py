"""A small lake by the real writers, for tests of backups."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.clock import ManualClock
from core.decision import Decision
from core.location import location_of
from core.routing import Shard
from journal.bodies import BodyStore
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.state import JournalState
from journal.writer import JournalWriter, Tenure
from ledger.redactions import DONE, ORDERED, Redaction, Redactions
from operations.audit_log import AuditEntry, AuditLog, AuditOutcome
from stack.backup.make import BackupReport, back_up
from stack.settings import Settings
from tests.unit.journal.rows import STARTS, TOPIC, marks, row, sha

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class SmallLake:
    """The ledger's tables of a data folder, their one writer, and a folder for backups: beside them, or at a URL."""

    root: Path
    lake_url: str = ""
    backups_url: str = ""
    seq: int = 0
    clock: ManualClock = field(default_factory=lambda: ManualClock(AT))

    def __post_init__(self) -> None:
        self.settings = Settings(data_dir=self.root / "data", storage={"url": self.lake_url})
        self.backups = self.root / "backups"
        self.backups_at = location_of(self.backups_url or str(self.backups))
        self.places = self.settings.layout.ledger()
        self.begin()

    @classmethod
    def unbegun(cls, root: Path, lake_url: str, other: SmallLake) -> SmallLake:
        """A data folder with nothing in it, which knows of another one's backups."""
        made = cls.__new__(cls)
        made.root, made.lake_url, made.backups_url, made.clock = root, lake_url, other.backups_url, other.clock
        made.settings = Settings(data_dir=root / "data", storage={"url": lake_url})
        made.places, made.backups_at = made.settings.layout.ledger(), other.backups_at
        return made

    def begin(self) -> JournalState:
        """A processor's start."""
        self.writer = JournalWriter.create_or_open(str(self.places.journal), "ledger")
        state = self.writer.begin_epoch(STARTS, Tenure("me"))
        self.bodies = BodyStore(str(self.places.bodies_table))
        self.seq = state.next_seq - 1
        return state

    def commit(self, count: int = 1, decision: Decision = Decision.APPLIED, **changes: Any) -> list[JournalRow]:
        """First rows with their bodies, in one commit."""
        numbers = range(self.seq + 1, self.seq + 1 + count)
        rows = [row(seq, decision=decision, decided_at=self.clock.now(), **changes) for seq in numbers]
        self.bodies.append([(sha(f"body {added.seq - 1}"), f"body {added.seq - 1}".encode()) for added in rows])
        self.writer.commit(rows, marks(rows[-1].seq), 0)
        self.seq = rows[-1].seq
        return rows

    def act(self, what: str) -> None:
        act = AuditEntry(
            at=self.clock.now(), actor="ada", action="purge", outcome=AuditOutcome.DONE, channel="cli", what=what
        )
        AuditLog(self.settings.layout.audit_log).record(act)

    def redacted(self, seq: int) -> Redaction:
        """The acts by which the body of a row was removed."""
        order = Redaction(
            0, ORDERED, "ledger", f"stripe:evt_{seq - 1}:charge.succeeded", seq, sha(f"body {seq - 1}"), "ada", "asked",
            self.clock.now(),
        )  # fmt: skip
        redactions = Redactions(self.places.derived_table("redactions"))
        redactions.add_acts([order])
        redactions.add_acts([Redaction(**{**{n: getattr(order, n) for n in order.__slots__}, "act": DONE})])
        return order

    def back_up(self, keep: int = 7) -> BackupReport:
        self.clock.advance(60)
        return back_up(self.settings, self.backups_at, keep, self.clock)

    def divide(self, at: datetime = AT) -> None:
        """The journal is divided among two shards, and settings say so."""
        self.settings = self.settings.model_copy(
            update={"processor": self.settings.processor.model_copy(update={"shards": 2})}
        )
        other = self.places.of_shard(1)
        for name in ("journal", "bodies_table"):
            shutil.copytree(getattr(self.places, name), getattr(other, name))
        for number, places in ((1, other), (0, self.places)):
            writer = JournalWriter.create_or_open(str(places.journal), places.stream)
            writer.divide_journal(TOPIC, Shard(number, 2), at, f"{number:032}" if number else None)

    def state(self) -> JournalState:
        return JournalReader(str(self.places.journal)).state()

    def held(self, *seqs: int) -> list[int]:
        """Those of the rows whose body is there."""
        store = BodyStore(str(self.places.bodies_table))
        found = store.find_kept(sha(f"body {seq - 1}") for seq in seqs)
        return [seq for seq in seqs if sha(f"body {seq - 1}") in found]


def parquet_of(backup: Path, table: str) -> list[Path]:
    return sorted((backup / "lake" / table).glob("*.parquet"))


def changed(backup: Path) -> None:
    file = parquet_of(backup, "bodies")[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
