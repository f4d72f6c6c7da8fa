"""``make load``: two minutes of locust on the embedded stack, the SLO, and every 2xx looked up in the journal."""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from load.client import NotInTime, RunningStack
from load.embedded import embedded_stack
from load.latency import first_decisions, percentile
from load.scratch import SCRATCH_HELP, NotScratch, empty_scratch_folder
from stack.paths import DEFAULT_DATA_DIR

SLO_P99_S = 5.0
SLO_SHARE = 0.999
IN_TIME_S = 5.0
SETTLE_S = 60.0
SUCCESS = frozenset({"applied", "ignored", "duplicate", "duplicate_fact"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run; ``lost`` and ``doubled`` are event keys."""

    sent: int
    accepted_keys: int
    statuses: Counter[int]
    receive_ms: dict[str, float]
    p50_s: float
    p99_s: float
    share_in_time: float
    lost: list[str]
    doubled: list[str]

    @property
    def ok(self) -> bool:
        return not self.lost and not self.doubled and self.p99_s < SLO_P99_S and self.share_in_time >= SLO_SHARE


def main() -> int:
    """Exit 1 when an accepted event is missing or twice, or the SLO isn't met; 2 when the folder isn't its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "load", help=SCRATCH_HELP)
    wanted = parser.parse_args()
    console = Console()
    try:
        empty_scratch_folder(wanted.data, "load.run")
    except NotScratch as refused:
        print(refused, file=sys.stderr)
        return 2
    with console.status("starting the stack"), embedded_stack(wanted.data) as data_dir:
        console.print(f"posting for {wanted.seconds} s with {wanted.users} users")
        receive_ms = _locust(data_dir, wanted.seconds, wanted.users)
        outcome = judge(RunningStack(data_dir), data_dir / "load.jsonl", receive_ms)
    console.print(_table(outcome))
    return 0 if outcome.ok else 1


def _locust(data_dir: Path, seconds: int, users: int) -> dict[str, float]:
    """Runs locust in a process of its own (it patches sockets); returns its percentiles in ms."""
    host = json.loads((data_dir / "endpoints.json").read_text("utf-8"))["ingest"]
    prefix = data_dir / "locust"
    environment = {
        **os.environ,
        "PAYHOOK_DATA_DIR": str(data_dir),
        "PAYHOOK_LOAD_LOG": str(data_dir / "load.jsonl"),
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "locust", "-f", str(Path(__file__).parent / "locustfile.py"), "--headless"]
    command += ["-u", str(users), "-r", str(users), "-t", f"{seconds}s", "--host", host]
    command += ["--csv", str(prefix), "--only-summary", "--loglevel", "WARNING", "--exit-code-on-error", "0"]
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
    with Path(f"{prefix}_stats.csv").open(encoding="utf-8") as lines:
        total = next(row for row in csv.DictReader(lines) if row["Name"] == "Aggregated")
    return {name: float(total[name]) for name in ("50%", "99%", "100%")}


def judge(stack: RunningStack, log: Path, receive_ms: dict[str, float]) -> Outcome:
    """Compares what was answered with what the journal holds."""
    statuses: Counter[int] = Counter()
    accepted: set[str] = set()
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            answer = json.loads(line)
            statuses[answer["status"]] += 1
            if 200 <= answer["status"] < 300:
                accepted.update(answer["event_keys"])
    with contextlib.suppress(NotInTime):  # what is missing by then is counted below
        stack.wait_until_decided(accepted, SETTLE_S)
    effects = Counter(
        row["event_key"] for row in stack.rows(["event_key", "decision"]) if row["decision"] in ("applied", "ignored")
    )
    decided = [one for one in first_decisions(stack.journal, "payments.events") if one.decision in SUCCESS]
    seconds = [one.seconds for one in decided]
    p50_s, p99_s = (percentile(seconds, share) if seconds else 0.0 for share in (0.5, 0.99))
    in_time = sum(1 for one in seconds if one <= IN_TIME_S)
    return Outcome(
        sent=sum(statuses.values()),
        accepted_keys=len(accepted),
        statuses=statuses,
        receive_ms=receive_ms,
        p50_s=p50_s,
        p99_s=p99_s,
        share_in_time=in_time / max(1, len(seconds)),
        lost=sorted(accepted - effects.keys()),
        doubled=sorted(key for key, count in effects.items() if count > 1),
    )


def _table(outcome: Outcome) -> Table:
    table = Table("what", "measured", "wanted", title="load")
    table.add_row("webhooks posted", str(outcome.sent), "")
    table.add_row("answers", ", ".join(f"{status}: {n}" for status, n in sorted(outcome.statuses.items())), "2xx")
    table.add_row("receive P50 / P99 / max", " / ".join(f"{ms:.0f} ms" for ms in outcome.receive_ms.values()), "")
    table.add_row("receive → commit P50", f"{outcome.p50_s:.2f} s", "")
    table.add_row("receive → commit P99", f"{outcome.p99_s:.2f} s", f"< {SLO_P99_S:g} s")
    table.add_row("within 5 s", f"{outcome.share_in_time:.3%}", f"≥ {SLO_SHARE:.1%}")
    table.add_row("events accepted", str(outcome.accepted_keys), "")
    table.add_row("accepted and not in the journal", _few(outcome.lost), "0")
    table.add_row("took effect twice", _few(outcome.doubled), "0")
    return table


def _few(keys: list[str]) -> str:
    return str(len(keys)) + (f" ({', '.join(keys[:3])})" if keys else "")


if __name__ == "__main__":
    sys.exit(main())
