"""The journal's port as tests see it: a fake in memory, and the real one on Delta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from deltalake import DeltaTable

from journal.errors import BatchInvalid, Fenced
from journal.reader import JournalReader
from journal.schema import GENESIS, JournalRow, commit_digest, extend_chain, from_arrow, stamp_rows
from journal.state import JournalState, Marks, check_movement, with_starts
from journal.writer import CommittedBatch, JournalWriter


class WriterUnderTest(Protocol):
    """What the processor asks of a journal's writer."""

    def begin_epoch(self, starts: Marks) -> JournalState: ...
    def commit(
        self, rows: Sequence[JournalRow], marks: Marks, published_upto: int, notes: Mapping[str, str] | None = None
    ) -> CommittedBatch: ...


class JournalUnderTest(Protocol):
    """One stream's journal, which any number of writers may be started on."""

    def writer(self) -> WriterUnderTest: ...
    def rows(self) -> list[JournalRow]: ...
    def state(self) -> JournalState: ...
    def optimize(self) -> None:
        """Maintenance by somebody else: a commit that changes no row."""


@dataclass
class MemoryJournal:
    """A journal in a list: version by version a state and the rows that came with it. None is maintenance."""

    log: list[tuple[JournalState, list[JournalRow]] | None] = field(default_factory=list)

    def writer(self) -> WriterUnderTest:
        return MemoryWriter(self)

    def rows(self) -> list[JournalRow]:
        return [row for entry in self.log if entry is not None for row in entry[1]]

    def state(self) -> JournalState:
        version = len(self.log) - 1
        reported = [entry[0] for entry in self.log if entry is not None]
        return replace(reported[-1], version=version) if reported else JournalState(0, version, 1, {}, {}, 0, GENESIS)

    def optimize(self) -> None:
        self.log.append(None)


class MemoryWriter:
    """Refused as Delta refuses: when any commit that carries the application id came after its own last one."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal
        self._state: JournalState | None = None

    def begin_epoch(self, starts: Marks) -> JournalState:
        if self._state is not None:
            raise BatchInvalid("this writer has begun its epoch")
        before = self._journal.state()
        self._state = replace(
            before,
            epoch=before.epoch + 1,
            version=len(self._journal.log),
            marks=with_starts(before.marks, starts),
            start=with_starts(before.start, starts),
        )
        self._journal.log.append((self._state, []))
        return self._state

    def commit(
        self, rows: Sequence[JournalRow], marks: Marks, published_upto: int, notes: Mapping[str, str] | None = None
    ) -> CommittedBatch:
        state = self._state
        if state is None:
            raise BatchInvalid("no epoch was begun")
        if not rows or [row.seq for row in rows] != list(range(state.next_seq, state.next_seq + len(rows))):
            raise BatchInvalid("seq")
        check_movement(rows, state.marks, marks)
        table = stamp_rows(rows, state.epoch, state.next_seq)
        if any(entry is not None for entry in self._journal.log[state.version + 1 :]):
            raise Fenced("memory", state.epoch, "a later commit is there")
        self._state = replace(
            state,
            version=len(self._journal.log),
            next_seq=rows[-1].seq + 1,
            marks=marks,
            published_upto=max(published_upto, state.published_upto),
            chain=extend_chain(state.chain, commit_digest(row.row_hash for row in rows)),
            notes={**state.notes, **(notes or {})},
        )
        self._journal.log.append((self._state, from_arrow(table)))
        return CommittedBatch(self._state.version, rows[0].seq, rows[-1].seq, self._state.chain)


@dataclass
class DeltaJournal:
    """The real one."""

    path: str

    def writer(self) -> WriterUnderTest:
        return JournalWriter.create_or_open(self.path, "ledger")

    def rows(self) -> list[JournalRow]:
        return [row for rows in JournalReader(self.path).rows_after(0) for row in rows]

    def state(self) -> JournalState:
        return JournalReader(self.path).state()

    def optimize(self) -> None:
        DeltaTable(self.path).optimize.compact()
