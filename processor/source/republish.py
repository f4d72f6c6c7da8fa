"""Publishes events into the topic that the stream reads, as the receiver does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.durability import RECORD_BYTES_MAX
from core.routing import PARTITIONER
from processor.decide.ports import Outgoing

PUBLISH_S_MAX = 5.0
"""A batch waits so long for Kafka's word. librdkafka gives a record up before."""


class Producer(Protocol):
    """What is asked of confluent-kafka's producer."""

    @property
    def produce(self) -> Callable[..., None]: ...
    @property
    def flush(self) -> Callable[[float], int]: ...


def republish_settings(bootstrap: str) -> dict[str, Any]:
    """As the receiver's: every replica acknowledges, and the partitioner is the same."""
    return {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": int(PUBLISH_S_MAX * 800),
        "message.max.bytes": RECORD_BYTES_MAX,
        "partitioner": PARTITIONER,
    }


class Republisher:
    """`processor.decide.ports.Republish`. Its producer is made when it is needed, which is rarely."""

    def __init__(self, producer_factory: Callable[[], Producer], topic: str) -> None:
        self._producer_factory = producer_factory
        self._producer: Producer | None = None
        self._topic = topic

    def __call__(self, events: Sequence[Outgoing]) -> str | None:
        errors: list[str] = []
        acknowledged = 0

        def on_delivery(error: object, _message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None
            if error is not None:
                errors.append(str(error))

        try:
            if self._producer is None:
                self._producer = self._producer_factory()
            for event, headers in events:
                key = event.entity_key.encode()
                self._producer.produce(self._topic, event.body, key=key, headers=headers, on_delivery=on_delivery)
            self._producer.flush(PUBLISH_S_MAX)
        except Exception as failed:  # a full queue, a fatal error: the next try begins with a new producer
            self._producer = None
            return str(failed) or type(failed).__name__
        if acknowledged == len(events):
            return None
        return errors[0] if errors else f"no answer within {PUBLISH_S_MAX:g} s"
