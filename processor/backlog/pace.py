"""Finds out how many records a batch may take to fit its time, from how long the last batches took."""

from __future__ import annotations

from dataclasses import dataclass

BATCH_S = 2.5
"""How long a full batch should take: longer ones drain faster, shorter ones are what events without a backlog wait for.
"""

FIXED_SHARE_MAX = 0.25
"""A batch is made longer until its fixed cost is at most this share of it: a short one would be mostly overhead, and a
backlog would never drain."""

LONGER_MAX = 3.0
"""How many times its time a batch is planned to take at most, for that."""

SMALL_SHARE = 0.1
"""A batch of at most this part of the limit has mostly fixed cost."""

BYTES_FADE = 0.9
"""The bytes of a record, as they were lately, shrink to this part with each batch of smaller ones."""

APART = 2.0
"""Two batches tell fixed cost and cost a record apart where one has so many times the other's records."""

NEWS_SHARE = 0.3
"""A new reading makes up this part of the fixed cost that is believed."""

FADE = 0.985
"""A fixed cost that nothing speaks for any more shrinks to this part with each batch: an hour may have been slow."""

GROW_MAX = 4.0
"""A limit grows at most so many times from one batch to the next: what a batch costs is judged by smaller ones."""

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
