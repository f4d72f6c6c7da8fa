"""How punctual retries are: events of an unknown merchant are tried again until they die."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from core.clock import SystemClock
from load.bench.figures import Run
from load.client import NotInTime, RunningStack, wait_for
from load.embedded import embedded_stack
from load.latency import percentile
from load.open_loop import post_at_rate
from load.traffic import Traffic, Webhook
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

RATE_PER_S = 120.0
UNKNOWN_EVERY = 12
"""Of so many webhooks one is of an unknown merchant: ten a second, each tried again five times."""
UNKNOWN_ACCOUNT = "acct_nobody"
SECONDS, SECONDS_SHORT = 60.0, 20.0
RETRIES_S_MAX = 90.0
"""The default policy's five retries take 31 to 47 s."""

Try = tuple[datetime | None, datetime]
"""When an event's next try is due after this one, and when this one was decided."""


def measure_retry(run: Run) -> dict[str, float]:
    """Retries beside 110 other events a second. A retry has fired when it is decided."""
    seconds = run.length(SECONDS, SECONDS_SHORT)
    run.folder.mkdir(parents=True, exist_ok=True)
    _merchants(run.folder / "merchants.toml")
    with embedded_stack(run.folder) as data_dir:
        stack = RunningStack(data_dir)
        traffic = Traffic(data_dir / "secrets", SystemClock(), random.Random(7), prefix=uuid.uuid4().hex[:8])
        with run.progress("retries", seconds * RATE_PER_S) as done:
            answers = asyncio.run(
                post_at_rate(
                    stack.endpoints["ingest"], lambda number: _webhook(traffic, number), RATE_PER_S, seconds, done
                )
            )
        refused = [answer.status for answer in answers if answer.status != 200]
        if refused:
            raise RuntimeError(f"{len(refused)} of {len(answers)} webhooks weren't answered 200: {refused[:5]}")
        keys = {key for number in range(0, len(answers), UNKNOWN_EVERY) for key in answers[number].webhook.event_keys}
        if not wait_for(lambda: _dead(stack, keys) == len(keys), RETRIES_S_MAX):
            raise NotInTime("the last retry of every event", RETRIES_S_MAX)
        late = lateness(_tries(stack, keys))
    run.console.print(f"{len(late):,} retries of {len(keys):,} events, the latest {max(late):.2f} s after it was due")
    return {"retry.late_p99_s": percentile(late, 0.99), "retry.early": float(sum(1 for one in late if one < 0))}


def lateness(tries_of_events: Iterable[list[Try]]) -> list[float]:
    """Seconds from when each retry was due to when it was decided; negative where it was early."""
    return [
        (decided_at - due_at).total_seconds()
        for tries in tries_of_events
        for (due_at, _), (_, decided_at) in pairwise(tries)
        if due_at is not None
    ]


def _webhook(traffic: Traffic, number: int) -> Webhook:
    if number % UNKNOWN_EVERY:
        return traffic.single(number)
    return traffic.stripe(f"r{number}", "charge.succeeded", 1_000, "EUR", account=UNKNOWN_ACCOUNT)


def _merchants(path: Path) -> None:
    """Everybody's accounts but one are known."""
    lines = [f'[{name}]\n"*" = "merchant-main"\n' for name in build_adapters(ProvidersSettings()) if name != "stripe"]
    path.write_text("\n".join([*lines, '[stripe]\n"acct_main" = "merchant-main"\n']), "utf-8")


def _dead(stack: RunningStack, keys: set[str]) -> int:
    rows = stack.rows(["event_key", "decision"])
    return sum(1 for row in rows if row["decision"] == "dead" and row["event_key"] in keys)


def _tries(stack: RunningStack, keys: set[str]) -> list[list[Try]]:
    tries: dict[str, list[Try]] = {}
    for row in stack.rows(["event_key", "decision", "due_at", "decided_at"]):
        if row["event_key"] in keys:
            tries.setdefault(row["event_key"], []).append(_try(row))
    return list(tries.values())


def _try(row: dict[str, Any]) -> Try:
    return row["due_at"], row["decided_at"]
