"""Percentiles, as the figures use them."""

import pytest

from load.latency import percentile


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 5.0), (0.9, 9.0), (0.99, 10.0), (1.0, 10.0)])
def test_the_smallest_value_that_the_share_does_not_exceed(share: float, expected: float):
    values = [float(n) for n in (3, 1, 2, 10, 9, 8, 7, 6, 5, 4)]
    assert percentile(values, share) == expected


def test_nothing_has_no_percentile():
    assert percentile([], 0.5) is None
