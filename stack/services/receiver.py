"""``python -m stack.services.receiver``: the receiver until SIGTERM; what it accepted by then is finished first."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from confluent_kafka import KafkaException
from prometheus_client import start_http_server

from core.clock import Clock, SystemClock
from core.errors import PayhookError
from core.kafka import check_kafka_files, open_admin, open_producer
from core.log import configure_logging
from core.record_keys import RecordKeys
from core.redis import async_redis, check_redis
from core.routing import topics_of
from core.settings import RECORD_BYTES_MAX
from core.topics import check_topics
from core.tracing import open_tracing
from ingest.app import LOOK_FOR_PARENT_S, SERVING, Workers, create_app, open_listening_socket
from ingest.body import BodyReader
from ingest.claims import RedisGate
from ingest.endpoints import EndpointContexts, SecretFiles, check_endpoints
from ingest.event_reader import EventReader
from ingest.fetch import FetchLimits, HttpFetch
from ingest.generations import RedisGenerations
from ingest.http import http_protocol
from ingest.limits import LIMITS, Load, RateLimits, ReceiverLimits
from ingest.metrics import IngestMetrics
from ingest.pan import FILE, CardMasker, MaskingKey
from ingest.protocol import ClaimProtocol, TakeEvents, add_tracing
from ingest.provider_client import open_client
from ingest.publisher import KafkaPublisher, Publisher, producer_settings
from ingest.receiver import Receiver
from ingest.redis_claims import RedisClaims
from ingest.reports import RequestReports
from ingest.settings import IngestSettings
from ingest.verifier import Verifier
from providers.adyen_money import NAME as ADYEN
from providers.paypal_money import NAME as PAYPAL
from providers.port import Adapter, WeaklySigningAdapter
from providers.registry import build_adapters
from stack.data_folder import secure_data_folder
from stack.settings import Settings, load_settings

log = logging.getLogger(__name__)

GRACE_S = 10
ASK_AGAIN_S = 1.0
GC_THRESHOLDS = (20_000, 20, 20)
"""Python's 700 would look through every request under way many times before it ends."""
FETCHES = FetchLimits()
SOCKET_TIMEOUTS = 4
"""A connection that is silent for so many of a request's time-outs is given up."""


@dataclass(frozen=True, slots=True)
class WorkerParent:
    listening: socket.socket
    parent: int


def main(limits: ReceiverLimits = LIMITS) -> None:
    configure_logging()
    try:
        settings = load_settings(reaches_lake=False)
        secure_data_folder(settings)
        check_settings(settings)
        check_kafka_files(settings.kafka)
        check_kafka(settings)
    except PayhookError as wrong:
        log.critical("%s", wrong)
        sys.exit(2)
    # What is made up to here stays: the collector needn't look at it again during requests, which leave few cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    if settings.ingest.workers == 1:
        serve(settings, limits, 0)
        return
    shared = WorkerParent(open_listening_socket(settings.ingest.host, settings.ingest.port), os.getpid())
    Workers(settings.ingest.workers, lambda number: serve(settings, limits, number, shared)).run()


def check_settings(settings: Settings) -> None:
    masking_key(settings.ingest)
    check_redis(settings.redis)
    adapters, secrets = build_adapters(settings.providers), secret_files(settings, SystemClock())
    secrets.check(adapters)
    check_endpoints(settings.ingest, adapters, secrets)
    _warn_of_adyen(settings, secrets)
    _warn_of_paypal(settings, secrets)
    for name in (name for name, adapter in adapters.items() if isinstance(adapter, WeaklySigningAdapter)):
        for missing in secrets.find_missing_credentials(name):
            log.warning(
                "%s: money isn't asked for again at its API before it is published, though its signature doesn't tell "
                "bodies apart; write the API's credentials to secrets/%s",
                name,
                missing,
            )


def _warn_of_adyen(settings: Settings, secrets: SecretFiles) -> None:
    """Warns that the later events of an Adyen dispute may name another entity than its payment's, on another shard."""
    if settings.processor.shards > 1 and secrets.takes_from(ADYEN):
        log.warning(
            "adyen: there are %d shards. Turn on 'Include the originalReference for CHARGEBACK_REVERSED events' in "
            "Adyen's Customer Area (the Standard webhook's Additional settings, Risk): without it the later events of "
            "a dispute come to a shard that doesn't know its chargeback, and are unknown",
            settings.processor.shards,
        )


def _warn_of_paypal(settings: Settings, secrets: SecretFiles) -> None:
    """Warns that v1's sales name no merchant: nothing but the setting says that they are of v2's account."""
    if not settings.providers.paypal.merchant_id and secrets.takes_from(PAYPAL):
        log.warning(
            "paypal: sales and refunds of its API's version 1 (PAYMENT.SALE.*) name no merchant. If there are any, set "
            "providers.paypal.merchant_id to the account's merchant id: without it they have a clearing account of "
            "their own, and what a dispute gives back of them isn't booked there"
        )


def check_kafka(settings: Settings) -> None:
    """Waits for Kafka, and looks at the topics that are published to: a 2xx says that a record is kept.

    :raises TopicsUnfit: one of them could lose records
    """
    wanted: dict[str, int] = {}
    for names in map(topics_of, settings.ingest.taken_modes):
        wanted |= {names.events: RECORD_BYTES_MAX, names.receipts: 0}
    client = open_admin(settings.kafka)
    while True:
        try:
            return check_topics(client, settings.kafka, wanted)
        except KafkaException as unknown:
            log.warning("Kafka can't be asked about its topics: %s", unknown.args[0])
            time.sleep(ASK_AGAIN_S)


def serve(settings: Settings, limits: ReceiverLimits, number: int, shared: WorkerParent | None = None) -> None:
    metrics = IngestMetrics()
    if settings.ingest.metrics_port:
        start_http_server(settings.ingest.metrics_port + number, settings.metrics_host, metrics.registry)

    @contextlib.asynccontextmanager
    async def opening() -> AsyncIterator[tuple[Receiver, Publisher]]:
        async with open_receiver(settings, limits, metrics, SystemClock()) as parts:
            orphaned = asyncio.create_task(_end_with(shared.parent)) if shared is not None else None
            yield parts
            if orphaned is not None:
                orphaned.cancel()

    app = create_app(opening)
    config = uvicorn.Config(
        app,
        host=settings.ingest.host,
        port=settings.ingest.port,
        timeout_graceful_shutdown=GRACE_S,
        **SERVING | {"http": http_protocol(limits, lambda refused: app.receiver.report_unread(refused))},
    )
    uvicorn.Server(config).run(sockets=None if shared is None else [shared.listening])


async def _end_with(parent: int) -> None:
    """Ends this process with its parent: one that was killed is started again, and the new one needs the port."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event announces it
        await asyncio.sleep(LOOK_FOR_PARENT_S)
    signal.raise_signal(signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class ReceiverParts:
    publisher: KafkaPublisher
    claims: RedisClaims
    generations: RedisGenerations
    gate: RedisGate
    fetch: HttpFetch
    reader: EventReader
    take: TakeEvents
    reports: RequestReports
    adapters: Mapping[str, Adapter]


@contextlib.asynccontextmanager
async def open_receiver(
    settings: Settings, limits: ReceiverLimits, metrics: IngestMetrics, clock: Clock
) -> AsyncIterator[tuple[Receiver, Publisher]]:
    async with open_parts(settings, limits, metrics, clock) as parts:
        load = Load(limits.in_flight_max, limits.in_flight_bytes_max, clock)
        bodies = BodyReader(load, settings.ingest.body_bytes_max, limits.read_deadline_s)
        receiver = Receiver(parts.adapters, bodies, parts.reader, parts.take, parts.reports, clock)
        metrics.set_gauges(_build_gauges(load, parts))
        yield receiver, parts.publisher


@contextlib.asynccontextmanager
async def open_parts(
    settings: Settings,
    limits: ReceiverLimits,
    metrics: IngestMetrics,
    clock: Clock,
    fetch_limits: FetchLimits = FETCHES,
) -> AsyncIterator[ReceiverParts]:
    """Opens Redis and Kafka; at the end gives what is outstanding its time."""
    ingest, timeout_s = settings.ingest, settings.ingest.redis_timeout_ms / 1000
    record_keys = RecordKeys(Path(settings.kafka.record_keys_file))
    producer = open_producer(settings.kafka, producer_settings(limits.publish_timeout_ms), record_keys)
    publisher, partitions = KafkaPublisher(producer, clock), settings.kafka.events_partitions
    adapters, secrets = build_adapters(settings.providers), secret_files(settings, clock)
    async with (
        async_redis(settings.redis, timeout_s, SOCKET_TIMEOUTS * timeout_s) as redis,
        open_client() as client,
    ):
        generations = RedisGenerations(redis, ingest.taken_modes, clock, partitions, lambda: record_keys.ids)
        await generations.read()
        tasks = [
            asyncio.create_task(publisher.serve(), name="delivery reports"),
            asyncio.create_task(generations.follow(), name="reading of the claims' generation"),
        ]
        for task in tasks:
            task.add_done_callback(_end_without_it)
        gate = RedisGate(timeout_s, limits.redis_failures_max, limits.redis_reset_s)
        claims = RedisClaims(redis, gate, limits.lease_s, limits.confirmed_s)
        protocol = ClaimProtocol(claims, generations, publisher, metrics, clock, limits.in_flight_wait_s)
        # Where an adapter wants something of this very machine, a setting says so: a simulator.
        fetch = HttpFetch(client, clock, fetch_limits, loopback=True, instead=settings.providers.api_urls)
        rates = RateLimits(ingest.rates_per_s, clock)
        verifier = Verifier(adapters, secrets, fetch, protocol, rates, metrics)
        reader = EventReader(verifier, EndpointContexts(ingest), CardMasker(ingest.pan, masking_key(ingest)))
        reports = RequestReports(publisher, metrics, clock, ingest.mode)
        tracing = open_tracing("receiver", clock)
        take = add_tracing(protocol.take_events, tracing)
        try:
            yield ReceiverParts(publisher, claims, generations, gate, fetch, reader, take, reports, adapters)
        finally:
            reports.flush()
            for task in tasks:
                task.cancel()
            await publisher.close(GRACE_S)
            await claims.await_settlements()
            await fetch.close()
            if tracing is not None:
                await asyncio.to_thread(tracing.close)


def _build_gauges(load: Load, parts: ReceiverParts) -> dict[str, Callable[[], float]]:
    return {
        "payhook_ingest_receipts_dropped": lambda: parts.publisher.dropped,
        "payhook_ingest_in_flight": lambda: load.requests,
        "payhook_ingest_in_flight_bytes": lambda: load.bytes,
        "payhook_ingest_fetches_failed": lambda: parts.fetch.failures,
        "payhook_redis_pipelines": lambda: parts.gate.tries,
        "payhook_redis_failures": lambda: parts.gate.failures,
        "payhook_redis_unsettled": lambda: parts.claims.unsettled_count,
        "payhook_redis_modes_deferred": lambda: parts.generations.deferred_mode_count,
        "payhook_redis_breaker_open": lambda: parts.gate.is_refusing,
    }


def masking_key(ingest: IngestSettings) -> MaskingKey:
    return MaskingKey.read(Path(ingest.secrets_dir, FILE))


def secret_files(settings: Settings, clock: Clock) -> SecretFiles:
    return SecretFiles(Path(settings.ingest.secrets_dir), clock, EndpointContexts(settings.ingest))


def _end_without_it(task: asyncio.Task[None]) -> None:
    """Ends the receiver gracefully, to be started again: no request would be answered truly any more."""
    if not task.cancelled() and (failed := task.exception()) is not None:
        log.critical("%s ended: %s", task.get_name(), failed, exc_info=failed)
        signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()
