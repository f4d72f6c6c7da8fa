"""What replayed poison held goes to where the receiver would have put it, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from core import routing
from core.event import Dedupe, from_record, to_headers
from core.kafka import open_producer
from core.record_keys import RecordKeys, check_record
from core.settings import KafkaSettings
from ingest.publisher import producer_settings
from load.samples.stripe import stripe_event
from processor.source.sources import REPUBLISH, Republisher
from providers import Request
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from stack.data_folder import make_key

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PARTITIONS, EVENTS = 5, 12


def test_an_event_that_is_published_again_is_on_the_receivers_partition_and_signed_for_it(
    kafka_broker: str, make_topic: Callable[[str, int], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic("payments.events", PARTITIONS)
    monkeypatch.setattr(routing, "_EVENTS", {topic})
    make_key(tmp_path / "records")
    keys = RecordKeys(tmp_path / "records")
    kafka = KafkaSettings(bootstrap_servers=kafka_broker, events_partitions=PARTITIONS)
    adapter = StripeAdapter(ProvidersSettings())
    events = [event for number in range(EVENTS) for event in adapter.events(Request(_body(number), ()), "live")]
    receiver = open_producer(kafka, producer_settings(10_000), keys)
    for event in events:
        receiver.produce(topic, event.body, key=event.entity_key.encode(), headers=[("dedupe", b"claimed")])
    assert receiver.flush(60) == 0
    republish = Republisher(lambda: open_producer(kafka, REPUBLISH, keys), topic)
    assert republish([(event, to_headers(event, NOW, Dedupe.DEFERRED)) for event in events]) is None
    partitions: dict[bytes, list[int]] = {}
    for message in _read(kafka_broker, topic, 2 * EVENTS):
        key, partition = message.key() or b"", message.partition() or 0
        partitions.setdefault(key, []).append(partition)
        signed = cast(list[tuple[str, bytes | None]], message.headers() or [])
        headers = check_record(keys.now, topic, partition, key, message.value(), signed)
        if len(headers) > 1:
            received = from_record(message.value(), headers)
            assert received.event in events
            assert received.dedupe is Dedupe.DEFERRED
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in partitions.values())
    assert len({pair[0] for pair in partitions.values()}) > 1


def _body(number: int) -> bytes:
    return stripe_event(
        f"evt_{number}",
        "refund.created",
        payment=f"pi_{number}",
        account="acct_1",
        amount_minor=500,
        currency="EUR",
        created=NOW,
        object_id=f"re_{number}",
    )


def _read(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[Message] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None and message.error() is None
        found.append(message)
    consumer.close()
    return found
