"""Writes the journal, as its one writer: begins an epoch, then commits batches, until someone else begins one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from deltalake.exceptions import DeltaError

from core.decision import Decision
from core.routing import Shard
from journal.append import Appender, RowsRefused, TableUnfit
from journal.errors import BatchInvalid, CommitUnknown, Fenced, JournalBroken, StorageDown, problem_of
from journal.histories import (
    LINEAGES_NOTE,
    AbandonedLineage,
    Histories,
    History,
    histories_to_json,
    read_abandoned,
    to_note,
    with_ids,
)
from journal.journals import DIVIDING_NOTE, OWN_AFTER_NOTE, SHARD_NOTE, shard_in
from journal.lake import has_table
from journal.log import AppTransaction, CommitFailed, Overtaken, last_number
from journal.reader import read_state
from journal.schema import JournalRow, commit_digest, extend_chain, stamp_rows
from journal.state import (
    PREFIX,
    STATE_NAMES,
    JournalState,
    Marks,
    check_log_end,
    check_movement,
    lasts_after,
    marks_to_json,
    with_starts,
)
from journal.storage import open_storage
from journal.table import CHECKS, create_table

EPOCH_TRIES_MAX = 20
"""A live writer wins the race for the next version whenever its commit falls between reading and writing here: about
one try in three at four commits a second."""

NOTES_CHARS_MAX = 65_536
"""Every commit carries all of them: 64 KiB four times a second is what a log that is kept for an hour can bear."""

OWNER_NOTE = "owner"
"""The note that names the process which began the epoch."""

_NOTE_NAME = re.compile(r"[a-z][a-z_]{0,31}")


@dataclass(slots=True)
class Tenure:
    """The hold of one process on a journal, from writer to writer. ``owner`` is unique; ``epoch`` is the last that
    it began.
    """

    owner: str
    epoch: int = 0

    def follow(self, path: str) -> None:
        """Lets the next epoch follow the journal's last one, whichever process began it.

        For a process that has taken the lease, and renews it once more afterwards: what a later holder begins isn't
        followed then.

        :raises StorageDown: the journal can't be reached
        :raises JournalBroken: its last entry isn't whole
        """
        try:
            version = last_number(open_storage(path))
            if version >= 0:
                self.epoch = read_state(path, version).epoch
        except (DeltaError, OSError) as failed:
            raise StorageDown("the journal", path, problem_of(failed)) from failed

    def check(self, before: JournalState, stream: str) -> None:
        """
        :raises Fenced: another process began an epoch after this process's last one
        """
        if 0 < self.epoch < before.epoch and before.notes.get(OWNER_NOTE) != self.owner:
            by = before.notes.get(OWNER_NOTE, "a command")
            raise Fenced(stream, self.epoch, f"epoch {before.epoch} was begun by {by}")


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    version: int
    first_seq: int
    last_seq: int
    chain: str


@dataclass(frozen=True, slots=True)
class LossDecision:
    """A person's decision about what was lost.

    ``rows`` have the decision ``lost``: of a range of offsets, or of an event that only its key is known of. ``marks``
    and ``start`` are whole maps; so is ``histories``, in which a topic that continues in a new history has the next
    number.
    """

    rows: Sequence[JournalRow]
    marks: Marks
    start: Marks
    histories: Histories
    generation: int
    notes: Mapping[str, str]


class JournalWriter:
    """Appends batches to one stream's journal.

    The appender is opened when the epoch begins and never refreshed. A refreshed one has seen a later epoch, and its
    next commit would be let through. All commits carry one application id, so that every commit after another writer's
    is refused, however often it is tried. A writer whose commit failed is of no further use: another one begins another
    epoch.
    """

    def __init__(self, path: str, stream: str) -> None:
        self._path = path
        self._stream = stream
        self._appender: Appender | None = None
        self._state: JournalState | None = None
        self._ended: Fenced | CommitUnknown | None = None

    @classmethod
    def create_or_open(cls, path: str, stream: str, tenure: Tenure | None = None) -> JournalWriter:
        """Opens a writer that hasn't begun yet; makes the table if there is none.

        A process whose ``tenure`` has begun never makes it: its journal is gone, not new.

        :raises JournalBroken: the table there isn't a journal, or its log ends half way
        :raises StorageDown: the place can't be reached, or the table that this process wrote isn't there now
        """
        check_log_end(path)
        try:
            if tenure is None or tenure.epoch == 0:
                create_table(path, stream)
            elif not has_table(path):
                raise StorageDown("the journal", path, "no table is there")
        except (DeltaError, OSError) as failed:
            raise StorageDown("the journal", path, problem_of(failed)) from failed
        return cls(path, stream)

    def begin_epoch(
        self,
        starts: Marks,
        tenure: Tenure | None = None,
        topic_ids: Mapping[str, str] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> JournalState:
        """Fences off every writer before this one; only then is the journal's state read, at that very version.

        ``starts`` is where partitions begin that the journal doesn't know, ``topic_ids`` the ids of topics whose
        history has none yet; ``notes`` are as those of `commit`. The commit holds no rows and no file: metadata and the
        application id alone. A process that begins another epoch after a failure passes its
        ``tenure``: it doesn't take the journal from a process that took over meanwhile. Without one it is a command's
        epoch, which no process may follow unless it has taken the lease again.

        :raises Fenced: another process took over, or other writers won every time
        :raises StorageDown: the table can't be reached or written now; another writer may try again
        :raises JournalBroken: the log or the rows contradict themselves
        """

        def next_epoch(version: int) -> JournalState:
            state = self._next_epoch(version, starts, tenure, topic_ids or {})
            return replace(state, notes=_merge_notes(state.notes, notes or {}))

        state = self._begin(next_epoch, "epoch")
        if tenure is not None:
            tenure.epoch = state.epoch
        return state

    def renew_lineage(
        self,
        at: datetime,
        reason: str,
        *,
        replaced: JournalState | None = None,
        publish_again: bool = False,
    ) -> JournalState:
        """Begins an epoch as `begin_epoch` does, and a new lineage with it: rows, marks and chain stay.

        The notes then say which lineages were given up beyond which row (`journal.histories`).

        :param replaced: the state of the journal that this one takes the place of, where that can be read: whatever
            lineages it knew, and this one doesn't, are given up whole
        :param publish_again: for rows that are lost: every dead letter is published once more, and claims are void
        :raises Fenced, StorageDown, JournalBroken: as `begin_epoch`
        """

        def renewed(version: int) -> JournalState:
            before = read_state(self._path, version)
            lineages = _given_up(before, replaced, at, reason)
            return replace(
                before,
                lineage=uuid.uuid4().hex,
                epoch=max(before.epoch, 0 if replaced is None else replaced.epoch) + 1,
                published_upto=0 if publish_again else before.published_upto,
                generation=max(before.generation, 0 if replaced is None else replaced.generation) + publish_again,
                notes={**_drop_notes(before.notes, OWNER_NOTE), LINEAGES_NOTE: to_note(lineages)},
            )

        return self._begin(renewed, "restore")

    def divide_journal(self, topic: str, part: Shard, at: datetime, lineage: str | None = None) -> JournalState:
        """Begins an epoch as the journal of one shard: of ``topic`` it continues its partitions alone, in a
        history of their own.

        :param lineage: of a journal that is a copy of another one; its own rows are those that come now
            (`journal.journals.own_after`)
        :raises Fenced: as `begin_epoch`, and where another process has made it this shard's
        :raises StorageDown, JournalBroken: as `begin_epoch`
        """

        def divided(version: int) -> JournalState:
            before = read_state(self._path, version)
            if shard_in(before.notes) == part and DIVIDING_NOTE not in before.notes:
                raise Fenced(self._stream, before.epoch, f"it is shard {part}'s journal already")
            marks, start, history = before.marks.get(topic, {}), before.start.get(topic, {}), before.history(topic)
            own_marks = {number: until for number, until in marks.items() if part.has_partition(number)}
            state = replace(
                before,
                epoch=before.epoch + 1,
                marks={**before.marks, topic: own_marks},
                start={**before.start, topic: own_marks},
                histories={**before.histories, topic: history.begin_next(history.topic_id, start, marks)},
                lasts=_lasts_at(before, {**before.marks, topic: own_marks}),
                notes=_drop_notes(before.notes, DIVIDING_NOTE, OWNER_NOTE) | {SHARD_NOTE: str(part)},
            )
            return state if lineage is None else _as_copy(state, lineage, part, at)

        return self._begin(divided, "split")

    def _begin(self, next_state: Callable[[int], JournalState], kind: str) -> JournalState:
        if self._appender is not None:
            raise BatchInvalid("this writer has begun its epoch; another one takes another writer")
        problem = "no try was made"
        for _ in range(EPOCH_TRIES_MAX):
            try:
                appender = Appender.open(self._path, checks=CHECKS)
                version = self._write(appender, None, next_state(appender.version), {"payhook.kind": kind})
            except Overtaken as refused:
                problem = problem_of(refused)
                continue
            except TableUnfit as unfit:
                raise JournalBroken(self._path, unfit.problem) from unfit
            except (CommitFailed, DeltaError, OSError) as failed:
                raise StorageDown("the journal", self._path, problem_of(failed)) from failed
            self._appender = appender
            self._state = read_state(self._path, version)
            return self._state
        raise Fenced(self._stream, 0, problem)

    def _next_epoch(
        self, version: int, starts: Marks, tenure: Tenure | None, topic_ids: Mapping[str, str]
    ) -> JournalState:
        before = read_state(self._path, version)
        if tenure is not None:
            tenure.check(before, self._stream)
        return replace(
            before,
            lineage=before.lineage or uuid.uuid4().hex,
            epoch=before.epoch + 1,
            marks=with_starts(before.marks, starts),
            start=with_starts(before.start, starts),
            histories=with_ids(before.histories, topic_ids),
            notes=_drop_notes(before.notes, OWNER_NOTE) | ({} if tenure is None else {OWNER_NOTE: tenure.owner}),
        )

    def commit(
        self,
        rows: Sequence[JournalRow],
        marks: Marks,
        published_upto: int,
        notes: Mapping[str, str] | None = None,
    ) -> CommittedBatch:
        """Commits a batch whole, in one commit; ``rows`` are in seq order and get epoch, batch and hash.

        ``marks`` is the full map after the batch. ``notes`` are small texts by name (lower case) that replace those of
        the same name; the others are carried forward, into later epochs too. After `Fenced` or `CommitUnknown` every
        further call raises it again.

        :raises BatchInvalid: seq or offsets aren't contiguous, a note is too large, or a row breaks a constraint;
            nothing was written
        :raises Fenced: another writer took over; nothing was written, and the process must end
        :raises CommitUnknown: it may or may not be written: only another writer's epoch shows which
        """
        appender, before = self._require_begun()
        table, state = self._stamp_batch(before, rows, marks, published_upto)
        state = replace(state, notes=_merge_notes(state.notes, notes or {}))
        version = self._put(appender, table, state, {"payhook.batch_seq": str(rows[0].seq)})
        return CommittedBatch(version, rows[0].seq, rows[-1].seq, state.chain)

    def commit_loss_decision(self, turn: LossDecision) -> JournalState:
        """Commits a person's decision about what was lost: rows that say it, and where the next histories begin.

        :raises BatchInvalid: the rows don't follow, or a range of offsets doesn't begin at its mark
        :raises Fenced, CommitUnknown: as `commit`
        """
        appender, before = self._require_begun()
        _check_loss_decision(turn, before)
        table = stamp_rows(turn.rows, before.epoch, before.next_seq) if turn.rows else None
        digest = commit_digest(row.row_hash for row in turn.rows)
        state = replace(
            before,
            next_seq=before.next_seq + len(turn.rows),
            marks=turn.marks,
            start=turn.start,
            histories=turn.histories,
            generation=turn.generation,
            published_upto=0,
            lasts=_lasts_at(before, turn.marks),
            chain=extend_chain(before.chain, digest) if turn.rows else before.chain,
            row_hash=turn.rows[-1].row_hash if turn.rows else before.row_hash,
            notes=_merge_notes(before.notes, turn.notes),
        )
        extra = {"payhook.batch_seq": str(before.next_seq)} if turn.rows else {"payhook.kind": "turn"}
        return replace(state, version=self._put(appender, table, state, extra))

    def _require_begun(self) -> tuple[Appender, JournalState]:
        if self._ended is not None:
            raise self._ended
        if self._appender is None or self._state is None:
            raise BatchInvalid("no epoch was begun")
        return self._appender, self._state

    def _put(self, appender: Appender, table: pa.Table | None, state: JournalState, extra: dict[str, str]) -> int:
        self._ended = CommitUnknown(self._stream, "the last commit didn't come back")
        try:
            version = self._write(appender, table, state, extra)
        except RowsRefused as refused:
            self._ended = None
            raise BatchInvalid(refused.problem) from refused
        except Overtaken as refused:
            self._ended = Fenced(self._stream, state.epoch, problem_of(refused))
            raise self._ended from refused
        except Exception as failed:
            self._ended = CommitUnknown(self._stream, problem_of(failed))
            raise self._ended from failed
        self._ended = None
        self._state = replace(state, version=version)
        return version

    def _stamp_batch(
        self, state: JournalState, rows: Sequence[JournalRow], marks: Marks, published_upto: int
    ) -> tuple[pa.Table, JournalState]:
        if not rows or [row.seq for row in rows] != list(range(state.next_seq, state.next_seq + len(rows))):
            raise BatchInvalid(f"seq {state.next_seq} is next, the rows begin with {[row.seq for row in rows[:3]]}")
        check_movement(rows, state.marks, marks)
        table = stamp_rows(rows, state.epoch, state.next_seq)
        after = replace(
            state,
            next_seq=rows[-1].seq + 1,
            marks=marks,
            published_upto=max(published_upto, state.published_upto),
            chain=extend_chain(state.chain, commit_digest(row.row_hash for row in rows)),
            row_hash=rows[-1].row_hash,
            lasts=lasts_after(state.lasts, rows),
        )
        return table, after

    def _write(self, appender: Appender, table: pa.Table | None, state: JournalState, extra: dict[str, str]) -> int:
        seq = state.next_seq - 1
        metadata = {
            "payhook.stream": self._stream,
            "payhook.epoch": str(state.epoch),
            "payhook.seq": str(seq),
            "payhook.marks": marks_to_json(state.marks),
            "payhook.start": marks_to_json(state.start),
            "payhook.chain": state.chain,
            "payhook.published_upto": str(state.published_upto),
            "payhook.lineage": state.lineage,
            "payhook.row_hash": state.row_hash,
            "payhook.generation": str(state.generation),
            "payhook.histories": histories_to_json(state.histories),
            "payhook.lasts": marks_to_json(state.lasts),
        } | {PREFIX + name: text for name, text in state.notes.items()}
        # What counts is the application id, not the version: any later commit under this one is a conflict.
        return appender.append(table, AppTransaction(f"payhook-{self._stream}", seq), metadata | extra)


def _lasts_at(before: JournalState, marks: Marks) -> Marks:
    """Keeps the last rows of partitions that continue where they were, so that Kafka's records are still compared with
    them.
    """
    return {
        topic: {number: seq for number, seq in lasts.items() if marks[topic].get(number) == before.marks[topic][number]}
        for topic, lasts in before.lasts.items()
    }


def _drop_notes(notes: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in notes.items() if name not in names}


def _is_new(topic: str, turn: LossDecision, before: JournalState) -> bool:
    return turn.histories.get(topic, History()).number != before.history(topic).number


def _check_loss_decision(turn: LossDecision, before: JournalState) -> None:
    if [row.seq for row in turn.rows] != list(range(before.next_seq, before.next_seq + len(turn.rows))):
        raise BatchInvalid(f"seq {before.next_seq} is next")
    for row in turn.rows:
        if row.decision is not Decision.LOST:
            raise BatchInvalid(f"row {row.seq} says {row.decision}, only what was lost is written here")
        if row.first and row.offset != before.marks[row.topic].get(row.partition, 0):
            raise BatchInvalid(f"{row.topic}[{row.partition}]: offset {row.offset} isn't next")
    moved = [topic for topic in turn.marks if turn.marks[topic] != before.marks.get(topic)]
    if same := [topic for topic in moved if not _is_new(topic, turn, before)]:
        raise BatchInvalid(f"the marks of {same[:3]} move within their history")


def _given_up(before: JournalState, replaced: JournalState | None, at: datetime, reason: str) -> list[AbandonedLineage]:
    own_lineages = read_abandoned(before.notes)
    known = {before.lineage, *(earlier.lineage for earlier in own_lineages)}
    others: dict[str, None] = {}
    if replaced is not None:
        others = dict.fromkeys([*(earlier.lineage for earlier in read_abandoned(replaced.notes)), replaced.lineage])
    strange = [AbandonedLineage(lineage, 0, at, reason) for lineage in others if lineage not in known]
    return [*own_lineages, *strange, AbandonedLineage(before.lineage, before.next_seq - 1, at, reason)]


def _as_copy(state: JournalState, lineage: str, part: Shard, at: datetime) -> JournalState:
    seq = state.next_seq - 1
    lineages = _given_up(state, None, at, f"shard {part}")
    notes = {**state.notes, OWN_AFTER_NOTE: str(seq), LINEAGES_NOTE: to_note(lineages)}
    return replace(state, lineage=lineage, published_upto=seq, notes=notes)


def _merge_notes(before: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, str]:
    wrong = sorted(name for name in notes if name in STATE_NAMES or not _NOTE_NAME.fullmatch(name))
    if wrong:
        raise BatchInvalid(f"notes must have names of their own, in lower case: {wrong[:3]}")
    after = {**before, **notes}
    size = sum(len(text) for text in after.values())
    if size > NOTES_CHARS_MAX:
        raise BatchInvalid(f"the notes {sorted(after)[:5]} have {size} characters, {NOTES_CHARS_MAX} are the most")
    return after
