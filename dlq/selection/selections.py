"""What operators do with selections: freeze, look, run, pause, approve. It sends nothing: `runner.py` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.clock import Clock
from dlq.commands import PURGE, REPLAY, RESOLVE, ReplayMode, Target
from dlq.done_alone import DoneAlone
from dlq.hands import Hands, in_common, same_person
from dlq.index import DeadLetterIndex, Filter, ItemState
from dlq.limits import AloneLimits, Volume, kind_of
from dlq.recorder import Log, Recorder, Unrecorded
from dlq.selection import runs, store
from dlq.selection.errors import RunRefused, SecondPersonWanted, check_lineage
from dlq.selection.file import SelectionFile
from dlq.selection.freeze import Frozen, filter_text, freeze, gather
from dlq.selection.lines import lined_up
from dlq.selection.model import (
    ENDED,
    Approval,
    ItemShown,
    Kept,
    Progress,
    Run,
    RunItemState,
    RunKept,
    RunState,
    Selection,
    Started,
)
from dlq.selection.outcomes import Outcomes
from dlq.selection.pace import chunk_items
from dlq.settings import SelectionSettings

RUN_ACTIONS = (REPLAY, PURGE, RESOLVE)
PER_S_MAX = 100_000.0
PER_S_MIN = 0.01
NEWEST = 2**62


def why_two_people(selection: Selection, run: Run, limits: AloneLimits, before: Volume) -> str | None:
    """Why another person must approve a run; None: none need. ``before``: what its actor did alone within a day."""
    if run.propose:
        return "it was asked for a second person's approval"
    return limits.beyond(kind_of(run.action), Volume(selection.count, Counter(selection.amounts)), before)


class Selections:
    """One stream's selections. Its methods block; threads and processes may share the file."""

    def __init__(
        self,
        stream: str,
        file: SelectionFile,
        board: DeadLetterIndex,
        outcomes: Outcomes,
        settings: SelectionSettings,
        alone: AloneLimits,
        clock: Clock,
        log: Log | None = None,
        channel: str = "cli",
        hands: Hands = same_person,
    ) -> None:
        self._stream = stream
        self._hands = hands
        self._file = file
        self._board = board
        self._outcomes = outcomes
        self._settings = settings
        self._alone = alone
        self._clock = clock
        self._recorder = Recorder(log or Unrecorded(), clock, channel)

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
            lineage, upto = self._outcomes.lineage(), self._board.follow().seq
            as_seen = {target.item_seq: target for target in seen}
            gathered = gather(self._board.seen(wanted), self._settings.items_max, as_seen)
            frozen = Frozen(self._stream, self._clock.now(), actor, note, text, upto, lineage)

            def on_frozen(made: Selection) -> None:
                after = f"{made.count} items, {text}, digest {made.digest}"
                self._recorder.record(actor, "select", f"{self._stream} {made.name}", reason=note, after=after)

            return freeze(self._file, gathered, frozen, self._settings, on_frozen)

    def kept(self, before: int = NEWEST, limit: int = 100) -> list[Kept]:
        """The newest with smaller numbers than ``before``."""
        if not self._file.there:
            return []
        with self._file.reading() as db:
            return [Kept(one, runs.find(db, one.number)) for one in store.newest(db, before, limit)]

    def get(self, number: int) -> Kept:
        """
        :raises SelectionUnknown: it isn't there
        """
        with self._file.reading() as db:
            return Kept(store.read(db, number), runs.find(db, number))

    def items(
        self, number: int, states: Iterable[RunItemState] | None = None, after_place: int = -1, limit: int = 100
    ) -> list[ItemShown]:
        """Items and what became of them, behind ``after_place``.

        :raises SelectionUnknown: it isn't there
        """
        with self._file.reading() as db:
            store.read(db, number)
            return store.shown(db, number, states, after_place, limit)

    def why_two_people(self, number: int, run: Run, actor: str) -> str | None:
        """Why this run of a person would need another's approval; None: it needn't."""
        before = self._done_alone(run, actor)
        with self._file.reading() as db:
            return why_two_people(store.read(db, number), run, self._alone, before)

    def _done_alone(self, run: Run, actor: str) -> Volume:
        return DoneAlone(self._outcomes.given_since).of(actor, kind_of(run.action), self._clock.now())

    def start(self, number: int, run: Run, actor: str) -> Started:
        """Begins the selection's one run, or proposes it where two people are needed. The same again is no second one.

        :raises RunRefused: it can't be, or another one was begun with it
        """
        with self._recorder.refusals(actor, run.action, self._name(number), run.reason):
            _check(number, run)
            upto, lines, lineage = self._outcomes.last_seq(), self._lines(number, run), self._outcomes.lineage()
            alone = self._done_alone(run, actor)
            with self._file.writing() as db:
                selection, before = store.read(db, number), runs.find(db, number)
                if before is not None:
                    if before.run != run:
                        raise RunRefused(number, f"it was begun as a {_told(before)}; what is left is selected anew")
                    self._record(number, actor, run.action, run.reason, f"it was begun before: {_told(before)}")
                    return Started(before, again=True)
                check_lineage(selection, lineage)
                kept = self._new(selection, run, actor, alone)
                runs.insert(db, kept, upto)
                runs.line_up(db, number, lines)
                after = f"{selection.count} items, {kept.state.value}{run.said}"
                self._record(number, actor, run.action, run.reason, after)
                return Started(kept, again=False)

    def _lines(self, number: int, run: Run) -> list[tuple[int, int, int]]:
        """Turns of a run that takes followers along: of an entity all items in one command; else none of its own."""
        if run.mode is not ReplayMode.WITH_FOLLOWERS:
            return []
        with self._file.reading() as db:
            count = store.read(db, number).count
            item_seqs = [target.item_seq for target in store.targets(db, number, 0, count)]
        entities = {seq: item.entity_key for seq, item in self._board.look_up(item_seqs).items()}
        return lined_up(item_seqs, entities)

    def _new(self, selection: Selection, run: Run, actor: str, alone: Volume) -> RunKept:
        two_people = why_two_people(selection, run, self._alone, alone) is not None
        return RunKept(
            number=selection.number,
            run=run,
            actor=actor,
            started_at=self._clock.now(),
            state=RunState.PROPOSED if two_people else RunState.RUNNING,
            two_people=two_people,
            command_items=chunk_items(run.per_s, self._settings),
            hands=self._hands(actor) - same_person(actor),
        )

    def approve(self, number: int, actor: str, reason: str) -> RunKept:
        """Lets a proposed run begin.

        :raises SecondPersonWanted: it is one's own, or of somebody who could be oneself
        :raises RunRefused: nothing is proposed, or the journal was restored since
        """
        lineage = self._outcomes.lineage()
        with self._recorder.refusals(actor, "approve", self._name(number), reason), self._file.writing() as db:
            selection, run = store.read(db, number), runs.read(db, number)
            check_lineage(selection, lineage)
            if run.state is not RunState.PROPOSED:
                raise RunRefused(number, f"nothing waits for an approval: it is a {_told(run)}, {run.state.value}")
            if same_person(run.actor) == same_person(actor):
                raise SecondPersonWanted(number, actor)
            if in_common({*run.hands, *self._hands(run.actor)}, self._hands(actor)):
                raise SecondPersonWanted(number, run.actor, actor)
            runs.approve(db, number, Approval(actor, reason, self._clock.now()))
            self._record(number, actor, "approve", reason, f"{_told(run)}, approved")
            return runs.read(db, number)

    def pause(self, number: int, actor: str) -> RunKept:
        """Nothing more is sent; what is on its way goes on.

        :raises RunRefused: it doesn't run
        """
        return self._change(number, actor, "pause", (RunState.RUNNING, RunState.PAUSED), RunState.PAUSED)

    def resume(self, number: int, actor: str) -> RunKept:
        """
        :raises RunRefused: it isn't paused
        """
        return self._change(number, actor, "resume", (RunState.PAUSED, RunState.RUNNING), RunState.RUNNING)

    def cancel(self, number: int, actor: str) -> RunKept:
        """For good: what isn't sent stays dead as it is. A proposal is taken back so, too.

        :raises RunRefused: everything is sent
        """
        before = (RunState.PROPOSED, RunState.RUNNING, RunState.PAUSED, RunState.CANCELLED)
        return self._change(number, actor, "cancel", before, RunState.CANCELLED)

    def proposals(self) -> list[Kept]:
        """What waits for a second person, oldest first."""
        if not self._file.there:
            return []
        with self._file.reading() as db:
            return [Kept(store.read(db, run.number), run) for run in runs.proposed(db)]

    def progress(self, number: int) -> Progress:
        """The run as it stands by what of the journal was followed; follows it first where nobody runs it.

        :raises SelectionUnknown, RunRefused: there is no such run
        """
        now = self._clock.now()
        progress = self._progress(number, now.timestamp())
        if progress.held is None and progress.run.finished_at is None:
            self._outcomes.follow(number, now)
            progress = self._progress(number, now.timestamp())
        return progress

    def _progress(self, number: int, now_s: float) -> Progress:
        with self._file.reading() as db:
            selection, run = store.read(db, number), runs.read(db, number)
            counts, held = runs.counts(db, number), runs.holder(db, number, now_s)
            per_s = runs.seen_per_s(db, number)
        left = selection.count - sum(counts.get(state, 0) for state in ENDED)
        speed = per_s or run.run.per_s
        eta_s = left / speed if speed and run.state in (RunState.RUNNING, RunState.SENT) else None
        return Progress(selection, run, counts, per_s, eta_s, held)

    def _change(self, number: int, actor: str, verb: str, before: Sequence[RunState], after: RunState) -> RunKept:
        with self._recorder.refusals(actor, verb, self._name(number)), self._file.writing() as db:
            store.read(db, number)
            run = runs.read(db, number)
            if run.state not in before:
                raise RunRefused(number, f"its {_told(run)} is {run.state.value}")
            if run.state is not after:
                runs.set_state(db, number, after, actor)
            self._record(number, actor, verb, "", f"{_told(run)}: from {run.state.value} to {after.value}")
            return runs.read(db, number)

    def _record(self, number: int, actor: str, action: str, reason: str, after: str) -> None:
        """Within the transaction: what can't be recorded isn't done."""
        self._recorder.record(actor, action, self._name(number), reason=reason, after=after)

    def _name(self, number: int) -> str:
        return f"{self._stream} s{number}"


def _check(number: int, run: Run) -> None:
    if run.action not in RUN_ACTIONS:
        raise RunRefused(number, f"unknown action {run.action!r}; {', '.join(RUN_ACTIONS)} is wanted")
    if run.action != REPLAY and run != Run(run.action, run.reason, propose=run.propose):
        raise RunRefused(number, f"mode, rate and the like are of a replay; a {run.action} has none")
    if run.per_s is not None and not PER_S_MIN <= run.per_s <= PER_S_MAX:
        raise RunRefused(number, f"a rate between {PER_S_MIN:g} and {PER_S_MAX:,.0f} items a second is wanted")
    if run.in_place and run.mode is ReplayMode.SUPERSEDED:
        raise RunRefused(number, "what is superseded has no place of its own: leave out in_place, or the mode")


def _told(run: RunKept) -> str:
    return f"{run.run.action} by {run.actor} at {run.started_at:%Y-%m-%d %H:%M} UTC"
