"""Publishes to Kafka, and waits for acks=all without a thread hop a message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from core.clock import Clock
from core.errors import PayhookError
from core.event import Headers
from core.log import about_record
from core.settings import RECORD_BYTES_MAX

log = logging.getLogger(__name__)

BUSY_POLL_S = 0.001
IDLE_POLL_S = 0.02
METADATA_S = 1.0
WARN_EVERY_S = 60.0
REACHABLE_FOR_S = 1.0
"""An answer about Kafka is used for so long: asking more often costs nothing."""


class ProducerBroken(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the Kafka producer is broken and the receiver must start again: {problem}")


def producer_settings(publish_timeout_ms: int) -> dict[str, Any]:
    """Every replica acknowledges, and the producer's own retries make no copies."""
    return {
        "acks": "all",
        "enable.idempotence": True,
        "message.timeout.ms": publish_timeout_ms,
        "request.timeout.ms": publish_timeout_ms,
        "socket.timeout.ms": 10_000,
        "linger.ms": 0.3,
        "queue.buffering.max.messages": 50_000,
        "queue.buffering.max.kbytes": 128 * 1024,
        "message.max.bytes": RECORD_BYTES_MAX,
        "compression.type": "none",
    }


class Publisher(Protocol):
    def publish(self, topic: str, key: bytes, value: bytes, headers: Headers) -> Awaitable[bool]:
        """Hands the record to the client before it returns; the result is True once every in-sync replica has it.

        It is False where that failed, or isn't known.
        """

    def publish_unawaited(self, topic: str, value: bytes) -> None:
        """Publishes without waiting; a full queue drops and counts."""

    async def is_reachable(self) -> bool: ...


class KafkaPublisher:
    """`Publisher` on librdkafka; delivery reports come in on the event loop, from `serve`."""

    def __init__(self, producer: Producer, clock: Clock) -> None:
        self._producer = producer
        self._clock = clock
        self._outstanding = 0
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._broken: asyncio.Future[str] | None = None
        self._asked: asyncio.Task[bool] | None = None
        self._asked_at = 0.0
        self._quiet_until: dict[str, float] = {}
        self.dropped = 0

    def publish(self, topic: str, key: bytes, value: bytes, headers: Headers) -> asyncio.Future[bool]:
        acknowledged: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def delivered(error: KafkaError | None, _message: Message) -> None:
            self._outstanding -= 1
            if error is not None:
                log.debug("%s not acknowledged: %s", topic, error, extra=about_record(headers))
                self._warn(topic, f"not acknowledged: {error}")
            if not acknowledged.done():
                acknowledged.set_result(error is None)

        if not self._produce(topic, key, value, headers, delivered):
            acknowledged.set_result(False)
        return acknowledged

    def publish_unawaited(self, topic: str, value: bytes) -> None:
        if not self._produce(topic, None, value, [], self._count_delivery):
            self.dropped += 1

    async def serve(self) -> None:
        """Runs for as long as the receiver does: delivery reports come in meanwhile, soon while any is outstanding.

        :raises ProducerBroken: start again with another producer
        """
        self._broken = asyncio.get_running_loop().create_future()
        self._poll()
        try:
            raise ProducerBroken(await self._broken)
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _poll(self) -> None:
        """A timer's callback, not a task that sleeps: at a thousand times a second the difference counts."""
        self._producer.poll(0)
        self._busy = self._outstanding > 0
        delay = BUSY_POLL_S if self._busy else IDLE_POLL_S
        self._timer = asyncio.get_running_loop().call_later(delay, self._poll)

    async def is_reachable(self) -> bool:
        """Returns whether the broker answers with its metadata; asked once a second at most."""
        now = self._clock.monotonic_s()
        if self._asked is None or (self._asked.done() and now - self._asked_at >= REACHABLE_FOR_S):
            self._asked, self._asked_at = asyncio.create_task(self._ask()), now
        return await asyncio.shield(self._asked)

    async def _ask(self) -> bool:
        try:
            await asyncio.to_thread(self._producer.list_topics, timeout=METADATA_S)
        except KafkaException:
            return False
        return True

    async def close(self, timeout_s: float) -> int:
        """Gives what is outstanding its time; returns how much is left."""
        return int(await asyncio.to_thread(self._producer.flush, timeout_s))

    def _produce(
        self, topic: str, key: bytes | None, value: bytes, headers: Headers, delivered: Callable[[Any, Any], None]
    ) -> bool:
        given: Any = headers
        try:
            self._producer.produce(topic, value, key=key, headers=given, on_delivery=delivered)
        except BufferError:
            self._warn(topic, "accepts nothing: the queue to Kafka is full")
            return False
        except KafkaException as refused:
            self._warn(topic, f"accepts nothing: {refused}")
            fatal = refused.args[0].code() == KafkaError._FATAL  # noqa: SLF001  the library's public name
            if fatal and self._broken is not None and not self._broken.done():
                self._broken.set_result(str(refused))
            return False
        self._outstanding += 1
        if not self._busy and self._timer is not None:
            self._busy = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(BUSY_POLL_S, self._poll)
        return True

    def _warn(self, topic: str, problem: str) -> None:
        now = self._clock.monotonic_s()
        if now >= self._quiet_until.get(topic, now):
            self._quiet_until[topic] = now + WARN_EVERY_S
            log.warning("%s %s", topic, problem)

    def _count_delivery(self, error: KafkaError | None, _message: Message) -> None:
        self._outstanding -= 1
        self.dropped += error is not None
