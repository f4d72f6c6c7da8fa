"""payhook's latency beside the plainest pipeline's: both read one topic of one stack, in turns.

Both run all the time; the one whose turn it isn't is paused (SIGSTOP), so that each has the machine to itself and
neither starts cold.
"""

from __future__ import annotations

import os
import signal
import statistics
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from rich.console import Console

from core.routing import topics_of
from journal.reader import JournalReader
from load.bench.plain import live_server, plain_latencies, wait_for_rows
from load.client import NotInTime, RunningStack, wait_for
from load.latency import percentile, seconds_to_decide
from stack.server import running

CAUGHT_UP_S_MAX = 120.0

Post = Callable[[], tuple[datetime, int]]
"""Sends a window's load; when it began, and how many events."""


class Turns:
    """The two pipelines, of which one runs. ``posted`` counts the events since the plain one reads."""

    def __init__(self, stack: RunningStack, table: Path, plain_pid: int) -> None:
        self._stack = stack
        self._table = table
        self._plain_pid = plain_pid
        self._first_seq = JournalReader(str(stack.journal)).last_seq
        self._posted = 0

    def payhook(self, post: Post) -> float:
        """P99 in seconds of payhook alone."""
        os.killpg(self._plain_pid, signal.SIGSTOP)
        try:
            self._payhook_caught_up()
            before = JournalReader(str(self._stack.journal)).last_seq
            self._posted += post()[1]
            self._payhook_caught_up()
        finally:
            os.killpg(self._plain_pid, signal.SIGCONT)
        return _p99(seconds_to_decide(self._stack.journal, topics_of("live").events, before))

    def plain(self, post: Post) -> float:
        """P99 in seconds of the plainest pipeline alone."""
        processor = int(self._stack.endpoints["pids"]["processor"])
        os.killpg(processor, signal.SIGSTOP)
        try:
            wait_for_rows(self._table, self._posted, CAUGHT_UP_S_MAX)
            began, count = post()
            self._posted += count
            wait_for_rows(self._table, self._posted, CAUGHT_UP_S_MAX)
        finally:
            os.killpg(processor, signal.SIGCONT)
        return _p99(plain_latencies(self._table, began))

    def end(self) -> None:
        """Lets payhook decide what came while it was paused: it would count as late in what is measured next."""
        self._payhook_caught_up()

    def _payhook_caught_up(self) -> None:
        wanted = self._first_seq + self._posted
        if not wait_for(lambda: JournalReader(str(self._stack.journal)).state().next_seq > wanted, CAUGHT_UP_S_MAX):
            raise NotInTime(f"decisions up to seq {wanted}", CAUGHT_UP_S_MAX)


def measure_ratio_to_plain(
    stack: RunningStack, folder: Path, post: Post, pairs: int, console: Console
) -> dict[str, float]:
    """The P99s' ratio, the median of pairs of windows."""
    server = live_server(str(stack.endpoints["kafka"]), topics_of("live").events, folder)
    ratios = []
    with running(server) as plain:
        turns = Turns(stack, folder / "table", plain.pid)
        turns.plain(post)
        for _ in range(pairs):
            own, other = turns.payhook(post), turns.plain(post)
            console.print(f"p99: payhook {own:.2f} s, plain {other:.2f} s")
            ratios.append(own / other)
        turns.end()
    return {"e2e.p99_ratio_to_plain": statistics.median(ratios)}


def _p99(seconds: list[float]) -> float:
    p99 = percentile(seconds, 0.99)
    assert p99 is not None
    return p99
