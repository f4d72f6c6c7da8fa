"""Orders about selections: run, approve, pause, resume, cancel. The processor carries a run out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from core.clock import Clock
from core.decision import Decision
from operations.command import (
    APPROVED_ALWAYS,
    CANCEL_RUN,
    PAUSE_RUN,
    PER_S_MAX,
    PER_S_MIN,
    PROPOSE_RUN,
    PURGE,
    REPLAY,
    RESOLVE,
    RESUME_RUN,
    RUN,
    RUN_ACTS,
    Command,
    approve,
    new_command_id,
)
from operations.done_alone import DoneAlone
from operations.frozen import RunState, Selection, command_id_of
from operations.limits import AloneLimits, Volume, account_of, kind_of
from operations.orders import OrderAct, OrderSender
from operations.selection.journal import CHANGES
from operations.selection.model import (
    UNFINISHED,
    Approval,
    RunKept,
    RunRefused,
    RunRequest,
    SecondPersonWanted,
    StartedRun,
    check_lineage,
)
from operations.selection.selections import Selections

DECIDED_S_MAX, LOOK_S = 5.0, 0.1
"""Seconds that an order waits for its decision; a later one is seen at the next look."""


class RunOrders:
    """Gives orders about one stream's selections: one command each. Its methods block; threads may share it."""

    def __init__(
        self,
        selections: Selections,
        orders: OrderSender,
        limits: AloneLimits,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._selections = selections
        self._log = selections.log
        self._orders = orders
        self._limits = limits
        self._clock = clock
        self._sleep = sleep

    def why_two_people(self, number: int, run: RunRequest, actor: str) -> str | None:
        return self._why_two_people(self._selections.files.get(number), run, actor)

    def start(self, number: int, run: RunRequest, actor: str) -> StartedRun:
        """Begins the selection's one run, or proposes it where two people are needed. The same again is no second one.

        :raises RunRefused: it can't be, or another one was begun with it
        :raises CommandNotSent: Kafka didn't acknowledge it; the same again is safe
        """
        with self._orders.begin_act(actor, run.action, self._name(number), run.reason) as giving:
            kept, wanted = self._selections.get(number), replace(run, propose=False)
            selection, before = kept.selection, kept.run
            _check_run(selection, run)
            check_lineage(selection, self._log.lineage())
            if before is not None and (before.run != wanted or selection.digest not in self._log.ordered):
                return _confirm_begun(before, wanted, giving)
            two_people = self._why_two_people(selection, run, actor) is not None
            command = self._command(selection, PROPOSE_RUN if two_people else RUN, run, actor)
            state = RunState.PROPOSED if two_people else RunState.RUNNING
            self._send_and_await(giving, selection, command, RunKept(number, wanted, actor, command.at, state))
            begun = self._log.find_run(selection)
            assert begun is not None
            if begun.started_at != command.at or begun.actor != actor:
                return _confirm_begun(begun, wanted, giving)
            giving.changes.after = f"{selection.count} items, {begun.state.value}{run.options_text}"
            return StartedRun(begun, again=False)

    def approve(self, number: int, actor: str, reason: str) -> RunKept:
        """Lets a proposed run begin. The same again is no second approval.

        :raises SecondPersonWanted: it is one's own
        :raises RunRefused: nothing is proposed, or the journal was restored since
        """
        with self._orders.begin_act(actor, "approve", self._name(number), reason) as giving:
            check_lineage(self._selections.files.get(number), self._log.lineage())
            selection, run = self._selections.find_begun(number)
            proposed = self._log.find_progress(selection.digest).proposed
            if run.approval is not None and (run.approval.actor, run.approval.reason) == (actor, reason):
                giving.changes.after = f"{_describe_run(run)}, approved before"
                return run
            if run.state is not RunState.PROPOSED:
                raise RunRefused(
                    number, f"no proposal waits for approval: its {_describe_run(run)} is {run.state.value}"
                )
            if account_of(run.actor) == account_of(actor):  # the processor holds every run to it, too
                raise SecondPersonWanted(number, actor)
            if proposed is None:
                raise RunRefused(number, "the processor hasn't decided its proposal yet: approve it then")
            command = approve(proposed, actor, reason, self._clock.now(), command_id_of(selection.digest))
            self._send_and_await(giving, selection, command)
            giving.changes.after = f"{_describe_run(run)}, approved"
            approved = replace(run, state=RunState.RUNNING, approval=Approval(actor, reason, command.at))
            return self._as_ordered(selection, run, approved)

    def pause(self, number: int, actor: str, command_id: str | None = None) -> RunKept:
        """Stops sending items; those on their way still finish.

        ``command_id``: the same order, given again, has the same one, and isn't carried out again; None: it isn't
        given again.

        :raises RunRefused: it doesn't run
        """
        return self._change(number, actor, PAUSE_RUN, command_id or new_command_id())

    def resume(self, number: int, actor: str, command_id: str | None = None) -> RunKept:
        """Continues to send items. ``command_id``: as of `pause`.

        :raises RunRefused: it isn't paused
        """
        return self._change(number, actor, RESUME_RUN, command_id or new_command_id())

    def cancel(self, number: int, actor: str) -> RunKept:
        """Ends the run for good: items that weren't sent stay dead. This also withdraws a proposal.

        :raises RunRefused: all items were sent
        """
        return self._change(number, actor, CANCEL_RUN)

    def _change(self, number: int, actor: str, action: str, command_id: str | None = None) -> RunKept:
        verb, after = action.removesuffix("_run"), CHANGES[action]
        with self._orders.begin_act(actor, verb, self._name(number), "") as giving:
            selection, run = self._selections.find_begun(number)
            if self._log.find_progress(selection.digest).was_given(action, command_id):
                giving.changes.after = f"command {command_id}"
                return run
            if run.state not in {*UNFINISHED, after} or (run.state is RunState.PROPOSED and action != CANCEL_RUN):
                raise RunRefused(number, f"its {_describe_run(run)} is {run.state.value}")
            if run.state is not after:
                self._send_and_await(
                    giving, selection, self._command(selection, action, RunRequest("", verb), actor, command_id)
                )
            giving.changes.after = f"{_describe_run(run)}: from {run.state.value} to {after.value}"
            return replace(self._as_ordered(selection, run, replace(run, state=after)), changed_by=actor)

    def _why_two_people(self, selection: Selection, run: RunRequest, actor: str) -> str | None:
        before = DoneAlone(self._log.commands_since).sum_volume(actor, kind_of(run.action), self._clock.now())
        return why_two_people(selection, run, self._limits, before)

    def _command(
        self, selection: Selection, action: str, run: RunRequest, actor: str, command_id: str | None = None
    ) -> Command:
        return Command(
            command_id or command_id_of(selection.digest),
            selection.stream,
            selection.lineage,
            action,
            (),
            actor,
            run.reason,
            self._clock.now(),
            mode=run.mode,
            force=run.force,
            selection=selection.digest,
            act=run.action,
            per_s=run.per_s,
        )

    def _send_and_await(
        self, giving: OrderAct, selection: Selection, command: Command, ordered: RunKept | None = None
    ) -> None:
        before = self._log.find_progress(selection.digest).given.get(command.action)
        giving.send(command)
        if ordered is not None:
            self._log.ordered[selection.digest] = ordered
        for _ in range(round(DECIDED_S_MAX / LOOK_S)):
            self._log.follow()
            decided = self._log.find_progress(selection.digest).given.get(command.action)
            if decided is not None and (before is None or decided.seq != before.seq):
                if decided.decision is Decision.IGNORED:
                    self._log.ordered.pop(selection.digest, None)
                    raise RunRefused(selection.number, str(decided.reason))
                return
            self._sleep(LOOK_S)

    def _as_ordered(self, selection: Selection, run: RunKept, ordered: RunKept) -> RunKept:
        now = self._log.find_run(selection)
        if now is not None and now.state is not run.state:
            return now
        if selection.digest in self._log.ordered:
            self._log.ordered[selection.digest] = ordered
        return ordered

    def _name(self, number: int) -> str:
        return f"{self._selections.stream} s{number}"


def why_two_people(selection: Selection, run: RunRequest, limits: AloneLimits, before: Volume) -> str | None:
    """Says why another person must approve a run; None: none need. ``before``: what its actor did alone within a
    day."""
    if run.propose:
        return "needs approval: its proposer asked for it"
    if run.action in APPROVED_ALWAYS:
        return f"needs approval: every {run.action} does"
    return limits.why_beyond(kind_of(run.action), Volume(selection.count, Counter(selection.amounts)), before)


def _check_run(selection: Selection, run: RunRequest) -> None:
    number = selection.number
    if run.action not in RUN_ACTS:
        raise RunRefused(number, f"unknown action {run.action!r}: expected one of {', '.join(RUN_ACTS)}")
    if run.action != REPLAY and run != RunRequest(run.action, run.reason, propose=run.propose):
        raise RunRefused(number, f"mode, per_s and force are for a replay only: leave them out of a {run.action}")
    may_be_closed = run.action in (PURGE, RESOLVE) and selection.state in ("open", "unknown")
    if selection.state != "open" and run.action != REPLAY and not may_be_closed:
        raise RunRefused(number, f"its events are {selection.state}, none is open: a {run.action} would do nothing")
    if run.per_s is not None and not PER_S_MIN <= run.per_s <= PER_S_MAX:
        raise RunRefused(number, f"per_s: expected {PER_S_MIN:g} to {PER_S_MAX:,.0f} items a second")


def _confirm_begun(before: RunKept, wanted: RunRequest, giving: OrderAct) -> StartedRun:
    if before.run != wanted:
        raise RunRefused(
            before.number, f"it was already started as a {_describe_run(before)}: select again what is left"
        )
    giving.changes.after = f"already started: {_describe_run(before)}"
    return StartedRun(before, again=True)


def _describe_run(run: RunKept) -> str:
    return f"{run.run.action} by {run.actor} at {run.started_at:%Y-%m-%d %H:%M} UTC"
