"""Where Kafka's partitions end, asked now and then beside the batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from journal.marks import Marks

log = logging.getLogger(__name__)

ASK_EVERY_S = 1.0
ANSWER_S_MAX = 2.0

Ends: TypeAlias = Mapping[str, Mapping[int, int]]
"""Topic to partition to the next offset to be written."""


class KafkaEnds:
    """The ends of all partitions that the marks name, in one request."""

    def __init__(self, bootstrap: str, marks: Marks) -> None:
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._wanted = {
            TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic, numbers in marks.items()
            for number in numbers
        }

    def __call__(self) -> Ends | None:
        """None when Kafka doesn't say."""
        asked = self._client.list_offsets(self._wanted, request_timeout=ANSWER_S_MAX)
        ends: dict[str, dict[int, int]] = {}
        try:
            for at, answer in asked.items():
                ends.setdefault(at.topic, {})[at.partition] = int(answer.result(ANSWER_S_MAX).offset)
        except (KafkaException, TimeoutError):
            return None
        return ends


class EndsWatch:
    """Asks ``read`` every `ASK_EVERY_S` on a thread of its own, so that no batch waits for an answer."""

    def __init__(self, read: Callable[[], Ends | None]) -> None:
        self._read = read
        self._stop = threading.Event()
        self._latest: Ends | None = None
        self._thread = threading.Thread(target=self._run, name="kafka-ends", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> Ends | None:
        """The last answer; None until there is one."""
        return self._latest

    def close(self) -> None:
        self._stop.set()
        self._thread.join(ANSWER_S_MAX)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                answer = self._read()
            except Exception:
                log.exception("Kafka's ends can't be read: lag isn't published until they can")
                answer = None
            self._latest = answer if answer is not None else self._latest
            self._stop.wait(ASK_EVERY_S)
