"""How many events of a stream are dead, and since when: followed in its journal, whoever else runs or doesn't."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.clock import Clock, from_micros
from core.decision import Decision
from core.place import Place
from journal.life import Life, life_after
from journal.reader import JournalReader

READ_S_MAX = 5.0
"""Of one look at a long journal; the next look goes on from there."""

_COLUMNS = ("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at")


@dataclass(frozen=True, slots=True)
class Dead:
    """``oldest_at``: when the one that has been open for longest first died; a replay that fails doesn't reset it."""

    depth: int
    oldest_at: datetime | None


class DeadItems:
    """Follows one journal. Memory grows with the events that are dead or being replayed, 300 bytes each."""

    def __init__(self, journal: Place, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._table_id: str | None = None
        self._seq = 0
        self._lives: dict[int, Life[int]] = {}
        """By item, of those that died and are open; times in microseconds."""

    def read(self) -> Dead | None:
        """As the journal is now; None while there is more of it to read than one look takes.

        :raises JournalBroken, DeltaError, OSError: it can't be read
        """
        if not DeltaTable.is_deltatable(str(self._journal)):
            return Dead(0, None)
        reader = JournalReader(str(self._journal))
        if reader.table_id != self._table_id or reader.last_seq < self._seq:
            # Another journal in its place, or one that was restored.
            self._table_id, self._seq, self._lives = reader.table_id, 0, {}
        until = self._clock.monotonic() + READ_S_MAX
        for rows in reader.tables_after(self._seq, _COLUMNS):
            self._take(rows)
            self._seq = rows["seq"][-1].as_py()
            if self._clock.monotonic() > until and self._seq < reader.last_seq:
                return None
        died_at = [life.died_at for life in self._lives.values() if life.is_dead and life.died_at is not None]
        return Dead(len(died_at), from_micros(min(died_at)) if died_at else None)

    def _take(self, rows: pa.Table) -> None:
        died = pc.equal(rows["decision"], Decision.DEAD.value)
        told = rows.filter(pc.or_(died, pc.invert(rows["first"])))
        columns = (told["item_seq"], told["decision"], told["decided_at"].cast(pa.int64()))
        for item, decision, at in zip(*(column.to_pylist() for column in columns), strict=True):
            known = self._lives.get(item)
            if known is None and decision != Decision.DEAD.value:
                continue
            life = self._lives[item] = life_after(known, Decision(decision), at)
            if not life.is_open:
                del self._lives[item]
