"""How long events take on secured Kafka of three brokers, beside the embedded one."""

from __future__ import annotations

import statistics

from load.bench.e2e import RATE_PER_S, Window, signed_when_sent
from load.bench.figures import Run
from load.client import RunningStack
from load.embedded import embedded_stack
from load.secured_stack import secured_stack

WINDOW_S, WINDOW_S_SHORT = 60.0, 30.0
WARM_S = 30.0
WINDOWS, WINDOWS_SHORT = 3, 1
SECURED_SECONDS, SECURED_SECONDS_SHORT = 500.0, 260.0


def measure_secured(run: Run) -> dict[str, float]:
    """P99 from receipt to journal commit at 120/s: of each stack the median of its windows. One stack after the other:
    side by side on few cores each would measure what the other leaves of them."""
    with embedded_stack(run.within("embedded").folder) as data_dir:
        embedded = _p99_s(RunningStack(data_dir), run, "embedded")
    with secured_stack(run.within("secured").folder) as site:
        secured = _p99_s(RunningStack(site.data_dir), run, "secured")
    return {"secured.p99_s_at_120": secured, "secured.p99_ratio_to_embedded": secured / embedded}


def _p99_s(stack: RunningStack, run: Run, name: str) -> float:
    Window(stack, WARM_S, signed_when_sent).at(RATE_PER_S)
    window = Window(stack, run.length(WINDOW_S, WINDOW_S_SHORT), signed_when_sent)
    found = []
    for _ in range(run.length(WINDOWS, WINDOWS_SHORT)):
        held = window.at(RATE_PER_S)
        run.console.print(f"{name}: {held.said()}")
        found.append(held.p99_s)
    return statistics.median(found)
