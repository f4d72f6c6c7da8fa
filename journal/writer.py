"""The journal's one writer: it begins an epoch, then commits batches, until someone else begins one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from core.decision import Decision
from journal.chain import commit_digest, extend
from journal.errors import BatchInvalid, CommitUnknown, Fenced
from journal.marks import Marks, check_movement, marks_to_json, with_starts
from journal.schema import JOURNAL_SCHEMA, JournalRow, row_hash, to_arrow
from journal.state import JournalState, read_state

EPOCH_TRIES_MAX = 5
"""Starters that race each other: each loss means that another one got its epoch in."""

TABLE_CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 3650 days",
    "delta.dataSkippingNumIndexedCols": "8",
}
_FENCED = re.compile(r"concurrent transaction|metadata|protocol", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit: its Delta version and the rows in it."""

    version: int
    first_seq: int
    last_seq: int


class JournalWriter:
    """Appends batches to one stream's journal.

    The table handle is opened when the epoch begins and serves commits only; it is never refreshed. All
    commits carry one application id, so that a commit after somebody else's epoch is refused for good.
    """

    def __init__(self, path: str, stream: str) -> None:
        self._path = path
        self._stream = stream
        self._handle: DeltaTable | None = None
        self._state: JournalState | None = None
        self._commits = 0

    @classmethod
    def create_or_open(cls, path: str, stream: str) -> JournalWriter:
        """A writer that hasn't begun yet; makes the table where there is none."""
        if not DeltaTable.is_deltatable(path):
            _create(path, stream)
        return cls(path, stream)

    def begin_epoch(self, starts: Marks) -> JournalState:
        """Fences off every writer before this one; only then is the journal's state read.

        ``starts`` is where partitions begin that the journal doesn't know.

        :raises Fenced: other starters won every time
        """
        problem = "no try was made"
        for _ in range(EPOCH_TRIES_MAX):
            handle = DeltaTable(self._path)
            before = read_state(self._path, handle.version())
            state = replace(
                before,
                epoch=before.epoch + 1,
                marks=with_starts(before.marks, starts),
                start=with_starts(before.start, starts),
            )
            try:
                self._write(handle, (), state, "epoch")
            except CommitFailedError as refused:
                problem = str(refused)
                continue
            self._handle = handle
            self._state = read_state(self._path, handle.version())
            return self._state
        raise Fenced(self._stream, 0, problem)

    def commit(self, rows: Sequence[JournalRow], marks: Marks, published_upto: int) -> Committed:
        """Commits a batch whole, in one commit; ``rows`` are in seq order and get epoch, batch and hash.

        :raises BatchInvalid: seq or offsets aren't contiguous; nothing was written
        :raises Fenced: another writer took over; nothing was written, and the process must end
        :raises CommitUnknown: it may or may not be written, and the process must end
        """
        if self._handle is None or self._state is None:
            raise BatchInvalid("no epoch was begun")
        state = self._stamp(rows, marks, published_upto)
        try:
            self._write(self._handle, rows, state, "batch")
        except CommitFailedError as refused:
            if _FENCED.search(str(refused)):
                raise Fenced(self._stream, state.epoch, str(refused)) from refused
            raise CommitUnknown(self._stream, str(refused)) from refused
        except (DeltaError, OSError) as failed:
            raise CommitUnknown(self._stream, str(failed)) from failed
        self._state = replace(state, version=self._handle.version())
        return Committed(self._state.version, rows[0].seq, rows[-1].seq)

    def _stamp(self, rows: Sequence[JournalRow], marks: Marks, published_upto: int) -> JournalState:
        state = self._state
        assert state is not None
        if [row.seq for row in rows] != list(range(state.next_seq, state.next_seq + len(rows))) or not rows:
            raise BatchInvalid(f"seq {state.next_seq} is next, the rows begin with {[row.seq for row in rows[:3]]}")
        check_movement(rows, state.marks, marks)
        for row in rows:
            row.epoch = state.epoch
            row.batch_seq = state.next_seq
            row.row_hash = row_hash(row)
        return replace(
            state,
            next_seq=rows[-1].seq + 1,
            marks=marks,
            published_upto=max(published_upto, state.published_upto),
            chain=extend(state.chain, commit_digest(row.row_hash for row in rows)),
        )

    def _write(self, handle: DeltaTable, rows: Sequence[JournalRow], state: JournalState, kind: str) -> None:
        self._commits += 1
        metadata = {
            "payhook.kind": kind,
            "payhook.stream": self._stream,
            "payhook.epoch": str(state.epoch),
            "payhook.seq": str(state.next_seq - 1),
            "payhook.marks": marks_to_json(state.marks),
            "payhook.start": marks_to_json(state.start),
            "payhook.chain": state.chain,
            "payhook.published_upto": str(state.published_upto),
        }
        if rows:
            metadata["payhook.batch_seq"] = str(rows[0].batch_seq)
        fence = Transaction(f"payhook-{self._stream}", self._commits)
        write_deltalake(
            handle,
            to_arrow(rows),
            mode="append",
            commit_properties=CommitProperties(custom_metadata=metadata, app_transactions=[fence]),
        )


def _create(path: str, stream: str) -> None:
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)
    try:
        table = DeltaTable.create(
            path, JOURNAL_SCHEMA, name=f"journal_{stream}", mode="error", configuration=TABLE_CONFIGURATION
        )
        decisions = ", ".join(f"'{decision.value}'" for decision in Decision)
        table.alter.add_constraint({"decision_is_known": f"decision IN ({decisions})"})
        table.alter.add_constraint({"counts_are_sane": "seq > 0 AND item_seq > 0 AND item_seq <= seq AND attempt >= 0"})
    except DeltaError:
        if not DeltaTable.is_deltatable(path):
            raise
