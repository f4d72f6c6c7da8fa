"""``make bench [ONLY=group]``: measures, prints a table, and writes bench.json into the data folder.

Figures are flat, name to number; one that wasn't measured is absent. ``--short`` is for trying out: where a group has a
shorter run, its figures' names end in ``.short`` and no goal is held against them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from load.bench import dlq, drain, e2e, index, ledger, receiver, recovery, retry, start
from load.bench.figures import GOALS, Group, Run
from load.scratch import SCRATCH_HELP, NotScratch, empty_scratch_folder
from stack.machine import DEFAULT_DATA_DIR

PACKAGES = ("pyspark", "delta-spark", "deltalake", "confluent-kafka", "redis", "fastapi", "uvicorn", "rocksdict")
GROUPS = (
    Group("receiver", receiver.measure_receiver, 210, 60),
    Group("redis", receiver.measure_redis, 60, 10),
    Group("processor", drain.measure_processor, 480, 150),
    Group("e2e", e2e.measure_e2e, 1_910, 320),
    Group("recovery", recovery.measure_recovery, 200, 90),
    Group("cost", e2e.measure_cost, 270, 120),
    Group("retry", retry.measure_retry, 155, 115),
    # Both use one history. `start` comes first: its broker is new, and would hold none of what `index` adds.
    Group("start", start.measure_start, 600, 120),
    Group("index", index.measure_index, 500, 60),
    Group("dlq", dlq.measure_dlq, 630, 170),
    Group("ledger", ledger.measure_ledger, 960, 180),
)
NAMES = [group.name for group in GROUPS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="groups, with commas between; there are " + ", ".join(NAMES))
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "bench", help=SCRATCH_HELP)
    parser.add_argument("--short", action="store_true", help="shorter runs, whose figures are marked as such")
    parser.add_argument("--size", type=int, help="rows, events or items of each group, instead of its own number")
    wanted = parser.parse_args()
    names = [name.strip() for name in wanted.only.split(",") if name.strip()] or NAMES
    console = Console()
    if unknown := [name for name in names if name not in NAMES]:
        console.print(f"no group {', '.join(map(repr, unknown))}; there are: {', '.join(NAMES)}")
        return 2
    try:
        empty_scratch_folder(wanted.data, "load.bench")
    except NotScratch as refused:
        print(refused, file=sys.stderr)
        return 2
    groups = [group for group in GROUPS if group.name in names]
    seconds = {group.name: group.short_s if wanted.short else group.whole_s for group in groups}
    announced = {name: f"{name} ({each / 60:.0f} min)" for name, each in seconds.items()}
    console.print(f"about {sum(seconds.values()) / 60:.0f} minutes: {', '.join(announced.values())}")
    figures: dict[str, float] = {}
    stolen: dict[str, float] = {}
    for group in groups:
        began, stolen_before_s = time.monotonic(), _stolen_seconds()
        console.print(f"{announced[group.name]}: begins")
        measured = group.measure(Run(wanted.data / group.name, console, wanted.short, wanted.size))
        figures.update(group.named(measured, short=wanted.short))
        took_s = time.monotonic() - began
        stolen[group.name] = round((_stolen_seconds() - stolen_before_s) / took_s, 3)
        console.print(f"{group.name}: {took_s:.0f} s; of its cores others on the host took {stolen[group.name]:.2f}")
    report = wanted.data / "bench.json"
    report.write_text(json.dumps({**_about(stolen), **figures}, indent=1), "utf-8")
    console.print(_table(figures))
    console.print(str(report), soft_wrap=True)
    return 0


def _stolen_seconds() -> float:
    """CPU time, over all cores, that other machines on this one's host took from it; 0 where the system doesn't say."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def _table(figures: dict[str, float]) -> Table:
    table = Table("figure", "measured", "goal", "reached")
    for name, value in figures.items():
        goal = GOALS.get(name)
        reached = "" if goal is None else "yes" if goal.reached_by(value) else "no"
        table.add_row(name, f"{value:.3f}", str(goal or ""), reached)
    return table


def _about(stolen: Mapping[str, float]) -> dict[str, Any]:
    """``stolen``: cores that the host kept back while a group ran; a figure in seconds says little where it is high."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "cores_stolen": dict(stolen),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "commit": commit,
    }


if __name__ == "__main__":
    sys.exit(main())
