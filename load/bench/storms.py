"""A downstream that is asked for twice what it can do: what still gets done, with the limits and without them.

The engine's own executor, budgets, breaker, limits and retry policy run against a real HTTP service whose capacity is
measured first. Kafka, Spark and Delta stand aside: a pause of `BETWEEN_S` between batches stands for what they take.
"""

from __future__ import annotations

import heapq
import pickle
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
from rich.console import Console

from core.clock import SystemClock
from core.decision import ErrorKind
from core.downstream import calling
from core.errors import PayhookError
from core.work import Applied, Held, Outcome, WorkItem
from load.bench.figures import is_short
from load.bench.plot import write_lines
from load.bench.slow_service import SlowService
from processor.calls.budget import Budgets
from processor.calls.downstreams import Downstreams
from processor.judge.classify import Classifier, Failure
from processor.judge.retry import parse_policy
from processor.run.abandoned import AbandonedCalls
from processor.run.execute import Executor
from processor.run.worker import Chunk, Task, run_chunk

AT_ONCE, EACH_S = 4, 0.05
"""Of the service: 80 requests a second at most."""

TIMEOUT_S = 0.4
"""Of the client: eight times what an answer takes when nobody queues."""

OVERLOAD = 2.0
THREADS = 64
BETWEEN_S = 0.15
DUE_PER_BATCH_MAX = 2_000
POLICY = parse_policy("exponential(1s, x2, max 16s, 5 tries, jitter 50%)")
CAPACITY_S = 4.0
RUN_S, RUN_S_SHORT = 60.0, 20.0
WARM_S = 5.0
"""Left out of the figures: the first queue builds up."""

STORMS_SECONDS = 2 * RUN_S + CAPACITY_S + 10
STORMS_SECONDS_SHORT = 2 * RUN_S_SHORT + CAPACITY_S + 10


class NoAnswer(PayhookError):
    """The service wasn't back in time."""

    kind = ErrorKind.SNBE


class Caller:
    """A handler that asks the service once an event."""

    version = "storms-1"

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=THREADS)
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT_S, limits=limits, trust_env=False)

    def __call__(self, item: WorkItem) -> Outcome:  # noqa: ARG002 - every event asks the same
        with calling("slow"):
            try:
                self._client.get("/").raise_for_status()
            except httpx.HTTPError as failed:
                raise NoAnswer(str(failed)) from failed
        return Applied()


class WithoutSpark(Executor):
    """The driver's executor with its tasks in this process. ``limited`` False: no budget reaches them."""

    def __init__(self, caller: Caller, downstreams: Downstreams, *, limited: bool) -> None:
        task = Task("storms", lambda: caller, Classifier(), 30.0, THREADS, 1, stop_on_dead=False, batch_deadline_s=10.0)
        super().__init__(None, task, 1, downstreams)  # type: ignore[arg-type]
        self._caller = caller
        self._limited = limited
        self._abandoned = AbandonedCalls()

    def _run_chunks(self, chunks: Sequence[Chunk]) -> pa.Table:
        answers = []
        for chunk in chunks:
            given = chunk if self._limited else Chunk(chunk.groups, Budgets())
            answers.append(pickle.dumps(run_chunk(self._task, self._caller, given, self._abandoned)))
        return pa.table({"results": pa.array(answers, pa.binary())})


class Storm:
    """One run: events come at a steady rate, each an entity of its own; ``done`` are the seconds at which they were."""

    def __init__(self, url: str, per_s: float, seconds: float, *, limited: bool) -> None:
        self._executor = WithoutSpark(Caller(url), Downstreams(clock=SystemClock()), limited=limited)
        self._per_s = per_s
        self._seconds = seconds
        self._came = 0
        self._due: list[tuple[float, int, int]] = []
        self._random = random.Random(7)
        self.done: list[float] = []
        self.dead = 0
        self.tries = 0

    def run(self) -> None:
        began = time.monotonic()
        while (now := time.monotonic() - began) < self._seconds:
            groups = [[item] for item in self._take(now)]
            results = self._executor.run(groups).by_item
            ended = time.monotonic() - began
            for [item] in groups:
                self._settle(item, results.get(item.item_seq), ended)
            time.sleep(BETWEEN_S)

    def _take(self, now: float) -> list[WorkItem]:
        """What is due, the longest waiting first, then everything that has come."""
        items: list[WorkItem] = []
        while self._due and self._due[0][0] <= now and len(items) < DUE_PER_BATCH_MAX:
            _, number, attempt = heapq.heappop(self._due)
            items.append(_item(number, attempt))
        coming = int(now * self._per_s)
        items += [_item(number, 0) for number in range(self._came, coming)]
        self._came = coming
        return items

    def _settle(self, item: WorkItem, result: Outcome | Failure | None, now: float) -> None:
        if result is None:
            self._wait(now, item, item.attempt)
        elif isinstance(result, Held):
            self._wait(now + result.retry_after_s, item, item.attempt)
        elif isinstance(result, Failure):
            self.tries += 1
            delay_s = POLICY.delay_s(item.attempt + 1, self._random.random)
            if delay_s is None:
                self.dead += 1
            else:
                self._wait(now + delay_s, item, item.attempt + 1)
        else:
            self.tries += 1
            self.done.append(now)

    def _wait(self, due: float, item: WorkItem, attempt: int) -> None:
        heapq.heappush(self._due, (due, item.item_seq, attempt))


def measure_storms(folder: Path, console: Console) -> dict[str, float]:
    """Events done a second at twice the capacity, as shares of the capacity, over the whole run but its beginning."""
    seconds = RUN_S_SHORT if is_short() else RUN_S
    with SlowService(AT_ONCE, EACH_S) as service:
        capacity = _capacity(service.url)
    console.print(f"capacity {capacity:.0f}/s, asked for {capacity * OVERLOAD:.0f}/s")
    runs: dict[str, Storm] = {}
    for name, limited in (("limited", True), ("unlimited", False)):
        with SlowService(AT_ONCE, EACH_S) as service:
            runs[name] = storm = Storm(service.url, capacity * OVERLOAD, seconds, limited=limited)
            storm.run()
        console.print(
            f"{name}: {_goodput(storm, seconds):.1f}/s done, {storm.tries / seconds:.0f} tries/s, {storm.dead} dead"
        )
    plot = folder / "storms.svg"
    lines = {name: _by_second(storm, seconds) for name, storm in runs.items()}
    lines |= {"capacity": [capacity] * int(seconds), "asked for": [capacity * OVERLOAD] * int(seconds)}
    write_lines(plot, f"Events done at {OVERLOAD:g}x overload", "seconds", "events a second", lines)
    console.print(str(plot), soft_wrap=True)
    return {f"storms.goodput_{name}": round(_goodput(storm, seconds) / capacity, 3) for name, storm in runs.items()}


def _capacity(url: str) -> float:
    """Requests a second that the service answers when exactly as many ask at a time as it serves."""
    caller, until = Caller(url), time.monotonic() + CAPACITY_S

    def ask(number: int) -> int:
        answered = 0
        while time.monotonic() < until:
            caller(_item(number, 0))
            answered += 1
        return answered

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return sum(threads.map(ask, range(AT_ONCE))) / CAPACITY_S


def _goodput(storm: Storm, seconds: float) -> float:
    return sum(WARM_S <= at <= seconds for at in storm.done) / (seconds - WARM_S)


def _by_second(storm: Storm, seconds: float) -> list[float]:
    """Means over five seconds: a batch's events are all done at its end."""
    counts = [0] * int(seconds)
    for at in storm.done:
        if at < len(counts):
            counts[int(at)] += 1
    windows = (counts[max(0, at - 4) : at + 1] for at in range(len(counts)))
    return [sum(window) / len(window) for window in windows]


def _item(number: int, attempt: int) -> WorkItem:
    return WorkItem(number, f"storm:{number}", f"e{number}", "storms", "", "storm", b"", None, attempt)
