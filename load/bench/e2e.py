"""The whole stack under load: the time from a webhook's receipt to the journal commit that decides it, and CPU time."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

import psutil

from core.clock import SystemClock
from core.routing import topics_of
from journal.reader import JournalReader
from load.bench.figures import Run
from load.bench.plain import measure_ratio_to_plain
from load.client import NotInTime, RunningStack, wait_for
from load.embedded import embedded_stack
from load.latency import percentile, seconds_to_decide
from load.traffic import MixedRequests, StripeRequests, Traffic
from load.wire import Load, open_loop, undisturbed

DECIDED_WAIT_S = 120.0
RATE_PER_S = 120.0
FAST_PER_S = 1_200.0
SETTLE_S = 3.0
HELD_P99_S = 5.0
HELD_SHARE = 0.98
"""Of a rate must really have been sent within its time; a receiver that takes less doesn't hold it."""

SATURATION_RATES_PER_S = (2_000.0, 2_400.0, 2_800.0, 3_200.0, 3_600.0, 4_000.0, 4_800.0, 5_600.0)
SATURATION_LOWER_PER_S = (1_800.0, 1_600.0, 1_400.0)
SATURATION_S = 120.0
LIVE_S, LIVE_S_SHORT = 600.0, 60.0
FAST_S, FAST_S_SHORT = 120.0, 30.0
COST_WARM_S, COST_WARM_S_SHORT = 90.0, 30.0
"""Before the CPU time counts: the JVMs compile, and each process loads what it needs."""

WINDOW_S, WINDOW_S_SHORT = 60.0, 20.0
PAIRS, PAIRS_SHORT = 3, 1


def measure_e2e(run: Run) -> dict[str, float]:
    """HTTP receive to journal commit, open loop, at rates that go up; one event a webhook. A short run leaves
    saturation out."""
    with embedded_stack(run.folder) as data_dir:
        stack = RunningStack(data_dir)
        figures = _live(stack, run)
        if (fast := _fast(stack, run.length(FAST_S, FAST_S_SHORT), run)) is not None:
            figures["e2e.p99_s_at_1200"] = fast.p99_s
        window = Window(stack, run.length(WINDOW_S, WINDOW_S_SHORT))
        pairs = run.length(PAIRS, PAIRS_SHORT)
        figures |= measure_ratio_to_plain(stack, run.within("plain"), window.post, pairs)
        if not run.short:
            figures |= _saturation(stack, run)
    return figures


def measure_cost(run: Run) -> dict[str, float]:
    """CPU time of all of the stack's processes, on a stack that is warm."""
    seconds = run.length(FAST_S, FAST_S_SHORT)
    with embedded_stack(run.folder) as data_dir:
        stack = RunningStack(data_dir)
        _fast(stack, run.length(COST_WARM_S, COST_WARM_S_SHORT), run)
        before_s = cpu_seconds(stack)
        if _fast(stack, seconds, run) is None:
            return {}
        return {"cost.cpu_s_per_1000_events": 1_000 * (cpu_seconds(stack) - before_s) / (FAST_PER_S * seconds)}


def cpu_seconds(stack: RunningStack) -> float:
    """CPU time of every process under the stack's supervisor, since each began."""
    supervisor = psutil.Process(int(stack.endpoints["pids"]["kafka"])).parent()
    assert supervisor is not None
    return sum(cpu_s_of(process) for process in [supervisor, *supervisor.children(recursive=True)])


def cpu_s_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _live(stack: RunningStack, run: Run) -> dict[str, float]:
    """
    :raises RuntimeError: less than the rate was sent, so that the figures would flatter
    """
    seconds = run.length(LIVE_S, LIVE_S_SHORT)
    run.console.print(f"{RATE_PER_S:,.0f}/s for {seconds:.0f} s, three providers")
    held = Window(stack, seconds, signed_when_sent).at(RATE_PER_S)
    run.console.print(held.said())
    if not held.was_sent:
        raise RuntimeError(
            f"{held.sent_per_s:,.0f}/s were sent; at least {HELD_SHARE:.0%} of {RATE_PER_S:,.0f}/s must be"
        )
    return {"e2e.p50_s_at_120": held.p50_s, "e2e.p99_s_at_120": held.p99_s}


def _fast(stack: RunningStack, seconds: float, run: Run) -> Held | None:
    """Returns None if the rate couldn't be sent: figures of less load would flatter."""
    run.console.print(f"{FAST_PER_S:,.0f}/s for {seconds:.0f} s")
    held = _load(stack, seconds, FAST_PER_S, run)
    if held is not None and held.was_sent:
        return held
    sent = (
        "wasn't taken"
        if held is None
        else f"couldn't be sent: {held.sent_per_s:,.0f}/s were, at least {HELD_SHARE:.0%} must be"
    )
    run.console.print(f"{FAST_PER_S:,.0f}/s {sent}. No figure is given: one of less load would flatter")
    return None


def _load(stack: RunningStack, seconds: float, rate_per_s: float, run: Run) -> Held | None:
    """Returns what became of a load; None where the stack didn't take it or decide it in time."""
    try:
        held = Window(stack, seconds).at(rate_per_s)
    except (NotInTime, ConnectionError, TimeoutError, RuntimeError) as failed:
        run.console.print(f"{rate_per_s:,.0f}/s: {type(failed).__name__}: {failed}")
        _settle(stack)
        return None
    run.console.print(held.said())
    return held


def _saturation(stack: RunningStack, run: Run) -> dict[str, float]:
    """The rates one after the other until one isn't held; lower ones if the first isn't."""
    best = 0.0
    for rate in SATURATION_RATES_PER_S:
        if not _held(stack, rate, run):
            break
        best = rate
    if best == 0.0:
        best = next((rate for rate in SATURATION_LOWER_PER_S if _held(stack, rate, run)), 0.0)
    return {"e2e.saturation_per_s": best} if best else {}


def _held(stack: RunningStack, rate: float, run: Run) -> bool:
    one = _load(stack, SATURATION_S, rate, run)
    return one is not None and one.p99_s <= HELD_P99_S and one.was_sent


def _settle(stack: RunningStack) -> None:
    """Lets what a broken-off load left behind be decided."""
    seqs = [-1]

    def at_rest() -> bool:
        seqs.append(JournalReader(str(stack.journal)).last_seq)
        time.sleep(SETTLE_S)
        return seqs[-1] == seqs[-2]

    wait_for(at_rest, DECIDED_WAIT_S)


@dataclass(frozen=True, slots=True)
class Held:
    """What became of a load at one rate."""

    rate_per_s: float
    sent_per_s: float
    p50_s: float
    p99_s: float

    @property
    def was_sent(self) -> bool:
        """Returns whether the load was what it was meant to be."""
        return self.sent_per_s >= HELD_SHARE * self.rate_per_s

    def said(self) -> str:
        """One line about it."""
        return (
            f"{self.rate_per_s:,.0f}/s: sent {self.sent_per_s:,.0f}/s, p50 {self.p50_s:.2f} s, p99 {self.p99_s:.2f} s"
        )


Requests = Callable[[RunningStack, int], Sequence[bytes]]
"""So many requests to a stack; the sender asks for each when it is due."""


def signed_before(stack: RunningStack, count: int) -> Sequence[bytes]:
    """Signs Stripe's events for a high rate: that costs the sender nothing while it sends."""
    return StripeRequests(stack.secrets("stripe")[0], time.time).make(count)


def signed_when_sent(stack: RunningStack, count: int) -> Sequence[bytes]:
    """Signs events of three providers for a long time: no signature grows old."""
    prefix = uuid.uuid4().hex[:8]
    return MixedRequests(Traffic(stack.data_dir / "secrets", SystemClock(), random.Random(7), prefix), count)


@dataclass(frozen=True, slots=True)
class Window:
    """Loads of one length on a running stack."""

    stack: RunningStack
    seconds: float
    requests: Requests = signed_before

    def at(self, rate_per_s: float) -> Held:
        """Sends at a rate and waits until all of it is decided.

        :raises NotInTime: it isn't in time
        :raises RuntimeError: an answer wasn't 200
        """
        before = JournalReader(str(self.stack.journal)).last_seq
        load = self._send(rate_per_s)
        wanted = before + len(load.latencies)
        if not wait_for(lambda: JournalReader(str(self.stack.journal)).state().next_seq > wanted, DECIDED_WAIT_S):
            raise NotInTime(f"decisions up to seq {wanted}", DECIDED_WAIT_S)
        seconds = seconds_to_decide(self.stack.journal, topics_of("live").events, before)
        return Held(rate_per_s, load.per_s, percentile(seconds, 0.5), percentile(seconds, 0.99))

    def post(self) -> tuple[datetime, int]:
        """Sends at `RATE_PER_S`; returns when it began, and how many there were."""
        began = datetime.now(UTC)
        return began, len(self._send(RATE_PER_S).latencies)

    def _send(self, rate_per_s: float) -> Load:
        address = urlsplit(str(self.stack.endpoints["ingest"]))
        assert address.hostname is not None and address.port is not None
        requests = self.requests(self.stack, int(rate_per_s * self.seconds))
        load = undisturbed(open_loop(address.hostname, address.port, requests, rate_per_s))
        if set(load.statuses) != {200}:
            raise RuntimeError(f"answers by status: {dict(load.statuses)}")
        return load
