"""A backlog in Kafka: records as the receiver publishes them, written without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from confluent_kafka import KafkaError, Message, Producer

from core.event import Dedupe, to_headers
from ingest.publisher import producer_settings
from load.samples.stripe import stripe_event
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

FLUSH_EVERY = 10_000
FLUSH_S_MAX = 60.0
PUBLISH_MS_MAX = 60_000


class NotPublished(RuntimeError):
    """Kafka didn't acknowledge every record of a backlog."""


def fill(
    bootstrap: str, topic: str, count: int, prefix: str, progress: Callable[[int], None] = lambda made: None
) -> None:
    """Publishes ``count`` new Stripe charges of 1.1 KB, each a payment of its own.

    :raises NotPublished: Kafka didn't take one
    """
    settings = producer_settings(bootstrap, PUBLISH_MS_MAX) | {"linger.ms": 20, "queue.buffering.max.messages": 100_000}
    producer = Producer(settings)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    for number, (key, value, headers) in enumerate(_records(count, prefix), 1):
        producer.produce(topic, value, key=key, headers=headers, on_delivery=delivered)
        if number % FLUSH_EVERY == 0:
            producer.flush(FLUSH_S_MAX)
            progress(number)
    if producer.flush(FLUSH_S_MAX) or failed:
        raise NotPublished(f"{topic}: {len(failed)} of {count} records were refused: {failed[:1]}")
    progress(count)


def _records(count: int, prefix: str) -> Iterator[tuple[str, bytes, list[tuple[str, str | bytes | None]]]]:
    adapter = build_adapters(ProvidersSettings())["stripe"]
    now = datetime.now(UTC)
    for number in range(count):
        body = stripe_event(
            f"evt_{prefix}{number:08}",
            "charge.succeeded",
            payment=f"pi_{prefix}{number:08}",
            account="acct_load",
            amount_minor=1_000 + number % 500,
            currency="EUR",
            created=now,
        )
        for event in adapter.events(Request(body, []), "live"):
            yield event.entity_key, event.body, [*to_headers(event, now, Dedupe.CLAIMED)]
