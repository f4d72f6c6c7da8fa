"""Several worker processes on one port, and several receivers, on one Redis and one Kafka: the promises of one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from load.client import wait_for
from stack.children import answers_ok
from tests.integration.ingest.conftest import ReceiverUnderTest, Servers, Signed, metric, receiver_on
from tests.processes import all_end, sockets_of

pytestmark = pytest.mark.more(reason="receivers of their own, some with several workers")

BACK_S = 60.0


@pytest.fixture(scope="module")
def workers(servers: Servers) -> Iterator[ReceiverUnderTest]:
    with several_workers(servers, 3) as receiver:
        yield receiver


ROWS_TRIED = 3
ROW_S = 40.0
ENDED_TRIED = 5


@contextmanager
def several_workers(servers: Servers, count: int) -> Iterator[ReceiverUnderTest]:
    """A receiver all of whose workers answer: it is ready as soon as one does.

    A port of their row may be taken between its choice and a worker's start: then another row is tried. Whoever took it
    may answer, too.
    """
    for _ in range(ROWS_TRIED):
        with receiver_on(servers, PAYHOOK_INGEST__WORKERS=str(count)) as receiver:
            if wait_for(lambda receiver=receiver: all_answer(receiver, count), ROW_S):  # type: ignore[misc]
                yield receiver
                return
    raise AssertionError(f"no {count} workers answered")


def all_answer(receiver: ReceiverUnderTest, count: int) -> bool:
    urls = metrics_urls(receiver, count)
    sockets = sockets_of(receiver.process.process_id, "tcp")
    own_ports = {socket.laddr.port for socket in sockets if socket.status == psutil.CONN_LISTEN}
    return all(urlsplit(url).port in own_ports and answers_ok(f"{url}/metrics") for url in urls)


def metrics_urls(receiver: ReceiverUnderTest, count: int) -> list[str]:
    first = int(receiver.metrics_url.rpartition(":")[2])
    return [f"http://127.0.0.1:{first + number}" for number in range(count)]


def pids(receiver: ReceiverUnderTest) -> list[int]:
    """Of the worker processes, the oldest first."""
    parents = [one for one in psutil.Process(receiver.process.process_id).children(recursive=True) if one.children()]
    parent = parents[-1] if parents else psutil.Process(receiver.process.process_id)
    return [one.pid for one in parent.children()]


def storm(posts: list[tuple[ReceiverUnderTest, Signed]]) -> list[tuple[int, bool]]:
    with ThreadPoolExecutor(len(posts)) as pool:
        answers = list(pool.map(lambda one: one[0].post(one[1]), posts))
    return [(answer.status_code, "idempotent-replayed" in answer.headers) for answer in answers]


def test_of_sixty_copies_over_two_receivers_of_which_one_has_three_workers_one_is_published(
    servers: Servers, workers: ReceiverUnderTest
) -> None:
    with receiver_on(servers) as other:
        signed = workers.stripe("storm")
        with servers.publishing(1) as published:
            reported = storm([(workers if number % 2 else other, signed) for number in range(60)])
            assert set(reported) <= {(200, False), (200, True), (409, False)}
            assert reported.count((200, False)) == 1
        assert [headers["dedupe"] for *_, headers in published] == ["claimed"]


def test_every_worker_takes_a_share(servers: Servers) -> None:
    with several_workers(servers, 3) as receiver:
        assert len(pids(receiver)) == 3
        before = {pid: sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids(receiver)}
        with servers.publishing(240):
            for start in range(0, 240, 40):
                assert set(storm([(receiver, receiver.stripe(str(start + n))) for n in range(40)])) == {(200, False)}
        assert all(sum(psutil.Process(pid).cpu_times()[:2]) > before[pid] for pid in before)
        answered = 'payhook_ingest_answers_total{provider="stripe",status="200"}'
        assert sum(metric(url, answered) for url in metrics_urls(receiver, 3)) == 240


def test_a_worker_that_is_killed_is_started_again_and_nothing_is_lost_meanwhile(
    servers: Servers, workers: ReceiverUnderTest
) -> None:
    before = pids(workers)
    os.kill(before[0], signal.SIGKILL)
    with servers.publishing(20):
        for number in range(20):
            assert taken(workers, workers.stripe(f"after-{number}")) == 200
    assert wait_for(lambda: len(pids(workers)) == 3 and before[0] not in pids(workers), BACK_S)


def taken(receiver: ReceiverUnderTest, signed: Signed) -> int:
    """As a provider does it: a connection that broke is no answer, and it sends again."""
    for _ in range(5):
        try:
            return receiver.post(signed).status_code
        except httpx2.TransportError:
            time.sleep(0.2)
    return 0


def test_asked_to_end_all_workers_finish_what_they_accepted(servers: Servers) -> None:
    """Kafka is given `ingest.publish_timeout_ms` for what is under way. On a machine too slow for that it is 503."""
    for number in range(ENDED_TRIED):
        statuses = statuses_of_an_end(servers, f"end-{number}")
        assert set(statuses) <= {200, 503}, "each request is answered"
        if set(statuses) == {200}:
            return
    raise AssertionError(f"{ENDED_TRIED} times Kafka was paused for longer than a request may wait for it")


def statuses_of_an_end(servers: Servers, name: str) -> list[int]:
    """Twelve requests that wait for Kafka while their receiver is asked to end."""

    def claims_made() -> float:
        return sum(metric(url, "payhook_redis_claim_seconds_count") for url in metrics_urls(receiver, 3))

    with several_workers(servers, 3) as receiver, ThreadPoolExecutor(12) as pool:
        with servers.paused(servers.kafka):
            reported = [pool.submit(receiver.post, receiver.stripe(f"{name}-{number}")) for number in range(12)]
            assert wait_for(lambda: claims_made() == 12, BACK_S)
            receiver.process.ask_to_end()
            time.sleep(0.4)
            assert receiver.process.exit_code is None
        statuses = [one.result().status_code for one in reported]
        assert wait_for(lambda: receiver.process.exit_code is not None, BACK_S)
        assert receiver.process.exit_code == 0
        assert not answers_ok(f"{receiver.url}/healthz")
    return statuses


def test_workers_end_when_their_parent_is_killed_so_that_another_one_can_have_the_port(servers: Servers) -> None:
    with several_workers(servers, 2) as receiver:
        orphans = [psutil.Process(pid) for pid in pids(receiver)]
        parent = orphans[0].parent()
        assert parent is not None
        parent.kill()
        assert all_end(orphans, BACK_S)
