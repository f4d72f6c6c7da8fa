"""Numbers a batch's rows, commits them, and lets all that is derived from them follow by seq.

Bodies are written first, then rows, marks and notes in one commit: the only point at which anything is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from core.crash import crash_point
from core.decision import Decision
from core.errors import PayhookError
from journal.anchors import Anchoring, Head, Unanchored
from journal.bodies import BodyStore
from journal.errors import StreamRefused
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.snapshots import Snapshots
from journal.state import JournalState, Marks
from journal.writer import JournalWriter
from processor.decide.item import BatchItem
from processor.history.check import DecidedPosition, HistoryWatch

CLOSE_S_MAX = 5.0


def assign_item_seqs(decided: Sequence[BatchItem]) -> int:
    """Gives new items their final seqs: the rows of events that were handled again come before theirs.

    :returns: by how many seqs they moved
    """
    count = sum(not item.is_new for item in decided)
    for item in decided:
        if item.is_new:
            item.row.item_seq += count
    return count


def number_rows(
    decided: Sequence[BatchItem],
    commands: Sequence[BatchItem],
    ordered: Sequence[BatchItem],
    next_seq: int,
    now: datetime,
) -> list[BatchItem]:
    """Numbers the rows of this batch and returns their items, in seq order.

    Events handled again come first, then the new offsets in Kafka's order, so that an entity's rows follow one another
    as its events do. What commands did to items (``ordered``) comes last.
    """
    again = [item for item in decided if not item.is_new]
    new = sorted([*(item for item in decided if item.is_new), *commands], key=lambda item: item.seq)
    every = [*again, *new, *ordered]
    for seq, item in enumerate(every, next_seq):
        item.row.seq = seq
        item.row.decided_at = now
    for item in every:
        if item.cause is not None:
            item.row.cause_seq = item.cause.row.seq
    return every


class Journal:
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
        """Returns how far it has decided; may be asked from any thread."""
        state, lasts = self.state, self._lasts
        return DecidedPosition(state.next_seq - 1, state, lasts)

    @property
    def history_refusal(self) -> StreamRefused | None:
        return None if self._watch is None else self._watch.refusal

    @property
    def by_range(self) -> list[str]:
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
        if self._watch is not None:
            self._watch.close()


class IndexBehind(PayhookError):
    """The index doesn't reflect the last committed row: deciding by it could decide twice."""

    def __init__(self, index_seq: int, journal_seq: int) -> None:
        self.index_seq = index_seq
        self.journal_seq = journal_seq
        super().__init__(f"the index is at seq {index_seq}, the journal at {journal_seq}; restart to let it catch up")


class DerivedTable(Protocol):
    """A table that follows a journal's rows by seq, made by its class's ``open(path)``.

    Before an epoch begins, its class's ``check(path, reader)`` raises `StreamRefused` if the table is ahead of its
    journal.
    """

    def catch_up(self, reader: JournalReader) -> None: ...
    def follow(self, rows: Sequence[JournalRow]) -> None: ...


class DeadLetterPublisher(Protocol):
    """The DLQ topic's publisher; never blocks the caller."""

    @property
    def published_upto(self) -> int: ...
    @property
    def unacknowledged(self) -> int: ...
    @property
    def waiting_s(self) -> float: ...
    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None: ...
    def on_passed(self, seq: int) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...


class Derived:
    """Everything that is made of a stream's rows: ``followers`` are tables; ``on_decided`` gets what each commit
    decided.
    """

    def __init__(
        self,
        index: Index,
        followers: Sequence[DerivedTable],
        dead_letters: DeadLetterPublisher,
        anchors: Anchoring | None = None,
        on_decided: Callable[[Sequence[BatchItem]], None] = lambda items: None,
        snapshots: Snapshots | None = None,
    ) -> None:
        self.index = index
        self._snapshots = snapshots
        self.dead_letters = dead_letters
        self.anchors = anchors or Unanchored()
        self._followers = followers
        self._on_decided = on_decided

    def check(self, seq: int) -> None:
        """
        :raises IndexBehind: the index isn't where the journal is
        """
        if self.index.seq != seq:
            raise IndexBehind(self.index.seq, seq)

    def follow(self, items: Sequence[BatchItem], bodies: Mapping[str, bytes], head: Head) -> None:
        rows = [item.row for item in items]
        self.index.apply_rows(rows, bodies)
        crash_point("processor.after_index")
        for follower in self._followers:
            follower.follow(rows)
        crash_point("processor.after_postings")
        dead = [(row, bodies.get(row.body_sha256 or "", b"")) for row in rows if row.decision is Decision.DEAD]
        self.dead_letters.publish(dead)
        self.dead_letters.on_passed(head.seq)
        crash_point("processor.after_dlq")
        self._on_decided(items)
        self.anchors.on_commit(head)

    def poll(self) -> None:
        self.dead_letters.poll()
        self.anchors.poll()

    def close(self, timeout_s: float) -> None:
        """Gives dead letters and anchors so long to be sent, then frees the index for the next writer."""
        self.dead_letters.close(timeout_s)
        self.anchors.close(timeout_s)
        if self._snapshots is not None:
            self._snapshots.close()
        self.index.close()
