"""``make soak``: two million webhooks through one receiver, and what its memory did meanwhile.

Prints the resident memory after each step; exit 1 if the last quarter's median is more than `GROWTH_MIB_MAX` above
the second quarter's (the first one fills caches and pools).
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import statistics
import sys
import time
from pathlib import Path

import psutil
from rich.console import Console

from load.bench.receiver import brokers, receiver_server, run_closed_loop
from load.wire_requests import StripeRequests
from stack.paths import DEFAULT_DATA_DIR
from stack.ports import free_ports
from stack.server import running

REQUESTS = 2_000_000
ANSWERS = frozenset({200, 409, 503})
"""Where the machine is so busy that Redis is late, some redeliveries are told to come again."""
STEPS = 80
AGAIN_SHARE = 10
"""Of so many webhooks one is sent again: what is kept for duplicates is soaked too."""
GROWTH_MIB_MAX = 8.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "soak")
    wanted = parser.parse_args()
    console = Console()
    shutil.rmtree(wanted.data, ignore_errors=True)
    wanted.data.mkdir(parents=True)
    try:
        resident = soak(wanted.data, wanted.requests, console)
    finally:
        shutil.rmtree(wanted.data, ignore_errors=True)
    grown = growth_mib(resident)
    console.print(
        f"the last quarter's median is {grown:+.1f} MiB from the second one's; {GROWTH_MIB_MAX:g} are allowed"
    )
    return 0 if grown <= GROWTH_MIB_MAX else 1


def soak(folder: Path, count: int, console: Console) -> list[float]:
    """Resident memory of the receiver in MiB, after each step."""
    secret = "whsec_" + secrets.token_hex(16)
    (port,) = free_ports(1)
    resident: list[float] = []
    console.print(f"{count:,} webhooks in {STEPS} steps; some minutes")
    with brokers(folder) as (bootstrap, redis):
        server = receiver_server(folder, bootstrap, redis, secret, port)
        with running(server) as receiver:
            requests, sent, began = StripeRequests(secret, time.time), 0, time.monotonic()
            for step in range(STEPS):
                new = requests.make(count * (step + 1) // STEPS - count * step // STEPS)
                load = run_closed_loop(port, [*new, *new[::AGAIN_SHARE]], ANSWERS)
                sent += len(load.latencies)
                resident.append(_resident_mib(receiver.pid))
                rate = sent / (time.monotonic() - began)
                console.print(f"{sent:>10,} sent, {rate:,.0f}/s, {resident[-1]:.1f} MiB, {dict(load.statuses)}")
    return resident


def growth_mib(resident: list[float]) -> float:
    quarter = len(resident) // 4
    return statistics.median(resident[-quarter:]) - statistics.median(resident[quarter : 2 * quarter])


def _resident_mib(pid: int) -> float:
    """Of a process and those below it: the receiver runs below the one that ends it with us."""
    whole = psutil.Process(pid)
    rss: int = sum(one.memory_info().rss for one in [whole, *whole.children(recursive=True)])
    return rss / 2**20


if __name__ == "__main__":
    sys.exit(main())
