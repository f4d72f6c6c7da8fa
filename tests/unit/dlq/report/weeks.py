"""A journal on disk whose rows are decided at the hours of one week that a test says."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from core.decision import Decision, ErrorKind
from dlq.report import Week
from journal.writer import JournalWriter, Tenure
from tests.unit.journal.rows import TOPIC, bare_row

WEEK = Week.named("2026-W05")


class Journal:
    """Each call is a commit of one row, ``at_h`` hours after the week's beginning; below 0: before it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        tenure = Tenure("t")
        self._writer = JournalWriter.create_or_open(str(path), "ledger", tenure)
        self._seq = self._writer.begin_epoch({TOPIC: {0: 0}}, tenure).next_seq
        self._offsets: dict[int, int] = {}

    def new(self, at_h: float, decision: Decision, **changes: Any) -> int:
        """A new item's first row; its number."""
        item = self._seq
        self._offsets[item] = len(self._offsets)
        self._commit(item, at_h, decision, first=True, **changes)
        return item

    def dies(self, at_h: float, message: str = "no merchant for 'a'", **changes: Any) -> int:
        return self.new(at_h, Decision.DEAD, **(_died(message) | changes))

    def dies_again(self, item: int, at_h: float, message: str = "no merchant for 'a'") -> None:
        self.then(item, at_h, Decision.DEAD, **_died(message))

    def then(self, item: int, at_h: float, decision: Decision, **changes: Any) -> None:
        self._commit(item, at_h, decision, first=False, **changes)

    def _commit(self, item: int, at_h: float, decision: Decision, *, first: bool, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "item_seq": item,
            "first": first,
            "offset": self._offsets[item],
            "decided_at": WEEK.start + timedelta(hours=at_h),
            "provider": "stripe",
            "event_type": "charge.captured",
        }
        row = bare_row(self._seq, decision, **(fields | changes))
        self._writer.commit([row], {TOPIC: {0: len(self._offsets)}}, 0, {})
        self._seq += 1


def _died(message: str) -> dict[str, Any]:
    return {"error_class": "MerchantUnknown", "error_message": message, "error_kind": ErrorKind.SNBE}
