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
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from load.bench.cost import stolen_seconds
from load.bench.dlq import DLQ_SECONDS, DLQ_SECONDS_SHORT, measure_dlq
from load.bench.drain import DRAIN_SECONDS, DRAIN_SECONDS_SHORT, measure_processor
from load.bench.e2e import E2E_SECONDS, E2E_SECONDS_SHORT, measure_e2e
from load.bench.figures import GOALS, SHORT_VARIABLE, Group
from load.bench.index import INDEX_SECONDS, INDEX_SECONDS_SHORT, measure_index
from load.bench.ledger import LEDGER_SECONDS, LEDGER_SECONDS_SHORT, measure_ledger
from load.bench.receiver import RECEIVER_SECONDS, measure_receiver
from load.bench.redis_memory import REDIS_SECONDS, measure_redis
from load.bench.retry import RETRY_SECONDS, RETRY_SECONDS_SHORT, measure_retry
from load.bench.start import START_SECONDS, START_SECONDS_SHORT, measure_start
from stack.paths import DEFAULT_DATA_DIR

PACKAGES = ("pyspark", "delta-spark", "deltalake", "confluent-kafka", "redis", "fastapi", "uvicorn", "rocksdict")


GROUPS = (
    Group("receiver", RECEIVER_SECONDS, measure_receiver),
    Group("redis", REDIS_SECONDS, measure_redis),
    Group("processor", DRAIN_SECONDS, measure_processor, DRAIN_SECONDS_SHORT),
    Group("e2e", E2E_SECONDS + 60, measure_e2e, E2E_SECONDS_SHORT + 60),
    Group("retry", RETRY_SECONDS, measure_retry, RETRY_SECONDS_SHORT),
    # Both use one history. `start` comes first: its broker is new, and would hold none of what `index` adds.
    Group("start", START_SECONDS, measure_start, START_SECONDS_SHORT),
    Group("index", INDEX_SECONDS, measure_index, INDEX_SECONDS_SHORT),
    Group("dlq", DLQ_SECONDS, measure_dlq, DLQ_SECONDS_SHORT),
    Group("ledger", LEDGER_SECONDS, measure_ledger, LEDGER_SECONDS_SHORT),
)
NAMES = [group.name for group in GROUPS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="groups, with commas between; there are " + ", ".join(NAMES))
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "bench")
    parser.add_argument("--short", action="store_true", help="shorter runs, whose figures are marked as such")
    wanted = parser.parse_args()
    if wanted.short:
        os.environ[SHORT_VARIABLE] = "1"
    names = [name.strip() for name in wanted.only.split(",") if name.strip()] or NAMES
    console = Console()
    if unknown := [name for name in names if name not in NAMES]:
        console.print(f"no group {', '.join(map(repr, unknown))}; there are: {', '.join(NAMES)}")
        return 2
    groups = [group for group in GROUPS if group.name in names]
    whole_s = sum(group.takes_s() for group in groups)
    console.print(f"about {whole_s / 60:.0f} minutes: {', '.join(map(_announced, groups))}")
    shutil.rmtree(wanted.data, ignore_errors=True)
    wanted.data.mkdir(parents=True)
    figures: dict[str, float] = {}
    stolen: dict[str, float] = {}
    for group in groups:
        began, stolen_before_s = time.monotonic(), stolen_seconds()
        console.print(f"{_announced(group)}: begins")
        figures.update(group.named(group.measure(wanted.data / group.name, console)))
        took_s = time.monotonic() - began
        stolen[group.name] = round((stolen_seconds() - stolen_before_s) / took_s, 3)
        told = f"{group.name}: {took_s:.0f} s; of its cores others on the host took {stolen[group.name]:.2f}"
        console.print(told)
    report = wanted.data / "bench.json"
    report.write_text(json.dumps({**_about(stolen), **figures}, indent=1), "utf-8")
    console.print(_table(figures))
    console.print(str(report), soft_wrap=True)
    return 0


def _announced(group: Group) -> str:
    return f"{group.name} ({group.takes_s() / 60:.0f} min)"


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
