"""Where a stream's source ends, asked now and then beside the batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from core.location import Location
from core.routing import is_sparse
from journal.marks import Marks
from journal.reader import JournalReader

log = logging.getLogger(__name__)

ASK_EVERY_S = 1.0
ANSWER_S_MAX = 2.0

Ends: TypeAlias = Mapping[str, Mapping[int, int]]
"""Topic to partition to the next offset to be written."""

ReadEnds: TypeAlias = Callable[[Marks], Ends]
"""The ends of what marks name, as far as they can be told."""


class KafkaEnds:
    """Kafka's partitions, all in one request."""

    def __init__(self, bootstrap: str) -> None:
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def __call__(self, marks: Marks) -> Ends:
        """Nothing when Kafka doesn't answer."""
        wanted = {
            TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic, numbers in marks.items()
            for number in numbers
            if not is_sparse(topic)
        }
        ends: dict[str, dict[int, int]] = {}
        try:
            for at, answer in self._client.list_offsets(wanted, request_timeout=ANSWER_S_MAX).items():
                ends.setdefault(at.topic, {})[at.partition] = int(answer.result(ANSWER_S_MAX).offset)
        except (KafkaException, TimeoutError):
            return {}
        return ends


class JournalEnds:
    """Another stream's journal: its offsets are seqs, and each receiver has all of them before it."""

    def __init__(self, journal: Location) -> None:
        self._journal = journal

    def __call__(self, marks: Marks) -> Ends:
        next_seq = JournalReader(str(self._journal)).state().next_seq
        return {topic: dict.fromkeys(numbers, next_seq) for topic, numbers in marks.items() if is_sparse(topic)}


class EndsWatch:
    """Asks ``read`` every `ASK_EVERY_S` on a thread of its own, so that no batch waits for an answer.

    It begins with the first marks that it is told.
    """

    def __init__(self, read: ReadEnds) -> None:
        self._read = read
        self._marks: Marks | None = None
        self._latest: Ends = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    @property
    def latest(self) -> Ends:
        """The last answer; nothing until there is one."""
        return self._latest

    def of(self, marks: Marks) -> None:
        """Which partitions are asked for."""
        self._marks = marks
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ends", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        failed = False
        while not self._stop.is_set():
            try:
                self._latest = self._read(self._marks or {}) or self._latest
                failed = False
            except Exception:
                log.log(logging.DEBUG if failed else logging.WARNING, "lag isn't known now", exc_info=True)
                failed = True
            self._stop.wait(ASK_EVERY_S)
