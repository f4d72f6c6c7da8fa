"""A journal with dead items, as the processor would have left it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.decision import Decision
from core.layout import Layout
from journal.schema import JournalRow, stamp_rows
from journal.target import ItemTarget
from journal.writer import JournalWriter

DEAD_ITEMS = 3
EVENTS, CONTROL = "payments.events", "payments.control"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Items 1 to `DEAD_ITEMS` are dead, in the ledger's journal of the data folder ``tmp_path``."""
    path = Layout(tmp_path).ledger().journal
    writer = JournalWriter.create_or_open(str(path), "ledger")
    writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}})
    writer.commit(dead_rows(), {EVENTS: {0: DEAD_ITEMS}, CONTROL: {0: 0}}, 0)
    return Path(path)


def seen(item_seq: int) -> dict[str, object]:
    """The item as the API lists it; of one that isn't there with a hash that no row has."""
    rows = dead_rows()
    stamp_rows(rows, epoch=1, batch_seq=1)
    found = next(
        (ItemTarget.of_row(row) for row in rows if row.item_seq == item_seq), ItemTarget(item_seq, item_seq, "0" * 16)
    )
    return asdict(found)


def dead_rows() -> list[JournalRow]:
    return [
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
