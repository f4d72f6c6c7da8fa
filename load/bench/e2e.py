"""Latency from the receipt of a webhook to the journal commit that decides it, on the whole stack."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from core.clock import SystemClock
from load.client import RunningStack
from load.embedded import embedded_stack
from load.latency import first_decisions, percentile
from load.open_loop import Answer, post_at_rate
from load.traffic import Traffic

DECIDED_WAIT_S = 120.0
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
