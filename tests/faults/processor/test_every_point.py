"""A process killed at each named point of a batch, on real tables: one effect an event, and nothing derived is off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.killing import POINTS
from tests.integration.processor.stored import Stored

PROCESSORS = [point for point in POINTS if point.startswith("processor.")]
BEFORE_THE_COMMIT = ("processor.after_read", "processor.after_handlers", "processor.before_commit")


@pytest.mark.parametrize("point", PROCESSORS)
@pytest.mark.parametrize("second", PROCESSORS)
def test_kill_9_at_one_point_and_then_at_another(tmp_path: Path, point: str, second: str) -> None:
    """The second kill falls into the batch that repeats what the first one broke off, or into the one after it."""
    stored = Stored(tmp_path)
    for event_id in ("a", "b", "dead-c", "d"):
        stored.kafka.post(event_id)
    stored.decide_all()
    for event_id in ("e", "a", "dead-f", "g", "h", "dead-i", "e", "j"):
        stored.kafka.post(event_id)
    stored.killed_at(point)
    rows = len(stored.rows())
    assert rows == (4 if point in BEFORE_THE_COMMIT else 8), "what was committed is there, and nothing else"
    stored.killed_at(second)
    stored.decide_all()
    stored.check()
    decisions = stored.decisions()
    assert decisions.pop("a") == decisions.pop("e") == ["applied", "duplicate"]
    assert decisions == {name: ["dead"] if name.startswith("dead") else ["applied"] for name in decisions}
