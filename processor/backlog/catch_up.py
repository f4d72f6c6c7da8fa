"""Limits of batches, forecasts of backlogs, executors that the load asks for, and where the source ends."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from processor.backlog.sizing import Executors
from processor.reporting.progress import BatchProgress

BATCH_S = 2.5
"""How long a full batch should take: longer ones drain faster, shorter ones are what events without a backlog wait for.
"""

FIXED_SHARE_MAX = 0.25
"""Where a batch's fixed cost is large, it is made longer until that is at most this share of it: a short batch would
then be mostly overhead, and a backlog would never drain."""

LONGER_MAX = 3.0
"""How many times its time a batch is planned to take at most, for that."""

SMALL_SHARE = 0.1
"""Of the limit: what a batch of at most so many records costs is mostly fixed."""

BYTES_FADE = 0.9
"""Of the bytes of a record as they were lately, with each batch of smaller ones."""

APART = 2.0
"""Two batches tell fixed cost and cost a record apart where one has so many times the other's records."""

NEWS_SHARE = 0.3
"""Of the fixed cost as it is believed, with each new reading."""

FADE = 0.985
"""Of a fixed cost that nothing speaks for any more, with each batch: it may have been a slow hour's."""

GROW_MAX = 4.0
"""Of a limit, from one batch to the next: what a batch costs is judged by smaller ones."""

SHRINK_MAX = 4.0
CHANGE_MIN = 0.2
"""A limit that is off by less is left alone."""

TOO_LONG = 1.5
"""A batch that didn't meet its limit and took so many times its time lowers it all the same."""


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """``batch_s``: how long a full batch should take. ``first``: the limit before anything was measured. ``bytes_max``:
    of all records of a batch together.
    """

    batch_s: float
    records_min: int
    records_max: int
    first: int
    bytes_max: int

    def __post_init__(self) -> None:
        assert 0 < self.records_min <= self.first <= self.records_max
        assert self.batch_s > 0


class Pace:
    """Sets how many records the next batch may take, so that it fits the time.

    Only a stream that is behind reaches the limit. A longer batch drains faster; in a shorter one, due retries and
    entities without a backlog wait less. The first batch after a start isn't measured: everything is cold.
    """

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self.limit = limits.first
        self._fixed = _FixedCost()
        self._is_warm = False
        self._each_bytes = 0.0

    def begin(self) -> None:
        self.limit = min(self.limit, self._limits.first)

    def learn_batch(self, records: int, seconds: float, size_bytes: int = 0, limit: int = 0) -> None:
        """Learns how long a batch took, and sets the next limit.

        ``limit`` is the one that it was read under; 0: the one that holds now. The new one is at most four times that,
        and at least a quarter of it or what `bytes_max` allows.
        """
        if records <= 0 or seconds <= 0:
            return
        self._each_bytes = max(size_bytes / records, BYTES_FADE * self._each_bytes)
        by_bytes = max(1, int(self._limits.bytes_max / max(1.0, self._each_bytes)))
        self.limit = min(self._by_time(records, seconds, limit or self.limit), by_bytes)

    def _by_time(self, records: int, seconds: float, batch_limit: int) -> int:
        if not self._is_warm:
            self._is_warm = True
            return self.limit
        self._fixed.learn_batch(records, seconds, batch_limit)
        share = self._choose_share(seconds)
        if records < batch_limit * (1 - CHANGE_MIN) and share > 1 / TOO_LONG:
            return self.limit
        target = batch_limit * max(1 / SHRINK_MAX, min(share, GROW_MAX))
        limit = round(max(self._limits.records_min, min(target, self._limits.records_max)))
        is_bound = limit in (self._limits.records_min, self._limits.records_max)
        if abs(limit - self.limit) < CHANGE_MIN * self.limit and not is_bound:
            return self.limit
        return limit

    def _choose_share(self, seconds: float) -> float:
        if not self._fixed.is_known and seconds < LONGER_MAX * self._limits.batch_s:
            return max(APART, self._limits.batch_s / seconds)
        return self._whole_s() / seconds

    def _whole_s(self) -> float:
        fixed_s, batch_s = self._fixed.seconds, self._limits.batch_s
        return max(batch_s, min(fixed_s / FIXED_SHARE_MAX, LONGER_MAX * batch_s), 2 * fixed_s)


class _FixedCost:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_known = False
        self._reported: tuple[int, float] | None = None

    def learn_batch(self, records: int, seconds: float, limit: int) -> None:
        if records <= SMALL_SHARE * limit:
            self._update_seconds(seconds)
            return
        if self._reported is None:
            self._reported = records, seconds
            return
        then, then_s = self._reported
        if max(records, then) < APART * min(records, then):
            self.seconds *= FADE
            return
        self._reported = records, seconds
        each_s = (seconds - then_s) / (records - then)
        self._update_seconds(max(0.0, min(seconds - each_s * records, seconds, then_s)))

    def _update_seconds(self, seconds: float) -> None:
        self.seconds += (NEWS_SHARE if self.is_known else 1.0) * (seconds - self.seconds)
        self.is_known = True


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
