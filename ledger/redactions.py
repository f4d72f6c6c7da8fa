"""The record of removed bodies: an append-only table of chained rows that say who removed which, and why; and what
became of each body.

How far retention has gone, the commits that drop bodies say (`RetentionState`), whatever is set since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable

from core.clock import from_micros, to_micros, to_rfc3339
from core.errors import PayhookError
from core.location import Location
from journal.append import Appender
from journal.bodies import BodyStore, FoundBodies
from journal.lake import ensure_table, has_table, open_table
from journal.log import AppTransaction
from journal.reader import read_rows
from journal.schema import GENESIS, TIMESTAMP, JournalRow, extend_chain

REDACTIONS_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("act", pa.string(), nullable=False),
        pa.field("stream", pa.string(), nullable=False),
        pa.field("event_key", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("body_sha256", pa.string(), nullable=False),
        pa.field("actor", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("chain", pa.string(), nullable=False),
    ]
)
CONFIGURATION = {
    "delta.appendOnly": "true",
    # Rows are few and for ever; their commits say nothing that the rows don't.
    "delta.checkpointInterval": "100",
}
APP_ID = "payhook-redactions"
ORDERED, DONE = "ordered", "done"


class RedactionsBroken(PayhookError):
    """Raised when the table's rows don't follow one another: one was changed, removed or put in."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        super().__init__(
            f"redactions {path}: row {number} doesn't follow from the one before it. The table was written to by "
            "something else: keep it as it is, restore it from a backup, and find out by whom."
        )


@dataclass(frozen=True, slots=True)
class Redaction:
    """An act of redaction. ``ordered``: the body must go; ``done``: it has left the disk.

    ``seq``: the first row of the stream's journal that refers to it, the event's own where it has one there.
    """

    number: int
    act: str
    stream: str
    event_key: str
    seq: int
    body_sha256: str
    actor: str
    reason: str
    at: datetime
    chain: str = ""

    def extend_chain(self, head: str) -> str:
        """Returns the chain's head after this row. No field holds the separator: `kept_text` forbids it, and keys are
        quoted.
        """
        fields = (*astuple(self)[:-2], to_rfc3339(self.at))
        return extend_chain(head, hashlib.sha256("\x1f".join(map(str, fields)).encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Redactions:
    path: Location

    def read_all(self) -> list[Redaction]:
        """Reads every act, oldest first.

        :raises RedactionsBroken: the rows don't follow one another
        """
        if not has_table(str(self.path)):
            return []
        rows = read_rows(open_table(str(self.path))).sort_by("number")
        acts = [_parse_redaction(row) for row in rows.to_pylist()]
        head = GENESIS
        for number, act in enumerate(acts, 1):
            head = act.extend_chain(head)
            if (act.number, act.chain) != (number, head):
                raise RedactionsBroken(str(self.path), number)
        return acts

    def find_unfinished(self, stream: str) -> list[Redaction]:
        return [act for act, done in self.list_orders(stream) if done is None]

    def list_orders(self, stream: str | None = None) -> list[tuple[Redaction, Redaction | None]]:
        """Lists each order of a stream's bodies, or of all streams', and its end, oldest first.

        A body can be ordered away again: it came with another event since, or from a backup.
        """
        acts = [act for act in self.read_all() if stream in (None, act.stream)]
        done = {(act.stream, act.body_sha256): act for act in acts if act.act == DONE}
        ordered = [(act, done.get((act.stream, act.body_sha256))) for act in acts if act.act == ORDERED]
        return [(act, last if last is not None and last.number > act.number else None) for act, last in ordered]

    def list_last_orders(self, stream: str) -> dict[str, tuple[Redaction, Redaction | None]]:
        """Finds the last order of each body, by its hash: the stream's own, or where that has none, another one's.

        Another stream's removed body may still be here. But a body that is missing here may have gone by that order,
        before this journal began as a copy.
        """
        own_last = sorted(self.list_orders(), key=lambda order: order[0].stream == stream)
        return {act.body_sha256: (act, done) for act, done in own_last}

    def add_acts(self, acts: Sequence[Redaction]) -> None:
        """Appends acts in one commit; their numbers and chain are set here.

        :raises Overtaken: another process wrote meanwhile; nothing was written
        """
        if not acts:
            return
        ensure_table(str(self.path), REDACTIONS_SCHEMA, "redactions", CONFIGURATION)
        appender = Appender.open(str(self.path))
        before = self.read_all()
        head, rows = before[-1].chain if before else GENESIS, []
        for number, act in enumerate(acts, len(before) + 1):
            fields = {**{name: getattr(act, name) for name in REDACTIONS_SCHEMA.names}, "number": number}
            head = Redaction(**fields).extend_chain(head)
            rows.append({**fields, "chain": head})
        table = pa.Table.from_pylist(rows, schema=REDACTIONS_SCHEMA)
        appender.append(table, AppTransaction(APP_ID, len(before) + len(acts)))


def _parse_redaction(row: dict[str, Any]) -> Redaction:
    return Redaction(**{**row, "at": from_micros(to_micros(row["at"]))})


BEFORE_APP_ID = "payhook-retention-before"
DAYS_APP_ID = "payhook-retention-days"
PUBLISHED_APP_ID = "payhook-retention-published"


@dataclass(frozen=True, slots=True)
class RetentionState:
    """Says which bodies retention dropped: those that weren't needed for ``days`` days, which began ``before`` then.

    ``published_upto``: the row up to which dead letters were on their topic then; the bodies of later ones stayed. The
    journal's own value goes back when all are published again.
    """

    before: datetime
    days: int
    published_upto: int

    @classmethod
    def read(cls, bodies: DeltaTable) -> Self | None:
        """Reads it from the commits of bodies; None: retention never dropped one."""
        marks = (BEFORE_APP_ID, DAYS_APP_ID, PUBLISHED_APP_ID)
        before, days, published_upto = map(bodies.transaction_version, marks)
        if before is None or days is None or published_upto is None:
            return None
        return cls(from_micros(before), days, published_upto)

    def with_earlier(self, earlier: Self | None) -> Self:
        if earlier is None:
            return self
        published_upto = max(self.published_upto, earlier.published_upto)
        return type(self)(max(self.before, earlier.before), min(self.days, earlier.days), published_upto)

    def build_transactions(self) -> list[AppTransaction]:
        marks = {BEFORE_APP_ID: to_micros(self.before), DAYS_APP_ID: self.days, PUBLISHED_APP_ID: self.published_upto}
        return [AppTransaction(name, mark) for name, mark in marks.items()]


Status: TypeAlias = Literal["kept", "redacted", "dropped", "lost"]


@dataclass(frozen=True, slots=True)
class StoredBodyStatus:
    """The status of a body. ``actor``, ``reason`` and ``at`` are its last redaction's; a ``kept`` one came again since.

    ``lost``: it isn't there, no order removed it, and these files of the table can't be read.
    """

    body_sha256: str
    status: Status
    actor: str | None = None
    reason: str | None = None
    at: datetime | None = None
    lost: str = ""

    def __str__(self) -> str:
        redacted = f"redacted by {self.actor} at {to_rfc3339(self.at)}: {self.reason}" if self.at is not None else ""
        if self.status == "redacted":
            return f"body {self.body_sha256}: {redacted}"
        if self.status == "lost":
            return f"body {self.body_sha256}: missing, and a file of bodies that may hold it can't be read: {self.lost}"
        if self.status == "dropped":
            return f"body {self.body_sha256}: no longer kept, dropped by retention (ledger.bodies_days)"
        return f"body {self.body_sha256}: kept" + (f"; it came again after it was {redacted}" if redacted else "")


def read_body_statuses(
    stream: str, bodies: Location, redactions: Location, rows: Sequence[JournalRow]
) -> list[StoredBodyStatus]:
    """Reads the status of every body that rows of a stream refer to, in the rows' order.

    :raises JournalBroken: the bodies can't be read
    :raises RedactionsBroken: the table of redactions was changed
    """
    hashes = list(dict.fromkeys(row.body_sha256 for row in rows if row.body_sha256 is not None))
    if not hashes:
        return []
    stored = BodyStore(str(bodies)).find_bodies(hashes, only_hashes=True) if has_table(str(bodies)) else FoundBodies()
    present, lost = stored.hashes, stored.lost_names()
    last = Redactions(redactions).list_last_orders(stream)
    statuses = []
    for sha256 in hashes:
        act, done = last.get(sha256, (None, None))
        if act is None or (sha256 in present and act.stream != stream):
            missing: Status = "lost" if lost else "dropped"
            statuses.append(
                StoredBodyStatus(sha256, "kept") if sha256 in present else StoredBodyStatus(sha256, missing, lost=lost)
            )
        else:
            came_again = done is not None and sha256 in present
            statuses.append(
                StoredBodyStatus(sha256, "kept" if came_again else "redacted", act.actor, act.reason, act.at)
            )
    return statuses
