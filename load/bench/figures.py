"""What a group of figures is, what it is given, and the goals."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from rich.console import Console
from rich.progress import Progress

SHORT_SUFFIX = ".short"
"""At the end of the name of a figure that comes from a shorter run: it says less, and no goal is held against it."""

Done: TypeAlias = Callable[[float], None]
"""Is given how much is done so far."""

T = TypeVar("T")


def nothing_shown(_done: float) -> None:
    """Progress that isn't shown."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a group is given: a folder for all that it makes, which isn't there yet, and where it reports.

    ``short``: a shorter run, by which code is tried out rather than measured. ``size``: rows, events or items instead
    of the group's own number.
    """

    folder: Path
    console: Console
    short: bool = False
    size: int | None = None

    def length(self, whole: T, short: T) -> T:
        return short if self.short else whole

    def count(self, whole: int, short: int) -> int:
        return self.size or self.length(whole, short)

    def within(self, name: str) -> Run:
        """The same for a part that has a folder of its own."""
        return replace(self, folder=self.folder / name)

    @contextmanager
    def progress(self, what: str, total: float) -> Iterator[Done]:
        with Progress(console=self.console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda done: progress.update(task, completed=done)


Measure: TypeAlias = Callable[[Run], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Group:
    """A set of figures measured together, and about how many seconds that takes: as a whole, and as a short run."""

    name: str
    measure: Measure
    whole_s: int
    short_s: int

    def named(self, figures: dict[str, float], *, short: bool) -> dict[str, float]:
        """The figures under the names that the report has."""
        return {f"{name}{SHORT_SUFFIX}" if short else name: value for name, value in figures.items()}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should reach: one of the two, or both."""

    at_least: float | None = None
    at_most: float | None = None

    def reached_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        bounds = (("≥", self.at_least), ("≤", self.at_most))
        return ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)


def median_s(ask: Callable[[], object]) -> float:
    """Seconds that one call takes, of five."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


GOALS = {
    "receiver.ratio_to_echo": Goal(at_least=0.60),
    "receiver.ratio_to_straightforward": Goal(at_least=1.8),
    "receiver.duplicates_ratio_to_echo": Goal(at_least=0.75),
    "receiver.p99_ratio_at_half_rate": Goal(at_most=3),
    "receiver.machine_ratio_to_echo": Goal(at_least=0.80),
    "redis.bytes_per_key": Goal(at_most=165),
    "processor.drain_ratio_to_plain": Goal(at_least=0.30),
    "processor.drain_per_s": Goal(at_least=15_000),
    "processor.recovery_off_forecast": Goal(at_most=0.25),
    "e2e.p50_s_at_120": Goal(at_most=0.20),
    "e2e.p99_s_at_120": Goal(at_most=0.40),
    "e2e.p99_s_at_1200": Goal(at_most=0.5),
    "e2e.p99_ratio_to_plain": Goal(at_most=0.2),
    "e2e.saturation_per_s": Goal(at_least=5_000),
    "e2e.recover_s_after_1h_outage": Goal(at_most=90),
    "e2e.recover_forecast_ratio": Goal(at_least=0.5, at_most=2),
    "index.batch_growth_10m": Goal(at_most=1.2),
    "index.batch_growth_old_redeliveries": Goal(at_most=2),
    "index.disk_bytes_per_key": Goal(at_most=32),
    "index.memory_mb_at_10m": Goal(at_most=256),
    "start.ready_s_at_10m": Goal(at_most=30),
    "start.rebuild_s_at_10m": Goal(at_most=180),
    "start.snapshot_s_at_10m": Goal(at_most=60),
    "ledger.balances_s_10m": Goal(at_most=5),
    "ledger.event_story_s_10m": Goal(at_most=1),
    "ledger.verify_rows_per_s": Goal(at_least=90_000),
    "ledger.verify_small_s": Goal(at_most=5),
    "ledger.bytes_per_event": Goal(at_most=900),
    "dlq.list_ms_1m": Goal(at_most=300),
    "dlq.stats_s_1m": Goal(at_most=2),
    "dlq.freeze_s_100k": Goal(at_most=10),
    "dlq.replay_per_s": Goal(at_least=1_000),
    "dlq.replay_live_p99_s": Goal(at_most=5),
    "cost.cpu_s_per_1000_events": Goal(at_most=0.7),
    "retry.late_p99_s": Goal(at_most=1.5),
    "retry.early": Goal(at_most=0),
}
