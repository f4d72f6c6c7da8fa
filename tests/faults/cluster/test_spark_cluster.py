"""The processor with its executors on other hosts, which share nothing with it but Kafka and the object store.

The tests are one story, in their order: each leaves the site with a processor that runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from core.location import LakeUrl
from journal.reader import JournalReader
from load.bench.e2e import Held, Window
from load.client import RunningStack
from load.embedded import embedded_stack
from load.latency import percentile, seconds_to_decide
from load.traffic import StripeRequests, Webhook
from load.wire import open_loop, undisturbed
from tests.faults.cluster.conftest import ClusterSite
from tests.hosts import Host, until

EXECUTOR = "CoarseGrainedExecutorBackend"
RATE_PER_S, WARM_S, STEADY_S = 120.0, 60.0, 60.0
BACK_S = 120.0
"""Until a site whose part was lost decides again."""

Report = Callable[[str], None]


def captures(site: ClusterSite, count: int, prefix: str) -> list[Webhook]:
    traffic = site.traffic()
    return [traffic.stripe(f"{prefix}-{n}", "charge.succeeded", 1_000 + n, "EUR") for n in range(count)]


def keys(webhooks: Sequence[Webhook]) -> set[str]:
    return {key for one in webhooks for key in one.event_keys}


def reported(site: ClusterSite) -> set[str]:
    """What the subscriber took."""
    return {envelope["fact"]["event_key"] for envelope in site.shop.envelopes if "fact" in envelope}


def executors(site: ClusterSite, name: str) -> list[psutil.Process]:
    return [one for one in site.hosts[name].processes(EXECUTOR) if one.name() == "java"]


def has_the_code(site: ClusterSite, name: str) -> bool:
    """Whether an executor of a worker has unpacked all that it was sent; the archive ends with this package."""
    disk = site.hosts[name].disk
    folders = [disk / Path(one.cwd()).relative_to("/srv") for one in executors(site, name)]
    return any((folder / "environment" / "packages" / "zxcvbn").is_dir() for folder in folders)


class WebhookPoster(threading.Thread):
    """Posts some webhooks a second until `end`, which gives all of them."""

    def __init__(self, site: ClusterSite, prefix: str) -> None:
        super().__init__(daemon=True)
        self._site = site
        self._prefix = prefix
        self._over = threading.Event()
        self._sent: list[Webhook] = []
        self._failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        traffic, turn = self._site.traffic(), 0
        try:
            while not self._over.wait(0.2):
                ids = [f"{self._prefix}-{turn}-{n}" for n in range(5)]
                some = [traffic.stripe(one, "charge.succeeded", 1_000, "EUR") for one in ids]
                self._site.post(some)
                self._sent += some
                turn += 1
        except BaseException as failure:
            self._failure = failure

    def end(self) -> list[Webhook]:
        self._over.set()
        self.join(30)
        assert self._failure is None, self._failure
        return self._sent


def goes_on(site: ClusterSite) -> float:
    """Seconds until something that is posted now is decided."""
    probe = captures(site, 1, f"probe-{time.monotonic_ns()}")
    site.post(probe)
    return site.decide(probe, BACK_S)


def driver(site: ClusterSite, report: Report) -> Host:
    """The one that runs; started where there is none."""
    for name in ("driver2", "driver1"):
        if name in site.hosts:
            return site.hosts[name]
    host = site.start_driver("driver1", cores=2)
    report(f"the processor is ready after {site.await_ready(host):.1f} s, its package made meanwhile")
    return host


def all_reported(site: ClusterSite, webhooks: Sequence[Webhook]) -> float:
    return until(lambda: reported(site) >= keys(webhooks), BACK_S, "each fact is reported to the subscriber")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """What `payhook up` makes of the same load, before there is any other host."""
    with embedded_stack(tmp_path_factory.mktemp("embedded")) as data_dir:
        stack = RunningStack(data_dir)
        Window(stack, WARM_S).at(RATE_PER_S)
        return Window(stack, STEADY_S).at(RATE_PER_S)


def test_a_steady_load_is_decided_in_time(embedded: Held, site: ClusterSite, report: Report) -> None:
    host = driver(site, report)
    steady(site, WARM_S)
    seconds = steady(site, STEADY_S)
    p50, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
    report(f"embedded {embedded.said()}")
    report(f"on the cluster for {STEADY_S:.0f} s, receipt to ledger: p50 {p50:.2f} s, p99 {p99:.2f} s")
    report(f"which is {p99 / embedded.p99_s:.2f} times the embedded p99; the goal is 3")
    report(f"seconds of a batch's steps: {site.status(host)['step_s']}")


def test_webhooks_go_to_the_ledger_and_on_to_a_subscriber(site: ClusterSite, report: Report) -> None:
    driver(site, report)
    assert executors(site, "worker1") and executors(site, "worker2"), "an executor on each worker"
    some = captures(site, 200, "first")
    site.post(some)
    report(f"200 events are decided after {site.decide(some):.1f} s")
    report(f"and reported to the subscriber {all_reported(site, some):.1f} s later")


def steady(site: ClusterSite, length_s: float) -> list[float]:
    """Seconds from receipt to the ledger, of all that was sent in so long."""
    before = JournalReader(site.journal).last_seq
    secret = (site.settings / "secrets" / "stripe").read_text("utf-8").split()[0]
    requests = StripeRequests(secret, time.time).make(int(RATE_PER_S * length_s))
    load = undisturbed(open_loop(site.hosts["services"].address, 8080, requests, RATE_PER_S))
    assert set(load.statuses) == {200}
    wanted = before + len(requests)
    until(lambda: JournalReader(site.journal).last_seq >= wanted, BACK_S, "all of it is decided")
    seconds = seconds_to_decide(LakeUrl(site.journal), "payments.events", before)
    assert len(seconds) == len(requests)
    return seconds


def test_a_changed_merchants_file_reaches_the_executors(site: ClusterSite, report: Report) -> None:
    file = driver(site, report).disk / "data" / "merchants.toml"
    file.write_text('[stripe]\n"acct_other" = "merchant-other"\n')
    waiting = captures(site, 3, "unknown")
    site.post(waiting)
    until(lambda: len(site.decided(waiting)) >= 3, 60, "they wait")
    assert "applied" not in site.decided(waiting)
    file.write_text('[stripe]\n"*" = "merchant-main"\n')
    until(lambda: site.decided(waiting).count("applied") == 3, 60, "the merchant is known")


def test_an_executor_that_is_killed_costs_a_try_of_the_batch(site: ClusterSite, report: Report) -> None:
    host = driver(site, report)
    epoch = site.status(host)["epoch"]
    stream = WebhookPoster(site, "executor")
    for name in ("worker1", "worker2", "worker1"):
        back_s = until(lambda name=name: has_the_code(site, name), BACK_S, "an executor is back")  # type: ignore[misc]
        report(f"an executor of {name} has its code after {back_s:.1f} s")
        time.sleep(5.0)
        for process in executors(site, name):
            process.kill()
        report(f"the executor of {name} is killed: what comes now is decided after {goes_on(site):.1f} s")
    sent = stream.end()
    site.decide(sent)
    assert site.status(host)["epoch"] == epoch, "the stream went on, without another start"
    all_reported(site, sent)


def test_a_worker_whose_host_vanishes_is_done_without(site: ClusterSite, report: Report) -> None:
    host = driver(site, report)
    epoch = site.status(host)["epoch"]
    stream = WebhookPoster(site, "worker")
    time.sleep(2.0)
    site.hosts["worker1"].vanish()
    report(f"worker1 vanishes: what comes now is decided after {goes_on(site):.1f} s")
    sent = stream.end()
    site.decide(sent)
    assert site.status(host)["epoch"] == epoch, "the stream went on, without another start"
    all_reported(site, sent)


def test_a_driver_whose_host_vanishes_is_started_on_another_one(site: ClusterSite, report: Report) -> None:
    before = driver(site, report)
    stream = WebhookPoster(site, "driver")
    time.sleep(2.0)
    before.vanish()
    began = time.monotonic()
    assert site.end_applications() == 1
    host = site.start_driver("driver2", cores=1)
    site.await_ready(host)
    report(f"the driver vanishes: another host with an empty disk is ready {time.monotonic() - began:.1f} s later")
    goes_on(site)
    report(f"and has decided what comes now {time.monotonic() - began:.1f} s later")
    sent = stream.end()
    site.decide(sent)
    all_reported(site, sent)


def test_nothing_was_lost_and_nothing_booked_twice(site: ClusterSite, report: Report) -> None:
    report(site.verify(driver(site, report)).strip().splitlines()[-1])
    assert site.shop.counts.forged == 0
