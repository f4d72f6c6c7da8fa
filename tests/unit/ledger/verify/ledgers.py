"""Ledgers as plain Parquet files, looked at without Delta and without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ledger.verify.fast_path.files import FileRange, Portion, portions
from ledger.verify.fast_path.job import FastPath, _put_together, gather
from ledger.verify.fast_path.portion import Question, look
from ledger.verify.fast_path.results import PortionResult, Tables

from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from journal.schema import JournalRow, to_arrow
from ledger.postings import flat
from tests.unit.journal.rows import row_hash

AT = datetime(2026, 1, 1, tzinfo=UTC)
SALT = bytes(range(32))


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def booking(amount_minor: int = 1_000, currency: str = "EUR", merchant: str = "m-1") -> str | None:
    money = Money(amount_minor, currency)
    return postings_to_json(
        [
            Posting("provider:stripe:clearing", "debit", money),
            Posting(f"merchant:{merchant}:payable", "credit", money),
        ]
    )


def applied(seq: int, **changes: Any) -> JournalRow:
    """The first row of an event of its own, one commit each three rows."""
    values: dict[str, Any] = {
        "seq": seq,
        "item_seq": seq,
        "batch_seq": (seq - 1) // 3 * 3 + 1,
        "epoch": 1,
        "first": True,
        "topic": "payments.events",
        "partition": seq % 2,
        "offset": seq // 2,
        "decision": Decision.APPLIED,
        "decided_at": AT + timedelta(seconds=seq),
        "received_at": AT,
        "event_key": f"stripe:evt_{seq}:charge",
        "fact_key": f"stripe:ch_{seq}",
        "fact_sha256": sha(f"fact {seq}"),
        "entity_key": f"stripe:acct:pi_{seq}",
        "provider": "stripe",
        "mode": "live",
        "content_sha256": sha(f"content {seq}"),
        "content_version": 1,
        "postings": booking(1_000 + seq),
    }
    return JournalRow(**{**values, **changes})


@dataclass
class Ledger:
    """Rows and lines, some of each to a file."""

    folder: Path
    rows: list[JournalRow]
    lines: list[dict[str, Any]] = field(default_factory=list)
    rows_per_file: int = 4
    lines_per_file: int = 5
    index_seq: int = 1 << 40
    since: int = 1
    keeps_files: bool = False
    """Files that are there stay as they are."""

    def __post_init__(self) -> None:
        for row in self.rows:
            row.row_hash = row.row_hash or row_hash(row)
        self.lines = self.lines or flat(self.rows).to_pylist()

    def fast_path(self) -> FastPath:
        rows = [to_arrow(some) for some in _chunks(self.rows, self.rows_per_file)]
        journal = _written(self.folder / "journal", rows, keeps=self.keeps_files)
        schema = flat([]).schema
        some_lines = [pa.Table.from_pylist(some, schema) for some in _chunks(self.lines, self.lines_per_file)]
        postings = _written(self.folder / "postings", some_lines, keeps=self.keeps_files)
        last = max((row.seq for row in self.rows), default=0)
        folders = [str(self.folder / name) for name in ("journal", "postings")]
        tables = Tables(folders[0], 0, last, folders[1], 0, last, self.index_seq, "live")
        question = Question(tables, SALT, 2, self.since)
        return fast_path_of(portions(journal, postings), question, postings)


def fast_path_of(wanted: Sequence[Portion], question: Question, postings: Sequence[FileRange]) -> FastPath:
    shares = (share for portion in wanted for share in look(portion, question))
    found = list(gather(shares, question))
    assert any(isinstance(one, PortionResult) for one in found) or not wanted
    return _put_together(found, question, postings)


def _written(folder: Path, tables: Sequence[pa.Table], *, keeps: bool) -> list[FileRange]:
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, table in enumerate(tables):
        if not keeps:
            pq.write_table(table, folder / f"{number}.parquet")
        seqs = table["seq"].to_pylist()
        found.append(FileRange(f"{number}.parquet", len(seqs), min(seqs), max(seqs)))
    return sorted(found, key=lambda one: (one.first, one.last))


def _chunks(found: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [found[at : at + size] for at in range(0, len(found), size)]
