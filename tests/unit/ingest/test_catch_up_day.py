"""A simulated day of a provider that never delivers one event in a hundred, beside a list with troubles of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.listed_month import SimulatedMonth

SEED = 7
GAP_S_MAX = 300
LATE_GAP_S_MAX = 86_400 + 2 * 3_600


def test_a_day_of_ten_thousand_events_is_whole(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Some of those that are never delivered, the list has only hours later."""
    figures = SimulatedMonth(tmp_path, 10_000, 1, SEED).run()
    record_property("figures", f"seed {SEED}: {figures}")
    assert (figures.missing, figures.twice, figures.asked_within_pause) == (0, 0, 0)
    assert figures.by_list >= figures.never_delivered > 50
    assert figures.gap_s_max <= GAP_S_MAX
    assert figures.late_gap_s_max <= LATE_GAP_S_MAX
