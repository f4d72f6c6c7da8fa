"""A journal with dead items, as the processor would have left it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.decision import Decision
from journal.schema import JournalRow
from journal.writer import JournalWriter
from stack.layout import Layout

DEAD_ITEMS = 3
EVENTS, CONTROL = "payments.events", "payments.control"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Items 1 to `DEAD_ITEMS` are dead, in the ledger's journal of the data folder ``tmp_path``."""
    path = Layout(tmp_path).ledger().journal
    writer = JournalWriter.create_or_open(str(path), "ledger")
    writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}})
    rows = [
        JournalRow(
            seq=seq,
            item_seq=seq,
            first=True,
            topic=EVENTS,
            partition=0,
            offset=seq - 1,
            decision=Decision.DEAD,
            decided_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
        )
        for seq in range(1, DEAD_ITEMS + 1)
    ]
    writer.commit(rows, {EVENTS: {0: DEAD_ITEMS}, CONTROL: {0: 0}}, 0)
    return Path(path)
