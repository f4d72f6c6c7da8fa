"""``make bench [ONLY=group]``: measures, prints a table, and writes bench.json into the data folder.

Figures are flat, name to number; one that wasn't measured is absent.
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
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from load.bench.e2e import E2E_SECONDS, measure_e2e
from load.bench.figures import GOALS, Group
from load.bench.receiver import RECEIVER_SECONDS, measure_receiver
from load.bench.redis_memory import REDIS_SECONDS, measure_redis
from stack.paths import DEFAULT_DATA_DIR

PACKAGES = ("pyspark", "delta-spark", "deltalake", "confluent-kafka", "redis", "fastapi", "uvicorn", "rocksdict")


GROUPS = (
    Group("receiver", RECEIVER_SECONDS, measure_receiver),
    Group("redis", REDIS_SECONDS, measure_redis),
    Group("e2e", E2E_SECONDS + 60, measure_e2e),
)


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
    table = Table("figure", "measured", "goal", "reached")
    for name, value in figures.items():
        goal = GOALS.get(name)
        reached = "" if goal is None else "yes" if goal.reached_by(value) else "no"
        table.add_row(name, f"{value:.3f}", str(goal or ""), reached)
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
