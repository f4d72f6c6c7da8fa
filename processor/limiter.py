"""On an executor: the calls that a task's threads make, held to the task's share of the batch's budgets."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from core.work import DownstreamHeld, WorkItem
from processor.budget import Budget, Budgets, Report

NO_CALLS = "has no call left in this batch"
NO_RETRIES = "has spent its retry budget"
TOO_MANY = "has as many calls under way as it takes"
FAILING = "fails its calls in this batch"
CHAIN_MAX = 32


class Limiter:
    """One task's calls, by downstream; its threads share it.

    ``until`` is when the batch ends, by ``monotonic``: nobody waits longer for a call to come free.
    """

    def __init__(self, budgets: Budgets, until: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._budgets = budgets
        self._until = until
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self._tries: dict[int, Try] = {}

    def trying(self, item: WorkItem, *, again: bool) -> Try:
        """The calls of one try of an event; ``again`` says that it isn't the event's first in this batch."""
        one = Try(self, retry=again or item.attempt > 0)
        with self._lock:
            self._tries[item.item_seq] = one
        return one

    def waits_for(self, item_seq: int) -> str | None:
        """The downstream whose answer an event's try waits for now."""
        one = self._tries.get(item_seq)
        return None if one is None else one.waits_for

    def reports(self) -> dict[str, Report]:
        """What became of the calls so far. One that is still out counts as failed: the batch doesn't wait for it."""
        with self._lock:
            gates = dict(self._gates)
        return {name: gate.report() for name, gate in gates.items()}

    def gate(self, downstream: str) -> Gate | None:
        """The gate before a downstream; None where nothing limits it."""
        with self._lock:
            gate = self._gates.get(downstream)
            if gate is None:
                budget = self._budgets.of(downstream)
                if budget is None:
                    return None
                gate = self._gates[downstream] = Gate(downstream, budget, self._until, self._monotonic)
            return gate


class Try:
    """The calls of one try: what `core.downstream.calling` asks (`core.downstream.Calls`)."""

    def __init__(self, limiter: Limiter, *, retry: bool) -> None:
        self._limiter = limiter
        self._retry = retry
        self._failed: list[tuple[str, BaseException]] = []
        self.waits_for: str | None = None

    @contextlib.contextmanager
    def calling(self, downstream: str) -> Iterator[None]:
        """As `core.downstream.calling`."""
        gate = self._limiter.gate(downstream)
        if gate is None:
            yield
            return
        call = gate.enter(retry=self._retry)
        self.waits_for = downstream
        try:
            yield
        except DownstreamHeld:
            gate.leave(call, None)
            raise
        except BaseException as error:
            self._failed.append((downstream, error))
            gate.leave(call, error)
            raise
        else:
            gate.leave(call, None)
        finally:
            self.waits_for = None

    def blamed_for(self, error: BaseException) -> str | None:
        """The downstream whose failed call an error is, or comes from."""
        for link in _chain(error):
            for downstream, failed in self._failed:
                if failed is link:
                    return downstream
        return None


class Gate:
    """One downstream's calls: so many in all, so many at a time, and none after a row of failures."""

    def __init__(self, downstream: str, budget: Budget, until: float, monotonic: Callable[[], float]) -> None:
        self._downstream = downstream
        self._budget = budget
        self._until = until
        self._monotonic = monotonic
        self._free = threading.Condition()
        self._out: dict[int, float] = {}
        self._report = Report()
        self._quiet = False

    def enter(self, *, retry: bool) -> int:
        """Takes a call as soon as one is free; returns its number.

        :raises DownstreamHeld: none is left, or none came free in time
        """
        with self._free:
            self._ask(retry=retry)
            while len(self._out) >= self._budget.at_once:
                self._report.waited = True
                if not self._free.wait(max(0.0, self._until - self._monotonic())):
                    raise self._held(TOO_MANY)
                self._ask(retry=retry)
            self._report.calls += 1
            self._report.retries += retry
            self._out[self._report.calls] = self._monotonic()
            self._report.peak = max(self._report.peak, len(self._out))
            return self._report.calls

    def leave(self, call: int, error: BaseException | None) -> None:
        """Gives a call back with what became of it."""
        with self._free:
            self._report.seconds += self._monotonic() - self._out.pop(call)
            if error is None:
                self._report.failed_in_a_row = 0
            else:
                self._failed(error)
            self._free.notify_all()

    def report(self) -> Report:
        with self._free:
            now, out = self._monotonic(), len(self._out)
            return replace(
                self._report,
                failed=self._report.failed + out,
                failed_in_a_row=self._report.failed_in_a_row + out,
                seconds=self._report.seconds + sum(now - began for began in self._out.values()),
                problem=self._report.problem or ("no answer" if out else ""),
            )

    def _failed(self, error: BaseException) -> None:
        self._report.failed += 1
        self._report.failed_in_a_row += 1
        self._report.problem = type(error).__name__
        wanted = _quiet_s(error)
        if wanted > 0:
            self._quiet = True
            self._report.quiet_s = max(self._report.quiet_s, wanted)

    def _ask(self, *, retry: bool) -> None:
        if self._quiet or self._report.failed_in_a_row >= self._budget.failures:
            raise self._held(FAILING)
        if self._report.calls >= self._budget.calls:
            raise self._held(NO_CALLS)
        if retry and self._report.retries >= self._budget.retries:
            raise self._held(NO_RETRIES)

    def _held(self, reason: str) -> DownstreamHeld:
        self._report.held += 1
        return DownstreamHeld(self._downstream, 0.0, reason)


def _quiet_s(error: BaseException) -> float:
    """Seconds that a downstream asks to be left alone: the ``retry_after_s`` of what its failed call raised."""
    for link in _chain(error):
        wanted = getattr(link, "retry_after_s", None)
        if isinstance(wanted, (int, float)):
            return max(0.0, float(wanted))
    return 0.0


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(CHAIN_MAX):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__
