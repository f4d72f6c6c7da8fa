"""A source's silence is noticed, and its nights, weekends and launches aren't silence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from alerts.silence import SLOT_S, SLOTS_AN_HOUR, WEEK, Rhythm

DAY = 24 * SLOTS_AN_HOUR
WATCHED_WEEKS = 4
Rate = Callable[[int], float]
"""Events expected in a slot."""


def steady(slot: int) -> float:
    return 10.0


def with_nights(slot: int) -> float:
    hour = slot % DAY / SLOTS_AN_HOUR
    return 8.0 * max(0.0, math.sin((hour - 6) / 16 * math.pi)) if 6 <= hour < 22 else 0.0


def with_weekends(slot: int) -> float:
    return 0.02 if slot // DAY % 7 >= 5 else with_nights(slot)


def with_a_launch(slot: int) -> float:
    """Ten times as much for two days of the fourth week."""
    return with_nights(slot) * (10.0 if 3 * WEEK <= slot < 3 * WEEK + 2 * DAY else 1.0)


def three_a_day(slot: int) -> float:
    return 3.0 / DAY


def busy(slot: int) -> float:
    """116 events a second, with days and nights."""
    return 116.0 * SLOT_S * (1.0 + 0.6 * math.sin(slot % DAY / DAY * 2 * math.pi))


def summer_time(slot: int) -> float:
    """Clocks are set an hour ahead in the sixth week."""
    return with_nights(slot + (SLOTS_AN_HOUR if slot >= 5 * WEEK + 2 * DAY else 0))


RHYTHMS = [steady, with_nights, with_weekends, with_a_launch, three_a_day, busy, summer_time]
NOTICED_WITHIN_H: dict[Rate, float] = {
    steady: 0.5,
    with_nights: 1.0,
    with_weekends: 1.0,
    with_a_launch: 1.0,
    three_a_day: 24.0 * 7,
    busy: 0.25,
    summer_time: 2.5,
}


def drawn(rate: Rate, slot: int, chance: random.Random) -> int:
    mean = rate(slot)
    if mean > 50:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


def filled(rate: Rate, slots: int, seed: int) -> tuple[Rhythm, random.Random]:
    chance, rhythm = random.Random(seed), Rhythm(0)
    for slot in range(slots):
        if count := drawn(rate, slot, chance):
            rhythm.add(slot, count)
    return rhythm, chance


@pytest.mark.parametrize("rate", RHYTHMS, ids=lambda rate: rate.__name__)
def test_a_source_that_goes_on_as_ever_is_no_alarm(rate: Rate) -> None:
    known = 3 * WEEK
    rhythm, chance = filled(rate, known, seed=7)
    alarms, was_quiet = [], False
    for slot in range(known, known + WATCHED_WEEKS * WEEK):
        if count := drawn(rate, slot, chance):
            rhythm.add(slot, count)
        if slot % 3:
            continue
        found = rhythm.find_quiet(slot + 1)
        if found is not None and not was_quiet:
            alarms.append(found)
        was_quiet = found is not None
    assert alarms == []


@pytest.mark.row("G5")
@pytest.mark.parametrize("rate", RHYTHMS, ids=lambda rate: rate.__name__)
def test_a_source_that_falls_silent_is_noticed(rate: Rate) -> None:
    noon = 7 * WEEK + 2 * DAY + 12 * SLOTS_AN_HOUR
    rhythm, _ = filled(rate, noon, seed=11)
    after = next(slots for slots in range(1, 8 * DAY) if rhythm.find_quiet(noon + slots) is not None)
    assert after / SLOTS_AN_HOUR <= NOTICED_WITHIN_H[rate]


def test_a_source_of_less_than_two_weeks_has_no_rhythm() -> None:
    rhythm, _ = filled(steady, 2 * WEEK - DAY, seed=3)
    assert rhythm.find_quiet(2 * WEEK) is None


def test_what_is_forgotten_is_no_longer_compared_and_the_rest_is_as_before() -> None:
    rhythm, _ = filled(steady, 9 * WEEK, seed=3)
    before = rhythm.find_quiet(9 * WEEK + 12)
    rhythm.drop_old(9 * WEEK)
    assert rhythm.begun > 2 * WEEK
    assert rhythm.find_quiet(9 * WEEK + 12) == before
