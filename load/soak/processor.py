"""An hour at 1,200 events/s through the whole stack: what the processor's memory does, and its latency."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from core.routing import topics_of
from journal.reader import JournalReader
from load.client import RunningStack
from load.embedded import embedded_stack
from load.latency import percentile, seconds_to_decide
from load.memory import MIB, family, growth_mib, own_mib
from load.steady import SteadyLoad
from load.wire_requests import StripeRequests

SECONDS = 3_600.0
RATE_PER_S = 1_200.0
STEPS = 60
STEPS_PER_LATENCY = 5


@dataclass(frozen=True, slots=True)
class Flat:
    """How a part's memory is judged: by how much its ``level`` may grow from the second quarter to the last one."""

    mib_max: float
    level: Callable[[Sequence[float]], float] = statistics.median


FLAT: Mapping[str, Flat] = {
    # Without its key index, whose cache fills up with the history and has a limit of its own.
    "driver": Flat(32.0),
    # Its heap grows to its limit and is given back by a collection: only what one leaves says something.
    "jvm": Flat(64.0, min),
    "workers": Flat(32.0),
}
INDEX_MIB_MAX = 256.0


def soak_processor(folder: Path, seconds: float, console: Console) -> bool:
    """Whether the memory of each of the processor's parts stayed flat, and the index within its limit."""
    with embedded_stack(folder / "stack") as data_dir:
        held = _soaked(RunningStack(data_dir), seconds, console)
    grown = {part: growth_mib(held[part], flat.level) for part, flat in FLAT.items()}
    for part, flat in FLAT.items():
        told = f"the last quarter's {flat.level.__name__} is {grown[part]:+.1f} MiB from the second one's"
        console.print(f"{part}: {told}; {flat.mib_max:g} are allowed")
    most = max(held["index"])
    console.print(f"index: {most:.0f} MiB at most; {INDEX_MIB_MAX:g} are allowed")
    return most <= INDEX_MIB_MAX and all(grown[part] <= flat.mib_max for part, flat in FLAT.items())


def _soaked(stack: RunningStack, seconds: float, console: Console) -> dict[str, list[float]]:
    """MiB of each part of the processor after each step."""
    console.print(f"{RATE_PER_S:,.0f}/s for {seconds:,.0f} s")
    requests = StripeRequests(stack.secrets("stripe")[0], time.time)
    load = SteadyLoad(str(stack.endpoints["ingest"]), RATE_PER_S, requests.make)
    held: dict[str, list[float]] = defaultdict(list)
    seq, began = JournalReader(str(stack.journal)).last_seq, time.monotonic()
    with load.going():
        for step in range(1, STEPS + 1):
            time.sleep(max(0.0, began + step * seconds / STEPS - time.monotonic()))
            parts = _parts(stack)
            for part, mib in parts.items():
                held[part].append(mib)
            told = ", ".join(f"{part} {mib:,.0f}" for part, mib in sorted(parts.items()))
            console.print(f"{time.monotonic() - began:5,.0f} s, {load.sent:>9,} sent, MiB: {told}")
            if step % STEPS_PER_LATENCY == 0:
                seq = _latency(stack, seq, console)
    console.print(f"{load.sent / (time.monotonic() - began):,.0f}/s were sent; answers by status: {load.statuses}")
    return held


def _latency(stack: RunningStack, after: int, console: Console) -> int:
    """Prints the latency of what was decided after a row; the last row by now."""
    until = JournalReader(str(stack.journal)).last_seq
    seconds = seconds_to_decide(stack.journal, topics_of("live").events, after)
    p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
    if p50 is not None and p99 is not None:
        console.print(f"       {len(seconds):,} decided: p50 {p50:.2f} s, p99 {p99:.2f} s")
    return until


def _parts(stack: RunningStack) -> dict[str, float]:
    """MiB of the processor's driver without its key index, that index, its JVM, its Python workers together, and of a
    process that is just making checkpoints.
    """
    sums = dict.fromkeys((*FLAT, "checkpoints"), 0.0)
    for process in family(int(stack.endpoints["pids"]["processor"])):
        with contextlib.suppress(psutil.NoSuchProcess):
            sums[part_of(process.cmdline())] += own_mib(process)
    index = stack.processor_status().get("index_memory_bytes", 0) / MIB
    return {**sums, "driver": sums["driver"] - index, "index": index}


def part_of(words: Sequence[str]) -> str:
    """Of the processor, by the command line of one of its processes."""
    if words and Path(words[0]).name == "java":
        return "jvm"
    if "journal.checkpoints" in words:
        return "checkpoints"
    return "workers" if "pyspark.daemon" in words else "driver"
