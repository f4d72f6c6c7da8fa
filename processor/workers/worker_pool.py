"""Runs entities side by side on the threads of one chunk, so that a call that hangs holds up its own entity alone."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from core.work import Outcome, WorkItem
from processor.errors.classify import Failure
from processor.workers.deadlines import AbandonedCall, AbandonedCalls, Deadlines, GivenUp
from processor.workers.outcomes import add_previous_dead, is_passed_dead

if TYPE_CHECKING:
    from processor.workers.worker import EventRunner

LOOK_EVERY_S = 0.01
SPARE_AFTER_S = 0.02
SPARE_AFTER_USUAL = 4
"""A thread whose call takes longer, and so many times longer than calls that come back, is given a spare one beside it,
for the entities behind. A spare that wasn't needed costs 60 µs; too many of them would call more at a time than
``concurrency`` says."""

BLOCKED_IN_A_ROW = 5
"""A chunk ends after so many failures that say that the whole stream is blocked, and nothing that disproves them. One
event may say so by its own fault, and the next one's result shows which. An outage costs so many calls.
"""

USUAL_S_ALONE, USUAL_S_SEVERAL = 0.005, 0.1
"""Before a call has come back. A stream that runs several at a time has calls that wait for others."""

Result: TypeAlias = Outcome | Failure


@dataclass(slots=True, eq=False)
class GroupRun:
    items: list[WorkItem]
    results: list[Result] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Blocking:
    run: GroupRun
    failure: Failure
    at: float


@dataclass(slots=True, eq=False)
class Runner:
    thread: threading.Thread | None = None
    run: GroupRun | None = None
    item: WorkItem | None = None
    began: float | None = None
    left: AbandonedCall | None = None


class WorkerPool:
    """Runs the groups of one chunk.

    It is done when every call is back, or when it works for too long. It is also done when only calls are left that are
    out and had their time (`Deadlines.patience_s`). ``waited_s`` is how long nothing else was left to do.

    ``still_out``: events whose calls it abandoned or found still out, and for how long; their time isn't over.
    ``threads_max``: most threads in this process, those of calls abandoned included.
    """

    def __init__(
        self,
        work: EventRunner,
        groups: Sequence[list[WorkItem]],
        deadlines: Deadlines,
        abandoned: AbandonedCalls,
        concurrency: int,
        threads_max: int,
    ) -> None:
        self._work = work
        self._runs = [GroupRun(items) for items in groups]
        self._deadlines = deadlines
        self._abandoned = abandoned
        self._concurrency = concurrency
        self._threads_max = max(1, threads_max - abandoned.count())
        self._waiting = deque(self._runs)
        self._lock = threading.Lock()
        self._active: set[Runner] = set()
        self._wanted = concurrency
        self._closed = False
        self._done = threading.Event()
        self._usual_s = abandoned.usual_s or (USUAL_S_ALONE if concurrency == 1 else USUAL_S_SEVERAL)
        self._back, self._took_s = 0, 0.0
        self._stop_at = 0.0
        self._waits_since: float | None = None
        self._left_at = 0.0
        self._blocking: list[Blocking] = []
        self.still_out: dict[int, float] = {}

    def run(self) -> list[tuple[int, Result]]:
        """Returns results by ``item_seq``, in the groups' order; an event without one is due again without a spent
        attempt.
        """
        if not self._runs:
            return []
        self._stop_at = time.monotonic() + self._deadlines.work_s
        with self._lock:
            self._start(min(self._concurrency, len(self._runs)))
        while not self._done.wait(LOOK_EVERY_S):
            with self._lock:
                now = time.monotonic()
                if self._must_leave(now):
                    break
                self._start_spares(now)
        with self._lock:
            self._abandon_rest(time.monotonic())
        return [
            (item.item_seq, result) for run in self._runs for item, result in zip(run.items, run.results, strict=False)
        ]

    @property
    def waited_s(self) -> float:
        return 0.0 if self._waits_since is None else self._left_at - self._waits_since

    # What the threads do.

    def _main(self, me: Runner) -> None:
        result = None
        try:
            while (run := self._take_next_run(me)) is not None:
                dead = None
                for waiting in run.items:
                    item = add_previous_dead(waiting, dead)
                    if not self._begin(me, item):
                        return
                    result = self._get_result(item)
                    if not self._end(me, run, result):
                        return
                    if result is None or self._work.holds_back(item, result):
                        break
                    dead = item if is_passed_dead(item, result) else dead
        except GivenUp:
            result = None
        finally:
            self._end_runner(me, result)

    def _take_next_run(self, me: Runner) -> GroupRun | None:
        with self._lock:
            surplus = len(self._active) > self._wanted
            if self._closed or surplus or not self._waiting or time.monotonic() >= self._stop_at:
                return None
            me.run = self._waiting.popleft()
            return me.run

    def _begin(self, me: Runner, item: WorkItem) -> bool:
        with self._lock:
            now = time.monotonic()
            if self._closed or now >= self._stop_at:
                return False
            me.item, me.began = item, now
            return True

    def _get_result(self, item: WorkItem) -> Result | None:
        before = self._abandoned.find(self._work.handler, item) if self._abandoned else None
        return self._work.run(item) if before is None else self._use_earlier_call(item, before)

    def _use_earlier_call(self, item: WorkItem, before: AbandonedCall) -> Result | None:
        """Takes the result of the event's earlier call here, so that no second one runs beside it; None while it is
        out.
        """
        if before.is_out:
            seconds = time.monotonic() - before.began
            if seconds < before.call_s:
                with self._lock:
                    if not self._closed:
                        self.still_out[item.item_seq] = seconds
                return None
            before.time_out()
            return self._work.make_timeout(item, seconds)
        if before.is_good and before.is_for(item):
            return before.take_result()
        return self._work.run(item)

    def _end(self, me: Runner, run: GroupRun, result: Result | None) -> bool:
        with self._lock:
            if me.left is not None or self._closed:
                return False
            now, began = time.monotonic(), me.began or 0.0
            self._back += 1
            self._took_s += now - began
            me.began = None
            if result is not None:
                run.results.append(result)
                if isinstance(result, Failure) and result.is_blocking:
                    self._note_blocking(Blocking(run, result, now))
                elif self._blocking and me.item is not None:
                    self._weigh_result(me.item, result, began)
            return True

    def _note_blocking(self, blocking: Blocking) -> None:
        self._blocking.append(blocking)
        if len(self._blocking) >= BLOCKED_IN_A_ROW:
            self._waiting.clear()

    def _weigh_result(self, item: WorkItem, result: Result, began: float) -> None:
        """Clears failures of other events that this one disproves: its call began after them, and succeeded."""
        left = []
        for blocking in self._blocking:
            if began >= blocking.at and self._work.is_disproof(item, result, blocking.failure):
                blocking.run.results[-1] = replace(blocking.failure, own=True)
            else:
                left.append(blocking)
        self._blocking = left

    def _end_runner(self, me: Runner, result: Result | None) -> None:
        if me.left is not None:
            me.left.end(result)
        with self._lock:
            self._active.discard(me)
            if not self._active:
                self._done.set()

    # What the thread that called `run` does; it holds the lock.

    def _start(self, count: int) -> None:
        for _ in range(min(count, self._threads_max - len(self._active))):
            me = Runner()
            me.thread = threading.Thread(target=contextvars.copy_context().run, args=(self._main, me), daemon=True)
            self._active.add(me)
            me.thread.start()

    def _start_spares(self, now: float) -> None:
        after_s = max(SPARE_AFTER_S, SPARE_AFTER_USUAL * self._estimate_call_s())
        stuck = sum(_is_out(runner, now, after_s) for runner in self._active)
        self._wanted = self._concurrency + 2 * stuck
        if stuck:
            self._start(min(self._wanted - len(self._active), len(self._waiting)))

    def _estimate_call_s(self) -> float:
        return self._took_s / self._back if self._back else self._usual_s

    def _must_leave(self, now: float) -> bool:
        if self._waiting and len(self._active) < self._threads_max and now < self._stop_at:
            self._waits_since = None
            return False
        if not all(_is_out(runner, now, SPARE_AFTER_S) for runner in self._active):
            self._waits_since = None
            return False
        self._waits_since = self._waits_since or now
        return all(_is_out(runner, now, self._deadlines.patience_s) for runner in self._active)

    def _abandon_rest(self, now: float) -> None:
        self._closed, self._left_at = True, now
        self._abandoned.usual_s = self._estimate_call_s()
        for runner in self._active:
            if runner.began is not None:
                self._abandon_call(runner, now - runner.began)

    def _abandon_call(self, runner: Runner, seconds: float) -> None:
        assert runner.run is not None and runner.item is not None and runner.thread is not None
        item, call_s = runner.item, self._deadlines.call_s
        call = AbandonedCall(self._work.handler, item, time.monotonic() - seconds, call_s, runner.thread)
        runner.left = call
        self._abandoned.add(call)
        if self._work.is_queued(item):
            return
        if seconds < call_s:
            self.still_out[item.item_seq] = seconds
        else:
            runner.run.results.append(self._work.make_timeout(item, seconds))
            call.time_out()


def _is_out(runner: Runner, now: float, seconds: float) -> bool:
    return runner.began is not None and now - runner.began >= seconds
