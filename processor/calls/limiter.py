"""Holds the calls that a task's threads make on an executor to the task's share of the batch's budgets."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from core.decision import NO_RETRIES
from core.work import DownstreamHeld, WorkItem
from processor.calls.budget import Budget, Budgets, CallReport, walk_causes

NO_CALLS = "has no call left in this batch"
TOO_MANY = "has as many calls under way as it takes"
FAILING = "fails its calls in this batch"

WAIT_S = 0.25
"""So long a thread waits for a call to come free: several times what a healthy one takes, half a batch's deadline."""

LOOK_S = 0.02
"""How often it looks whether a call that an earlier batch abandoned is back."""


@dataclass(slots=True, eq=False)
class Call:
    downstream: str
    event_key: str
    began: float


class LateCalls:
    """Calls that batches abandoned in this process: the next batch reports their ends. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out: dict[Call, bool] = {}
        self._reports: dict[str, CallReport] = {}

    def add_left(self, call: Call, *, reported: bool) -> None:
        with self._lock:
            self._out[call] = reported

    def note_return(self, call: Call, seconds: float, error: BaseException | None) -> None:
        with self._lock:
            if self._out.pop(call, True) is False:
                self._report_call(call.downstream, seconds, error)

    def count_out(self, downstream: str) -> int:
        """Counts the calls to a downstream that are still out, without those reported as failed.

        Otherwise a call that never comes back would take the place of the probe that finds the downstream well again.
        """
        with self._lock:
            return sum(call.downstream == downstream and not reported for call, reported in self._out.items())

    def waits_for(self, event_key: str) -> str | None:
        with self._lock:
            return next((call.downstream for call in self._out if call.event_key == event_key), None)

    def take_reports(self, now: float, call_s: float) -> dict[str, CallReport]:
        with self._lock:
            for call, reported in self._out.items():
                if not reported and now - call.began >= call_s:
                    self._out[call] = True
                    self._report_call(call.downstream, now - call.began, TimeoutError())
            taken, self._reports = self._reports, {}
            return taken

    def _report_call(self, downstream: str, seconds: float, error: BaseException | None) -> None:
        report = self._reports.setdefault(downstream, CallReport())
        report.calls += 1
        report.late += 1
        report.seconds += seconds
        report.note_return(error)


class Limiter:
    """Limits the calls of one task, by downstream; its threads share it.

    A call that takes longer than ``call_s`` has failed. A younger one that the batch leaves behind goes to ``late``,
    which outlives the task.
    """

    def __init__(
        self,
        budgets: Budgets,
        call_s: float,
        late: LateCalls | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budgets = budgets
        self._call_s = call_s
        self._late = LateCalls() if late is None else late
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self._tries: dict[str, Try] = {}

    def begin_try(self, item: WorkItem, *, again: bool) -> Try:
        new_try = Try(self, item.event_key, retry=again or item.attempt > 0)
        with self._lock:
            self._tries[item.event_key] = new_try
        return new_try

    def waits_for(self, event_key: str) -> str | None:
        last_try = self._tries.get(event_key)
        return (None if last_try is None else last_try.waits_for) or self._late.waits_for(event_key)

    def list_answered(self, event_key: str) -> frozenset[str]:
        last_try = self._tries.get(event_key)
        return frozenset() if last_try is None else frozenset(last_try.answered)

    def is_queued(self, event_key: str) -> bool:
        last_try = self._tries.get(event_key)
        return last_try is not None and last_try.queues

    def collect_reports(self) -> dict[str, CallReport]:
        """Reports what became of the calls, and of those that earlier batches abandoned. Call it once, at the end: it
        ends the waits for a call.
        """
        with self._lock:
            gates = dict(self._gates)
        reports = {name: gate.end() for name, gate in gates.items()}
        for name, report in self._late.take_reports(self._monotonic(), self._call_s).items():
            reports.setdefault(name, CallReport()).add(report)
        return reports

    def get_gate(self, downstream: str) -> Gate | None:
        with self._lock:
            gate = self._gates.get(downstream)
            if gate is None:
                budget = self._budgets.find_budget(downstream)
                if budget is None:
                    return None
                gate = Gate(downstream, budget, self._call_s, self._late, self._monotonic)
                self._gates[downstream] = gate
            return gate


class Try:
    """The calls of one try (`core.work.DownstreamCalls`).

    ``called``: the downstreams of its calls; ``answered``: of those that came back without an error.
    """

    def __init__(self, limiter: Limiter, event_key: str, *, retry: bool) -> None:
        self._limiter = limiter
        self._event_key = event_key
        self._retry = retry
        self._failed: list[tuple[str, BaseException]] = []
        self.called: set[str] = set()
        self.answered: set[str] = set()
        self.queues = False
        self.waits_for: str | None = None

    @contextlib.contextmanager
    def take_call(self, downstream: str) -> Iterator[None]:
        self.called.add(downstream)
        gate = self._limiter.get_gate(downstream)
        if gate is None:
            yield
            self.answered.add(downstream)
            return
        call = self._enter_gate(gate)
        self.waits_for = downstream
        failed: BaseException | None = None
        try:
            yield
            self.answered.add(downstream)
        except DownstreamHeld:
            raise
        except BaseException as error:
            failed = error
            self._failed.append((downstream, error))
            raise
        finally:
            self.waits_for = None
            gate.give_back(call, failed)

    def _enter_gate(self, gate: Gate) -> Call:
        self.queues = True
        try:
            return gate.take_call(self._event_key, retry=self._retry)
        finally:
            self.queues = False

    def blamed_for(self, error: BaseException) -> str | None:
        for link in walk_causes(error):
            for downstream, failed in self._failed:
                if failed is link:
                    return downstream
        return None


class Gate:
    """Lets through the calls of one downstream: so many in all, so many at a time, and none after a row of failures."""

    def __init__(
        self,
        downstream: str,
        budget: Budget,
        call_s: float,
        late: LateCalls,
        monotonic: Callable[[], float],
    ) -> None:
        self._downstream = downstream
        self._budget = budget
        self._call_s = call_s
        self._late = late
        self._monotonic = monotonic
        self._free = threading.Condition()
        self._out: set[Call] = set()
        self._report = CallReport()
        self._ended = False

    def take_call(self, event_key: str, *, retry: bool) -> Call:
        """Takes a call as soon as one is free.

        :raises DownstreamHeld: none is left, or none came free in time
        """
        with self._free:
            until = time.monotonic() + WAIT_S
            self._check_may_call(retry=retry)
            while len(self._out) + self._late.count_out(self._downstream) >= self._budget.at_once:
                self._report.waited = True
                if time.monotonic() >= until:
                    raise self._make_held(TOO_MANY)
                self._free.wait(LOOK_S)
                self._check_may_call(retry=retry)
            call = Call(self._downstream, event_key, self._monotonic())
            self._out.add(call)
            self._report.calls += 1
            self._report.retries += retry
            self._report.peak = max(self._report.peak, len(self._out))
            return call

    def give_back(self, call: Call, error: BaseException | None) -> None:
        seconds = self._monotonic() - call.began
        with self._free:
            if call not in self._out:
                self._late.note_return(call, seconds, error)
                return
            self._out.remove(call)
            self._report.seconds += seconds
            self._report.note_return(error)
            self._free.notify_all()

    def end(self) -> CallReport:
        with self._free:
            self._ended = True
            now = self._monotonic()
            for call in self._out:
                failed = now - call.began >= self._call_s
                self._late.add_left(call, reported=failed)
                if failed:
                    self._report.seconds += now - call.began
                    self._report.note_return(TimeoutError())
                else:
                    self._report.calls -= 1
                    self._report.out += 1
            self._out.clear()
            self._free.notify_all()
            return replace(self._report)

    def _check_may_call(self, *, retry: bool) -> None:
        if self._report.quiet_s > 0 or self._report.failed_in_a_row >= self._budget.failures:
            raise self._make_held(FAILING)
        if self._ended:
            raise self._make_held(TOO_MANY)
        if self._report.calls >= self._budget.calls:
            raise self._make_held(NO_CALLS)
        if retry and self._report.retries >= self._budget.retries:
            raise self._make_held(NO_RETRIES)

    def _make_held(self, reason: str) -> DownstreamHeld:
        self._report.held += 1
        return DownstreamHeld(self._downstream, 0.0, reason)
