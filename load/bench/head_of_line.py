"""What events that hang add to the latency of all others, on the whole stack.

Rounds take turns: one in which nothing hangs, one in which every hundredth entity does. The handler is the ledger's
(`load.bench.hanging`), the deadlines are the ones that ship.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from rich.console import Console

from core.decision import Decision
from core.routing import topics_of
from journal.reader import JournalReader
from load.bench import hanging
from load.bench.figures import is_short
from load.client import NotInTime, RunningStack, wait_for
from load.embedded import embedded_stack
from load.latency import Decided, first_decisions, percentile
from load.wire import open_loop
from load.wire_requests import StripeRequests

RATE_PER_S = 120.0
ROUND_S, ROUND_S_SHORT = 60.0, 30.0
PAIRS, PAIRS_SHORT = 3, 1
WARM_S = 20.0
DECIDED_WAIT_S = 120.0
DEAD_WAIT_S = 180.0
"""Until what hung has used its tries up, so that the next round's figures are its own."""

HEAD_OF_LINE_SECONDS = 60.0 + WARM_S + PAIRS * (2 * ROUND_S + 60.0)
HEAD_OF_LINE_SECONDS_SHORT = 60.0 + WARM_S + PAIRS_SHORT * (2 * ROUND_S_SHORT + 60.0)


def measure_head_of_line(folder: Path, console: Console) -> dict[str, float]:
    """P99 of events whose entity doesn't hang, receipt to journal commit at 120/s, without and with others that do."""
    seconds, pairs = (ROUND_S_SHORT, PAIRS_SHORT) if is_short() else (ROUND_S, PAIRS)
    clean, beside = [], []
    with _handler(f"{hanging.__name__}:{hanging.build.__name__}"), embedded_stack(folder) as data_dir:
        stack = RunningStack(data_dir)
        _p99_s(_round(stack, "warm00", WARM_S))
        for number in range(pairs):
            clean.append(_p99_s(_round(stack, f"none{number:02}", seconds)))
            mixed = _round(stack, f"{hanging.MARK}{number:02}", seconds)
            check_hanging(mixed)
            beside.append(_p99_s(mixed))
            console.print(f"p99 of pair {number + 1}: {clean[-1]:.3f} s, beside those that hang {beside[-1]:.3f} s")
            _until_dead(stack)
    added = statistics.median(one - other for one, other in zip(beside, clean, strict=True))
    return {
        "head_of_line.p99_clean_s": statistics.median(clean),
        "head_of_line.p99_with_hangs_s": statistics.median(beside),
        "head_of_line.p99_added_s": added,
    }


@contextlib.contextmanager
def _handler(name: str) -> Iterator[None]:
    """The ledger stream's handler, for processes that are started within."""
    variable = "PAYHOOK_STREAMS__LEDGER__HANDLER"
    os.environ[variable] = name
    try:
        yield
    finally:
        del os.environ[variable]


def check_hanging(decided: Sequence[Decided]) -> None:
    """
    :raises RuntimeError: nothing hung, so that the figure would flatter
    """
    meant = [one for one in decided if hanging.hangs(one.entity_key)]
    if not meant:
        raise RuntimeError(f"none of {len(decided)} events was of an entity that hangs")
    applied = [one.event_key for one in meant if one.decision == Decision.APPLIED]
    if applied:
        raise RuntimeError(f"{len(applied)} of {len(meant)} events that should hang were applied: {applied[:3]}")


def _p99_s(decided: Sequence[Decided]) -> float:
    """Of the events that don't hang."""
    p99 = percentile([one.seconds for one in decided if not hanging.hangs(one.entity_key)], 0.99)
    assert p99 is not None
    return p99


def _round(stack: RunningStack, run: str, seconds: float) -> list[Decided]:
    """The first decisions of a round's events; ``run`` is in the names of all of them.

    :raises NotInTime: not all are decided
    :raises RuntimeError: an answer wasn't 200, so that the figure would flatter
    """
    before = JournalReader(str(stack.journal)).last_seq
    requests = StripeRequests(stack.secrets("stripe")[0], time.time, run).make(int(RATE_PER_S * seconds))
    address = urlsplit(str(stack.endpoints["ingest"]))
    assert address.hostname is not None and address.port is not None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(open_loop(address.hostname, address.port, requests, RATE_PER_S))
    if set(load.statuses) != {200}:
        raise RuntimeError(f"answers by status: {dict(load.statuses)}")
    decided: list[Decided] = []

    def all_decided() -> bool:
        decided[:] = first_decisions(stack.journal, topics_of("live").events, before)
        return len(decided) >= len(requests)

    if not wait_for(all_decided, DECIDED_WAIT_S):
        raise NotInTime(f"decisions of {len(requests)} events", DECIDED_WAIT_S)
    return decided


def _until_dead(stack: RunningStack) -> None:
    """Waits until nothing is tried any more.

    :raises RuntimeError: something still is
    """

    def at_rest() -> bool:
        told = stack.processor_status()
        return bool(told) and told["open"] == told["dead"]

    if not wait_for(at_rest, DEAD_WAIT_S):
        raise RuntimeError(f"events still wait: {stack.processor_status().get('heads')}")
