"""Reads from the journal how each run stands, what became of each of its items, and what a run waits for."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.clock import to_micros
from core.decision import Decision
from core.keys import join_key
from core.location import Location
from core.status_file import fresh_status, moment_of
from journal.histories import ReflectedPosition
from journal.lake import has_table, open_table
from journal.reader import JournalFollower, JournalReader, lineage_of, read_rows
from journal.schema import JournalRow, from_arrow
from journal.target import ItemTarget
from operations.command import CANCEL_RUN, PAUSE_RUN, PROPOSE_RUN, RESUME_RUN, RUN, RUN_ACTIONS, Command
from operations.done_alone import given_since
from operations.frozen import FrozenSelection, PortionResult, RunEnding, RunState, Selection, command_of_row, run_entity
from operations.refusals import ItemRefusal
from operations.selection.model import (
    ENDED,
    ON_THEIR_WAY,
    STATE_OF,
    Approval,
    ItemShown,
    RunItemState,
    RunKept,
    RunRequest,
)

SLOWED_S_MIN = 3.0
"""The same as `processor.decide.runs.BEHIND_S_MAX`: a stream that is further behind takes less of a run."""

SPEED_S = 10.0
"""The latest seconds, over which the items that ended are counted."""

_WHY_ENDED = {
    RunEnding.RESTORED: "the journal was restored since it began: list the events and select again",
    RunEnding.BROKEN: "its selection isn't there any more, or was changed: select again",
}
_COLUMNS = ("item_seq", "first", "decision", "cause_seq", "decided_at")
_STATES = tuple(RunItemState)
_NUMBER = {state: number for number, state in enumerate(_STATES)}
_TAKEN = frozenset({Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED, Decision.RELEASED})


@dataclass(slots=True)
class RunProgress:
    """The progress of a selection's run, folded from the rows of its commands. ``proposed`` and ``begun``: those
    commands, once they were accepted. ``portions``: the seqs of the rows that caused its items'. ``given``: the last
    decision of every kind of command about it."""

    proposed: Command | None = None
    begun: Command | None = None
    state: RunState = RunState.PROPOSED
    first_seq: int = 0
    portions: set[int] = field(default_factory=set)
    refused: dict[int, tuple[int, ItemRefusal]] = field(default_factory=dict)
    ended: RunEnding | None = None
    changed_by: str | None = None
    finished_at: datetime | None = None
    given: dict[str, JournalRow] = field(default_factory=dict)

    def take_row(self, row: JournalRow) -> None:
        if row.decision is Decision.PORTION:
            self._advance(row, PortionResult.of_headers(row.headers))
            return
        action = row.event_type or ""
        if row.decision is not Decision.DUPLICATE:
            self.given[action] = row
        if row.decision in (Decision.IGNORED, Decision.DUPLICATE):
            return
        if action == PROPOSE_RUN:
            self.proposed = command_of_row(row)
        elif action == RUN:
            self.begun, self.state, self.first_seq = command_of_row(row), RunState.RUNNING, row.seq
        elif action in CHANGES:
            self.state, self.changed_by = CHANGES[action], row.actor
            if self.begun is None:
                self.finished_at = row.decided_at

    def was_given(self, action: str, command_id: str | None) -> bool:
        last = self.given.get(action)
        return last is not None and command_id is not None and last.event_key == join_key("payhook", command_id, action)

    def _advance(self, row: JournalRow, reported: PortionResult) -> None:
        self.state, self.ended = reported.state, reported.ended
        self.portions.add(row.seq)
        self.refused |= {refusal.item_seq: (row.seq, refusal) for refusal in reported.refused}
        if reported.over:
            self.finished_at = row.decided_at

    def describe_run(self, number: int) -> RunKept | None:
        first = self.proposed or self.begun
        if first is None:
            return None
        approval = None
        if self.begun is not None and self.begun.proposal is not None:
            approval = Approval(self.begun.actor, self.begun.reason, self.begun.at)
        return RunKept(
            number,
            run_of(first),
            first.actor,
            first.at,
            self.state,
            approval,
            None if self.ended is None else _WHY_ENDED[self.ended],
            self.changed_by,
            self.finished_at,
        )


CHANGES = {PAUSE_RUN: RunState.PAUSED, RESUME_RUN: RunState.RUNNING, CANCEL_RUN: RunState.CANCELLED}
"""The state of a run after each command that changes it."""


def run_of(command: Command) -> RunRequest:
    return RunRequest(
        command.act,
        command.reason,
        command.mode,
        command.per_s,
        force=command.force,
    )


class RunLog(JournalFollower):
    """Follows one stream's journal: the rows of commands about runs. Threads may share it.

    ``ordered``: by digest, runs that were ordered here and aren't decided yet, as they were ordered.
    """

    what = "the log of runs"

    def __init__(self, journal: Location, control_topic: str) -> None:
        self._path = str(journal)
        self._control_topic = control_topic
        self._lock = threading.Lock()
        self._position = ReflectedPosition("", 0, "")
        self._runs: dict[str, RunProgress] = {}
        self.ordered: dict[str, RunKept] = {}

    def lineage(self) -> str:
        return lineage_of(self._path)

    def follow(self) -> JournalReader | None:
        """Takes in what the journal has gained, and returns it as it is now; None if none was begun."""
        if not has_table(self._path):
            return None
        with self._lock:
            journal = JournalReader(self._path)
            self.follow_journal(journal)
        return journal

    @property
    def position(self) -> ReflectedPosition:
        return self._position

    def begin_again(self, journal: JournalReader) -> None:  # noqa: ARG002 - its position names no lineage
        self._runs, self._position = {}, ReflectedPosition("", 0, "")

    def take_windows(self, journal: JournalReader) -> Iterator[None]:
        last = journal.last_seq
        if last > self._position.seq:
            for row in self._rows(journal.version, self._position.seq):
                self._runs.setdefault(row.entity_key or "", RunProgress()).take_row(row)
            self._position = ReflectedPosition("", last, journal.row_hash_at(last) or "")
            yield

    def find_progress(self, digest: str) -> RunProgress:
        with self._lock:
            return self._runs.get(run_entity(digest)) or RunProgress()

    def find_run(self, selection: Selection) -> RunKept | None:
        """Returns the run as the journal has it; before it is decided, as it was ordered here. None: nothing was
        begun."""
        kept = self.find_progress(selection.digest).describe_run(selection.number)
        if kept is not None:
            self.ordered.pop(selection.digest, None)
        return kept or self.ordered.get(selection.digest)

    def commands_since(self, since: datetime) -> list[JournalRow]:
        return given_since(self._path, self._control_topic, since)

    def _rows(self, version: int, after: int) -> list[JournalRow]:
        # By the topic first: statistics pass over every file and row group that holds no command.
        is_command = (pc.field("topic") == self._control_topic) & (pc.field("seq") > after)
        wanted = is_command & pc.field("event_type").isin(pa.array(sorted(RUN_ACTIONS), pa.string()))
        return from_arrow(read_rows(open_table(self._path, version=version), wanted).sort_by("seq"))


class RunItems:
    """The states of a run's items. An item begins by a portion of this run, and moves on until it ends; what comes
    after that doesn't count."""

    def __init__(self, frozen: FrozenSelection, reported: RunProgress) -> None:
        self.reported = reported
        self._frozen = frozen
        self._seqs = frozen.item_seqs
        self._states = np.zeros(len(self._seqs), "u1")
        self._rows = np.zeros(len(self._seqs), "i8")
        self._refused = 0
        self._upto: int | None = None
        self._ended_at: deque[int] = deque()

    def follow(self, reader: JournalReader | None) -> None:
        if reader is None or self.reported.begun is None:
            return
        for table in reader.tables_after(self._upto or self.reported.first_seq, _COLUMNS):
            self._upto = table["seq"][-1].as_py()
            later = table.filter(pc.invert(table["first"]))
            seqs = later["item_seq"].to_numpy()
            places = self._locate_items(seqs)
            mine = self._seqs[places] == seqs
            later = later.filter(pa.array(mine))
            seqs, words, causes = (later[name].to_pylist() for name in ("seq", "decision", "cause_seq"))
            at = later["decided_at"].cast(pa.int64()).to_pylist()
            for row in zip(places[mine].tolist(), seqs, words, causes, at, strict=True):
                self._take_row(*row)
        fresh = list(self.reported.refused.items())[self._refused :]
        for item_seq, (seq, _) in fresh:
            place = int(self._locate_items(np.array([item_seq]))[0])
            self._states[place], self._rows[place] = _NUMBER[RunItemState.REFUSED], seq
        self._refused += len(fresh)

    def _locate_items(self, seqs: np.ndarray) -> np.ndarray:
        places: np.ndarray = np.minimum(np.searchsorted(self._seqs, seqs), len(self._seqs) - 1)
        return places

    def _take_row(self, place: int, seq: int, word: str, cause_seq: int | None, decided_at: int) -> None:
        decision = Decision(word)
        state = STATE_OF.get(decision)
        is_mine = cause_seq in self.reported.portions and decision in _TAKEN
        if state is None or (_STATES[self._states[place]] not in ON_THEIR_WAY and not is_mine):
            return
        self._states[place], self._rows[place] = _NUMBER[state], seq
        if state in ENDED:
            self._ended_at.append(decided_at)

    def count_states(self) -> dict[RunItemState, int]:
        counted = Counter(dict(enumerate(np.bincount(self._states, minlength=len(_STATES)).tolist())))
        return {_STATES[number]: count for number, count in sorted(counted.items()) if count}

    def per_s(self, now: datetime) -> float | None:
        since = to_micros(now) - SPEED_S * 1_000_000
        while self._ended_at and self._ended_at[0] < since:
            self._ended_at.popleft()
        return len(self._ended_at) / SPEED_S if self._ended_at else None

    def show_items(self, places: Sequence[int], reader: JournalReader | None) -> list[ItemShown]:
        seqs = sorted({int(self._rows[place]) for place in places} - {0} - self.reported.portions)
        reasons = {} if reader is None else {row.seq: row.reason for row in reader.rows_of(seqs)}
        targets = self._frozen.pick_targets(places)
        return [self._show_item(place, target, reasons) for place, target in zip(places, targets, strict=True)]

    def _show_item(self, place: int, target: ItemTarget, reasons: Mapping[int, str | None]) -> ItemShown:
        state, seq = _STATES[self._states[place]], int(self._rows[place]) or None
        refused = state is RunItemState.REFUSED
        reason = self.reported.refused[target.item_seq][1].why_refused if refused else reasons.get(seq or 0)
        return ItemShown(place, target, state, seq, reason)

    def find_in_states(self, states: Sequence[RunItemState]) -> np.ndarray:
        places: np.ndarray = np.flatnonzero(np.isin(self._states, [_NUMBER[state] for state in states]))
        return places


def why_slow(reported: Mapping[str, Any] | None, now: datetime) -> str | None:
    if reported is None or moment_of(reported, "at") is None:
        return "no processor reports its status: see `payhook status`"
    if fresh_status(reported, now) is None:
        return f"waits: the processor's last status is of {reported['at']}"
    if reported.get("blocked"):
        return f"waits: the stream is blocked: {reported['blocked']}"
    if not reported.get("ready"):
        return "waits: the processor isn't ready"
    behind_s = _behind_s(reported)
    return f"slowed: live traffic waits {behind_s:.1f} s" if behind_s > SLOWED_S_MIN else None


def _behind_s(reported: Mapping[str, Any]) -> float:
    catch_up = reported.get("catch_up", {})
    waiting = float(catch_up.get("recover_s") or 0.0) if catch_up.get("behind") else 0.0
    return float(reported.get("batch_s", 0.0)) + waiting
