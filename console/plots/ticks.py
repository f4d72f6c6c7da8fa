"""Where an axis has its ticks, and what stands beside them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

TICKS_MAX = 6
TIMES_MAX = 5
STEP_MIN = 1e-9
_HOUR, _DAY = 3_600, 86_400
_TIME_STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR)
_DAY_STEPS = (1, 2, 7, 14, 30, 91, 182, 365, 730, 1_825, 3_650)
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def value_ticks(low: float, high: float, ticks_max: int = TICKS_MAX, *, whole: bool = True) -> list[float]:
    """Ascending multiples of 1, 2 or 5 times a power of ten that hold ``low`` and ``high`` between them, 0 included.

    ``whole``: no finer than 1, for what is counted.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        high = 1.0
    step = _round_step(max((high - low) / (ticks_max - 1), 1.0 if whole else STEP_MIN))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least * (1 - 1e-9))


def short(value: float) -> str:
    """``950``, ``1.2k``, ``35M``, ``-2G``."""
    size = abs(value)
    for unit, prefix in _PREFIXES:
        if size >= unit:
            return f"{_three(value / unit)}{prefix}" if size < 1_000 * unit else f"{value:.1e}"
    return _three(value)


def _three(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def time_ticks(begin: datetime, end: datetime, ticks_max: int = TIMES_MAX) -> list[datetime]:
    """Round moments (UTC) within the span, ``ticks_max`` at most."""
    begin, end = begin.astimezone(UTC), end.astimezone(UTC)
    span_s = (end - begin).total_seconds()
    for step_s in (*_TIME_STEPS_S, *(days * _DAY for days in _DAY_STEPS)):
        if span_s / step_s <= ticks_max - 1:
            break
    first = math.ceil(begin.timestamp() / step_s)
    last = math.floor(end.timestamp() / step_s)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [epoch + timedelta(seconds=number * step_s) for number in range(first, last + 1)][:ticks_max]


def time_labels(ticks: Sequence[datetime]) -> list[str]:
    """As short as tells them apart: the time of day within two days, else the day."""
    if not ticks:
        return []
    steps = [later - earlier for earlier, later in itertools.pairwise(ticks)]
    if steps and min(steps) < timedelta(minutes=1):
        form = "%H:%M:%S"
    elif steps and min(steps) < timedelta(days=1):
        form = "%H:%M" if ticks[-1] - ticks[0] < timedelta(days=1) else "%d %b %H:%M"
    else:
        form = "%d %b" if ticks[0].year == ticks[-1].year else "%d %b %Y"
    return [tick.strftime(form).lstrip("0") if form.startswith("%d") else tick.strftime(form) for tick in ticks]
