"""The audit log: what people did, and what they were refused. An append-only Delta table whose rows are chained.

Several processes write to it, each row by itself. A row's number is the version of an application transaction: Delta
takes each number once, so of two writers with the same head one is refused, reads the new head, and comes after it.
A row that is changed, removed or put in afterwards breaks the chain; the management listener anchors the chain's head
outside the lake, because a writer of the lake could cut its end off, or write all of it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.clock import from_micros, to_micros, to_rfc3339
from core.errors import PayhookError
from core.location import Location
from journal.anchors import Anchoring, Head
from journal.append import Appender
from journal.lake import ensure_table, has_table, open_table
from journal.log import AppTransaction, CommitFailed, Overtaken, TableError, last_number
from journal.reader import read_rows
from journal.schema import GENESIS, TIMESTAMP, extend_chain
from journal.storage import open_storage

log = logging.getLogger(__name__)

STREAM = "@acts"
"""The stream's name in anchors of the audit log, and their key on the topic: no work stream can be called so."""

LOOK_EVERY_S = 2.0
CLOSE_S_MAX = 5.0

APP_ID = "payhook-acts"
CONFIGURATION = {
    "delta.appendOnly": "true",
    # Rows are few and for ever; their commits say nothing that the rows don't.
    "delta.checkpointInterval": "100",
    # `number` is the first column: pages are read by it, and texts aren't looked for by their range.
    "delta.dataSkippingNumIndexedCols": "1",
}
TRIES_MAX = 100
"""Other writers that may come in between; each of them has written one row then."""

TEXT_CHARS_MAX = 2_000
SHOWN_CHARS_MAX = 20_000
"""Most characters of ``before`` and ``after``. A longer text is cut, and says so: no act goes unrecorded for that."""

_CHARS_MAX = {
    **dict.fromkeys(("actor", "channel", "action", "what", "reason"), TEXT_CHARS_MAX),
    **dict.fromkeys(("before", "after"), SHOWN_CHARS_MAX),
}

AUDIT_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("act_id", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("actor", pa.string(), nullable=False),
        pa.field("channel", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("chain", pa.string(), nullable=False),
    ]
)


class AuditOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An act that somebody did or tried to do. ``at`` is UTC.

    ``actor``: a user's name, or with ``channel`` ``cli`` the account of the machine; other channels are ``page`` and
    ``api``. ``action`` is a verb (``replay``, ``sign_in``), ``what`` its object. ``before`` and ``after``: what it
    changed, as JSON or plain text; None where nothing is to be shown.
    """

    at: datetime
    actor: str
    action: str
    outcome: AuditOutcome
    channel: str
    what: str = ""
    reason: str = ""
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEntry(AuditEntry):
    """An entry in its place in the chain. ``chain`` is the head after it; ``act_id`` is random."""

    number: int
    act_id: str
    chain: str

    def as_row(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome.value}


def chain_entry(entry: AuditEntry, act_id: str, number: int, head: str) -> RecordedEntry:
    texts = {name: getattr(entry, name) for name in _CHARS_MAX}
    cut = {name: None if text is None else _cut_text(text, _CHARS_MAX[name]) for name, text in texts.items()}
    place = {"at": from_micros(to_micros(entry.at)), "number": number, "act_id": act_id, "chain": ""}
    row = RecordedEntry(**{**asdict(entry), **cut, **place})
    return replace(row, chain=_head_after(row, head))


def parse_entry(row: dict[str, Any]) -> RecordedEntry:
    known = {field.name: row[field.name] for field in fields(RecordedEntry)}
    return RecordedEntry(**{**known, "at": from_micros(to_micros(row["at"])), "outcome": AuditOutcome(row["outcome"])})


class ChainWalk:
    """Goes through rows in the order of their numbers and says what is wrong where. ``heads``: the head after each
    number that is wanted.
    """

    def __init__(self, wanted: Iterable[int] = ()) -> None:
        self._wanted = frozenset(wanted)
        self.heads: dict[int, str] = {0: GENESIS}
        self.number = 0

    def find_offenders(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        head = GENESIS
        for row in rows:
            number = row["number"]
            if number == self.number:
                yield {"problem": "two entries have this number", "number": number}
                continue
            if number != self.number + 1:
                yield {"problem": "entries are missing", "after": self.number, "before": number}
            elif (problem := _find_problem(row, head)) is not None:
                yield {"problem": problem, "number": number, "actor": row["actor"], "action": row["action"]}
            self.number, head = number, row["chain"]
            if number in self._wanted:
                self.heads[number] = head


def _find_problem(row: dict[str, Any], head: str) -> str | None:
    try:
        follows = _head_after(parse_entry(row), head) == row["chain"]
    except ValueError as stranger:
        return f"it isn't an act ({stranger})"
    return None if follows else "it, or the act before it, isn't what it was when it was recorded"


def _head_after(row: RecordedEntry, head: str) -> str:
    tree = {**row.as_row(), "at": to_rfc3339(row.at)}
    del tree["chain"]
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return extend_chain(head, hashlib.sha256(text.encode()).hexdigest())


def _cut_text(text: str, chars_max: int) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text) - chars_max} more characters)"


class AuditLogUnwritable(PayhookError):
    """An act can't be recorded. Sign-ins and changes of users are refused then; an order may have been given."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"audit log {path}: this can't be recorded: {problem}")


class AuditLogBroken(PayhookError):
    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        super().__init__(
            f"audit log {path}: its last row, {number}, is missing or there twice. Somebody wrote to the table: keep "
            "it as it is, restore it from a backup, and find out who did. `payhook verify` says more."
        )


class AuditLog:
    """The table at ``path``, made with its first row. Blocks; threads may share it, and processes the table."""

    def __init__(self, path: Location) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open: tuple[Appender, Head] | None = None

    def record(self, entry: AuditEntry) -> RecordedEntry:
        """Appends one entry; it is on disk when this returns.

        :raises AuditLogUnwritable: it can't be written, or it isn't known whether it was
        :raises AuditLogBroken: see there
        """
        act_id = uuid.uuid4().hex
        with self._lock:
            try:
                return self._append(entry, act_id)
            except (TableError, DeltaError, OSError) as failed:
                self._open = None
                raise AuditLogUnwritable(str(self._path), str(failed)) from failed

    def read(self, limit: int, before: int | None = None) -> list[RecordedEntry]:
        """Reads at most ``limit`` entries, the newest first; of those before a number, if one is given."""
        if not has_table(str(self._path)):
            return []
        table = open_table(str(self._path))
        end = min(_read_last_number(table) + 1, before if before is not None else _read_last_number(table) + 1)
        number = pc.field("number")
        rows = read_rows(table, (number < end) & (number >= end - limit))
        return [parse_entry(row) for row in rows.sort_by([("number", "descending")]).to_pylist()]

    def head(self) -> Head:
        """Returns where the chain stands now, by the last row's number; 0: there is none. The audit log has no epochs.

        :raises AuditLogBroken: see there
        """
        if not has_table(str(self._path)):
            return Head(0, 0, GENESIS)
        return self._head(open_table(str(self._path)))

    def read_stamp(self) -> int:
        """Returns another number after each commit; it costs less than `head`."""
        if not isinstance(self._path, Path):
            return last_number(open_storage(self._path)) + 1
        try:
            return (self._path / "_delta_log").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _append(self, entry: AuditEntry, act_id: str) -> RecordedEntry:
        for _ in range(TRIES_MAX):
            appender, head = self._open or self._open_appender()
            row = chain_entry(entry, act_id, head.seq + 1, head.chain)
            rows = pa.Table.from_pylist([row.as_row()], schema=AUDIT_SCHEMA)
            try:
                appender.append(rows, AppTransaction(APP_ID, row.number))
            except Overtaken:
                self._open = None
                continue
            except CommitFailed:
                self._open = None
                if self._has_row(row):
                    return row
                continue
            self._open = appender, Head(0, row.number, row.chain)
            return row
        raise AuditLogUnwritable(str(self._path), f"others wrote {TRIES_MAX} times before this could")

    def _open_appender(self) -> tuple[Appender, Head]:
        ensure_table(str(self._path), AUDIT_SCHEMA, "acts", CONFIGURATION)
        table = open_table(str(self._path))
        return Appender.open(str(self._path), version=table.version()), self._head(table)

    def _head(self, table: DeltaTable) -> Head:
        number = _read_last_number(table)
        if number == 0:
            return Head(0, 0, GENESIS)
        rows = read_rows(table, pc.field("number") == number, ["chain"])
        if rows.num_rows != 1:
            raise AuditLogBroken(str(self._path), number)
        return Head(0, number, rows["chain"][0].as_py())

    def _has_row(self, row: RecordedEntry) -> bool:
        rows = read_rows(open_table(str(self._path)), pc.field("number") == row.number, ["act_id"])
        return row.act_id in rows["act_id"].to_pylist()


def _read_last_number(table: DeltaTable) -> int:
    return table.transaction_version(APP_ID) or 0


class AuditAnchors:
    """Anchors the audit log's head in a thread of its own until it is closed."""

    def __init__(self, audit_log: AuditLog, anchoring: Anchoring) -> None:
        self._log = audit_log
        self._anchoring = anchoring
        self._seen = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="audit-anchors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.anchor_head()
        self._anchoring.close(CLOSE_S_MAX)

    def anchor_head(self) -> None:
        try:
            self._take_new_head()
        except (PayhookError, DeltaError, OSError) as failed:
            log.error("the audit log can't be anchored: %s", failed)
        self._anchoring.poll()

    def _take_new_head(self) -> None:
        stamp = self._log.read_stamp()
        if stamp == self._seen:
            return
        head = self._log.head()
        if head.seq:
            self._anchoring.on_commit(head)
        self._seen = stamp

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.anchor_head()
