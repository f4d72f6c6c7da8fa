"""What receivers count becomes each source's rhythm, over restarts of theirs and of the alerts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from alerts.silence import SLOT_S, WEEK, Silence

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SLOT = timedelta(seconds=SLOT_S)


def after_three_weeks(file: Path) -> tuple[Silence, datetime, float]:
    """A source that sent ten events a slot; the time, and its counter then."""
    begun = int(NOW.timestamp()) // SLOT_S
    counts = dict.fromkeys(range(begun, begun + 3 * WEEK), 10)
    kept = {"slot_s": SLOT_S, "sources": {"stripe/eu": {"begun": begun, "counts": counts}}}
    file.write_text(json.dumps(kept), "utf-8")
    silence, now, counter = Silence(file), NOW + 3 * WEEK * SLOT, 60_000.0
    silence.find_quiet({"stripe/eu": {"worker 0": counter}}, now)
    return silence, now, counter


def test_a_source_that_goes_on_is_quiet_at_no_time_and_one_that_stops_is(tmp_path: Path) -> None:
    silence, now, counter = after_three_weeks(tmp_path / "rhythms.json")
    assert silence.find_quiet({"stripe/eu": {"worker 0": counter + 10}}, now) == {"stripe/eu": None}
    found = [
        silence.find_quiet({"stripe/eu": {"worker 0": counter + 10}}, now + number * SLOT)["stripe/eu"]
        for number in range(1, 5)
    ]
    assert found[0] is None
    assert found[-1] is not None and found[-1].came == 0


def test_a_restart_of_the_alerts_forgets_nothing_and_one_of_the_receiver_counts_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "rhythms.json"
    _, now, counter = after_three_weeks(file)
    again = Silence(file)
    assert again.find_quiet({"stripe/eu": {"worker 0": counter}}, now)["stripe/eu"] is None
    again.find_quiet({"stripe/eu": {"worker 0": 7.0}}, now + SLOT)
    assert again._rhythms["stripe/eu"].counts[int((now + SLOT).timestamp()) // SLOT_S] == 7


def test_a_file_of_another_version_or_none_begins_again(tmp_path: Path) -> None:
    file = tmp_path / "rhythms.json"
    for text in ("", "[]", '{"slot_s": 1, "sources": {}}', '{"slot_s": 300, "sources": {"stripe": []}}'):
        file.write_text(text, "utf-8")
        assert Silence(file).find_quiet({"stripe": {"worker 0": 3.0}}, NOW) == {"stripe": None}
