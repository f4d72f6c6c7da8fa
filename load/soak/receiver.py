"""Two million webhooks through one receiver, and what its memory does meanwhile."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from rich.console import Console

from load.bench.receiver import brokers, receiver_server, run_closed_loop
from load.memory import family, growth_mib, own_mib
from load.wire_requests import StripeRequests
from stack.ports import free_ports
from stack.server import running

REQUESTS = 2_000_000
ANSWERS = frozenset({200, 409, 503})
"""Where the machine is so busy that Redis is late, some redeliveries are told to come again."""
STEPS = 80
AGAIN_SHARE = 10
"""Of so many webhooks one is sent again: what is kept for duplicates is soaked too."""
GROWTH_MIB_MAX = 8.0


def soak_receiver(folder: Path, count: int, console: Console) -> bool:
    """Whether its memory stayed flat."""
    grown = growth_mib(_soaked(folder, count, console))
    console.print(
        f"the last quarter's median is {grown:+.1f} MiB from the second one's; {GROWTH_MIB_MAX:g} are allowed"
    )
    return grown <= GROWTH_MIB_MAX


def _soaked(folder: Path, count: int, console: Console) -> list[float]:
    """Memory of the receiver in MiB, after each step."""
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
                resident.append(sum(map(own_mib, family(receiver.pid))))
                rate = sent / (time.monotonic() - began)
                console.print(f"{sent:>10,} sent, {rate:,.0f}/s, {resident[-1]:.1f} MiB, {dict(load.statuses)}")
    return resident
