"""How many events of a stream are dead, and since when: followed in its journal, whoever else runs or doesn't."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.clock import Clock, from_micros
from core.decision import OPEN_DECISIONS, Decision
from core.location import Location
from journal.reader import JournalReader

READ_S_MAX = 5.0
"""Of one look at a long journal; the next look goes on from there."""

_COLUMNS = ("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at")
_OPEN = frozenset(decision.value for decision in OPEN_DECISIONS)


@dataclass(frozen=True, slots=True)
class Dead:
    """``oldest_at``: when the one that has been open for longest first died; a replay that fails doesn't reset it."""

    depth: int
    oldest_at: datetime | None


class DeadItems:
    """Follows one journal. Memory grows with the events that are dead or being replayed, 100 bytes each."""

    def __init__(self, journal: Location, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._table_id: str | None = None
        self._seq = 0
        self._depth = 0
        self._died_at: dict[int, int] = {}
        """By item, when it first died (microseconds); negative while it is being replayed."""

    def read(self) -> Dead | None:
        """As the journal is now; None while there is more of it to read than one look takes.

        :raises JournalBroken, DeltaError, OSError: it can't be read
        """
        if not DeltaTable.is_deltatable(str(self._journal)):
            return Dead(0, None)
        reader = JournalReader(str(self._journal))
        if reader.table_id != self._table_id or reader.last_seq < self._seq:
            self._forget(reader.table_id)
        until = self._clock.monotonic() + READ_S_MAX
        for rows in reader.tables_after(self._seq, _COLUMNS):
            self._take(rows)
            self._seq = rows["seq"][-1].as_py()
            if self._clock.monotonic() > until and self._seq < reader.last_seq:
                return None
        oldest = min(filter(lambda at: at > 0, self._died_at.values()), default=None)
        return Dead(self._depth, None if oldest is None else from_micros(oldest))

    def _forget(self, table_id: str | None) -> None:
        """Another journal in its place, or one that was restored."""
        self._table_id = table_id
        self._seq = self._depth = 0
        self._died_at = {}

    def _take(self, rows: pa.Table) -> None:
        died = pc.equal(rows["decision"], Decision.DEAD.value)
        told = rows.filter(pc.or_(died, pc.invert(rows["first"])))
        columns = (told["item_seq"], told["decision"], told["decided_at"].cast(pa.int64()))
        for item, decision, at in zip(*(column.to_pylist() for column in columns), strict=True):
            known = self._died_at.get(item)
            if decision == Decision.DEAD.value:
                self._depth += known is None or known < 0
                self._died_at[item] = abs(known) if known is not None else at
            elif known is not None:
                self._depth -= known > 0
                if decision in _OPEN:
                    self._died_at[item] = -abs(known)
                else:
                    del self._died_at[item]
