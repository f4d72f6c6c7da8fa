"""Promises asked of rows as they are, without Kafka and Delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from journal.schema import JournalRow, to_arrow
from ledger.verify.engine import SqlEngine, read_promise
from ledger.verify.views import OPEN_ITEMS, build_journal_sql

ASKED = pa.table({"before_seq": [0], "own_mode": ["live"]})


def name_rows(engine: SqlEngine, rows: Sequence[JournalRow]) -> None:
    """Names a journal of these rows alone, from its first one on."""
    table = to_arrow(rows)
    table = table.append_column("kafka_offset", table["offset"])
    engine.add_table("rows_alone", table.to_batches(), table.schema)
    engine.add_view("whole", build_journal_sql("rows_alone"))
    engine.add_view("journal", "SELECT * FROM whole")
    engine.add_view("open_items", OPEN_ITEMS.format(rows="journal"))
    engine.add_table("asked", ASKED.to_batches(), ASKED.schema)


def offenders(engine: SqlEngine, *promises: str) -> list[dict[str, Any]]:
    """What offends one of them."""
    return [row for name in promises for row in engine.ask(read_promise(name).sql)]
