"""The API's keys on a real Redis: shared by listeners, outliving them, and refused while Redis is away."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis.asyncio
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from console.access.roles import Role, User
from console.api import mount_api
from console.dead_letters import Streams
from core.clock import SystemClock
from ingest.claims import RedisGate
from ingest.idempotency.store import RedisAnswers
from operations.audit_log import AuditLog
from operations.command import Command
from operations.commands import decode
from operations.orders import DeltaView, OrderSender, OrderService
from operations.recorder import Recorder
from stack.servers.redis import redis_server as redis_server_on
from stack.servers.redis import redis_url
from stack.servers.server import run_server
from tests.integration.console.conftest import CONTROL, seen

LEASE_S, WAIT_S, LOOK_S = 10.0, 60.0, 0.1


class SlowKafka:
    """Acknowledges commands, and holds them up while a test wants it."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        self.sent.append(decode(value))
        self.reached.set()
        assert self.open.wait(WAIT_S)
        on_delivery(None, self)

    def flush(self, timeout: float) -> int:
        return 0

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return len(self.sent) - 1


def as_ada(app: ASGIApp) -> ASGIApp:
    """What the guard does, of somebody who has signed in."""

    async def passed(scope: Scope, receive: Receive, send: Send) -> None:
        ada = User("ada", frozenset({Role.REPLAYER}))
        scope.setdefault("state", {}).update(user=ada, allow=lambda demand: demand.check_user(ada))
        await app(scope, receive, send)

    return passed


@contextlib.asynccontextmanager
async def listener(
    url: str, journal: Path, kafka: SlowKafka, lease_s: float = 30.0
) -> AsyncIterator[httpx2.AsyncClient]:
    """One management listener with connections of its own."""
    connections = redis.asyncio.Redis.from_url(url, socket_connect_timeout=WAIT_S)
    answers = RedisAnswers(connections, RedisGate(WAIT_S, reset_s=0.1), lease_s)
    app = FastAPI()
    clock = SystemClock()
    orders = OrderSender(lambda: kafka, CONTROL, Recorder(AuditLog(journal.parent / "acts"), clock, "api"))
    mount_api(
        app, {"ledger": OrderService("ledger", DeltaView(journal, CONTROL), orders, clock)}, {}, answers, Streams({})
    )
    transport = httpx2.ASGITransport(as_ada(app))
    async with httpx2.AsyncClient(transport=transport, base_url="http://ops") as client:
        yield client
    await connections.aclose()


async def replay(client: httpx2.AsyncClient, key: str = "k", item_seq: int = 1) -> httpx2.Response:
    body = {"items": [seen(item_seq)], "reason": "mended"}
    return await client.post("/api/dlq/replay", json=body, headers={"idempotency-key": f'"{key}"'})


def test_of_fifty_copies_at_two_listeners_one_is_carried_out(empty_redis: str, journal: Path) -> None:
    async def storm() -> list[httpx2.Response]:
        async with listener(empty_redis, journal, kafka) as one, listener(empty_redis, journal, kafka) as other:
            posts = [asyncio.create_task(replay(client)) for client in [one, other] * 25]
            for _, refused in zip(range(49), asyncio.as_completed(posts), strict=False):
                await refused
            kafka.open.set()
            answers = await asyncio.gather(*posts)
            return [*answers, await replay(other)]

    kafka = SlowKafka()
    kafka.open.clear()
    *answers, after = asyncio.run(storm())
    assert Counter(answer.status_code for answer in answers) == {202: 1, 409: 49}
    [command] = kafka.sent
    assert after.json()["command_id"] == command.command_id
    assert after.headers["idempotent-replayed"] == "true"


def test_an_answer_outlives_the_listener_that_gave_it(empty_redis: str, journal: Path) -> None:
    async def once() -> httpx2.Response:
        async with listener(empty_redis, journal, kafka) as client:
            return await replay(client)

    kafka = SlowKafka()
    first, copy = asyncio.run(once()), asyncio.run(once())
    assert (copy.content, copy.headers["idempotent-replayed"]) == (first.content, "true")
    assert len(kafka.sent) == 1


@pytest.mark.more(reason="a lease in real time; the contract of the claims has it")
def test_a_listener_that_dies_in_the_middle_leaves_the_order_to_the_next_one(empty_redis: str, journal: Path) -> None:
    """The second run sends the same command again: the processor holds its id once."""

    async def dies() -> None:
        async with listener(empty_redis, journal, kafka, LEASE_S) as client:
            posting = asyncio.create_task(replay(client))
            assert await asyncio.to_thread(kafka.reached.wait, WAIT_S)
            posting.cancel()
        # The loop ends with the run in the middle; its thread is let go only so that the test can end.
        kafka.open.set()

    async def comes_back() -> tuple[int, httpx2.Response]:
        async with listener(empty_redis, journal, kafka, LEASE_S) as client:
            too_early = (await replay(client)).status_code
            for _ in range(int(WAIT_S / LOOK_S)):
                if (answer := await replay(client)).status_code != 409:
                    break
                await asyncio.sleep(LOOK_S)
            return too_early, answer

    kafka = SlowKafka()
    kafka.open.clear()
    asyncio.run(dies())
    too_early, answer = asyncio.run(comes_back())
    assert (too_early, answer.status_code) == (409, 202)
    assert len(kafka.sent) == 2
    assert {command.command_id for command in kafka.sent} == {answer.json()["command_id"]}


def test_while_redis_is_away_no_order_is_given_and_afterwards_it_is(tmp_path: Path, journal: Path) -> None:
    async def once() -> httpx2.Response:
        async with listener(redis_url(tmp_path / "redis"), journal, kafka) as client:
            return await replay(client)

    kafka = SlowKafka()
    server = redis_server_on(tmp_path / "redis", tmp_path / "redis.log")
    assert asyncio.run(once()).status_code == 503
    assert kafka.sent == []
    with run_server(server):
        assert asyncio.run(once()).status_code == 202


@pytest.mark.parametrize("count", [1, 2, 3])
def test_orders_with_keys_of_their_own_are_orders_of_their_own(empty_redis: str, journal: Path, count: int) -> None:
    async def several() -> list[httpx2.Response]:
        async with listener(empty_redis, journal, kafka) as client:
            return await asyncio.gather(*(replay(client, f"k-{n}", n) for n in range(1, count + 1)))

    kafka = SlowKafka()
    assert [answer.status_code for answer in asyncio.run(several())] == [202] * count
    assert sorted(command.targets[0].item_seq for command in kafka.sent) == list(range(1, count + 1))
