"""``python -m ingest``: the receiver until SIGTERM; what it accepted by then is finished first."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pybreaker
import uvicorn
from confluent_kafka import Producer
from prometheus_client import start_http_server
from redis.asyncio import Redis

from core.clock import Clock, SystemClock
from core.errors import PayhookError
from core.log import configure_logging
from ingest.app import create_app
from ingest.gate import RedisGate
from ingest.metrics import IngestMetrics
from ingest.protocol import Protocol
from ingest.publisher import KafkaPublisher, Publisher, producer_settings
from ingest.receiver import Receiver
from ingest.redis_claims import RedisClaims
from ingest.secrets import SecretFiles
from ingest.serving import SERVING
from ingest.settings import IngestSettings
from providers.registry import build_adapters
from stack.settings import Settings, load_settings

log = logging.getLogger(__name__)

GRACE_S = 10
SECONDS_A_DAY = 86_400
REDIS_CONNECTIONS_MAX = 16
SOCKET_TIMEOUTS = 4
"""A connection that is silent for so many of a request's time-outs is given up."""


def main() -> None:
    configure_logging()
    try:
        settings = load_settings()
        secret_files(settings, SystemClock()).check(build_adapters(settings.providers))
    except PayhookError as wrong:
        log.critical("%s", wrong)
        sys.exit(2)
    metrics = IngestMetrics()
    # What is made up to here stays: the collector needn't look at it again during requests.
    gc.collect()
    gc.freeze()
    if settings.ingest.metrics_port:
        start_http_server(settings.ingest.metrics_port, "127.0.0.1", metrics.registry)

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Receiver, Publisher]]:
        async with open_receiver(settings, metrics, SystemClock()) as parts:
            yield parts

    uvicorn.run(
        create_app(opened),
        host=settings.ingest.host,
        port=settings.ingest.port,
        timeout_graceful_shutdown=GRACE_S,
        **SERVING,
    )


@contextlib.asynccontextmanager
async def open_receiver(
    settings: Settings, metrics: IngestMetrics, clock: Clock
) -> AsyncIterator[tuple[Receiver, Publisher]]:
    """Opens Redis and Kafka; at the end gives what is outstanding its time."""
    ingest = settings.ingest
    redis = _redis(settings.redis.url, ingest)
    producer = Producer(producer_settings(settings.kafka.bootstrap_servers, ingest.publish_timeout_ms))
    publisher = KafkaPublisher(producer, clock)
    serving = asyncio.create_task(publisher.serve())
    serving.add_done_callback(_end_without_it)
    breaker = pybreaker.CircuitBreaker(fail_max=ingest.redis_failures_max, reset_timeout=ingest.redis_reset_s)
    gate = RedisGate(breaker, ingest.redis_timeout_ms / 1000)
    claims = RedisClaims(redis, gate, ingest.lease_s, ingest.confirmed_days * SECONDS_A_DAY)
    protocol = Protocol(claims, publisher, metrics, clock, ingest.in_flight_wait_s)
    metrics.read_from(lambda: publisher.dropped, lambda: gate.failures, lambda: gate.refusing)
    adapters, secrets = build_adapters(settings.providers), secret_files(settings, clock)
    receiver = Receiver(ingest, adapters, secrets, protocol, publisher, metrics, clock)
    try:
        yield receiver, publisher
    finally:
        serving.cancel()
        await publisher.close(GRACE_S)
        await redis.aclose()


def secret_files(settings: Settings, clock: Clock) -> SecretFiles:
    return SecretFiles(Path(settings.ingest.secrets_dir), clock)


def _end_without_it(serving: asyncio.Task[None]) -> None:
    """Nobody would hear of a delivery any more: end gracefully, and be started again."""
    if not serving.cancelled() and (failed := serving.exception()) is not None:
        log.critical("delivery reports end: %s", failed, exc_info=failed)
        signal.raise_signal(signal.SIGTERM)


def _redis(url: str, settings: IngestSettings) -> Redis:
    return Redis.from_url(
        url,
        max_connections=REDIS_CONNECTIONS_MAX,
        socket_connect_timeout=settings.redis_timeout_ms / 1000,
        socket_timeout=SOCKET_TIMEOUTS * settings.redis_timeout_ms / 1000,
        decode_responses=False,
    )


if __name__ == "__main__":
    main()
