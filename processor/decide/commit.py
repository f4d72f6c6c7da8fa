"""Commits bodies, then rows, marks and notes in one commit: the only point at which anything is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from core.crash import crash_point
from core.decision import Decision
from journal.anchors import Head
from journal.bodies import BodyStore
from journal.errors import StreamRefused
from journal.schema import JournalRow
from journal.state import JournalState, Marks
from journal.writer import JournalWriter
from processor.history.check import DecidedPosition, HistoryWatch


class Journal:
    """A stream's journal from an epoch on. ``notes`` are texts that go with each commit, by name
    (`JournalWriter.commit`)."""

    def __init__(
        self,
        state: JournalState,
        writer: JournalWriter,
        bodies: BodyStore,
        notes: Callable[[], Mapping[str, str]] = dict,
        watch: HistoryWatch | None = None,
    ) -> None:
        self.state = state
        self._writer = writer
        self._bodies = bodies
        self._notes = notes
        self._watch = watch
        self._lasts: dict[tuple[str, int], JournalRow] = {}

    @property
    def seq(self) -> int:
        return self.state.next_seq - 1

    @property
    def position(self) -> DecidedPosition:
        """How far it has decided; may be asked from any thread."""
        state, lasts = self.state, self._lasts
        return DecidedPosition(state.next_seq - 1, state, lasts)

    @property
    def history_refusal(self) -> StreamRefused | None:
        return None if self._watch is None else self._watch.refusal

    @property
    def by_range(self) -> list[str]:
        """Partitions of which only topic id and range could be compared."""
        return [] if self._watch is None else list(self._watch.by_range)

    def commit(
        self,
        rows: Sequence[JournalRow],
        bodies: Mapping[str, bytes],
        marks: Marks,
        published_upto: int,
        notes: Mapping[str, str],
    ) -> Head:
        """Commits a batch and returns where the journal stands then.

        :param bodies: of all rows, by hash; those that no earlier batch has written are written before the rows
        """
        fresh = {row.body_sha256 for row in rows if row.first and row.decision is not Decision.DUPLICATE}
        self._bodies.append([(sha256, body) for sha256, body in bodies.items() if sha256 in fresh])
        crash_point("processor.before_commit")
        looked = {} if self._watch is None else self._watch.make_notes()
        committed = self._writer.commit(rows, marks, published_upto, {**self._notes(), **looked, **notes})
        crash_point("processor.after_commit")
        self.state = replace(self.state, marks=marks, next_seq=committed.last_seq + 1)
        self._lasts = {**self._lasts, **{(row.topic, row.partition): row for row in rows if row.first}}
        return Head(self.state.epoch, committed.last_seq, committed.chain, self.state.lineage)

    def close(self) -> None:
        """Stops comparing what was decided with what the source holds."""
        if self._watch is not None:
            self._watch.close()
