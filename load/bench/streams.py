"""What a broken work stream does to the latency of another: the ledger's P99 with a neighbour that works, and with one
that is killed over and over, in one Spark application and in processes apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import statistics
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from core.clock import SystemClock
from core.routing import topics_of
from journal.reader import JournalReader
from load.bench import neighbour
from load.bench.figures import is_short
from load.client import RunningStack
from load.embedded import embedded_stack
from load.latency import first_decisions, percentile
from load.open_loop import post_at_rate
from load.traffic import Traffic

RATE_PER_S = 120.0
ROUND_S, ROUND_S_SHORT = 60.0, 30.0
PAIRS, PAIRS_SHORT = 3, 1
WARM_S = 20.0
DECIDED_WAIT_S = 120.0
KILL_EVERY_S = 15.0
"""Longer than a process takes to come up, so that every kill meets a stream at work."""

STREAMS_SECONDS = 2 * (90.0 + WARM_S + PAIRS * 2 * ROUND_S)
STREAMS_SECONDS_SHORT = 2 * (90.0 + WARM_S + PAIRS_SHORT * 2 * ROUND_S_SHORT)


def measure_streams(folder: Path, console: Console) -> dict[str, float]:
    """The ledger's P99 from receipt to journal commit at 120/s, clean and beside a stream that is killed over and over.

    In one application the neighbour's engine fails after each commit and is begun again; apart, its process gets
    kill -9.
    """
    figures: dict[str, float] = {}
    for name, apart in (("together", False), ("apart", True)):
        clean, beside = _pairs(folder / name, console, apart=apart)
        added = statistics.median(one - other for one, other in zip(beside, clean, strict=True))
        console.print(f"streams {name}: p99 {statistics.median(clean):.3f} s, beside a killed one {added:+.3f} s")
        figures[f"streams.{name}_p99_clean_s"] = statistics.median(clean)
        figures[f"streams.{name}_p99_killed_s"] = statistics.median(beside)
        figures[f"streams.{name}_p99_added_s"] = added
    return figures


def _pairs(folder: Path, console: Console, *, apart: bool) -> tuple[list[float], list[float]]:
    seconds, pairs = (ROUND_S_SHORT, PAIRS_SHORT) if is_short() else (ROUND_S, PAIRS)
    breaks = folder / "breaks"
    folder.mkdir(parents=True)
    clean, beside = [], []
    with _with_neighbour(folder, breaks, apart=apart), embedded_stack(folder / "data") as data_dir:
        stack = RunningStack(data_dir)
        _round(stack, WARM_S)
        for number in range(pairs):
            clean.append(_round(stack, seconds))
            with _killed(stack, breaks, apart=apart) as kills:
                beside.append(_round(stack, seconds))
            told = f"{clean[-1]:.3f} s, beside a neighbour that was killed {kills()} times {beside[-1]:.3f} s"
            console.print(f"p99 of pair {number + 1}: {told}")
    return clean, beside


@contextlib.contextmanager
def _with_neighbour(folder: Path, breaks: Path, *, apart: bool) -> Iterator[None]:
    """Settings of the processes that are started within."""
    file = folder / "streams.toml"
    file.write_text(neighbour.STREAMS_TOML, "utf-8")
    wanted = {
        "PAYHOOK_PROCESSOR__STREAMS_FILE": str(file),
        "PAYHOOK_PROCESSOR__STREAMS_APART": str(apart).lower(),
        neighbour.BREAK_VARIABLE: str(breaks),
    }
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]


@contextlib.contextmanager
def _killed(stack: RunningStack, breaks: Path, *, apart: bool) -> Iterator[Callable[[], int]]:
    """The neighbour dies over and over within. What it gives says how often.

    :raises RuntimeError: it never died, so that the figure would flatter
    """
    stop, restarts = threading.Event(), _restarts(stack)
    kills: list[int] = []

    def kill() -> None:
        while not stop.wait(KILL_EVERY_S / 3 if not kills else KILL_EVERY_S):
            with contextlib.suppress(KeyError, ProcessLookupError):
                kills.append(stack.kill(f"processor-{neighbour.NAME}"))

    killing = threading.Thread(target=kill) if apart else None
    if killing is not None:
        killing.start()
    else:
        breaks.touch()
    try:
        yield lambda: len(kills) if apart else _restarts(stack) - restarts
        if not (kills if apart else _restarts(stack) - restarts):
            raise RuntimeError(f"the neighbour was never killed: {stack.stream_status(neighbour.NAME)}")
    finally:
        stop.set()
        breaks.unlink(missing_ok=True)
        if killing is not None:
            killing.join()


def _restarts(stack: RunningStack) -> int:
    return int(stack.stream_status(neighbour.NAME).get("restarts", 0))


def _round(stack: RunningStack, seconds: float) -> float:
    """The ledger's P99 in seconds.

    :raises RuntimeError: an answer wasn't 200, so that the figure would flatter
    """
    before = JournalReader(str(stack.journal)).last_seq
    prefix = f"n{uuid.uuid4().hex[:8]}"
    traffic = Traffic(stack.data_dir / "secrets", SystemClock(), random.Random(11), prefix=prefix)
    answers = asyncio.run(post_at_rate(stack.endpoints["ingest"], traffic.single, RATE_PER_S, seconds))
    if any(answer.status != 200 for answer in answers):
        raise RuntimeError(f"answers by status: {sorted({answer.status for answer in answers})}")
    keys = {key for answer in answers for key in answer.webhook.event_keys}
    stack.wait_until_decided(keys, DECIDED_WAIT_S)
    decided = first_decisions(stack.journal, topics_of("live").events, before)
    p99 = percentile([one.seconds for one in decided if one.event_key in keys], 0.99)
    assert p99 is not None
    return p99
