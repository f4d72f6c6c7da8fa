"""The flat double-entry table for finance, derived from the journal's rows by seq."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.decision import Decision, ErrorKind
from core.errors import PayhookError
from journal.append import Appender, TableUnfit
from journal.histories import ReflectedPosition, may_follow
from journal.journals import own_after
from journal.lake import ensure_table, has_table, open_table
from journal.log import AppTransaction, CommitFailed, now_ms
from journal.reader import JournalFollower, JournalReader
from journal.rewrite import replace_all
from journal.schema import TIMESTAMP, JournalRow
from journal.state import commit_info
from journal.storage import open_storage
from ledger.accounts import merchants_of

POSTINGS_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("line", pa.int32(), nullable=False),
        pa.field("event_key", pa.string()),
        pa.field("fact_key", pa.string()),
        pa.field("entity_key", pa.string()),
        pa.field("provider", pa.string()),
        pa.field("merchant", pa.string()),
        pa.field("account", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),
        pa.field("amount_minor", pa.int64(), nullable=False),
        pa.field("currency", pa.string(), nullable=False),
        pa.field("occurred_at", TIMESTAMP),
        pa.field("decided_at", TIMESTAMP, nullable=False),
    ]
)

_OF_ROW = ("seq", "event_key", "fact_key", "entity_key", "provider", "occurred_at", "decided_at")
_OF_LINE = ("account", "side", "amount_minor", "currency")

BOOKING_DECISIONS = frozenset({Decision.APPLIED, Decision.REVERSED})

POSTINGS_TYPE = "array<struct<account:string,side:string,amount_minor:bigint,currency:string>>"
"""A row's postings (`core.work.postings_to_json`), as Spark parses them."""

MARK_LAG_ROWS_MAX = 10_000
"""Rows without a booking are passed over without a commit; past this many the mark is moved all the same, so
that a start never reads more than this many rows for nothing."""

MARK_APP_ID = "payhook-postings"
"""The Delta app transaction whose version is the mark: the seq up to which every row is reflected."""

_TABLE_CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 24 hours",
}

JOURNAL_COLUMNS = (
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at", "occurred_at"),
    *("event_key", "fact_key", "entity_key", "provider", "postings", "row_hash"),
)


log = logging.getLogger(__name__)

_WHAT = "the table of postings"


class PostingsRefused(PayhookError):
    """Raised when a commit to the postings was refused, or its outcome is unknown: this writer must end."""

    kind = ErrorKind.SBE

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"postings {path}: the commit wasn't taken ({problem}). Another processor may have taken over; this "
            "writer ends, and the next one appends what is missing."
        )


class PostingsWriter(JournalFollower):
    """Appends the journal's bookings, each exactly once, through one appender that is never refreshed.

    The rows and the mark are one commit. A writer that another one has overtaken is refused, because both move the
    same app transaction.
    """

    what = _WHAT

    def __init__(self, path: str, appender: Appender, position: ReflectedPosition) -> None:
        self._path = path
        self._appender = appender
        self._position = position
        self._seen = position.seq
        self._lineage = position.lineage

    @classmethod
    def open(cls, path: str) -> PostingsWriter:
        """Opens the table at ``path``, made if it isn't there.

        :raises PostingsRefused: it can't be reached or made now
        """
        try:
            ensure_table(path, POSTINGS_SCHEMA, "postings", _TABLE_CONFIGURATION)
            table = open_table(path)
            return cls(path, Appender.open(path, version=table.version()), position_of(path, table))
        except (DeltaError, OSError, TableUnfit) as failed:
            raise PostingsRefused(path, str(failed)) from failed

    @property
    def mark_seq(self) -> int:
        return self._position.seq

    def catch_up(self, reader: JournalReader) -> None:
        """Follows the journal from the mark on, up to the reader's version.

        Postings of another journal, one that was restored, are made again from its first row. Of a journal that began
        as a copy only its own rows are reflected.

        :raises JournalOlder: rows that are booked here were in this journal, and aren't now
        :raises PostingsRefused: the commit wasn't taken, or its outcome is unknown
        """
        self.follow_journal(reader)

    @property
    def position(self) -> ReflectedPosition:
        return self._position

    def take_windows(self, journal: JournalReader) -> Iterator[None]:
        self._lineage = journal.lineage
        if self.mark_seq < (copied := own_after(journal.state().notes)):
            self._commit_lines(POSTINGS_SCHEMA.empty_table(), copied, journal.row_hash_at(copied) or "")
            self._seen = copied
        for rows in journal.rows_after(self.mark_seq, JOURNAL_COLUMNS):
            self.follow(rows)
            yield

    @staticmethod
    def check(path: str, reader: JournalReader) -> None:
        """Looks at the table without opening it for writing.

        :raises JournalOlder: as `catch_up`
        """
        if has_table(path):
            may_follow(_WHAT, position_of(path, open_table(path)), reader)

    def follow(self, rows: Sequence[JournalRow]) -> None:
        """Reflects rows in seq order; those up to the mark are skipped.

        :raises PostingsRefused: the commit wasn't taken, or its outcome is unknown
        """
        fresh = [row for row in rows if row.seq > self._seen]
        if not fresh:
            return
        table = flatten_postings(fresh)
        if table.num_rows > 0 or fresh[-1].seq - self.mark_seq > MARK_LAG_ROWS_MAX:
            self._commit_lines(table, fresh[-1].seq, fresh[-1].row_hash)
        self._seen = fresh[-1].seq

    def _commit_lines(self, table: pa.Table, mark: int, row_hash: str = "") -> None:
        position = ReflectedPosition(self._lineage, mark, row_hash)
        try:
            self._appender.append(table, AppTransaction(MARK_APP_ID, mark), commit_notes(position))
        except (CommitFailed, OSError) as refused:
            raise PostingsRefused(self._path, str(refused)) from refused
        self._position = position

    def begin_again(self, journal: JournalReader) -> None:
        log.warning("%s are of another journal; they are made again", self._path)
        position = ReflectedPosition(journal.lineage, 0, "")
        try:
            replace_all(self._path, [], AppTransaction(MARK_APP_ID, 0), commit_notes(position), now_ms())
            self._appender = Appender.open(self._path, version=open_table(self._path).version())
        except (CommitFailed, OSError, DeltaError) as refused:
            raise PostingsRefused(self._path, str(refused)) from refused
        self._position, self._seen = position, 0


def mark_of(table: DeltaTable) -> int:
    return table.transaction_version(MARK_APP_ID) or 0


def commit_notes(position: ReflectedPosition) -> dict[str, str]:
    return {
        "payhook.mark": str(position.seq),
        "payhook.lineage": position.lineage,
        "payhook.row_hash": position.row_hash,
    }


def position_of(path: str, table: DeltaTable) -> ReflectedPosition:
    """Finds the row of the journal up to which a postings table goes, without its journal where the log forgot the
    commit.
    """
    mark, storage = mark_of(table), open_storage(path)
    for version in range(table.version(), -1, -1):
        info = commit_info(path, storage, version)
        if info is None:
            break
        if info.get("payhook.mark") == str(mark):
            return ReflectedPosition(str(info.get("payhook.lineage", "")), mark, str(info.get("payhook.row_hash", "")))
    return ReflectedPosition("", mark, "")


def flatten_postings(rows: Sequence[JournalRow]) -> pa.Table:
    """Returns a line for each posting of the booking rows, as `POSTINGS_SCHEMA`; a pure function of the rows.

    It takes bookings as they were written (`core.work.postings_to_json`): amounts were checked when they were booked.
    """
    booking = [row for row in rows if row.postings is not None and row.decision in BOOKING_DECISIONS]
    bookings = [orjson.loads(row.postings or "") for row in booking]
    of_row = {name: [getattr(row, name) for row in booking] for name in _OF_ROW}
    at = [place for place, lines in enumerate(bookings) for _ in lines]
    columns = {name: _build_array(name, values).take(pa.array(at, pa.int64())) for name, values in of_row.items()}
    columns["line"] = _build_array("line", [number for lines in bookings for number in range(len(lines))])
    merchants = [merchants_of([line["account"] for line in lines]) for lines in bookings]
    columns["merchant"] = _build_array("merchant", [merchant for of_booking in merchants for merchant in of_booking])
    columns |= {name: _build_array(name, [line[name] for lines in bookings for line in lines]) for name in _OF_LINE}
    return pa.Table.from_arrays([columns[name] for name in POSTINGS_SCHEMA.names], schema=POSTINGS_SCHEMA)


def _build_array(name: str, values: Sequence[object]) -> pa.Array:
    return pa.array(values, POSTINGS_SCHEMA.field(name).type)
