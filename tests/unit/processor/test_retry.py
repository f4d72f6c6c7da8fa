"""Retry policies: what the texts mean, never early, growing, capped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor.retry import PolicyInvalid, parse_policy

DEFAULT = "exponential(1s, x2, max 16s, 5 tries, jitter 50%)"


def no_jitter() -> float:
    return 0.0


def test_the_default_waits_1_2_4_8_16_seconds_and_then_gives_up():
    policy = parse_policy(DEFAULT)
    assert [policy.delay_s(retry, no_jitter) for retry in range(1, 7)] == [1, 2, 4, 8, 16, None]


def test_a_list_of_delays_is_taken_in_turn():
    policy = parse_policy("fixed(5000ms x3, 15s x2)")
    assert [policy.delay_s(retry, no_jitter) for retry in range(1, 7)] == [5, 5, 5, 15, 15, None]


def test_forever_never_gives_up_and_stays_at_its_longest_delay():
    policy = parse_policy("forever(1s, x2, max 1m)")
    assert policy.delay_s(10_000, no_jitter) == 60


@given(retry=st.integers(1, 5), share=st.floats(0, 1, exclude_max=True))
def test_jitter_only_ever_adds_and_delays_grow(retry: int, share: float):
    policy = parse_policy(DEFAULT)
    delay = policy.delay_s(retry, lambda: share)
    base = 2.0 ** (retry - 1)
    assert delay is not None
    assert base <= delay <= base * 1.5
    following = policy.delay_s(retry + 1, no_jitter)
    assert following is None or delay < following


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("exponential(1s, x2)", "x2"),
        ("exponential(1 second, 5 tries)", "1 second"),
        ("exponential(1s, x0.5, 5 tries)", "x0.5"),
        ("exponential(1s, 5 tries, jitter 200%)", "jitter 200%"),
        ("exponential(1s, 0 tries)", "0 tries"),
        ("forever(1s, 5 tries)", "5 tries"),
        ("fixed(soon)", "soon"),
        ("never", "never"),
        ("fixed(1s x2000)", "1s x2000"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_part_that_is_wrong(text: str, part: str):
    with pytest.raises(PolicyInvalid) as refused:
        parse_policy(text)
    assert refused.value.part == part
    assert part in str(refused.value)
