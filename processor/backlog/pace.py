"""How many records a batch may take: as many as fit its time, found out from how long the last batches took."""

from __future__ import annotations

from dataclasses import dataclass

KEPT_SHARE = 0.85
"""Of what a batch counted, with each one after it: about the last seven decide."""

SPREAD_MIN = 0.2
"""Batches of about one size don't tell a fixed cost: their sizes' deviation must be this share of the mean at least."""

EACH_SHARE_MIN = 0.1
"""Of a batch's time that its records take at least, whatever the fit says."""

FADE = 0.95
"""Of a fixed cost that nothing speaks for any more, with each batch: it may have been one slow batch's."""

SURPRISE = 3.0
"""A batch that takes so many times what was expected shows that batches cost something else now."""

EXPLORE = 1.5
"""While the fixed cost isn't known, a full batch is followed by one so many times as large."""

FIXED_SHARE_MAX = 0.25
"""Where a batch's fixed cost is large, it is made longer until that is at most this share of it: a short batch would
then be mostly overhead, and a backlog would never drain."""

LONGER_MAX = 3.0
"""How many times its time a batch is planned to take at most, for that or to find out."""

GROW_MAX = 2.0
SHRINK_MAX = 4.0
CHANGE_MIN = 0.2
"""A limit that is off by less is left alone."""


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
    """The limit of the next batch. Takes it that a batch costs ``fixed + each × records`` seconds, and learns both.

    A stream that keeps up never meets the limit: its batches take what has come since the last one. The limit
    matters while it is behind: a longer batch drains faster, a shorter one is what entities without a backlog, and
    retries that come due, wait for.
    """

    def __init__(self, limits: PaceLimits) -> None:
        self._limits = limits
        self._limit = limits.first
        self._fit = _Fit()
        self._fixed_s: float | None = None
        self._each_s: float | None = None

    @property
    def limit(self) -> int:
        """Most records of the next batch."""
        return self._limit

    def took(self, records: int, seconds: float) -> bool:
        """A batch with ``records`` took ``seconds``; returns whether `limit` changed.

        It moves at most to the double or a quarter at a time, upwards only after a batch that met it, downwards only
        after one that took too long.
        """
        if records <= 0 or seconds <= 0:
            return False
        self._learn(records, seconds)
        wanted = max(self._limit / SHRINK_MAX, min(self._fitting(seconds), self._limit * GROW_MAX))
        wanted = round(max(self._limits.records_min, min(wanted, self._limits.records_max)))
        if wanted > self._limit and records < self._limit * (1 - CHANGE_MIN):
            return False
        if wanted < self._limit and seconds <= self._limits.batch_s:
            return False
        if abs(wanted - self._limit) < CHANGE_MIN * self._limit and not self._at_bound(wanted):
            return False
        changed = wanted != self._limit
        self._limit = wanted
        return changed

    def _learn(self, records: int, seconds: float) -> None:
        if self._each_s is not None and seconds > SURPRISE * self._expected_s(records, self._each_s):
            self._fit, self._fixed_s = _Fit(), None
        self._fit.add(records, seconds)
        fixed = self._fit.fixed_s()
        if fixed is not None:
            self._fixed_s = fixed
        elif self._fixed_s is not None:
            self._fixed_s *= FADE
        self._each_s = self._fit.each_s(self._fixed_s or 0.0)

    def _expected_s(self, records: int, each_s: float) -> float:
        """A smaller batch may turn out to cost as much as a larger one: that is no surprise, but a fixed cost."""
        return max((self._fixed_s or 0.0) + each_s * records, self._fit.mean_s)

    def _fitting(self, seconds: float) -> float:
        """Records whose batch takes as long as it should."""
        assert self._each_s is not None
        if self._fixed_s is None and seconds < LONGER_MAX * self._limits.batch_s:
            return self._limit * EXPLORE
        fixed, batch_s = self._fixed_s or 0.0, self._limits.batch_s
        whole_s = min(max(batch_s, fixed / FIXED_SHARE_MAX), max(LONGER_MAX * batch_s, 2 * fixed))
        return (whole_s - fixed) / self._each_s

    def _at_bound(self, wanted: int) -> bool:
        return wanted in (self._limits.records_min, self._limits.records_max)


class _Fit:
    """Least squares over the last batches, the later ones counting more."""

    def __init__(self) -> None:
        self._weight = self._records = self._seconds = self._squares = self._products = 0.0

    def add(self, records: int, seconds: float) -> None:
        self._weight = self._weight * KEPT_SHARE + 1.0
        self._records = self._records * KEPT_SHARE + records
        self._seconds = self._seconds * KEPT_SHARE + seconds
        self._squares = self._squares * KEPT_SHARE + records * records
        self._products = self._products * KEPT_SHARE + records * seconds

    @property
    def mean_s(self) -> float:
        return self._seconds / self._weight

    def each_s(self, fixed_s: float) -> float:
        """What a record costs where a batch costs ``fixed_s`` beside its records."""
        seconds = self._seconds - fixed_s * self._weight
        return max(seconds, EACH_SHARE_MIN * self._seconds) / self._records

    def fixed_s(self) -> float | None:
        """What a batch costs beside its records; None while sizes are too much alike."""
        mean, mean_s = self._records / self._weight, self._seconds / self._weight
        variance = self._squares / self._weight - mean * mean
        if variance < (SPREAD_MIN * mean) ** 2:
            return None
        each = (self._products / self._weight - mean * mean_s) / variance
        return max(0.0, mean_s - max(0.0, each) * mean)
