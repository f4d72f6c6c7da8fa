"""`payhook ledger reconcile` as a child of the listener, for a report that was uploaded: Spark's JVM ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from console.uploads import ReconcileFailed, ReportAsked
from stack.settings import Settings

COMPARE_S_MAX = 1_800.0
PROBLEM_CHARS_MAX = 1_000


def compare_by_command(settings: Settings, asked: ReportAsked, report: Path) -> str:
    """Compares a report in a process of its own, and returns the run's id.

    :raises ReconcileFailed: with what the command said
    """
    end_with_parent = [sys.executable, "-S", "-m", "stack.die_with_parent", str(os.getpid())]
    words = ["ledger", "reconcile", "--json", "--data", str(settings.data_dir), "--provider", asked.provider]
    words += ["--report", str(report), *_build_options(asked)]
    command = [*end_with_parent, sys.executable, "-m", "cli.main", *words]
    # The answer names every difference: of a long report more than a process of pages should hold.
    with tempfile.TemporaryFile() as answer:
        try:
            result = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.PIPE,
                timeout=COMPARE_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            problem = f"there is no result after {COMPARE_S_MAX:,.0f} s: use `payhook ledger reconcile`"
            raise ReconcileFailed(problem) from None
        answer.seek(0)
        first_line = answer.readline().decode("utf-8", "replace")
    try:
        run_id: str = json.loads(f"{first_line.rstrip().rstrip(',')}}}")["run"]["run_id"]
    except (ValueError, KeyError, TypeError):
        message = " ".join(result.stderr.decode("utf-8", "replace").split())[-PROBLEM_CHARS_MAX:]
        raise ReconcileFailed(message or f"the command ended with {result.returncode}") from None
    return run_id


def _build_options(asked: ReportAsked) -> list[str]:
    options = {
        "--account": asked.account or None,
        "--tenant": asked.tenant,
        "--from": None if asked.since is None else asked.since.isoformat(),
        "--to": None if asked.until is None else asked.until.isoformat(),
    }
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    return [*given, *(["--test"] if asked.mode == "test" else [])]
