"""Signed webhooks of three providers at a running receiver; a share of them is delivered again.

Run by ``make load``, or by hand: docs/load.md. Secrets are those of ``PAYHOOK_LOAD_SECRETS``, a folder with a file a
provider. Where ``PAYHOOK_LOAD_LOG`` names a file every answer is written to it, one JSON line a webhook, so that each
2xx can be looked for in the journal afterwards.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import gevent
from locust import HttpUser, constant_throughput, events, task

from core.clock import SystemClock
from load.traffic import Traffic, Webhook

REDELIVERED_SHARE = 0.1
PER_USER_PER_S = float(os.environ.get("PAYHOOK_LOAD_PER_USER_PER_S", "3"))
RECENT_MAX = 500


class AnswerLog:
    """Appends what was answered; shared by all users of the process. ``path``: "" for nowhere."""

    def __init__(self, path: str) -> None:
        self._file = Path(path or os.devnull).open("a", encoding="utf-8", buffering=1 << 16)  # noqa: SIM115 - `close` does
        self._lock = threading.Lock()

    def write(self, webhook: Webhook, status: int, at: float, ms: float) -> None:
        """``at``: when it was sent, Unix time; ``ms``: until the answer was there."""
        line = json.dumps({"event_keys": webhook.event_keys, "status": status, "at": at, "ms": ms})
        with self._lock:
            self._file.write(line + "\n")

    def close(self) -> None:
        self._file.close()


_shared: dict[str, Any] = {}


@events.init.add_listener  # type: ignore[untyped-decorator]
def _set_timers_right(environment: Any, **_: Any) -> None:
    """gevent's time stands still while this file is imported; the run would be shorter by that."""
    gevent.get_hub().loop.update_now()


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _open(environment: Any, **_: Any) -> None:
    secrets = Path(os.environ["PAYHOOK_LOAD_SECRETS"])
    _shared["traffic"] = Traffic(secrets, SystemClock(), random.Random(), prefix=uuid.uuid4().hex[:8])
    _shared["log"] = AnswerLog(os.environ.get("PAYHOOK_LOAD_LOG", ""))
    _shared["recent"] = []
    _shared["turn"] = itertools.count()


@events.test_stop.add_listener  # type: ignore[untyped-decorator]
def _close(environment: Any, **_: Any) -> None:
    _shared["log"].close()


class Provider(HttpUser):
    """One provider's delivery worker, open loop at a set rate."""

    wait_time = constant_throughput(PER_USER_PER_S)

    @task
    def deliver(self) -> None:
        traffic: Traffic = _shared["traffic"]
        recent: list[Webhook] = _shared["recent"]
        if recent and random.random() < REDELIVERED_SHARE:
            webhook = random.choice(recent)
        else:
            webhook = traffic.next(next(_shared["turn"]))
            recent.append(webhook)
            del recent[:-RECENT_MAX]
        at, began = time.time(), time.perf_counter()
        with self.client.post(
            webhook.path, data=webhook.body, headers=webhook.headers, name=webhook.path, catch_response=True
        ) as answer:
            _shared["log"].write(webhook, answer.status_code, at, (time.perf_counter() - began) * 1_000)
            if answer.status_code == 409:
                answer.success()
