"""``python -m ingest``: the receiver until SIGTERM; what it accepted by then is finished first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pybreaker
import uvicorn
from confluent_kafka import Producer
from prometheus_client import start_http_server
from redis.asyncio import Redis

from core.clock import Clock, SystemClock
from core.log import configure_logging
from ingest.app import Receiver, create_app
from ingest.guarded_claims import GuardedClaims
from ingest.metrics import IngestMetrics
from ingest.protocol import Protocol
from ingest.publisher import KafkaPublisher, Publisher, producer_settings
from ingest.redis_claims import RedisClaims
from ingest.secrets import SecretFiles
from ingest.settings import IngestSettings
from providers.registry import build_adapters
from stack.settings import Settings, load_settings

GRACE_S = 10
SECONDS_A_DAY = 86_400
REDIS_CONNECTIONS_MAX = 16
SOCKET_TIMEOUTS = 4
"""A connection that is silent for so many of a request's time-outs is given up."""


def main() -> None:
    configure_logging()
    settings = load_settings()
    metrics = IngestMetrics()
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
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )


@contextlib.asynccontextmanager
async def open_receiver(
    settings: Settings, metrics: IngestMetrics, clock: Clock
) -> AsyncIterator[tuple[Receiver, Publisher]]:
    """Opens Redis and Kafka; at the end gives what is outstanding its time."""
    ingest = settings.ingest
    redis = _redis(settings.redis.url, ingest)
    publisher = KafkaPublisher(Producer(producer_settings(settings.kafka.bootstrap_servers, ingest.publish_timeout_ms)))
    serving = asyncio.create_task(publisher.serve())
    claims = RedisClaims(redis, ingest.lease_s, ingest.confirmed_days * SECONDS_A_DAY)
    breaker = pybreaker.CircuitBreaker(fail_max=ingest.redis_failures_max, reset_timeout=ingest.redis_reset_s)
    guarded = GuardedClaims(claims, breaker, ingest.redis_timeout_ms / 1000)
    protocol = Protocol(guarded, publisher, metrics, clock, ingest.in_flight_wait_s)
    secrets = SecretFiles(Path(ingest.secrets_dir or settings.data_dir / "secrets"), clock)
    metrics.receipts_dropped_from(lambda: publisher.dropped)
    receiver = Receiver(ingest, build_adapters(settings.providers), secrets, protocol, publisher, metrics, clock)
    try:
        yield receiver, publisher
    finally:
        serving.cancel()
        await publisher.close(GRACE_S)
        await redis.aclose()


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
