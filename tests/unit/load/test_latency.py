"""Percentiles, as the figures use them, and the seconds that they are taken of."""

from datetime import timedelta
from pathlib import Path

import pytest

from load.latency import first_decisions, percentile, seconds_to_decide
from tests.unit.journal.rows import NOW, TOPIC, begin_journal, marks, row


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 5.0), (0.9, 9.0), (0.99, 10.0), (1.0, 10.0)])
def test_the_smallest_value_that_the_share_does_not_exceed(share: float, expected: float):
    values = [float(n) for n in (3, 1, 2, 10, 9, 8, 7, 6, 5, 4)]
    assert percentile(values, share) == expected


def test_nothing_has_no_percentile():
    with pytest.raises(IndexError):
        percentile([], 0.5)


def test_the_seconds_alone_are_those_of_the_decisions(tmp_path: Path):
    writer = begin_journal(str(tmp_path / "journal"))
    for seq in range(1, 7):
        received_at = None if seq == 3 else NOW - timedelta(seconds=seq)
        writer.commit([row(seq, received_at=received_at)], marks(seq), 0)
    whole = sorted(first_decisions(tmp_path / "journal", TOPIC), key=lambda one: one.committed_at)
    assert [one.event_key for one in whole] == [row(seq).event_key for seq in (1, 2, 4, 5, 6)]
    assert sorted(seconds_to_decide(tmp_path / "journal", TOPIC)) == sorted(one.seconds for one in whole)
    assert seconds_to_decide(tmp_path / "journal", TOPIC, after_seq=5) == [whole[-1].seconds]
    assert seconds_to_decide(tmp_path / "journal", TOPIC, after_seq=6) == []
    assert seconds_to_decide(tmp_path / "journal", "payments.events.test") == []
