"""Says outside the lake where a journal's chain stands: never waits, and what fails is made good by the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException

from core.clock import Clock
from journal.anchors import Anchor, AnchorKeys

log = logging.getLogger(__name__)

ANCHOR_EVERY_S = 5.0
"""A head is anchored at most this often; what was decided since the last anchor could be cut off unseen."""

ANCHORED_NOTE = "anchored"
"""The journal's note of the last seq whose anchor Kafka acknowledged: anchors that vanish are missed."""


class Producer(Protocol):
    """What anchoring asks of a Kafka producer (confluent_kafka's)."""

    @property
    def produce(self) -> Callable[..., None]: ...
    @property
    def poll(self) -> Callable[[float], int]: ...
    @property
    def flush(self) -> Callable[[float], int]: ...


@dataclass(frozen=True, slots=True)
class Head:
    """Where a journal stands: its writer's epoch, its last row, its chain's head."""

    epoch: int
    seq: int
    chain: str


class Anchoring:
    """One writer's anchors: its first head at once, then the newest at most every ``every_s``, and the last at the end.

    Belongs to one thread.
    """

    def __init__(
        self,
        stream: str,
        topic: str,
        keys: AnchorKeys,
        producer: Producer,
        every_s: float,
        clock: Clock,
        anchored_seq: int = 0,
        lineage: str = "",
    ) -> None:
        self._stream = stream
        self._lineage = lineage
        self._topic = topic
        self._keys = keys
        self._producer: Producer | None = producer
        self._every_s = every_s
        self._clock = clock
        self._next_at = clock.monotonic()
        self._head: Head | None = None
        self.anchored_seq = anchored_seq
        self.failed = 0

    def committed(self, head: Head) -> None:
        """The journal stands here now."""
        if head.seq > self.anchored_seq:
            self._head = head
            self.poll()

    def poll(self) -> None:
        """Serves acknowledgements, and anchors the newest head when it is time."""
        if self._producer is None:
            return
        self._producer.poll(0)
        if self._head is not None and self._clock.monotonic() >= self._next_at:
            self._say(self._head)

    def notes(self) -> dict[str, str]:
        """What the journal's next commit remembers."""
        return {ANCHORED_NOTE: str(self.anchored_seq)} if self.anchored_seq else {}

    def close(self, timeout_s: float) -> None:
        """Anchors the newest head, and gives acknowledgements a last chance; without one the next writer's has it."""
        if self._head is not None and timeout_s > 0:
            self._say(self._head)
        if self._producer is not None:
            self._producer.flush(timeout_s)
            # Anchors on their way hold this one, which holds the producer: its threads would live on.
            self._producer = None

    def _say(self, head: Head) -> None:
        if self._producer is None:
            return
        self._next_at = self._clock.monotonic() + self._every_s
        anchor = Anchor(self._stream, head.epoch, head.seq, head.chain, self._clock.now(), self._lineage)

        def on_delivery(error: object, _message: Any) -> None:
            if error is None:
                self._anchored(head)
            else:
                self._refused(head, error)

        try:
            value = self._keys.encode(anchor)
            self._producer.produce(self._topic, key=self._stream.encode(), value=value, on_delivery=on_delivery)
        except (BufferError, KafkaException) as refused:
            self._refused(head, refused)

    def _anchored(self, head: Head) -> None:
        self.anchored_seq = max(self.anchored_seq, head.seq)
        if self._head is not None and self._head.seq <= self.anchored_seq:
            self._head = None

    def _refused(self, head: Head, error: object) -> None:
        self.failed += 1
        log.error("%s: row %d isn't anchored yet (%s); the next anchor covers it", self._stream, head.seq, error)


class Unanchored:
    """Of a journal that nobody anchors."""

    anchored_seq = 0

    def committed(self, head: Head) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...


def anchored_before(notes: Mapping[str, str]) -> int:
    """The last seq that the journal knows to be anchored; 0 if it knows none."""
    return int(notes.get(ANCHORED_NOTE, 0))
