"""Executors on other hosts come with a stream's own load, and go once it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from core.layout import Layout
from journal.reader import JournalReader
from load.traffic import Webhook
from tests.faults.cluster.conftest import CHECKOUT, ClusterSite
from tests.hosts import until

pytestmark = pytest.mark.row("D5")

EXECUTOR = "CoarseGrainedExecutorBackend"
LEAST, MOST, HOLD_S = 1, 3, 20.0
CALL_S, RATE_PER_S, LOAD_S = 0.2, 12, 90.0
"""One executor answers five calls a second, so that the load wants three of them and more."""
GO_S = 240.0

HANDLER = f"""
import time

from core.work import Applied


class Slow:
    version = "slow-1"

    def __call__(self, item):
        time.sleep({CALL_S})
        return Applied()


def build():
    return Slow()
"""
STREAMS = """
[slow]
source = "kafka"
handler = "slow_calls:build"
dlq = { create_topic = true }
"""


def count_executors(site: ClusterSite) -> int:
    workers = (site.hosts[name] for name in ("worker1", "worker2"))
    return sum(one.name() == "java" for worker in workers for one in worker.processes(EXECUTOR))


class Watch(threading.Thread):
    """Counts executors until `end`: the seconds since its start, and how many, at each change."""

    def __init__(self, site: ClusterSite) -> None:
        super().__init__(daemon=True)
        self._site = site
        self._over = threading.Event()
        self.changes: list[tuple[int, int]] = []
        self.start()

    def run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(1.0):
            count = count_executors(self._site)
            if not self.changes or self.changes[-1][1] != count:
                self.changes.append((round(time.monotonic() - began), count))

    def end(self) -> None:
        self._over.set()
        self.join(30)


def post_for(site: ClusterSite, seconds: float) -> list[Webhook]:
    traffic, sent = site.traffic(), list[Webhook]()
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        some = [
            traffic.stripe(f"slow-{len(sent) + n}", "charge.succeeded", 1_000 + n, "EUR") for n in range(RATE_PER_S)
        ]
        site.post(some)
        sent += some
        time.sleep(1.0)
    return sent


def test_executors_of_other_hosts_come_under_load_and_go_after_it(
    site: ClusterSite, report: Callable[[str], None]
) -> None:
    own = site.settings / "own"
    own.mkdir()
    (own / "slow_calls.py").write_text(HANDLER)
    (site.settings / "streams.toml").write_text(STREAMS)
    host = site.start_driver(
        "driver1",
        cores=MOST,
        PYTHONPATH=f"{CHECKOUT}:/srv/data/own",
        PAYHOOK_PROCESSOR__STREAMS_FILE="/srv/data/streams.toml",
        PAYHOOK_PROCESSOR__EXECUTORS_MIN=str(LEAST),
        PAYHOOK_PROCESSOR__EXECUTORS_MAX=str(MOST),
        PAYHOOK_PROCESSOR__EXECUTORS_HOLD_S=str(HOLD_S),
    )
    site.await_ready(host)
    idle_s = until(lambda: count_executors(site) == LEAST, GO_S, "without load one executor is left")
    report(f"one executor is left {idle_s:.1f} s after the start")
    watch = Watch(site)
    sent = post_for(site, LOAD_S)
    most = max(count for _at_s, count in watch.changes)
    report(f"{len(sent)} events in {LOAD_S:.0f} s, {CALL_S} s each: {most} executors")
    gone_s = until(lambda: count_executors(site) == LEAST, GO_S, "after the load one executor is left")
    watch.end()
    report(f"one is left {gone_s:.1f} s after the load; at second, so many: {watch.changes}")
    assert most == MOST
    slow = JournalReader(str(Layout(site.settings, site.env["PAYHOOK_STORAGE__URL"]).stream("slow").journal))
    wanted = {key for one in sent for key in one.event_keys}
    answered = {row.event_key for chunk in slow.rows_after(0) for row in chunk if row.decision == "applied"}
    assert wanted <= answered, f"{len(wanted - answered)} weren't answered"
    site.decide(sent)
    report(site.verify(host).strip().splitlines()[-1])
