"""What operators do with selections: freeze, look, run, pause, approve. The processor carries a run out."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from core.clock import Clock
from core.decision import Decision
from core.location import Location
from dlq.command import (
    CANCEL_RUN,
    PAUSE_RUN,
    PER_S_MAX,
    PER_S_MIN,
    PROPOSE_RUN,
    REPLAY,
    RESUME_RUN,
    RUN,
    RUN_ACTS,
    Command,
    ReplayMode,
    Target,
    approve,
    new_command_id,
)
from dlq.command import Place as ReplayPlace
from dlq.done_alone import DoneAlone, given_since
from dlq.frozen import NEWEST, Frozen, Selection, SelectionFiles
from dlq.index import DeadLetterIndex, Filter, ItemState
from dlq.limits import AloneLimits, Hands, Volume, in_common, kind_of, same_person
from dlq.orders import Giving, Orders
from dlq.recorder import Recorder
from dlq.run import RunState, command_id_of
from dlq.selection.freeze import filter_text, gather
from dlq.selection.journal import RunItems, RunLog, why_slow
from dlq.selection.model import (
    Approval,
    ItemShown,
    Kept,
    Progress,
    Run,
    RunItemState,
    RunKept,
    RunRefused,
    SecondPersonWanted,
    SelectionsFull,
    Started,
    check_lineage,
)
from journal.reader import JournalReader

ITEMS_MAX = 1_000_000
KEPT_MAX, KEPT_ITEMS_MAX = 500, 5_000_000
"""Selections, and items of all of them: the oldest that nothing is under way of leave for a new one."""

DECIDED_S_MAX, LOOK_S = 5.0, 0.1
"""How long an order waits for its decision; what comes later is seen at the next look."""

FOLLOWED_MAX = 4
"""Runs whose items are remembered; others are followed from their beginning."""


@dataclass(frozen=True, slots=True)
class Places:
    """Of one stream: its journal, its selections in the lake, and its processor's status file."""

    journal: Location
    control_topic: str
    selections: Location
    status: Path


def why_two_people(selection: Selection, run: Run, limits: AloneLimits, before: Volume) -> str | None:
    """Why another person must approve a run; None: none need. ``before``: what its actor did alone within a day."""
    if run.propose:
        return "it was asked for a second person's approval"
    return limits.beyond(kind_of(run.action), Volume(selection.count, Counter(selection.amounts)), before)


class Selections:
    """One stream's selections. Its methods block; threads may share it."""

    def __init__(
        self,
        stream: str,
        places: Places,
        index: DeadLetterIndex,
        alone: AloneLimits,
        clock: Clock,
        orders: Orders,
        recorder: Recorder,
        hands: Hands = same_person,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stream = stream
        self._places = places
        self._index = index
        self._alone = alone
        self._clock = clock
        self._orders = orders
        self._recorder = recorder
        self._hands = hands
        self._sleep = sleep
        self._log = RunLog(places.journal, places.control_topic)
        self._lock = threading.Lock()
        self._followed: OrderedDict[str, RunItems] = OrderedDict()
        self._ordered: dict[str, RunKept] = {}
        self.files = SelectionFiles(places.selections)

    def freeze(self, wanted: Filter, actor: str, note: str = "", seen: Sequence[Target] = ()) -> Selection:
        """What is dead and matches now, under a new number: from here on nothing changes it.

        ``seen``: items as the operator saw them. One that has another row by now is frozen as it was seen, so that its
        order is refused.

        :raises SelectionEmpty, SelectionTooLarge: too little or too much matches
        :raises SelectionsFull: there is no room
        """
        wanted = replace(wanted, states=(ItemState.OPEN,))
        text = filter_text(wanted)
        with self._recorder.refusals(actor, "select", f"{self._stream} {text}", note):
            lineage, upto = self._log.lineage(), self._index.follow().seq
            as_seen = {target.item_seq: target for target in seen}
            gathered = gather(self._index.seen(wanted), ITEMS_MAX, as_seen)
            count, now = gathered.table.num_rows, self._clock.now()
            leaving = self._leaving(count)
            amounts, unknown = gathered.amounts, gathered.unknown
            selection = Selection(self._stream, now, actor, note, text, count, upto, lineage, amounts, unknown)
            made = self.files.put(Frozen(selection, gathered.table))
            for one in leaving:
                self.files.drop(one)
            after = f"{made.count} items, {text}, digest {made.digest}"
            self._recorder.record(actor, "select", f"{self._stream} {made.name}", reason=note, after=after)
            return made

    def _leaving(self, coming: int) -> list[Selection]:
        """The oldest that nothing is under way of, as many as make room for another one of so many items.

        :raises SelectionsFull: every one that is kept is still under way
        """
        kept = self.kept(limit=KEPT_MAX + 1)
        over = [one.selection for one in kept if one.run is None or one.run.finished_at is not None]
        items = sum(one.selection.count for one in kept)
        leaving: list[Selection] = []
        while len(kept) > len(leaving) and (len(kept) - len(leaving) >= KEPT_MAX or items + coming > KEPT_ITEMS_MAX):
            if not over:
                raise SelectionsFull(len(kept))
            leaving.append(over.pop())
            items -= leaving[-1].count
        return leaving

    def kept(self, before: int = NEWEST, limit: int = 100) -> list[Kept]:
        """The newest with smaller numbers than ``before``."""
        found = self.files.newest(before, limit)
        self._log.follow(self._log.reader() if found else None)
        return [Kept(one, self._run(one)) for one in found]

    def get(self, number: int) -> Kept:
        """
        :raises SelectionUnknown: it isn't there
        """
        selection = self.files.get(number)
        self._log.follow(self._log.reader())
        return Kept(selection, self._run(selection))

    def _run(self, selection: Selection) -> RunKept | None:
        """As the journal has it; what was ordered here and isn't decided yet, as it was ordered."""
        kept = self._log.of(selection.digest).kept(selection.number)
        if kept is not None:
            self._ordered.pop(selection.digest, None)
        return kept or self._ordered.get(selection.digest)

    def _begun(self, number: int) -> tuple[Selection, RunKept]:
        """
        :raises RunRefused: the selection has no run
        """
        kept = self.get(number)
        if kept.run is None:
            raise RunRefused(number, "nothing was begun with it; `payhook dlq replay`, `purge` or `resolve` does")
        return kept.selection, kept.run

    def items(
        self, number: int, states: Iterable[RunItemState] | None = None, after_place: int = -1, limit: int = 100
    ) -> list[ItemShown]:
        """Items and what became of them, behind ``after_place``.

        :raises SelectionUnknown: it isn't there
        """
        items, reader = self._follow(self.files.get(number))
        with self._lock:
            places = items.places(list(RunItemState if states is None else states))
            return items.shown(places[places > after_place][:limit].tolist(), reader)

    def why_two_people(self, number: int, run: Run, actor: str) -> str | None:
        """Why this run of a person would need another's approval; None: it needn't."""
        return why_two_people(self.files.get(number), run, self._alone, self._done_alone(run, actor))

    def _done_alone(self, run: Run, actor: str) -> Volume:
        given = partial(given_since, self._places.journal, self._places.control_topic)
        return DoneAlone(given).of(actor, kind_of(run.action), self._clock.now())

    def start(self, number: int, run: Run, actor: str) -> Started:
        """Begins the selection's one run, or proposes it where two people are needed. The same again is no second one.

        :raises RunRefused: it can't be, or another one was begun with it
        :raises CommandNotSent: Kafka didn't acknowledge it; the same again is safe
        """
        with self._orders.giving(actor, run.action, self._name(number), run.reason) as giving:
            _check(number, run)
            kept = self.get(number)
            selection = kept.selection
            check_lineage(selection, self._log.lineage())
            is_other = kept.run is not None and kept.run.run != replace(run, propose=False)
            if kept.run is not None and (is_other or selection.digest not in self._ordered):
                return self._again(kept.run, run, giving)
            two_people = why_two_people(selection, run, self._alone, self._done_alone(run, actor)) is not None
            command = self._command(selection, PROPOSE_RUN if two_people else RUN, run, actor)
            state = RunState.PROPOSED if two_people else RunState.RUNNING
            self._give(
                giving, selection, command, RunKept(number, replace(run, propose=False), actor, command.at, state)
            )
            begun = self._run(selection)
            assert begun is not None
            if begun.started_at != command.at or begun.actor != actor:
                return self._again(begun, run, giving)
            giving.changes.after = f"{selection.count} items, {begun.state.value}{run.said}"
            return Started(begun, again=False)

    def _again(self, before: RunKept, run: Run, giving: Giving) -> Started:
        if before.run != replace(run, propose=False):
            raise RunRefused(before.number, f"it was begun as a {_reported(before)}; what is left is selected again")
        giving.changes.after = f"it was begun before: {_reported(before)}"
        return Started(before, again=True)

    def approve(self, number: int, actor: str, reason: str) -> RunKept:
        """Lets a proposed run begin. The same again is no second approval.

        :raises SecondPersonWanted: it is one's own, or of somebody who could be oneself
        :raises RunRefused: nothing is proposed, or the journal was restored since
        """
        with self._orders.giving(actor, "approve", self._name(number), reason) as giving:
            check_lineage(self.files.get(number), self._log.lineage())
            selection, run = self._begun(number)
            proposed = self._log.of(selection.digest).proposed
            if run.approval is not None and (run.approval.actor, run.approval.reason) == (actor, reason):
                giving.changes.after = f"{_reported(run)}, approved before"
                return run
            if run.state is not RunState.PROPOSED:
                raise RunRefused(number, f"nothing waits for an approval: it is a {_reported(run)}, {run.state.value}")
            if same_person(run.actor) == same_person(actor):
                raise SecondPersonWanted(number, actor)
            behind = proposed.hands if proposed is not None else ()
            if in_common({*behind, *self._hands(run.actor)}, self._hands(actor)):
                raise SecondPersonWanted(number, run.actor, actor)
            if proposed is None:
                raise RunRefused(number, "the processor hasn't decided its proposal yet: approve it then")
            command = approve(proposed, actor, reason, self._clock.now(), command_id_of(selection.digest))
            self._give(giving, selection, command)
            giving.changes.after = f"{_reported(run)}, approved"
            return self._as_ordered(selection, run, RunState.RUNNING, Approval(actor, reason, command.at))

    def pause(self, number: int, actor: str, command_id: str | None = None) -> RunKept:
        """Nothing more is taken up; what is on its way goes on. ``command_id``: the same order, given again, has the
        same one, and isn't carried out again; None: it isn't given again.

        :raises RunRefused: it doesn't run
        """
        states = (RunState.RUNNING, RunState.PAUSED)
        return self._change(number, actor, PAUSE_RUN, states, RunState.PAUSED, command_id or new_command_id())

    def resume(self, number: int, actor: str, command_id: str | None = None) -> RunKept:
        """``command_id``: as of `pause`.

        :raises RunRefused: it isn't paused
        """
        states = (RunState.PAUSED, RunState.RUNNING)
        return self._change(number, actor, RESUME_RUN, states, RunState.RUNNING, command_id or new_command_id())

    def cancel(self, number: int, actor: str) -> RunKept:
        """For good: what isn't taken up stays dead as it is. A proposal is taken back so, too.

        :raises RunRefused: everything is taken up
        """
        before = (RunState.PROPOSED, RunState.RUNNING, RunState.PAUSED, RunState.CANCELLED)
        return self._change(number, actor, CANCEL_RUN, before, RunState.CANCELLED)

    def proposals(self) -> list[Kept]:
        """What waits for a second person, oldest first."""
        waiting = [one for one in self.kept(limit=KEPT_MAX) if one.run and one.run.state is RunState.PROPOSED]
        return waiting[::-1]

    def progress(self, number: int) -> Progress:
        """The run as it stands.

        :raises SelectionUnknown, RunRefused: there is no such run
        """
        selection, run = self._begun(number)
        (items, _), now = self._follow(selection), self._clock.now()
        run = items.reported.kept(number) or run
        with self._lock:
            progress = Progress(selection, run, items.counts(), items.per_s(now), None)
        if progress.finished or run.state not in (RunState.RUNNING, RunState.SENT):
            return progress
        speed = progress.per_s or run.run.per_s
        eta_s = (selection.count - progress.ended) / speed if speed else None
        return replace(progress, run=replace(run, problem=why_slow(self._places.status, now)), eta_s=eta_s)

    def _follow(self, selection: Selection) -> tuple[RunItems, JournalReader | None]:
        """A selection's items, as a journal has them; None where none was begun."""
        reader = self._log.reader()
        self._log.follow(reader)
        reported = self._log.of(selection.digest)
        with self._lock:
            items = self._followed.pop(selection.digest, None)
            if items is None or items.reported is not reported:
                items = RunItems(self.files.read(selection.digest), reported)
            items.follow(reader)
            self._followed[selection.digest] = items
            while len(self._followed) > FOLLOWED_MAX:
                self._followed.popitem(last=False)
            return items, reader

    def _change(
        self,
        number: int,
        actor: str,
        action: str,
        before: Sequence[RunState],
        after: RunState,
        command_id: str | None = None,
    ) -> RunKept:
        """``command_id``: None is the selection's."""
        verb = action.removesuffix("_run")
        with self._orders.giving(actor, verb, self._name(number), "") as giving:
            selection, run = self._begun(number)
            if self._log.of(selection.digest).was_given(action, command_id):
                giving.changes.after = f"command {command_id}"
                return run
            if run.state not in before:
                raise RunRefused(number, f"its {_reported(run)} is {run.state.value}")
            if run.state is not after:
                self._give(giving, selection, self._command(selection, action, Run("", verb), actor, command_id))
            giving.changes.after = f"{_reported(run)}: from {run.state.value} to {after.value}"
            return replace(self._as_ordered(selection, run, after), changed_by=actor)

    def _command(
        self, selection: Selection, action: str, run: Run, actor: str, command_id: str | None = None
    ) -> Command:
        hands = tuple(sorted(self._hands(actor) - same_person(actor))) if action == PROPOSE_RUN else ()
        return Command(
            command_id or command_id_of(selection.digest),
            self._stream,
            selection.lineage,
            action,
            (),
            actor,
            run.reason,
            self._clock.now(),
            mode=run.mode,
            expects=ReplayPlace.IN_PLACE if run.in_place else None,
            force=run.force,
            hands=hands,
            selection=selection.digest,
            act=run.action,
            per_s=run.per_s,
        )

    def _give(self, giving: Giving, selection: Selection, command: Command, ordered: RunKept | None = None) -> None:
        """Sends a command, and waits a little for its decision. ``ordered``: the run as it is until then.

        :raises RunRefused: the processor refused it
        """
        before = self._log.of(selection.digest).given.get(command.action)
        giving.send(command)
        if ordered is not None:
            self._ordered[selection.digest] = ordered
        for _ in range(round(DECIDED_S_MAX / LOOK_S)):
            self._log.follow(self._log.reader())
            decided = self._log.of(selection.digest).given.get(command.action)
            if decided is not None and (before is None or decided.seq != before.seq):
                if decided.decision is Decision.IGNORED:
                    self._ordered.pop(selection.digest, None)
                    raise RunRefused(selection.number, str(decided.reason))
                return
            self._sleep(LOOK_S)

    def _as_ordered(
        self, selection: Selection, run: RunKept, state: RunState, approval: Approval | None = None
    ) -> RunKept:
        """As it is by the journal once that has decided; before, as it was ordered."""
        now = self._run(selection)
        if now is not None and now.state is not run.state:
            return now
        ordered = replace(run, state=state, approval=approval or run.approval)
        if selection.digest in self._ordered:
            self._ordered[selection.digest] = ordered
        return ordered

    def _name(self, number: int) -> str:
        return f"{self._stream} s{number}"


def _check(number: int, run: Run) -> None:
    if run.action not in RUN_ACTS:
        raise RunRefused(number, f"unknown action {run.action!r}; {', '.join(RUN_ACTS)} is wanted")
    if run.action != REPLAY and run != Run(run.action, run.reason, propose=run.propose):
        raise RunRefused(number, f"mode, rate and the like are of a replay; a {run.action} has none")
    if run.per_s is not None and not PER_S_MIN <= run.per_s <= PER_S_MAX:
        raise RunRefused(number, f"a rate between {PER_S_MIN:g} and {PER_S_MAX:,.0f} items a second is wanted")
    if run.in_place and run.mode is ReplayMode.SUPERSEDED:
        raise RunRefused(number, "what is superseded has no place of its own: leave out in_place, or the mode")


def _reported(run: RunKept) -> str:
    return f"{run.run.action} by {run.actor} at {run.started_at:%Y-%m-%d %H:%M} UTC"
