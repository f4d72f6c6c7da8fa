"""Latency from the receipt of a webhook to the journal commit that decides it, on the whole stack."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from rich.console import Console

from core.clock import SystemClock
from core.routing import topics_of
from journal.reader import JournalReader
from load.bench.cost import cpu_seconds
from load.bench.figures import is_short
from load.bench.side_by_side import measure_ratio_to_plain
from load.client import NotInTime, RunningStack, wait_for
from load.embedded import embedded_stack
from load.latency import percentile, seconds_to_decide
from load.traffic import Traffic
from load.wire import Load, open_loop
from load.wire_requests import MixedRequests, StripeRequests

DECIDED_WAIT_S = 120.0
RATE_PER_S = 120.0
FAST_PER_S = 1_200.0
SETTLE_S = 3.0
HELD_P99_S = 5.0
HELD_SHARE = 0.98
"""Of a rate must really have been sent within its time; a receiver that takes less doesn't hold it."""

SATURATION_RATES_PER_S = (2_000.0, 2_400.0, 2_800.0, 3_200.0, 3_600.0, 4_000.0, 4_800.0, 5_600.0)
SATURATION_LOWER_PER_S = (1_800.0, 1_600.0, 1_400.0)
PAIRS = 3


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of load of each part; none of saturation leaves it out."""

    live_s: float
    fast_s: float
    window_s: float
    pairs: int
    saturation_s: float


WHOLE = Lengths(live_s=600.0, fast_s=120.0, window_s=60.0, pairs=PAIRS, saturation_s=120.0)
SHORT = Lengths(live_s=60.0, fast_s=30.0, window_s=20.0, pairs=1, saturation_s=0.0)
E2E_SECONDS = 600.0 + 120.0 + PAIRS * 2 * 75.0 + 4 * 140.0 + 120.0
E2E_SECONDS_SHORT = 60.0 + 30.0 + 2 * 35.0 + 100.0


def measure_e2e(folder: Path, console: Console) -> dict[str, float]:
    """HTTP receive to journal commit, open loop, at rates that go up; one event a webhook."""
    lengths = SHORT if is_short() else WHOLE
    with embedded_stack(folder) as data_dir:
        stack = RunningStack(data_dir)
        figures = _live(stack, lengths.live_s, console)
        figures |= _fast(stack, lengths.fast_s, console)
        window = Window(stack, lengths.window_s)
        figures |= measure_ratio_to_plain(stack, folder / "plain", window.post, lengths.pairs, console)
        if lengths.saturation_s:
            figures |= _saturation(stack, lengths.saturation_s, console)
    return figures


def _live(stack: RunningStack, seconds: float, console: Console) -> dict[str, float]:
    """
    :raises RuntimeError: less than the rate was sent, so that the figures would flatter
    """
    console.print(f"{RATE_PER_S:,.0f}/s for {seconds:.0f} s, three providers")
    held = Window(stack, seconds, signed_when_sent).at(RATE_PER_S)
    console.print(held.said())
    if not held.was_sent:
        raise RuntimeError(f"{held.sent_per_s:,.0f}/s were sent; {HELD_SHARE:.0%} of {RATE_PER_S:,.0f}/s is wanted")
    return {"e2e.p50_s_at_120": held.p50_s, "e2e.p99_s_at_120": held.p99_s}


def _fast(stack: RunningStack, seconds: float, console: Console) -> dict[str, float]:
    console.print(f"{FAST_PER_S:,.0f}/s for {seconds:.0f} s")
    before_s = cpu_seconds(stack)
    held = Window(stack, seconds).at(FAST_PER_S)
    cost_s = 1_000 * (cpu_seconds(stack) - before_s) / (FAST_PER_S * seconds)
    console.print(held.said())
    if not held.was_sent:
        console.print(
            f"{FAST_PER_S:,.0f}/s couldn't be sent: {held.sent_per_s:,.0f}/s were, {HELD_SHARE:.0%} of it is wanted. "
            "e2e.p99_s_at_1200 isn't given: a p99 of less load would flatter"
        )
        return {}
    return {"e2e.p99_s_at_1200": held.p99_s, "cost.cpu_s_per_1000_events": cost_s}


def _saturation(stack: RunningStack, seconds: float, console: Console) -> dict[str, float]:
    """The rates one after the other until one isn't held; lower ones if the first isn't."""
    best = 0.0
    for rate in SATURATION_RATES_PER_S:
        if not _held(stack, seconds, rate, console):
            break
        best = rate
    if best == 0.0:
        best = next((rate for rate in SATURATION_LOWER_PER_S if _held(stack, seconds, rate, console)), 0.0)
    return {"e2e.saturation_per_s": best} if best else {}


def _held(stack: RunningStack, seconds: float, rate: float, console: Console) -> bool:
    try:
        one = Window(stack, seconds).at(rate)
    except (NotInTime, ConnectionError, TimeoutError, RuntimeError) as failed:
        console.print(f"{rate:,.0f}/s: {type(failed).__name__}: {failed}")
        _settle(stack)
        return False
    console.print(one.said())
    return one.p99_s <= HELD_P99_S and one.was_sent


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
        """Whether the load was what it was meant to be."""
        return self.sent_per_s >= HELD_SHARE * self.rate_per_s

    def said(self) -> str:
        """One line about it."""
        return (
            f"{self.rate_per_s:,.0f}/s: sent {self.sent_per_s:,.0f}/s, p50 {self.p50_s:.2f} s, p99 {self.p99_s:.2f} s"
        )


Requests = Callable[[RunningStack, int], Sequence[bytes]]
"""So many requests to a stack; the sender asks for each when it is due."""


def signed_before(stack: RunningStack, count: int) -> Sequence[bytes]:
    """For a high rate: costs the sender nothing while it sends. All of Stripe."""
    return StripeRequests(stack.secrets("stripe")[0], time.time).make(count)


def signed_when_sent(stack: RunningStack, count: int) -> Sequence[bytes]:
    """For a long time: no signature grows old. Of three providers."""
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
        p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
        assert p50 is not None and p99 is not None
        return Held(rate_per_s, load.per_s, p50, p99)

    def post(self) -> tuple[datetime, int]:
        """Sends at `RATE_PER_S`; returns when it began, and how many there were."""
        began = datetime.now(UTC)
        return began, len(self._send(RATE_PER_S).latencies)

    def _send(self, rate_per_s: float) -> Load:
        address = urlsplit(str(self.stack.endpoints["ingest"]))
        assert address.hostname is not None and address.port is not None
        host, port = address.hostname, address.port
        requests = self.requests(self.stack, int(rate_per_s * self.seconds))

        async def go() -> Load:
            return await open_loop(host, port, requests, rate_per_s)

        gc.collect()
        gc.disable()
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                load = runner.run(go())
        finally:
            gc.enable()
        if set(load.statuses) != {200}:
            raise RuntimeError(f"answers by status: {dict(load.statuses)}")
        return load
