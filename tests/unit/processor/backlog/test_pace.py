"""Batch sizes that follow what batches cost."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from processor.backlog.pace import BYTES_FADE, GROW_MAX, Pace, PaceLimits

MIB = 1 << 20
LIMITS = PaceLimits(batch_s=1.0, records_min=100, records_max=50_000, first=2_000, bytes_max=256 * MIB)


def drain(pace: Pace, fixed_s: float, each_s: float, batches: int, noise: float = 0.0, seed: int = 1) -> list[float]:
    """Full batches one after the other; returns how long each took."""
    random, took = Random(seed), []
    for _ in range(batches):
        records = pace.limit
        seconds = (fixed_s + each_s * records) * (1 + noise * random.random())
        took.append(seconds)
        pace.learn_batch(records, seconds)
    return took


@given(
    fixed_s=st.floats(0.0, 0.24),
    each_s=st.floats(1 / 40_000, 1 / 200),
)
def test_batches_of_a_backlog_come_to_take_as_long_as_they_should(fixed_s: float, each_s: float):
    pace = Pace(LIMITS)
    took = drain(pace, fixed_s, each_s, 40)
    assert all(0.7 < seconds < 1.35 for seconds in took[-5:]), took


@given(fixed_s=st.floats(0.0, 0.2), each_s=st.floats(1 / 20_000, 1 / 1_000), seed=st.integers(0, 1_000))
def test_batches_whose_times_vary_stay_near_it(fixed_s: float, each_s: float, seed: int):
    pace = Pace(LIMITS)
    took = drain(pace, fixed_s, each_s, 60, noise=0.3, seed=seed)
    assert 0.6 < sum(took[-20:]) / 20 < 3.0, took


@given(fixed_s=st.floats(0.5, 5.0), each_s=st.floats(1 / 10_000, 1 / 1_000))
def test_a_large_fixed_cost_makes_batches_longer_so_that_a_backlog_still_drains(fixed_s: float, each_s: float):
    pace = Pace(LIMITS)
    drain(pace, fixed_s, each_s, 30)
    fixed_share = fixed_s / (fixed_s + each_s * pace.limit)
    assert fixed_share < 0.75 or pace.limit == LIMITS.records_max


@given(batches=st.lists(st.tuples(st.integers(0, 100_000), st.floats(0.0, 1_000.0)), max_size=100))
def test_the_limit_keeps_its_bounds_whatever_batches_cost(batches: list[tuple[int, float]]):
    pace = Pace(LIMITS)
    for records, seconds in batches:
        before = pace.limit
        pace.learn_batch(records, seconds)
        assert LIMITS.records_min <= pace.limit <= LIMITS.records_max
        assert pace.limit <= before * GROW_MAX


@given(sizes=st.lists(st.integers(1, 1_000), min_size=1, max_size=200))
def test_a_stream_that_keeps_up_never_gets_a_larger_limit(sizes: list[int]):
    pace = Pace(LIMITS)
    for records in sizes:
        pace.learn_batch(records, 0.2 + records / 50_000)
    assert pace.limit <= LIMITS.first


def test_a_handler_that_becomes_slow_gets_smaller_batches_at_once():
    pace = Pace(LIMITS)
    drain(pace, 0.2, 1 / 10_000, 20)
    before = pace.limit
    pace.learn_batch(before, 60.0)
    pace.learn_batch(pace.limit, pace.limit / 200)
    assert pace.limit <= before / 8


def test_an_empty_batch_says_nothing():
    pace = Pace(LIMITS)
    pace.learn_batch(0, 5.0)
    assert pace.limit == LIMITS.first


def test_batches_of_large_records_stay_within_their_bytes_though_they_are_quick():
    pace = Pace(LIMITS)
    for _ in range(20):
        pace.learn_batch(pace.limit, 0.1, pace.limit * 1_000)
    assert pace.limit == LIMITS.records_max
    pace.learn_batch(pace.limit, 0.1, 200 * MIB)
    pace.learn_batch(100, 0.1, 100 * MIB)
    assert pace.limit == 256


def test_after_large_records_smaller_ones_are_believed_little_by_little():
    pace = Pace(LIMITS)
    pace.learn_batch(100, 0.1, 100 * MIB)
    batches = 0
    while pace.limit < LIMITS.first:
        pace.learn_batch(pace.limit, 0.1, pace.limit * 1_000)
        batches += 1
    assert 10 < batches < 40
    assert MIB * BYTES_FADE**batches * pace.limit <= LIMITS.bytes_max * 1.2


def test_a_new_run_begins_as_small_as_the_first():
    pace = Pace(LIMITS)
    drain(pace, 0.1, 1 / 20_000, 20)
    assert pace.limit > LIMITS.first
    pace.begin()
    assert pace.limit == LIMITS.first


def test_a_new_run_after_slow_batches_begins_with_no_more_than_they_had():
    pace = Pace(LIMITS)
    drain(pace, 0.1, 1 / 200, 20)
    before = pace.limit
    pace.begin()
    assert pace.limit == before < LIMITS.first


def test_a_small_first_limit_is_left_soon():
    pace = Pace(PaceLimits(batch_s=2.5, records_min=100, records_max=32_000, first=256, bytes_max=256 * MIB))
    took = drain(pace, 0.25, 1 / 8_000, 4)
    assert pace.limit > 10_000, took
    assert sum(took) < 2.5


@given(fixed_s=st.floats(0.0, 0.24), each_s=st.floats(1 / 40_000, 1 / 200), noise=st.floats(0.0, 0.1))
def test_batches_read_under_an_older_limit_are_judged_by_that_one(fixed_s: float, each_s: float, noise: float):
    """As where a stream reads ahead: a new limit holds one batch later."""
    pace, random, took = Pace(LIMITS), Random(3), []
    own = pace.limit
    for _ in range(60):
        following = pace.limit
        took.append((fixed_s + each_s * own) * (1 + noise * random.random()))
        pace.learn_batch(own, took[-1], limit=own)
        own = following
    assert all(0.6 < seconds < 1.5 for seconds in took[-8:]), took


def test_two_long_batches_of_one_limit_lower_it_once():
    pace = Pace(LIMITS)
    drain(pace, 0.1, 1 / 10_000, 20)
    own = pace.limit
    pace.learn_batch(own, 2.0, limit=own)
    lowered = pace.limit
    pace.learn_batch(own, 2.0, limit=own)
    assert own / 4 < lowered < own
    assert pace.limit == lowered
