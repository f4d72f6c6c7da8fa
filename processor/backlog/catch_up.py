"""Limits of batches, forecasts of backlogs, executors that the load asks for, and where the source ends."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from core.clock import Clock, to_rfc3339
from core.kafka import open_admin
from core.location import Location
from core.routing import is_sparse, source_of
from core.settings import KafkaSettings
from journal.reader import JournalReader
from journal.state import Marks
from processor.backlog.capacity import Advice, Advisor, BacklogForecast, Deployment, LoadReading, Rates
from processor.backlog.pace import Pace
from processor.backlog.sizing import Executors
from processor.reporting.progress import BatchProgress

DRIVER_STEPS = ("read", "lookup", "commit", "derive")
"""Steps of a batch that the driver does alone; more executors shorten the others."""


FULL_SHARE = 0.8
"""Of its limit: a batch that took so much has left something behind."""

DRAIN_NOTE = "drain_per_s"
"""The journal's note of how fast the last backlog went, so that the time to recover is known before the next one."""

log = logging.getLogger(__name__)

ASK_EVERY_S = 1.0
ANSWER_S_MAX = 2.0

Ends: TypeAlias = Mapping[str, Mapping[int, int]]
"""Topic to partition to the next offset to be written."""

ReadEnds: TypeAlias = Callable[[Marks], Ends]
"""The ends of what marks name, as far as they are known."""


class StreamCatchUp:
    """Learns of every batch of a stream, and controls its pace.

    It sets what the next batch may take, publishes lag and capacity, and asks for as many ``executors`` as the load
    needs. ``tasks_max``: how many tasks of it may run at a time; 0: any number.
    """

    def __init__(
        self, stream: str, pace: Pace, ends: EndsWatch, executors: Executors, clock: Clock, tasks_max: int = 0
    ) -> None:
        self._stream = stream
        self._pace = pace
        self._ends = ends
        self._executors = executors
        self._clock = clock
        self._rates = Rates()
        self._batches = 0
        self.meets_limit = False
        most = min(executors.most, math.ceil(tasks_max / executors.cores)) if tasks_max else executors.most
        self._advisor = Advisor(executors.running, executors.hold_s, most)
        self._advice = Advice(min(executors.running, most), 0)
        self._forecast: BacklogForecast | None = None
        self._said: dict[str, Any] | None = None

    @property
    def limit(self) -> int:
        return self._pace.limit

    @property
    def is_behind(self) -> bool:
        return self._rates.is_behind

    @property
    def backlog_s(self) -> float:
        """Returns the seconds until a backlog is gone: before that, nothing that comes now is decided."""
        return (self._rates.estimate_recovery_s() or 0.0) if self._rates.is_behind else 0.0

    def restore_notes(self, notes: Mapping[str, str]) -> None:
        if DRAIN_NOTE in notes and self._rates.drain_per_s is None:
            self._rates = Rates(float(notes[DRAIN_NOTE]))

    def begin(self) -> None:
        self._pace.begin()

    def make_notes(self) -> dict[str, str]:
        drain_per_s = self._rates.drain_per_s
        return {} if drain_per_s is None else {DRAIN_NOTE: f"{drain_per_s:.1f}"}

    def after_batch(self, progress: BatchProgress, marks: Marks) -> None:
        if progress.batches != self._batches:
            self._batches = progress.batches
            fetch, decided_s = progress.fetch, progress.read_s + progress.seconds
            seconds = max(fetch.seconds, decided_s) if fetch.ahead else fetch.seconds + decided_s
            # Its own limit: while a stream reads ahead, the limit may have moved since.
            limit = fetch.limit or self._pace.limit
            self.meets_limit = progress.taken >= FULL_SHARE * limit
            self._pace.learn_batch(progress.taken, seconds, fetch.size_bytes, limit)
        self._ends.watch_marks(marks)
        ends = self._ends.latest_ends
        if not ends:
            return
        known = {
            topic: {n: at for n, at in numbers.items() if n in ends.get(topic, {})} for topic, numbers in marks.items()
        }
        now_s = self._clock.monotonic_s()
        self._rates.read(LoadReading(now_s, _sum_offsets(ends, known), _sum_offsets(known, known)))
        self._ask_for_executors(now_s, _driver_share(progress.step_s), max(map(len, marks.values()), default=1))
        self._keep_forecast()

    def _ask_for_executors(self, now_s: float, driver_share: float, partitions: int) -> None:
        rates = self._rates
        deployment = Deployment(self._executors.running, self._executors.cores, partitions)
        self._advice = self._advisor.make_advice(
            deployment, now_s, rates.lag, rates.arrival_per_s, rates.drain_per_s, driver_share, rates.is_behind
        )
        self._executors.request_executors(self._stream, self._advice.executors)

    def release_executors(self) -> None:
        self._executors.request_executors(self._stream, 0)

    def status(self) -> dict[str, Any]:
        """Returns figures for the status file; rates are records a second, times seconds."""
        rates = self._rates
        return {
            "lag": rates.lag,
            "behind": rates.is_behind,
            "arrival_per_s": round(rates.arrival_per_s, 1),
            "drain_per_s": _round_seconds(rates.draining_per_s),
            "recover_s": _round_seconds(rates.estimate_recovery_s()),
            "forecast": self._said,
            "batch_limit": self._pace.limit,
            "recommended_executors": self._advice.executors,
            "recommended_partitions": self._advice.partitions,
        }

    def _keep_forecast(self) -> None:
        forecast = self._rates.forecast
        if forecast is None or forecast is self._forecast:
            self._forecast = forecast
            return
        self._forecast = forecast
        now = self._clock.now()
        seconds = forecast.seconds_left
        self._said = {
            "at": to_rfc3339(now),
            "lag": forecast.lag,
            "drain_per_s": round(forecast.drain_per_s, 1),
            "arrival_per_s": round(forecast.arrival_per_s, 1),
            "seconds": _round_seconds(seconds),
            "until": None if seconds is None else to_rfc3339(now + timedelta(seconds=seconds)),
        }


def _sum_offsets(counts: Mapping[str, Mapping[int, int]], among: Marks) -> int:
    return sum(counts.get(topic, {}).get(number, 0) for topic, numbers in among.items() for number in numbers)


def _driver_share(step_s: Mapping[str, float]) -> float:
    total_s = sum(step_s.values())
    return sum(step_s.get(step, 0.0) for step in DRIVER_STEPS) / total_s if total_s > 0 else 0.0


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


class KafkaEnds:
    def __init__(self, kafka: KafkaSettings) -> None:
        self._client = open_admin(kafka)

    def __call__(self, marks: Marks) -> Ends:
        requests = {
            TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic, numbers in marks.items()
            for number in numbers
            if not is_sparse(topic)
        }
        ends: dict[str, dict[int, int]] = {}
        try:
            for at, answer in self._client.list_offsets(requests, request_timeout=ANSWER_S_MAX).items():
                ends.setdefault(at.topic, {})[at.partition] = int(answer.result(ANSWER_S_MAX).offset)
        except (KafkaException, TimeoutError):
            return {}
        return ends


class JournalEnds:
    def __init__(self, journals: Mapping[str, Location]) -> None:
        self._journals = journals

    def __call__(self, marks: Marks) -> Ends:
        ends = {source: JournalReader(str(journal)).state().next_seq for source, journal in self._journals.items()}
        sparse = {topic: numbers for topic, numbers in marks.items() if is_sparse(topic)}
        return {topic: dict.fromkeys(numbers, ends[source_of(topic)]) for topic, numbers in sparse.items()}


class EndsWatch:
    """Asks ``read`` every `ASK_EVERY_S` on a thread of its own, so that no batch waits for an answer.

    It begins with the first marks that it is given.
    """

    def __init__(self, read: ReadEnds) -> None:
        self._read = read
        self._marks: Marks | None = None
        self.latest_ends: Ends = {}
        """The last answer; nothing until there is one."""
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def watch_marks(self, marks: Marks) -> None:
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
                self.latest_ends = self._read(self._marks or {}) or self.latest_ends
                failed = False
            except Exception:
                log.log(logging.DEBUG if failed else logging.WARNING, "lag isn't known now", exc_info=True)
                failed = True
            self._stop.wait(ASK_EVERY_S)
