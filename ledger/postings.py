"""The flat double-entry table for finance, derived from the journal's rows by seq."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from core.decision import Decision, ErrorKind
from core.errors import PayhookError
from journal.append import Appender, AppendUnknown, AppTransaction, Overtaken
from journal.demands import TableUnfit
from journal.lake import create_table, has_table, open_table
from journal.reader import JournalReader
from journal.schema import TIMESTAMP, JournalRow
from ledger.accounts import merchant_among

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

_COLUMNS = (
    "seq",
    "item_seq",
    "first",
    "topic",
    "partition",
    "offset",
    "decision",
    "decided_at",
    "occurred_at",
    "event_key",
    "fact_key",
    "entity_key",
    "provider",
    "postings",
)


class PostingsRefused(PayhookError):
    """A commit to the postings was refused, or nobody knows its outcome: this writer must end."""

    kind = ErrorKind.SBE

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"postings {path}: the commit wasn't taken ({problem}). Another processor may have taken over; this "
            "writer ends, and the next one appends what is missing."
        )


class PostingsAhead(PayhookError):
    """The postings reflect rows that the journal doesn't have: it was cut, or restored from an older copy than they."""

    def __init__(self, path: str, mark: int, last_seq: int) -> None:
        self.path = path
        self.mark = mark
        self.last_seq = last_seq
        super().__init__(
            f"postings {path} reflect the journal up to seq {mark}, the journal ends with {last_seq}: commits were "
            "lost. Restore the journal; if it can't be, delete the postings, which are made anew from what is left."
        )


class PostingsWriter:
    """Appends the journal's bookings, each exactly once, through one appender that is never refreshed.

    The rows and the mark are one commit. A writer that another one has overtaken is refused, because both move the
    same app transaction.
    """

    def __init__(self, path: str, appender: Appender, mark: int) -> None:
        self._path = path
        self._appender = appender
        self._mark = mark
        self._seen = self._mark

    @classmethod
    def open(cls, path: str) -> PostingsWriter:
        """The table at ``path``, made if it isn't there.

        :raises PostingsRefused: it can't be reached or made now
        """
        try:
            if not has_table(path):
                _create(path)
            table = open_table(path)
            return cls(path, Appender.open(path, version=table.version()), mark_of(table))
        except (DeltaError, OSError, TableUnfit) as failed:
            raise PostingsRefused(path, str(failed)) from failed

    @property
    def mark(self) -> int:
        """The last seq that is committed as reflected."""
        return self._mark

    def catch_up(self, reader: JournalReader) -> None:
        """Follows the journal from the mark on, up to the reader's version.

        :raises PostingsAhead: the journal lacks rows that are booked here
        """
        if self._mark > reader.last_seq:
            raise PostingsAhead(self._path, self._mark, reader.last_seq)
        for rows in reader.rows_after(self._mark, _COLUMNS):
            self.follow(rows)

    def follow(self, rows: Sequence[JournalRow]) -> None:
        """Reflects rows in seq order; those up to the mark are skipped.

        :raises PostingsRefused: the commit wasn't taken, or its outcome is unknown
        """
        fresh = [row for row in rows if row.seq > self._seen]
        if not fresh:
            return
        table = flat(fresh)
        if table.num_rows > 0 or fresh[-1].seq - self._mark > MARK_LAG_ROWS_MAX:
            self._commit(table, fresh[-1].seq)
        self._seen = fresh[-1].seq

    def _commit(self, table: pa.Table, mark: int) -> None:
        try:
            self._appender.append(table, AppTransaction(MARK_APP_ID, mark), {"payhook.mark": str(mark)})
        except (Overtaken, AppendUnknown, OSError) as refused:
            raise PostingsRefused(self._path, str(refused)) from refused
        self._mark = mark


def mark_of(table: DeltaTable) -> int:
    """The seq up to which a postings table reflects its journal."""
    return table.transaction_version(MARK_APP_ID) or 0


def flat(rows: Sequence[JournalRow]) -> pa.Table:
    """One line a posting of the booking rows among ``rows``, as `POSTINGS_SCHEMA`; a pure function of the rows.

    Bookings are taken as they were written (`core.work.postings_to_json`): amounts were checked when they were booked.
    """
    booking = [row for row in rows if row.postings is not None and row.decision in BOOKING_DECISIONS]
    bookings = [orjson.loads(row.postings or "") for row in booking]
    of_row = {name: [getattr(row, name) for row in booking] for name in _OF_ROW}
    of_row["merchant"] = [merchant_among(line["account"] for line in lines) for lines in bookings]
    at = [place for place, lines in enumerate(bookings) for _ in lines]
    columns = {name: _array(name, values).take(pa.array(at, pa.int64())) for name, values in of_row.items()}
    columns["line"] = _array("line", [number for lines in bookings for number in range(len(lines))])
    columns |= {name: _array(name, [line[name] for lines in bookings for line in lines]) for name in _OF_LINE}
    return pa.Table.from_arrays([columns[name] for name in POSTINGS_SCHEMA.names], schema=POSTINGS_SCHEMA)


def _array(name: str, values: Sequence[object]) -> pa.Array:
    return pa.array(values, POSTINGS_SCHEMA.field(name).type)


def _create(path: str) -> None:
    try:
        create_table(path, POSTINGS_SCHEMA, "postings", _TABLE_CONFIGURATION)
    except DeltaError:
        if not has_table(path):
            raise
