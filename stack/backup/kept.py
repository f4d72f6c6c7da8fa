"""Tables of the present lake that a restore keeps, because they hold all that the backup's hold, and more.

What people did and what was redacted after the backup isn't undone by a restore; nor is what the receiver answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from dlq.audit_log import ChainWalk
from journal.dataset import dataset_of
from journal.lake import open_table
from ledger.redactions import Redactions
from stack.backup.sources import ACTS, RECEIPTS, REDACTIONS

Continues = Callable[[Path, Path | None], bool]
"""Whether a present table is whole and begins with the backup's, if there is one."""


def _redactions(present: Path, copied: Path | None) -> bool:
    before = Redactions(copied).all() if copied is not None else []
    return Redactions(present).all()[: len(before)] == before


def _acts(present: Path, copied: Path | None) -> bool:
    rows, before = _rows(present), _rows(copied) if copied is not None else []
    return rows[: len(before)] == before and not any(ChainWalk().offenders(rows))


def _receipts(present: Path, copied: Path | None) -> bool:
    """They aren't chained: the same table, at no earlier version, each of whose rows can be read."""
    table = open_table(str(present))
    for _ in dataset_of(table).to_batches():
        pass
    return copied is None or _follows(table, open_table(str(copied)))


CONTINUES: Mapping[str, Continues] = {REDACTIONS: _redactions, ACTS: _acts, RECEIPTS: _receipts}
"""By kind of table; every other kind is the backup's after a restore."""


def _follows(table: DeltaTable, before: DeltaTable) -> bool:
    return table.metadata().id == before.metadata().id and table.version() >= before.version()


def _rows(path: Path) -> list[dict[str, Any]]:
    return dataset_of(open_table(str(path))).to_table().sort_by("number").to_pylist()  # type: ignore[no-any-return]
