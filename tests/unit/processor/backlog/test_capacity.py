"""Rates, time to recover, and what is recommended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor.backlog.capacity import (
    DRIVER_LIMIT_SHARE,
    EXECUTORS_MAX,
    HOLD_S,
    MEASURED_S,
    RECENT_S,
    RECOVER_S_WANTED,
    SETTLE_S,
    UTILISATION_MAX,
    Advisor,
    BacklogForecast,
    Deployment,
    LoadReading,
    Rates,
    estimate_recovery_s,
)

ONE = Deployment(executors=1, cores=2, partitions=4)


def drained(
    rates: Rates, backlog: int, drain_per_s: float, arrival_per_s: float, every_s: float
) -> tuple[float, list[BacklogForecast]]:
    """Readings after each batch until nothing is left: the seconds that it took, and what was forecast meanwhile."""
    at_s, written, decided = 0.0, float(backlog), 0.0
    forecasts: list[BacklogForecast] = []
    rates.read(LoadReading(at_s, round(written), round(decided)))
    while decided < written:
        if rates.forecast is not None:
            forecasts.append(rates.forecast)
        at_s += every_s
        written += arrival_per_s * every_s
        decided = min(written, decided + drain_per_s * every_s)
        rates.read(LoadReading(at_s, round(written), round(decided)))
    return at_s, forecasts


@pytest.mark.row("D6")
@given(
    backlog=st.integers(100_000, 1_000_000),
    drain_per_s=st.floats(3_000, 20_000),
    share=st.floats(0.0, 0.8),
    every_s=st.floats(0.5, 2.0),
)
def test_a_backlog_is_gone_when_it_was_said_to_be(backlog: int, drain_per_s: float, share: float, every_s: float):
    took, forecasts = drained(Rates(drain_per_s), backlog, drain_per_s, share * drain_per_s, every_s)
    said = forecasts[0]
    for one in set(forecasts):
        left_s, known_s = took - one.at_s, one.seconds_left
        assert one is said or (known_s is not None and left_s / 2 - 5 <= known_s <= 2 * left_s + 5)
    assert said.at_s == 0.0
    assert said.seconds_left == pytest.approx(backlog / drain_per_s), "nothing is known yet of what arrives"
    recovers = estimate_recovery_s(backlog, drain_per_s, share * drain_per_s)
    assert recovers == pytest.approx(took, rel=0.01, abs=2 * every_s)


def test_a_stream_that_was_never_behind_knows_no_drain_rate_and_no_time():
    rates = Rates()
    for second in range(30):
        rates.read(LoadReading(float(second), 120 * second, max(0, 120 * second - 60)))
    assert rates.drain_per_s is None
    assert rates.estimate_recovery_s() is None
    assert not rates.is_behind
    assert rates.arrival_per_s == pytest.approx(120, rel=0.01)


def test_the_drain_rate_of_the_first_backlog_is_believed_after_some_seconds():
    rates = Rates()
    said_at = None
    written = 300_000
    for second in range(20):
        rates.read(LoadReading(float(second), written, 10_000 * second))
        if rates.forecast is not None and said_at is None:
            said_at = second
        assert (rates.drain_per_s is not None) == (second >= SETTLE_S)
    assert said_at == MEASURED_S
    assert rates.forecast is not None
    assert rates.forecast.drain_per_s == pytest.approx(10_000)
    assert rates.forecast.seconds_left == pytest.approx(30 - MEASURED_S)


@pytest.mark.row("D6")
@pytest.mark.parametrize("known_per_s", [None, 4_800.0])
def test_a_start_that_becomes_faster_with_each_batch_is_not_forecast_by_its_first_ones(known_per_s: float | None):
    """An hour's outage at 120 a second; the first batches are small and find all cold."""
    rates, forecasts, decided = Rates(known_per_s), list[tuple[int, BacklogForecast]](), 0
    for second in range(200):
        written = 432_000 + 120 * second
        decided = min(written, decided + min(4_800, 400 * second))
        rates.read(LoadReading(float(second), written, decided))
        if rates.forecast is not None and rates.forecast not in [forecast for _, forecast in forecasts]:
            forecasts.append((second, rates.forecast))
        if decided == written:
            break
    for at_s, forecast in forecasts:
        assert forecast.seconds_left is not None
        assert (second - at_s) / 2 <= forecast.seconds_left <= 2 * (second - at_s), at_s
    assert forecasts


def test_what_arrives_while_the_stream_keeps_up_is_no_drain_rate():
    rates = Rates(known_drain_per_s=9_000)
    for second in range(60):
        rates.read(LoadReading(float(second), 100 * second, max(0, 100 * second - 50)))
    assert rates.drain_per_s == 9_000


@pytest.mark.parametrize(("known_per_s", "stall_s"), [(None, 10), (9_000.0, 45)])
def test_what_a_stall_leaves_behind_says_nothing_of_what_the_stream_could_do(known_per_s: float | None, stall_s: int):
    """Some seconds in which nothing was decided, and first batches after them that take their time."""
    rates, decided = Rates(known_per_s), 0
    goes_on = 20 + stall_s
    for second in range(goes_on + 30):
        slow = goes_on <= second < goes_on + 4
        decided += 0 if 20 <= second < goes_on else 1_000 if slow else 9_000
        decided = min(decided, 1_200 * second)
        rates.read(LoadReading(float(second), 1_200 * second, decided))
        assert rates.is_behind or not slow
        assert rates.drain_per_s == known_per_s
    assert not rates.is_behind


def test_a_stream_that_became_slower_says_so_once_a_backlog_has_lasted():
    rates = Rates(known_drain_per_s=9_000)
    for second in range(40):
        rates.read(LoadReading(float(second), 300_000, 2_000 * second))
    assert rates.drain_per_s == pytest.approx(2_000)


def test_a_backlog_that_grows_has_no_end():
    assert estimate_recovery_s(1_000, 500, 500) is None
    assert estimate_recovery_s(0, 0, 500) == 0.0
    assert estimate_recovery_s(1_000, 600, 500) == 10.0


def test_a_forecast_without_an_end_is_made_again_when_there_is_one():
    rates = Rates(known_drain_per_s=1_000)
    rates.read(LoadReading(0.0, 0, 0))
    for second in range(1, 11):
        rates.read(LoadReading(float(second), 5_000 * second, 1_000 * second))
    assert rates.forecast is not None
    assert rates.forecast.seconds_left is None
    for second in range(11, 60):
        rates.read(LoadReading(float(second), 50_000, min(50_000, 1_000 * second)))
        if not rates.is_behind:
            break
        if rates.arrival_per_s < 500:
            assert rates.forecast is not None
            assert rates.forecast.seconds_left is not None


@pytest.mark.row("D5")
@given(
    readings=st.lists(
        st.tuples(st.floats(0.0, 10.0), st.integers(0, 100_000), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=60
    )
)
def test_more_is_recommended_at_once_and_less_only_after_a_while_and_by_one(
    readings: list[tuple[float, int, float, float]],
):
    advisor = Advisor(ONE.executors)
    at_s, before, changed_at = 0.0, ONE.executors, 0.0
    for wait_s, lag, load, driver_share in readings:
        at_s += wait_s * HOLD_S / 10
        advice = advisor.make_advice(ONE, at_s, lag, load * 10_000, 10_000.0, driver_share)
        assert 1 <= advice.executors <= EXECUTORS_MAX
        assert advice.partitions >= max(ONE.partitions, advice.executors * ONE.cores)
        if advice.executors < before:
            assert advice.executors == before - 1
            assert at_s - changed_at >= HOLD_S
        if advice.executors != before:
            changed_at = at_s
        before = advice.executors


@given(arrival=st.floats(1.0, 50_000.0), lag=st.integers(0, 10_000_000), share=st.floats(0.0, 0.9))
def test_with_as_many_executors_as_recommended_the_rate_that_is_needed_is_reached(
    arrival: float, lag: int, share: float
):
    drain = 9_000.0
    advice = Advisor(ONE.executors).make_advice(ONE, 0.0, lag, arrival, drain, share)
    reached = drain / (share + (1 - share) / advice.executors)
    needed = max(arrival / UTILISATION_MAX, arrival + lag / RECOVER_S_WANTED)
    if share > 0:
        needed = min(needed, DRIVER_LIMIT_SHARE * drain / share)
    assert reached >= needed * 0.999 or advice.executors == EXECUTORS_MAX


def test_fewer_executors_come_one_at_a_time_after_a_quiet_while():
    advisor = Advisor(ONE.executors)
    most = advisor.make_advice(ONE, 0.0, 0, 30_000, 9_000.0).executors
    assert most == 5
    assert advisor.make_advice(ONE, 1.0, 0, 1_000, 9_000.0).executors == most
    assert advisor.make_advice(ONE, HOLD_S, 0, 1_000, 9_000.0).executors == most
    assert advisor.make_advice(ONE, HOLD_S + 1.0, 0, 1_000, 9_000.0).executors == most - 1
    assert advisor.make_advice(ONE, HOLD_S + 2.0, 0, 1_000, 9_000.0).executors == most - 1


def test_a_burst_within_the_quiet_while_begins_it_anew():
    advisor = Advisor(ONE.executors)
    most = advisor.make_advice(ONE, 0.0, 0, 30_000, 9_000.0).executors
    advisor.make_advice(ONE, 1.0, 0, 1_000, 9_000.0)
    advisor.make_advice(ONE, HOLD_S - 1.0, 0, 30_000, 9_000.0)
    assert advisor.make_advice(ONE, HOLD_S + 2.0, 0, 1_000, 9_000.0).executors == most


@pytest.mark.row("D5")
def test_a_stream_that_was_never_behind_gives_its_executors_away_one_at_a_time():
    """Without a backlog nothing says how many it needs, and the cluster started as many as it may."""
    advisor, running, seen = Advisor(3), 3, list[int]()
    for _ in range(4):
        for second in (0.0, HOLD_S / 2, HOLD_S):
            at_s = len(seen) * 2 * HOLD_S + second
            advice = advisor.make_advice(Deployment(running, 1, 6), at_s, 5, 10.0, None)
        running = advice.executors
        seen.append(running)
    assert seen == [2, 1, 1, 1]


def test_a_stream_in_its_first_backlog_gives_none_away():
    advisor, three = Advisor(3), Deployment(3, 1, 6)
    for at_s in (0.0, HOLD_S, 2 * HOLD_S):
        assert advisor.make_advice(three, at_s, 5_000, 10.0, None, is_behind=True).executors == 3


@pytest.mark.row("D5")
@pytest.mark.parametrize("running", [1, 2, 3, 6])
def test_a_drain_rate_is_that_of_the_executors_that_it_was_measured_with(running: int):
    advisor = Advisor(3)
    advisor.make_advice(Deployment(3, 1, 6), 0.0, 0, 9.0, 15.0)
    for at_s in (1.0, HOLD_S + 1.0, 2 * HOLD_S + 1.0):
        assert advisor.make_advice(Deployment(running, 1, 6), at_s, 0, 9.0, 15.0).executors == 3


def test_more_than_may_run_are_never_recommended_so_that_none_is_held_longer():
    advisor = Advisor(1, most=3)
    assert advisor.make_advice(ONE, 0.0, 5_000, 30_000, 900.0).executors == 3
    for at_s, left in ((1.0, 3), (HOLD_S + 1.0, 2), (HOLD_S + 2.0, 2), (2 * HOLD_S + 2.0, 1)):
        assert advisor.make_advice(ONE, at_s, 0, 0, 900.0).executors == left


def test_where_the_driver_is_what_is_slow_only_so_many_are_recommended_as_help():
    advice = Advisor(ONE.executors).make_advice(ONE, 0.0, 0, 20_000, 9_000.0, driver_share=0.6)
    assert advice.executors == 3


def test_close_to_what_the_driver_can_do_the_recommendation_does_not_run_away():
    """Just below the limit of 30,000/s, a hundred executors would bring 1 % more than fifty."""
    advice = Advisor(ONE.executors).make_advice(ONE, 0.0, 0, 29_500 * UTILISATION_MAX, 9_000.0, driver_share=0.3)
    assert advice.executors == 10


@pytest.mark.row("D5")
@pytest.mark.parametrize("known_per_s", [None, 60.0, 500.0, 9_000.0])
@pytest.mark.parametrize("trickle_per_s", [0, 20, 250])
@pytest.mark.parametrize("burst_s", [3, 8, 40])
def test_a_forecast_after_a_burst_is_right_within_a_factor_of_two(
    known_per_s: float | None, trickle_per_s: int, burst_s: int
):
    """2,000 a second come for a while, then few; 500 a second are decided, whatever an earlier backlog made known."""
    rates, readings = Rates(known_per_s), list[tuple[float, float | None, BacklogForecast | None]]()
    at_s, written, decided = 0, 0, 0
    rates.read(LoadReading(0.0, 0, 0))
    while at_s < burst_s or decided < written:
        at_s += 1
        written += 2_000 if at_s <= burst_s else trickle_per_s
        decided = min(written, decided + 500)
        rates.read(LoadReading(float(at_s), written, decided))
        readings.append((at_s, rates.estimate_recovery_s(), rates.forecast))
    settled = burst_s + max(RECENT_S, MEASURED_S) + 1
    for read_at_s, recovers_s, forecast in readings:
        left_s = at_s - read_at_s
        if read_at_s < settled or left_s < 5:
            continue
        assert recovers_s is not None
        assert left_s / 2 <= recovers_s <= 2 * left_s
        if forecast is not None and forecast.seconds_left is not None:
            said_s = forecast.at_s + forecast.seconds_left - read_at_s
            assert left_s / 2 - 5 <= said_s <= 2 * left_s + 5
