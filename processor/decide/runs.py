"""Runs of selections: in each batch, as live traffic allows, the next portion of each is replayed or closed.

A run begins with one command. How far it is goes into the journal with the rows of its items, in one commit: as a row
of the command (`operations.frozen.PortionResult`) for people, and as a note for who continues after a crash.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from core.clock import Clock
from core.decision import Decision
from core.keys import join_key
from journal.errors import StorageDown, problem_of
from journal.schema import JournalRow
from operations.command import (
    CANCEL_RUN,
    PAUSE_RUN,
    PROPOSE_RUN,
    PURGE,
    RELEASE,
    REPLAY,
    RESOLVE,
    RUN,
    Command,
    Portion,
)
from operations.frozen import (
    FrozenSelection,
    ItemOrder,
    PortionResult,
    RunEnding,
    RunState,
    SelectionBroken,
    SelectionUnknown,
    command_id_of,
    command_of_row,
)
from operations.limits import Volume
from operations.refusals import ItemRefusal, older_than_restore
from processor.decide.admit import BatchLookups
from processor.decide.item import BatchItem
from processor.decide.two_people import OnePerson

log = logging.getLogger(__name__)

RUNS_NOTE = "runs"
RUNS_MAX = 20
"""Under way at a time; each is in every commit's notes."""

WINDOW_MIN, WINDOW_FIRST, WINDOW_MAX = 50, 1_000, 4_000
"""Items of all runs that are ordered and not tried yet: live traffic never waits behind more, and a run never starves
wholly."""

WINDOW_GROWTH = 1.25
BEHIND_S_MAX = 3.0
"""An event that comes now waits so long for its decision: the window is halved, else it grows."""

PORTION_S_MAX = 2.0
"""At a set rate, most that one portion holds: so many seconds' worth of items, or one entity with its followers."""

LOOKS_MAX = 5_000
"""Items of a run that are looked at in a batch, to find out whether all have ended."""

DECISIONS = {
    REPLAY: Decision.REPLAYED,
    PURGE: Decision.PURGED,
    RESOLVE: Decision.RESOLVED,
    RELEASE: Decision.RELEASED,
}
"""The decision that each act of a run makes."""


@dataclass(slots=True)
class SelectionRun:
    """A run of a selection under way. ``row``: of the command that began it. ``position``: index of the first item
    that isn't taken.

    ``looked``: items before this index have ended; ``next_s``: when a run with a rate continues, by the monotonic
    clock; both are found out again after a restart. ``makes_room``: nobody waits for its last items any more; a restart
    forgets that, and waits for them again.
    """

    row: JournalRow
    command: Command
    next_s: float
    position: int = 0
    state: RunState = RunState.RUNNING
    looked: int = 0
    order: ItemOrder | None = None
    ended: RunEnding | None = None
    makes_room: bool = False


@dataclass(frozen=True, slots=True)
class RunShare:
    run: SelectionRun
    end: int
    portion: Portion | None


Act: TypeAlias = Callable[[BatchItem, Portion | None], Sequence[BatchItem]]
"""Gives a run its row, and judges its portion like any command with these targets; returns the rows of its items."""


class RunScheduler:
    """The runs of one stream. Its state changes as rows are made: after a failed commit it must be thrown away.

    ``waits_s``: how long an event that comes now waits for its decision. ``left``, with the rows that it names: the
    runs that the process before this one left, as `make_notes` has them.
    """

    def __init__(
        self,
        lineage: str,
        known: BatchLookups,
        clock: Clock,
        waits_s: Callable[[], float],
        left: str,
    ) -> None:
        self._lineage = lineage
        self._known = known
        self._clock = clock
        self._waits_s = waits_s
        self._runs: dict[str, SelectionRun] = {}
        self._given: set[str] = set()
        self._untried: set[int] = set()
        self._window = float(WINDOW_FIRST)
        self._noted = bool(left)
        noted = json.loads(left or "[]")
        rows = known.rows_of(sorted(seq for seq, *_ in noted)) if noted else {}
        for seq, position, state in noted:
            self._take_up(rows[seq], position, RunState(state))

    def _take_up(self, row: JournalRow, position: int, state: RunState) -> None:
        command = command_of_row(row)
        run = SelectionRun(row, command, self._clock.monotonic_s(), position, state)
        if older_than_restore(command.lineage, self._lineage) is not None:
            run.ended = RunEnding.RESTORED
        self._runs[command.selection] = run

    def make_notes(self) -> dict[str, str]:
        self._noted |= bool(self._runs)
        noted = [[run.row.item_seq, run.position, run.state.value] for run in self._runs.values()]
        return {RUNS_NOTE: json.dumps(noted, separators=(",", ":"))} if self._noted else {}

    def plan_shares(self) -> list[RunShare]:
        shares = [RunShare(run, run.position, None) for run in self._runs.values() if self._is_over(run)]
        running = [run for run in self._runs.values() if run.state is RunState.RUNNING and run.ended is None]
        self._adapt_window(bool(running))
        room = int(self._window) - len(self._untried)
        for left, run in zip(range(len(running), 0, -1), running, strict=True):
            share = self._take_next_share(run, max(0, room) // left)
            if share is not None:
                shares.append(share)
                room -= share.end - run.position
        return shares

    def run_portions(self, shares: Iterable[RunShare], now: datetime, act: Act) -> None:
        for share in shares:
            run = share.run
            if share.portion is None or run.state is RunState.RUNNING:
                row = replace(
                    run.row, seq=0, first=False, decision=Decision.PORTION, decided_at=now, headers=None, reason=None
                )
                control = BatchItem(row, b"")
                accepted = act(control, share.portion)
                self._advance(share, control, {item.seq for item in accepted})

    def decide_command(self, control: BatchItem, command: Command, alone: OnePerson) -> None:
        """Decides a command about a run. A refused one holds no key: it may be given again."""
        row = control.row
        try:
            if command.action in (RUN, PROPOSE_RUN):
                why = self._begin(control, command, alone)
            elif command.action == CANCEL_RUN:
                why = self._cancel(command.selection)
            else:
                why = self._pause(command.selection, pause=command.action == PAUSE_RUN)
        except (SelectionUnknown, SelectionBroken) as unfit:
            why = str(unfit)
        if why is not None:
            row.decision, row.reason, row.event_key = Decision.IGNORED, why, None
            return
        self._given.add(row.event_key or "")
        row.decision = DECISIONS[command.act] if command.action == RUN else Decision.RESOLVED
        row.reason = command.reason

    def on_commit(self, rows: Iterable[JournalRow]) -> None:
        if self._untried:
            self._untried -= {row.item_seq for row in rows if row.decision is not Decision.REPLAYED}

    def _begin(self, control: BatchItem, command: Command, alone: OnePerson) -> str | None:
        digest, is_proposal = command.selection, command.action == PROPOSE_RUN
        frozen = self._read_selection(digest)
        selection = frozen.selection
        if (why := older_than_restore(selection.lineage, self._lineage)) is not None:
            return why
        if self._is_given(digest, RUN) or (is_proposal and self._is_given(digest, PROPOSE_RUN)):
            return "its run was begun before"
        if self._is_given(digest, CANCEL_RUN):
            return "its run was cancelled before it began"
        if is_proposal:
            return None
        if command.proposal is None and self._is_given(digest, PROPOSE_RUN):
            return "it is a proposal: another person must approve it"
        if (why := alone.find_run_refusal(command, Volume(selection.count, Counter(selection.amounts)))) is not None:
            return why
        if not self._has_room():
            return f"{RUNS_MAX} runs are under way: let one end, or cancel it"
        run = self._runs[digest] = SelectionRun(control.row, command, self._clock.monotonic_s())
        run.order = ItemOrder(frozen, command.mode)
        return None

    def _has_room(self) -> bool:
        followed = [run for run in self._runs.values() if not run.makes_room]
        if len(followed) < RUNS_MAX:
            return True
        waiting = next((run for run in followed if run.state in (RunState.SENT, RunState.CANCELLED)), None)
        if waiting is not None:
            waiting.makes_room = True
        return waiting is not None

    def _cancel(self, digest: str) -> str | None:
        run = self._runs.get(digest)
        if run is not None and run.state in (RunState.RUNNING, RunState.PAUSED):
            run.state = RunState.CANCELLED
            return None
        is_proposed = self._is_given(digest, PROPOSE_RUN) and not self._is_given(digest, RUN)
        return None if is_proposed else "there is nothing left to cancel"

    def _pause(self, digest: str, *, pause: bool) -> str | None:
        run = self._runs.get(digest)
        if run is None or run.state not in (RunState.RUNNING, RunState.PAUSED):
            return "it has no run under way that could be " + ("paused" if pause else "resumed")
        run.state = RunState.PAUSED if pause else RunState.RUNNING
        run.next_s = self._clock.monotonic_s()
        return None

    def _is_given(self, digest: str, action: str) -> bool:
        key = join_key("payhook", command_id_of(digest), action)
        return key in self._given or self._known.index.known_event(key) is not None

    def _take_next_share(self, run: SelectionRun, room: int) -> RunShare | None:
        digest, per_s = run.command.selection, run.command.per_s
        # Another one is asked first in the next batch.
        self._runs[digest] = self._runs.pop(digest)
        now_s, count = self._clock.monotonic_s(), room
        if per_s is not None:
            late_s = min(now_s - run.next_s, PORTION_S_MAX)
            count = min(room, 1 + int(late_s * per_s)) if late_s >= 0 else 0
        order = self._read_item_order(run)
        if count == 0 or order is None:
            return None
        end = order.end(run.position, count)
        if per_s is not None:
            run.next_s = max(run.next_s, now_s - PORTION_S_MAX) + (end - run.position) / per_s
        return RunShare(run, end, run.command.make_portion(order.pick_targets(run.position, end)))

    def _advance(self, share: RunShare, control: BatchItem, accepted: set[int]) -> None:
        run = share.run
        refused: tuple[ItemRefusal, ...] = ()
        if share.portion is None:
            self._runs.pop(run.command.selection, None)
        else:
            refused = _list_refused(share.portion, accepted, control)
            run.position = share.end
            if run.command.act == REPLAY:
                self._untried |= accepted
            if run.order is not None and run.position == run.order.count:
                run.state = RunState.SENT
        state = RunState.CANCELLED if run.ended is not None else run.state
        reported = PortionResult(run.position, state, refused, over=share.portion is None, ended=run.ended)
        row = control.row
        row.decision, row.reason, row.headers = Decision.PORTION, run.command.reason, reported.to_headers(row.headers)

    def _is_over(self, run: SelectionRun) -> bool:
        if run.ended is not None or run.makes_room:
            return True
        if run.state not in (RunState.SENT, RunState.CANCELLED):
            return False
        order = self._read_item_order(run)
        if order is None:
            return True
        for _ in range(LOOKS_MAX):
            if run.looked == run.position:
                return True
            item = self._known.index.open_item(order.item_seq(run.looked))
            if item is not None and item.row.decision is not Decision.DEAD:
                return False
            run.looked += 1
        return False

    def _adapt_window(self, is_running: bool) -> None:
        if not is_running:
            self._window = float(WINDOW_FIRST)
        elif self._waits_s() > BEHIND_S_MAX:
            self._window = max(float(WINDOW_MIN), self._window / 2)
        else:
            self._window = min(float(WINDOW_MAX), self._window * WINDOW_GROWTH)

    def _read_item_order(self, run: SelectionRun) -> ItemOrder | None:
        if run.order is None:
            try:
                run.order = ItemOrder(self._read_selection(run.command.selection), run.command.mode)
            except (SelectionUnknown, SelectionBroken) as unfit:
                log.error("%s", unfit)
                run.ended = RunEnding.BROKEN
        return run.order

    def _read_selection(self, digest: str) -> FrozenSelection:
        try:
            return self._known.selections(digest)
        except OSError as failed:
            raise StorageDown("a selection", digest, problem_of(failed)) from failed


def _list_refused(portion: Portion, accepted: set[int], control: BatchItem) -> tuple[ItemRefusal, ...]:
    by_item = {refusal.item_seq: refusal for refusal in control.refusals}
    return tuple(by_item[target.item_seq] for target in portion.targets if target.item_seq not in accepted)
