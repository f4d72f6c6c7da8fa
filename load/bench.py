"""``make bench [ONLY=group]``: measures, prints a table, and writes bench.json into the data folder.

Figures are flat, name to number; one that wasn't measured is absent.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from core.clock import SystemClock
from load.client import RunningStack
from load.embedded import embedded_stack
from load.latency import first_decisions, percentile
from load.open_loop import Answer, post_at_rate
from load.traffic import Traffic
from stack.paths import DEFAULT_DATA_DIR

DECIDED_WAIT_S = 120.0
PACKAGES = ("pyspark", "delta-spark", "deltalake", "confluent-kafka", "redis", "fastapi", "uvicorn", "rocksdict")


@dataclass(frozen=True, slots=True)
class Group:
    """A set of figures measured together; ``seconds`` is about how long it takes."""

    name: str
    seconds: float
    measure: Callable[[Path, Console], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should reach."""

    figure: str
    at_most: float


GOALS = (Goal("e2e.p50_s_at_120", 0.45), Goal("e2e.p99_s_at_120", 0.8))

E2E_SECONDS = float(os.environ.get("PAYHOOK_BENCH_E2E_S", "600"))
E2E_RATE_PER_S = 120.0


def measure_e2e(folder: Path, console: Console) -> dict[str, float]:
    """HTTP receive to journal commit at 120 new events/s, open loop; the mix of `Traffic`, one event a webhook."""
    with embedded_stack(folder) as data_dir:
        stack = RunningStack(data_dir)
        traffic = Traffic(data_dir / "secrets", SystemClock(), random.Random(7), prefix=uuid.uuid4().hex[:8])
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("e2e at 120/s", total=E2E_SECONDS * E2E_RATE_PER_S)
            answers = asyncio.run(
                post_at_rate(
                    stack.endpoints["ingest"],
                    lambda number: traffic.single(number),
                    E2E_RATE_PER_S,
                    E2E_SECONDS,
                    lambda sent: progress.update(task, completed=sent),
                )
            )
        return e2e_figures(stack, answers)


def e2e_figures(stack: RunningStack, answers: list[Answer]) -> dict[str, float]:
    """
    :raises RuntimeError: an answer wasn't 200, so that the figure would flatter
    """
    refused = [answer.status for answer in answers if answer.status != 200]
    if refused:
        raise RuntimeError(f"{len(refused)} of {len(answers)} webhooks weren't answered 200: {refused[:5]}")
    keys = {key for answer in answers for key in answer.webhook.event_keys}
    stack.wait_until_decided(keys, DECIDED_WAIT_S)
    seconds = [one.seconds for one in first_decisions(stack.journal, "payments.events") if one.event_key in keys]
    p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
    assert p50 is not None and p99 is not None
    return {"e2e.p50_s_at_120": p50, "e2e.p99_s_at_120": p99}


GROUPS = (Group("e2e", E2E_SECONDS + 60, measure_e2e),)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="one group: " + ", ".join(group.name for group in GROUPS))
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "bench")
    wanted = parser.parse_args()
    groups = [group for group in GROUPS if wanted.only in ("", group.name)]
    console = Console()
    if not groups:
        console.print(f"no group {wanted.only!r}; there are: {', '.join(group.name for group in GROUPS)}")
        return 2
    console.print(
        f"about {sum(group.seconds for group in groups) / 60:.0f} minutes: {', '.join(g.name for g in groups)}"
    )
    shutil.rmtree(wanted.data, ignore_errors=True)
    wanted.data.mkdir(parents=True)
    figures: dict[str, float] = {}
    for group in groups:
        began = time.monotonic()
        figures.update(group.measure(wanted.data / group.name, console))
        console.print(f"{group.name}: {time.monotonic() - began:.0f} s")
    report = wanted.data / "bench.json"
    report.write_text(json.dumps({**_about(), **figures}, indent=1), "utf-8")
    console.print(_table(figures))
    console.print(str(report), soft_wrap=True)
    return 0


def _table(figures: dict[str, float]) -> Table:
    goals = {goal.figure: goal for goal in GOALS}
    table = Table("figure", "measured", "goal", "reached")
    for name, value in figures.items():
        goal = goals.get(name)
        reached = "" if goal is None else "yes" if value <= goal.at_most else "no"
        table.add_row(name, f"{value:.3f}", "" if goal is None else f"≤ {goal.at_most}", reached)
    return table


def _about() -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "machine": {"cores": os.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30, 1)},
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "commit": commit,
    }


if __name__ == "__main__":
    sys.exit(main())
