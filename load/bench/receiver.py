"""The receiver against a bare FastAPI echo and against the straightforward version of itself.

One machine, one client (`load.wire`), 64 connections, 1.1 KB Stripe events with valid signatures. Rounds take turns, so
that what else the machine does falls on all of them.

And what a confirmed key costs in Redis (`measure_redis`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis
from redis.asyncio import Redis

from core.generation import Announcement, generation_keys
from core.kafka import open_admin
from core.redis import is_cluster
from core.routing import MODES
from core.settings import KafkaSettings
from ingest.claims import OWNER_BYTES, ClaimKey, ClaimState, RedisGate
from ingest.redis_claims import RedisClaims
from load.bench.figures import Done, Run
from load.bench.plain import broker_options
from load.latency import percentile
from load.traffic import StripeRequests
from load.wire import Load, closed_loop, open_loop, undisturbed
from stack.children import answers_ok
from stack.data_folder import make_key
from stack.servers.kafka import kafka_server
from stack.servers.kafka_users import embedded_kafka, make_services, security_environment
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.redis import ADMIN, redis_server, redis_url
from stack.servers.server import Server, run_server
from stack.settings import Settings
from stack.topics import make_topics, plan_topics

PAIRS, PAIRS_SHORT = 3, 1
REQUESTS_A_ROUND, REQUESTS_A_ROUND_SHORT = 40_000, 10_000
WARM_REQUESTS, WARM_REQUESTS_SHORT = 20_000, 5_000
"""Of each target, beforehand."""
WARM_RECEIVER_TIMES = 3
"""So many times more of the receivers: the broker's JVM compiles for so long, on the core that everything else needs
too."""
OPEN_LOOP_S, OPEN_LOOP_S_SHORT = 8.0, 3.0

KEYS, KEYS_SHORT = 1_000_000, 100_000
KEYS_A_STEP = 2_000
LEASE_S = 30.0
CONFIRMED_S = 8 * 86_400.0
PATIENCE_S = 30.0


class NotAllTaken(RuntimeError):
    """A ratio over answers that weren't all 200 would flatter."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Ports of what is compared. ``machine`` is the receiver with a process for each core."""

    receiver: int
    machine: int
    echo: int
    straightforward: int


def measure_receiver(run: Run) -> dict[str, float]:
    with targets(run.folder) as (ports, requests):
        warm = run.length(WARM_REQUESTS, WARM_REQUESTS_SHORT)
        for port in (ports.receiver, ports.machine):
            run_closed_loop(port, requests.make(WARM_RECEIVER_TIMES * warm))
        for port in (ports.echo, ports.straightforward):
            run_closed_loop(port, requests.make(warm))
        pairs, count = run.length(PAIRS, PAIRS_SHORT), run.length(REQUESTS_A_ROUND, REQUESTS_A_ROUND_SHORT)
        rounds = [_round(ports, requests, count, run) for _ in range(pairs)]
        rate = statistics.median(one["new"] for one in rounds) / 2
        run.console.print(f"open loop at {rate:,.0f}/s, half of the receiver's rate")
        tails = [_tails(rate, ports, requests, run) for _ in range(pairs)]
    median = statistics.median
    return {
        "receiver.ratio_to_echo": median(one["new"] / one["echo"] for one in rounds),
        "receiver.ratio_to_straightforward": median(one["new"] / one["straightforward"] for one in rounds),
        "receiver.duplicates_ratio_to_echo": median(one["again"] / one["echo"] for one in rounds),
        "receiver.machine_ratio_to_echo": median(one["machine"] / one["echo"] for one in rounds),
        "receiver.p99_ratio_at_half_rate": median(tails),
    }


def _round(ports: Targets, requests: StripeRequests, count: int, run: Run) -> dict[str, float]:
    """Requests a second of each; ``machine``'s are other events than ``new``'s, since both share Redis."""
    new = requests.make(count)
    rates = {
        "echo": run_closed_loop(ports.echo, new).per_s,
        "new": run_closed_loop(ports.receiver, new).per_s,
        "again": run_closed_loop(ports.receiver, new).per_s,
        "straightforward": run_closed_loop(ports.straightforward, new).per_s,
        "machine": run_closed_loop(ports.machine, requests.make(count)).per_s,
    }
    run.console.print("requests/s: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()))
    return rates


def _tails(rate_per_s: float, ports: Targets, requests: StripeRequests, run: Run) -> float:
    """p99 of the receiver ÷ p99 of the echo, at one rate, from when each request was due."""
    count = int(rate_per_s * run.length(OPEN_LOOP_S, OPEN_LOOP_S_SHORT))

    def p99(port: int) -> float:
        load = undisturbed(open_loop(LOOPBACK, port, requests.make(count), rate_per_s))
        return percentile(_all_taken(load).latencies, 0.99)

    echo, receiver = p99(ports.echo), p99(ports.receiver)
    run.console.print(f"p99: echo {echo * 1000:.1f} ms, receiver {receiver * 1000:.1f} ms")
    return receiver / echo


def run_closed_loop(port: int, requests: Sequence[bytes]) -> Load:
    """Everything once, over 64 connections.

    :raises NotAllTaken: an answer wasn't 200
    """
    return _all_taken(undisturbed(closed_loop(LOOPBACK, port, requests)))


def _all_taken(load: Load) -> Load:
    """
    :raises NotAllTaken: an answer wasn't 200
    """
    if set(load.statuses) != {200}:
        raise NotAllTaken(f"answers by status: {dict(load.statuses)}")
    return load


@contextlib.contextmanager
def targets(folder: Path) -> Iterator[tuple[Targets, StripeRequests]]:
    """Kafka, Redis, and the servers on them that are compared."""
    secret = "whsec_" + secrets.token_hex(16)
    with brokers(folder) as (kafka, redis_at):
        receiver, machine, echo, straightforward = free_ports(4)
        workers = str(os.cpu_count())
        baseline = (sys.executable, "-m", "load.bench.baselines")
        plain = (*baseline, "straightforward", *broker_options(kafka), "--redis", redis_at, "--secret", secret)
        with (
            run_server(receiver_server(folder / "one", kafka, redis_at, secret, receiver)),
            run_server(
                receiver_server(folder / "all", kafka, redis_at, secret, machine, PAYHOOK_INGEST__WORKERS=workers)
            ),
            run_server(_server(folder, "echo", echo, (*baseline, "echo"))),
            run_server(_server(folder, "straightforward", straightforward, plain)),
        ):
            yield Targets(receiver, machine, echo, straightforward), StripeRequests(secret, time.time)


@contextlib.contextmanager
def brokers(folder: Path) -> Iterator[tuple[KafkaSettings, str]]:
    """A Kafka with payhook's users and topics, as its administrator, and the URL of a Redis."""
    port, controller = free_ports(2)
    kafka = embedded_kafka(folder / "kafka", f"{LOOPBACK}:{port}")
    with (
        run_server(kafka_server(folder / "kafka", port, controller, folder / "kafka.log")),
        run_server(redis_server(folder / "redis", folder / "redis.log")),
    ):
        make_services(open_admin(kafka), folder / "kafka")
        make_topics(kafka, plan_topics(Settings()), 1)
        url = redis_url(folder / "redis")
        announce_generation(redis.Redis.from_url(url))
        yield kafka, url


def announce_generation(client: redis.Redis, generation: int = 0) -> None:
    """Writes what processors write over and over, for a receiver without one: it holds until Redis is emptied."""
    for key in (key for mode in MODES for key in generation_keys(mode, cluster=is_cluster(client))):
        client.set(key, Announcement(generation, KafkaSettings().events_partitions).encode())


def receiver_server(folder: Path, kafka: KafkaSettings, redis_at: str, secret: str, port: int, **env: str) -> Server:
    """``python -m stack.services.receiver`` on the given servers, with one Stripe secret."""
    held = folder / "secrets"
    held.mkdir(exist_ok=True, parents=True)
    (held / "stripe").write_text(secret + "\n", "utf-8")
    make_key(held / "records")
    return Server(
        name="receiver",
        command=(sys.executable, "-m", "stack.services.receiver"),
        log=folder / "receiver.log",
        env={
            "PAYHOOK_DATA_DIR": str(folder),
            "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            **security_environment(Path(kafka.security.credentials_file).parent, "receiver"),
            "PAYHOOK_KAFKA__DURABILITY": "single",
            "PAYHOOK_REDIS__URL": redis_at,
            "PAYHOOK_INGEST__PORT": str(port),
            **env,
        },
        answers=lambda: answers_ok(f"http://{LOOPBACK}:{port}/readyz"),
    )


def _server(folder: Path, name: str, port: int, command: tuple[str, ...]) -> Server:
    def answers() -> bool:
        with contextlib.suppress(OSError):
            asyncio.run(closed_loop(LOOPBACK, port, [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"], 1))
            return True
        return False

    return Server(name, (*command, "--port", str(port)), folder / f"{name}.log", answers)


def measure_redis(run: Run) -> dict[str, float]:
    """``used_memory`` that a million keys add, claimed and confirmed as the receiver does it."""
    keys, folder = run.count(KEYS, KEYS_SHORT), run.folder / "redis"
    with run_server(redis_server(folder, run.folder / "redis.log")), run.progress(f"{keys:,} keys", keys) as done:
        return {"redis.bytes_per_key": asyncio.run(_bytes_per_key(redis_url(folder, ADMIN), keys, done))}


async def _bytes_per_key(url: str, keys: int, done: Done) -> float:
    async with Redis.from_url(url) as redis:
        gate = RedisGate(PATIENCE_S)
        claims = RedisClaims(redis, gate, LEASE_S, CONFIRMED_S)
        await _take(claims, ["first"])
        before = int((await redis.info("memory"))["used_memory"])
        for start in range(0, keys, KEYS_A_STEP):
            numbers = range(start, min(start + KEYS_A_STEP, keys))
            await _take(claims, [f"stripe:evt_{number:024d}:charge.succeeded" for number in numbers])
            done(numbers.stop)
        grown = int((await redis.info("memory"))["used_memory"]) - before
        held = int(await redis.dbsize()) - 1
    assert held == keys, f"{held} keys are there, {keys} were confirmed"
    return grown / keys


async def _take(claims: RedisClaims, names: list[str]) -> None:
    keys = [ClaimKey.for_event(name, "ab" * 32) for name in names]
    owner = b"o" * OWNER_BYTES
    assert set(await claims.claim(keys, owner)) == {ClaimState.CLAIMED}
    claims.settle(keys, [], owner)
    await claims.await_settlements()
