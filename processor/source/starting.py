"""Finds where a new stream begins in its topic of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from core.clock import from_rfc3339

EARLIEST, LATEST = "earliest", "latest"
WANTED = "earliest, latest, or a time with its zone such as 2026-01-31T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Starting:
    text: str = EARLIEST
    moment: datetime | None = None

    def to_sentence(self, topic: str, ends: Mapping[int, tuple[int, int]], marks: Mapping[int, int]) -> str:
        waiting = sum(high - marks[number] for number, (_, high) in ends.items())
        left_out = sum(marks[number] - low for number, (low, _) in ends.items())
        waits = f"{waiting} record{'s wait' if waiting > 1 else ' waits'}" if waiting else "no record waits"
        left = f"{left_out} {'are' if left_out > 1 else 'is'} left out" if left_out else "none is left out"
        return f"begins in {topic} at {self.text} (starting_offsets): {waits}, {left}"


FROM_EARLIEST = Starting()


def parse_starting(text: str) -> Starting:
    if text in (EARLIEST, LATEST):
        return Starting(text)
    try:
        return Starting(text, from_rfc3339(text))
    except ValueError as wrong:
        raise ValueError(f"{text!r} isn't where a stream can begin: {WANTED}") from wrong
