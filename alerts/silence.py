"""Notices sources of webhooks that are quieter than they ever were at such an hour of the week.

Counts what receivers' counters gain, and keeps it over restarts. A source's own past says what to expect: the counts of
the same hours of earlier weeks. The least of them counts, also of an hour earlier or later, where clocks are changed
twice a year. So a night, a weekend and a launch that is over are no alarm. What came is unusual where a source that
sends as little as in its quietest such week would send so few events only once in a thousand times, by Poisson's
distribution.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from core.files import write_whole
from core.status_file import read_said

SLOT_S = 300
"""Seconds that are counted at once: silence is noticed after one to three of these."""
SLOTS_AN_HOUR = 12
WEEK = 7 * 24 * SLOTS_AN_HOUR
WEEKS_MAX, WEEKS_MIN = 5, 2
"""The number of earlier weeks that are compared. A source that is known for less has no rhythm yet."""
WINDOWS = (3, 12, 36, 12 * 12, 24 * 12, 72 * 12, WEEK)
"""Windows in slots, from a quarter of an hour to a week: short ones notice busy sources, long ones quiet ones."""
SHIFTS = (-SLOTS_AN_HOUR, 0, SLOTS_AN_HOUR)
QUANTILE = 0.001
SHARE_LEFT = 0.5
"""Less than half of what is expected: among many events a small part less is improbable, and no alarm."""


@dataclass(frozen=True, slots=True)
class QuietWindow:
    came: int
    expected: float


@dataclass(slots=True)
class Rhythm:
    """The counts of one source by slot: `SLOT_S` seconds since 1970. Slots without events have no count.

    ``begun``: the first slot that was counted at all.
    """

    begun: int
    counts: dict[int, int] = field(default_factory=dict)
    _sums: dict[int, int] = field(default_factory=dict, repr=False)
    """Counts by hour, so that a week is a sum of 168 numbers."""

    @classmethod
    def from_counts(cls, begun: int, counts: Mapping[int, int]) -> Rhythm:
        rhythm = cls(begun)
        for slot, count in counts.items():
            rhythm.add(slot, count)
        return rhythm

    def add(self, slot: int, count: int) -> None:
        self.counts[slot] = self.counts.get(slot, 0) + count
        hour = slot // SLOTS_AN_HOUR
        self._sums[hour] = self._sums.get(hour, 0) + count

    def drop_old(self, now_slot: int) -> None:
        oldest = now_slot - (WEEKS_MAX + 1) * WEEK - 2 * SLOTS_AN_HOUR
        self.counts = {slot: count for slot, count in self.counts.items() if slot >= oldest}
        self._sums = {hour: count for hour, count in self._sums.items() if hour >= oldest // SLOTS_AN_HOUR}
        self.begun = max(self.begun, oldest)

    def find_quiet(self, now_slot: int) -> QuietWindow | None:
        for window in WINDOWS:
            since = now_slot - window
            expected = self._find_expected(since, window)
            if expected is None:
                continue
            came = self._count_events(since, window)
            if came <= expected * SHARE_LEFT and _poisson_cdf(came, expected) < QUANTILE:
                return QuietWindow(came, expected)
        return None

    def _find_expected(self, since: int, window: int) -> float | None:
        weeks = [week for week in range(1, WEEKS_MAX + 1) if since - week * WEEK - SLOTS_AN_HOUR >= self.begun]
        if len(weeks) < WEEKS_MIN:
            return None
        return min(self._count_events(since - week * WEEK + shift, window) for week in weeks for shift in SHIFTS)

    def _count_events(self, since: int, window: int) -> int:
        until = since + window
        first, last = -(-since // SLOTS_AN_HOUR), until // SLOTS_AN_HOUR
        if first >= last:
            return sum(self.counts.get(slot, 0) for slot in range(since, until))
        edges = [*range(since, first * SLOTS_AN_HOUR), *range(last * SLOTS_AN_HOUR, until)]
        return sum(self._sums.get(hour, 0) for hour in range(first, last)) + sum(
            self.counts.get(slot, 0) for slot in edges
        )


def _poisson_cdf(count: int, mean: float) -> float:
    """Returns the chance of at most ``count`` events where ``mean`` are expected; a large mean costs no loop."""
    if mean > 200:
        return 0.5 * math.erfc((mean - count - 0.5) / math.sqrt(2 * mean))
    term = total = math.exp(-mean)
    for number in range(1, count + 1):
        term *= mean / number
        total += term
    return total


SOURCES_MAX = 200
"""The most endpoints that are watched."""


class Silence:
    """The rhythms of all sources. ``file`` has their counts; it is written once a slot.

    Receivers that weren't asked for a while are counted when they are: what they gained meanwhile is in that slot.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before: dict[object, float] = {}
        self._rhythms = _read_rhythms(file)
        self._written_slot = 0

    @property
    def known_sources(self) -> list[str]:
        return sorted(self._rhythms)

    def find_quiet(self, gained: Mapping[str, Mapping[object, float]], now: datetime) -> dict[str, QuietWindow | None]:
        """Takes the counters as they are now; returns what each known source lacks, None if nothing is unusual.

        :param gained: by source, each receiver's counter
        """
        slot = int(now.timestamp()) // SLOT_S
        for source, counters in gained.items():
            self._count(source, counters, slot)
        if slot != self._written_slot:
            self._write(slot)
        return {source: rhythm.find_quiet(slot) for source, rhythm in self._rhythms.items()}

    def _count(self, source: str, counters: Mapping[object, float], slot: int) -> None:
        if source not in self._rhythms and len(self._rhythms) >= SOURCES_MAX:
            return
        came = 0.0
        for counter, value in counters.items():
            before = self._before.get((source, counter))
            self._before[source, counter] = value
            if before is not None:
                came += value - before if value >= before else value
        rhythm = self._rhythms.setdefault(source, Rhythm(slot))
        if came:
            rhythm.add(slot, round(came))

    def _write(self, slot: int) -> None:
        self._written_slot = slot
        for rhythm in self._rhythms.values():
            rhythm.drop_old(slot)
        sources = {name: {"begun": rhythm.begun, "counts": rhythm.counts} for name, rhythm in self._rhythms.items()}
        write_whole(self._file, json.dumps({"slot_s": SLOT_S, "sources": sources}))


def _read_rhythms(file: Path) -> dict[str, Rhythm]:
    tree = read_said(file)
    if tree is None or tree.get("slot_s") != SLOT_S:
        return {}
    try:
        return {name: _read_rhythm(kept) for name, kept in tree["sources"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _read_rhythm(kept: Mapping[str, Any]) -> Rhythm:
    return Rhythm.from_counts(int(kept["begun"]), {int(slot): int(count) for slot, count in kept["counts"].items()})
