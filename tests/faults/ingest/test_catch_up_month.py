"""A simulated month of a million events, one in a hundred of which the provider never delivers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.listed_month import SimulatedMonth

COUNT, DAYS = 1_000_000, 30
GAP_S_MAX = 300
LATE_GAP_S_MAX = 86_400 + 2 * 3_600


def test_a_month_of_a_million_events_is_whole(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """No event is missing or twice, and each is with Kafka five minutes after the list has it, at the latest."""
    seed = int(os.environ.get("PYTHONHASHSEED") or 7)
    figures = SimulatedMonth(tmp_path, COUNT, DAYS, seed).run()
    record_property("figures", f"seed {seed}: {figures}")
    assert (figures.missing, figures.twice, figures.asked_within_pause) == (0, 0, 0)
    assert figures.by_list >= figures.never_delivered > COUNT * 0.009
    assert figures.gap_s_max <= GAP_S_MAX
    assert figures.late_gap_s_max <= LATE_GAP_S_MAX
