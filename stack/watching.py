"""Builds what watches a stack, from its settings: for the management listener, and for `payhook status`.

For `payhook up` it waits for work streams, and finds those that don't run though they should.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from console.health import Marks, WatchedServices
from console.received import AskReceived, ReceiptTail, not_read
from core.clock import Clock
from core.routing import mode_of, shard_of, stream_of, topics_of
from core.status_file import read_said
from stack.addresses import metrics_urls, open_statuses, ready_url, status_files
from stack.children import REFUSED
from stack.settings import Settings


def build_watched(
    settings: Settings, lag: Callable[[Marks], dict[str, int] | None], received: AskReceived = not_read
) -> WatchedServices:
    return WatchedServices(ready_url(settings), open_statuses(settings), metrics_urls(settings), lag, received)


def open_receipt_tail(settings: Settings, clock: Clock) -> ReceiptTail:
    return ReceiptTail(settings.kafka, {mode: topics_of(mode).receipts for mode in settings.ingest.taken_modes}, clock)


AWAIT_S_MAX = 60.0
"""How long a stream may take to fail again: a processor starts in about ten seconds."""

FAILURES_MIN = 2
"""The first failure at a start may be over with the start that follows it."""

LOOK_S = 0.1


def await_streams(settings: Settings) -> dict[str, str]:
    """Returns why each stream doesn't run, once each runs, is off, is refused, or has failed `FAILURES_MIN` times."""
    reasons: dict[str, str] = {}
    failures: dict[str, set[object]] = defaultdict(set)
    until = time.monotonic() + AWAIT_S_MAX
    while True:
        waiting = False
        for stream, file in status_files(settings).items():
            status = read_said(file)
            if status is not None and status.get("ready"):
                reasons.pop(stream, None)
                continue
            if status is None:
                # Its process is between two starts, and what it said last holds.
                reasons.setdefault(stream, f"its processor writes no status; see run/logs/{_name_process(stream)}.log")
            else:
                reasons[stream] = _explain_status(status)
                failures[stream].add(tuple(status.get(name) for name in ("pid", "restarts", "tries")))
            refused = status is not None and status.get("state") == REFUSED
            waiting |= not refused and len(failures[stream]) < FAILURES_MIN
        if not waiting or time.monotonic() >= until:
            return reasons
        time.sleep(LOOK_S)


def _explain_status(status: Mapping[str, Any]) -> str:
    return str(status.get("why") or status.get("blocked") or status.get("last_failure") or "it isn't ready")


def _name_process(stream: str) -> str:
    return stream_of("processor", mode_of(stream), shard_of(stream))
