"""Signed webhooks of three providers at a running receiver; a share of them is delivered again.

Run by ``make load``, or by hand::

    PAYHOOK_DATA_DIR=… locust -f load/locustfile.py --headless -u 40 -r 20 -t 2m --host http://127.0.0.1:PORT

Every answer is written to ``PAYHOOK_LOAD_LOG``, one JSON line a webhook, so that afterwards each 2xx can
be looked for in the journal.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import uuid
from pathlib import Path
from typing import Any

from locust import HttpUser, constant_throughput, events, task

from core.clock import SystemClock
from load.traffic import Traffic, Webhook

REDELIVERED_SHARE = 0.1
PER_USER_PER_S = float(os.environ.get("PAYHOOK_LOAD_PER_USER_PER_S", "3"))
RECENT_MAX = 500


class AnswerLog:
    """Appends what was answered; shared by all users of the process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1 << 16)
        self._lock = threading.Lock()

    def write(self, webhook: Webhook, status: int) -> None:
        line = json.dumps({"event_keys": webhook.event_keys, "status": status})
        with self._lock:
            self._file.write(line + "\n")

    def close(self) -> None:
        self._file.close()


_shared: dict[str, Any] = {}


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _open(environment: Any, **_: Any) -> None:
    secrets = Path(os.environ["PAYHOOK_DATA_DIR"]) / "secrets"
    _shared["traffic"] = Traffic(secrets, SystemClock(), random.Random(), prefix=uuid.uuid4().hex[:8])
    _shared["log"] = AnswerLog(Path(os.environ["PAYHOOK_LOAD_LOG"]))
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
        with self.client.post(
            webhook.path, data=webhook.body, headers=webhook.headers, name=webhook.path, catch_response=True
        ) as answer:
            _shared["log"].write(webhook, answer.status_code)
            if answer.status_code == 409:
                answer.success()
