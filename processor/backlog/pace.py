"""How many records a batch may take: as many as fit its time, found out from how long the last batches took."""

from __future__ import annotations

from dataclasses import dataclass

FIXED_SHARE_MAX = 0.25
"""Where a batch's fixed cost is large, it is made longer until that is at most this share of it: a short batch would
then be mostly overhead, and a backlog would never drain."""

LONGER_MAX = 3.0
"""How many times its time a batch is planned to take at most, for that."""

SMALL_SHARE = 0.1
"""Of the limit: what a batch of at most so many records costs is mostly fixed."""

APART = 2.0
"""Two batches tell fixed cost and cost a record apart where one has so many times the other's records."""

NEWS_SHARE = 0.3
"""Of the fixed cost as it is believed, with each new reading."""

FADE = 0.985
"""Of a fixed cost that nothing speaks for any more, with each batch: it may have been a slow hour's."""

GROW_MAX = 2.0
SHRINK_MAX = 4.0
CHANGE_MIN = 0.2
"""A limit that is off by less is left alone."""

TOO_LONG = 1.5
"""A batch that didn't meet its limit and took so many times its time lowers it all the same."""


@dataclass(frozen=True, slots=True)
class PaceLimits:
    """``batch_s``: how long a full batch should take. ``first``: before anything was measured."""

    batch_s: float
    records_min: int
    records_max: int
    first: int

    def __post_init__(self) -> None:
        assert 0 < self.records_min <= self.first <= self.records_max
        assert self.batch_s > 0


class Pace:
    """The limit of the next batch: moved, after each one that met it, towards as many records as fit the time.

    A stream that keeps up never meets the limit: its batches take what has come since the last one. The limit
    matters while it is behind: a longer batch drains faster, a shorter one is what entities without a backlog, and
    retries that come due, wait for. The first batch after a start says nothing: it finds everything cold.
    """

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self._limit = limits.first
        self._fixed = _FixedCost()
        self._is_warm = False

    @property
    def limit(self) -> int:
        """Most records of the next batch."""
        return self._limit

    def took(self, records: int, seconds: float) -> bool:
        """A batch with ``records`` took ``seconds``; returns whether `limit` changed.

        It moves at most to the double or a quarter at a time.
        """
        if records <= 0 or seconds <= 0:
            return False
        if not self._is_warm:
            self._is_warm = True
            return False
        self._fixed.learn(records, seconds, self._limit)
        share = self._share(seconds)
        if records < self._limit * (1 - CHANGE_MIN) and share > 1 / TOO_LONG:
            return False
        wanted = self._limit * max(1 / SHRINK_MAX, min(share, GROW_MAX))
        limit = round(max(self._limits.records_min, min(wanted, self._limits.records_max)))
        if abs(limit - self._limit) < CHANGE_MIN * self._limit and not self._at_bound(limit):
            return False
        changed = limit != self._limit
        self._limit = limit
        return changed

    def _share(self, seconds: float) -> float:
        """Of its records: what a batch should have taken instead. Nothing is known before two sizes were seen."""
        if not self._fixed.is_known and seconds < LONGER_MAX * self._limits.batch_s:
            return APART
        return self._whole_s() / seconds

    def _whole_s(self) -> float:
        """How long a batch should take, in view of what of it is fixed."""
        fixed_s, batch_s = self._fixed.seconds, self._limits.batch_s
        return max(batch_s, min(fixed_s / FIXED_SHARE_MAX, LONGER_MAX * batch_s), 2 * fixed_s)

    def _at_bound(self, limit: int) -> bool:
        return limit in (self._limits.records_min, self._limits.records_max)


class _FixedCost:
    """``seconds`` of a batch that don't depend on its records, as far as batches of different sizes tell."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_known = False
        self._told: tuple[int, float] | None = None

    def learn(self, records: int, seconds: float, limit: int) -> None:
        if records <= SMALL_SHARE * limit:
            self._believe(seconds)
            return
        if self._told is None:
            self._told = records, seconds
            return
        then, then_s = self._told
        if max(records, then) < APART * min(records, then):
            self.seconds *= FADE
            return
        self._told = records, seconds
        each_s = (seconds - then_s) / (records - then)
        self._believe(max(0.0, min(seconds - each_s * records, seconds, then_s)))

    def _believe(self, seconds: float) -> None:
        self.seconds += (NEWS_SHARE if self.is_known else 1.0) * (seconds - self.seconds)
        self.is_known = True
