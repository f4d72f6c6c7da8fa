"""Retry policies: what the texts mean; never early, growing, capped; and where a wrong text is wrong."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from core.decision import Decision
from journal.schema import JournalRow
from processor.errors.retry import (
    DELAY_S_MAX,
    FACTOR_MAX,
    TRIES_MAX,
    PolicyInvalid,
    PolicyText,
    RetryPolicy,
    choose_policy,
    parse_policy,
)
from processor.settings import RetrySettings
from tests.unit.processor.fakes import Down, Stuck
from tests.unit.processor.harness import NOW, POLICY, Engine

DEFAULT = "exponential(1s, x2, max 16s, 5 tries, jitter 50%)"
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def no_jitter() -> float:
    return 0.0


def delays(text: str, count: int) -> list[float | None]:
    return [parse_policy(text).delay_s(retry, no_jitter) for retry in range(1, count + 1)]


@pytest.mark.row("E3")
@pytest.mark.parametrize(
    ("text", "waits"),
    [
        (DEFAULT, [1, 2, 4, 8, 16, None]),
        ("exponential(250ms, 3 tries)", [0.25, 0.5, 1, None]),
        ("exponential(1s, x1, 3 tries)", [1, 1, 1, None]),
        ("exponential( 1m , x1.5 , 3 tries )", [60, 90, 135, None]),
        ("exponential(1s, max 3s, 1 try)", [1, None]),
        ("forever(1s, x10, max 1h)", [1, 10, 100, 1000, 3600, 3600]),
        ("fixed(5000ms x3, 15s x2)", [5, 5, 5, 15, 15, None]),
        ("fixed(5000x3, 15000x5)", [5, 5, 5, 15, 15, 15, 15, 15, None]),
        ("5000x3, 15000x5", [5, 5, 5, 15, 15, 15, 15, 15, None]),
        ("5000x3,10000x5,30000x10,60000x20", [5] * 3 + [10] * 5 + [30] * 10 + [60] * 20 + [None]),
        ("15000x1, 5000x2", [15, 5, 5, None]),
        ("FixedDelayRetryPolicy(5000x3, 15000x5)", [5, 5, 5, 15, 15, 15, 15, 15, None]),
        ("LimitedExponentialRetryPolicy(1,60,2,3)", [1, 2, 4, 8, 16, 32, 60, 60, 60, None]),
        ("LimitedExponentialRetryPolicy(1, 8, 2, 2)", [1, 2, 4, 8, 8, None]),
        ("LimitedExponentialRetryPolicy(5,5,1,2)", [5, 5, None]),
        ("UnlimitedExponentialRetryPolicy(1,60,2)", [1, 2, 4, 8, 16, 32, 60, 60]),
        ("UnlimitedExponentialRetryPolicy(500ms,2s,2)", [0.5, 1, 2, 2]),
        ("500, 1.5s x 2, 1h", [0.5, 1.5, 1.5, 3600, None]),
        ("FixedDelayRetryPolicy ( 5000 X 1 ,\n 15000X1 )", [5, 15, None]),
        (
            "LimitedExponentialRetryPolicy(initialDelay=1, maxDelay=8, multiplier=2, maxDelayCount=2)",
            [1, 2, 4, 8, 8, None],
        ),
        (
            "LimitedExponentialRetryPolicy(maxDelayCount: 1, multiplier: x2, maxDelay: 4s, initialDelay: 2s)",
            [2, 4, None],
        ),
        ("UnlimitedExponentialRetryPolicy( initialDelay = 500ms , maxDelay = 2s , multiplier = 2.0 )", [0.5, 1, 2, 2]),
        ("LimitedExponentialRetryPolicy(1, 8, 2, 2, jitter 50%)", [1, 2, 4, 8, 8, None]),
        ("UnlimitedExponentialRetryPolicy(1, 4, 2, jitter 20 %)", [1, 2, 4, 4]),
        ("FixedDelayRetryPolicy(5000x1, 15000x1, jitter 10%)", [5, 15, None]),
    ],
)
def test_a_policy_waits_as_its_text_says(text: str, waits: list[float | None]) -> None:
    assert delays(text, len(waits)) == waits


@pytest.mark.parametrize(
    ("text", "jitter"),
    [
        ("LimitedExponentialRetryPolicy(1, 8, 2, 2, jitter 50%)", 0.5),
        ("UnlimitedExponentialRetryPolicy(initialDelay=1, maxDelay=4, multiplier=2, jitter 20%)", 0.2),
        ("FixedDelayRetryPolicy(5000x1, jitter 10%)", 0.1),
        ("LimitedExponentialRetryPolicy(1, 8, 2, 2)", 0.0),
    ],
)
def test_a_policy_named_by_its_class_may_have_a_jitter(text: str, jitter: float) -> None:
    assert parse_policy(text).jitter == jitter


def test_forever_never_gives_up_and_stays_at_its_longest_delay() -> None:
    policy = parse_policy("forever(1s, x2, max 1m)")
    assert policy.delay_s(10_000, no_jitter) == 60


def test_delays_that_grow_slowly_reach_the_longest_one_all_the_same() -> None:
    policy = parse_policy("forever(1s, x1.01, max 1m)")
    assert policy.delay_s(400, no_jitter) == pytest.approx(1.01**399)
    assert policy.delay_s(1_000_000, no_jitter) == 60


numbers = st.integers(1, 5_000).map(str) | st.floats(0.001, 500).map(lambda number: f"{number:.3f}")
spans = st.tuples(numbers, st.sampled_from(["ms", "s", "m"])).filter(lambda span: _seconds(span) >= 0.001)
jitters = st.none() | st.integers(0, 100)


def _seconds(span: tuple[str, str]) -> float:
    return float(span[0]) * SECONDS[span[1]]


def _jitter(jitter: int | None) -> str:
    return "" if jitter is None else f", jitter {jitter}%"


@st.composite
def growing(draw: st.DrawFn) -> tuple[str, float]:
    """An exponential policy, limited or not, and its jitter."""
    first, longest = sorted([draw(spans), draw(spans)], key=_seconds)
    factor, jitter = draw(st.none() | st.floats(1, FACTOR_MAX)), draw(jitters)
    tries = draw(st.none() | st.integers(1, TRIES_MAX))
    parts = [f"{first[0]}{first[1]}", "" if factor is None else f"x{factor:.6f}", f"max {longest[0]}{longest[1]}"]
    parts.append("" if tries is None else f"{tries} tries")
    inner = ", ".join(filter(None, parts))
    return f"{'forever' if tries is None else 'exponential'}({inner}{_jitter(jitter)})", (jitter or 0) / 100


@st.composite
def fixed(draw: st.DrawFn) -> tuple[str, float]:
    """A list of delays, wrapped or bare, and its jitter."""
    steps = sorted(draw(st.lists(spans, min_size=1, max_size=6)), key=_seconds)
    times = [draw(st.integers(1, 5)) for _ in steps]
    jitter = draw(jitters)
    inner = ", ".join(f"{number}{unit} x{count}" for (number, unit), count in zip(steps, times, strict=True))
    text = inner + _jitter(jitter)
    return (f"fixed({text})" if draw(st.booleans()) else text), (jitter or 0) / 100


shares = st.floats(0, 1, exclude_max=True)


@pytest.mark.row("B2")
@given(growing() | fixed(), st.integers(1, 1_100), st.integers(1, 1_100), shares, shares)
def test_a_retry_is_never_early_delays_grow_and_none_is_beyond_the_cap(
    policy_and_jitter: tuple[str, float], one: int, other: int, share: float, other_share: float
) -> None:
    """Whatever the jitter of each: a later retry never waits for less than an earlier one with a shorter delay."""
    text, jitter = policy_and_jitter
    policy = parse_policy(text)
    earlier, later = sorted((one, other))
    first, second = policy.delay_s(earlier, lambda: share), policy.delay_s(later, lambda: other_share)
    least, least_later = policy.least_s(earlier), policy.least_s(later)
    if first is None or least is None:
        assert policy.tries is not None and earlier > policy.tries
        assert second is None
        return
    assert policy.first_s <= least <= first <= least * (1 + jitter)
    assert first <= policy.longest_s * (1 + jitter)
    if second is None or least_later is None:
        assert policy.tries is not None and later > policy.tries
        return
    assert least <= least_later <= policy.longest_s
    assert least == least_later or first <= second


@given(growing(), st.integers(2, 200))
def test_exponential_delays_are_the_last_one_times_the_factor_up_to_the_longest(
    policy_and_jitter: tuple[str, float], retry: int
) -> None:
    policy = parse_policy(policy_and_jitter[0])
    before, after = policy.least_s(retry - 1), policy.least_s(retry)
    if before is not None and after is not None:
        assert after == pytest.approx(min(before * policy.factor, policy.longest_s), rel=1e-6)


@given(growing() | fixed())
def test_a_policy_gives_exactly_as_many_retries_as_it_says(policy_and_jitter: tuple[str, float]) -> None:
    policy = parse_policy(policy_and_jitter[0])
    if policy.tries is None:
        assert policy.delay_s(10**9, no_jitter) is not None
    else:
        assert policy.delay_s(policy.tries, no_jitter) is not None
        assert policy.delay_s(policy.tries + 1, no_jitter) is None


@pytest.mark.row("A4")
def test_jitter_takes_its_whole_share() -> None:
    policy = parse_policy(DEFAULT)
    assert [policy.delay_s(retry, lambda: 0.5) for retry in range(1, 6)] == [1.25, 2.5, 5, 10, 20]


def test_jitter_does_not_pass_the_next_longer_delay() -> None:
    """Else a retry after 12 s could be followed by one after 10."""
    policy = parse_policy("exponential(8s, x2, max 10s, 3 tries, jitter 100%)")
    assert [policy.delay_s(retry, lambda: 0.5) for retry in (1, 2, 3)] == [9, 15, 15]


# what is wrong


@pytest.mark.row("E3")
@pytest.mark.parametrize(
    ("text", "column", "part", "reported"),
    [
        ("exponential(1s, x2)", 17, "x2", "number of tries is missing"),
        ("exponential(1 second, 5 tries)", 13, "1 second", "a delay such as"),
        ("exponential(1000, 5 tries)", 13, "1000", "a delay such as"),
        ("exponential(1s, x0.5, 5 tries)", 17, "x0.5", "factor of 1 to 100"),
        ("exponential(1s, x101, 5 tries)", 17, "x101", "factor of 1 to 100"),
        ("exponential(1s, 5 tries, jitter 200%)", 26, "jitter 200%", "0 to 100 %"),
        ("exponential(1s, jitter 20%, 5 tries)", 17, "jitter 20%", "as the last"),
        ("exponential(1s, 0 tries)", 17, "0 tries", "1 to 1000 tries"),
        ("exponential(1s, 1001 tries)", 17, "1001 tries", "1 to 1000 tries"),
        ("exponential(1s, 5 tries, 6 tries)", 26, "6 tries", "a second time"),
        ("exponential(1s, max 1x, 5 tries)", 21, "1x", "a delay such as"),
        ("exponential(10s, max 5s, 5 tries)", 13, "10s", "longer than the longest delay, 5 s"),
        ("exponential(0s, 5 tries)", 13, "0s", "1 ms to"),
        ("exponential(200h, 5 tries)", 13, "200h", "1 ms to 604800 s"),
        ("exponential(1s, 5 tries", 24, "", "closing ) is missing"),
        ("exponential(1s, 5 tries) now", 26, "now", "nothing may follow"),
        ("exponential()", 13, "", "a delay such as"),
        ("  linear(1s, 5 tries)", 3, "linear", "exponential, forever, fixed"),
        ("forever(1s, 5 tries)", 13, "5 tries", "has no number of tries"),
        ("fixed(soon)", 7, "soon", "a delay such as"),
        ("fixed(1s x2000)", 7, "1s x2000", "1 to 1000 tries"),
        ("fixed(1s x0)", 7, "1s x0", "1 to 1000 tries"),
        ("fixed(1s x999, 2s x2)", 16, "2s x2", "1 to 1000 tries"),
        ("LimitedExponentialRetryPolicy(1,60,2)", 36, "2", "takes 4 parts: initialDelay"),
        ("LimitedExponentialRetryPolicy(1,60,2,0)", 38, "0", "1 or more"),
        ("LimitedExponentialRetryPolicy(1,60,0,5)", 36, "0", "a multiplier of 1 to 100"),
        ("UnlimitedExponentialRetryPolicy(60,1,2)", 33, "60", "longer than the longest delay, 1 s"),
        ("FixedDelayRetryPolicy(soon)", 23, "soon", "a delay such as"),
        (
            "UnlimitedExponentialRetryPolicy(maxDelay=1, initialDelay=60, multiplier=2)",
            58,
            "60",
            "longer than the longest",
        ),
        (
            "UnlimitedExponentialRetryPolicy(maxDelay=60, maxDelay=1, multiplier=2)",
            46,
            "maxDelay=1",
            "expected each of",
        ),
        ("UnlimitedExponentialRetryPolicy(1, maxDelay=60, multiplier=2)", 33, "1", "expected each of"),
        ("UnlimitedExponentialRetryPolicy(initialDelay=1, maxDelay=9, factor=2)", 61, "factor=2", "expected each of"),
        ("5000x3,, 15000x5", 8, "", "a delay such as"),
        ("5000x3, 5000y3", 9, "5000y3", "a delay such as"),
        ("jitter 5%", 1, "jitter 5%", "a delay such as"),
        ("never", 1, "never", "a delay such as"),
        ("", 1, "", "a delay such as"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_place_that_is_wrong(
    text: str, column: int, part: str, reported: str
) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(text)
    assert (refused.value.column, refused.value.part) == (column, part)
    assert reported in str(refused.value)
    shown, pointer = str(refused.value).splitlines()[-2:]
    assert shown[pointer.index("^") : pointer.index("^") + len(part)] == part
    assert pointer.count("^") == max(1, len(part))


def test_the_pointer_is_at_the_wrong_one_of_two_equal_parts() -> None:
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy("exponential(1s, 5 tries, max 9s, 5 tries)")
    assert refused.value.column == 34


def test_a_text_without_end_is_refused() -> None:
    with pytest.raises(PolicyInvalid, match="more than 1000 characters"):
        parse_policy("1s, " * 1_000)


@given(st.text("exponentialfixed(),.0123456789 smhx%jtrieuv", max_size=60))
def test_any_text_is_a_policy_or_refused_with_a_place(text: str) -> None:
    try:
        policy = parse_policy(text)
    except PolicyInvalid as refused:
        assert 1 <= refused.column <= len(text) + 1
        assert text[refused.column - 1 : refused.column - 1 + len(refused.part)] == refused.part
    else:
        assert 0 < policy.first_s <= policy.longest_s <= DELAY_S_MAX


def test_a_refusal_travels_between_processes() -> None:
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy("fixed(soon)")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


class PolicySetting(BaseModel):
    retry: PolicyText


def test_a_setting_that_holds_a_wrong_policy_is_refused_with_the_place() -> None:
    assert PolicySetting(retry=DEFAULT).retry == DEFAULT
    with pytest.raises(ValidationError, match=r"character 7, 'soon'"):
        PolicySetting(retry="fixed(soon)")


# what was written down


@pytest.mark.parametrize(
    ("written", "used"),
    [(None, DEFAULT), (DEFAULT, DEFAULT), ("5000x3", "5000x3"), ("of_another_version(1s)", DEFAULT)],
)
def test_an_event_goes_on_with_the_policy_that_was_written_down_with_it(written: str | None, used: str) -> None:
    present: RetryPolicy = parse_policy(DEFAULT)
    assert choose_policy(written, present).text == used


OTHER = "fixed(60s x2)"


def configure(engine: Engine, policy: str) -> None:
    """The processor starts again with another policy."""
    engine.configure(retry=RetrySettings(default=policy))
    engine.start()


def wait_of(row: JournalRow) -> float:
    assert row.due_at is not None
    return (row.due_at - row.decided_at).total_seconds()


@pytest.mark.row("E6")
def test_the_row_of_a_failure_names_its_policy(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    [row] = engine.batch()
    assert (row.decision, row.retry_policy, row.attempt, wait_of(row)) == (Decision.RETRY, POLICY, 1, 1.0)


def test_what_is_parked_is_due_as_it_was_whatever_is_configured_then(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"), times=1)
    engine.batch()
    configure(engine, OTHER)
    assert engine.advance(0.9) == []
    [row] = engine.advance(0.2)
    assert (row.decision, row.retry_policy) == (Decision.APPLIED, POLICY)


def test_its_further_tries_follow_the_policy_that_it_began_with(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    engine.batch()
    configure(engine, OTHER)
    waits = []
    for seconds in (1, 2, 4, 8):
        [row] = engine.advance(seconds)
        assert row.retry_policy == POLICY
        waits.append(wait_of(row))
    assert waits == [2, 4, 8, 16]
    [dead] = engine.advance(16)
    assert (dead.decision, dead.retry_policy, dead.decided_at) == (Decision.DEAD, POLICY, NOW + timedelta(seconds=31))


@pytest.mark.row("E2")
def test_an_event_that_fails_for_the_first_time_follows_what_is_configured(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    engine.batch()
    configure(engine, OTHER)
    engine.handler.fails(engine.post("b", entity="e2"), Stuck("not yet"))
    [row] = engine.batch()
    assert (row.retry_policy, wait_of(row)) == (OTHER, 60)


def test_a_follower_that_never_failed_follows_what_is_configured(engine: Engine) -> None:
    engine.handler.fails(engine.post("a"), Stuck("not yet"), times=1)
    engine.handler.fails(engine.post("b"), Stuck("not yet"))
    engine.batch()
    configure(engine, OTHER)
    first, follower = engine.advance(1)
    assert (first.decision, follower.retry_policy, wait_of(follower)) == (Decision.APPLIED, OTHER, 60)


def test_a_blocked_stream_does_not_make_an_event_forget_its_policy(engine: Engine) -> None:
    key = engine.post("a")
    engine.handler.fails(key, Stuck("not yet"))
    engine.batch()
    engine.handler.fails(key, Down("all of it"), times=1)
    [parked] = engine.advance(1)
    assert (parked.decision, parked.attempt, parked.retry_policy) == (Decision.PARKED, 1, POLICY)
    configure(engine, OTHER)
    engine.handler.fails(key, Stuck("not yet"))
    [row] = engine.advance(2)
    assert (row.decision, row.attempt, row.retry_policy, wait_of(row)) == (Decision.RETRY, 2, POLICY, 2)


def test_a_replay_is_another_round_under_what_is_configured(engine: Engine) -> None:
    configure(engine, "fixed(1s)")
    engine.handler.fails(engine.post("a"), Stuck("not yet"))
    [first] = engine.batch()
    [dead] = engine.advance(1)
    assert dead.decision is Decision.DEAD
    configure(engine, OTHER)
    engine.command(first.seq, dead.seq)
    engine.batch()
    [row] = engine.batch()
    assert (row.decision, row.attempt, row.retry_policy, wait_of(row)) == (Decision.RETRY, 1, OTHER, 60)
