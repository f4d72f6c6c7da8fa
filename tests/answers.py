"""Receipts as the receiver writes them, collected into a data folder's table as a round of maintenance does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from core.layout import Layout
from journal.kafka_log import Held
from journal.schema import TopicRecord
from ledger.receipts import ReceiptsTable, collect_new_receipts


def receipt(key: str, second: int, outcome: str = "claimed", status: int = 200) -> str:
    """One line: the answer to a delivery of an event."""
    at = f"2026-01-31T12:00:{second:02}Z"
    return f'{{"at":"{at}","provider":"stripe","event_key":"{key}","outcome":"{outcome}","status":{status}}}'


def answered(data: Path, *receipts: str) -> str:
    """The path of the table that now holds them."""
    path = str(Layout(data).ledger().shared_table("receipts"))
    collect_new_receipts(OneRecord("\n".join(receipts).encode()), "receipts", ReceiptsTable(path))
    return path


class OneRecord:
    """A topic of one partition and one record."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def read_held_offsets(self, topics: Sequence[str]) -> Held:
        return {topic: {0: (0, 1)} for topic in topics}

    def records(self, topic: str, partition: int, since: int, until: int) -> Iterator[TopicRecord]:
        yield from [TopicRecord(offset, self._value) for offset in range(since, until)]
