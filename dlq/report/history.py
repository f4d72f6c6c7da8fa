"""Each dead item's life, from the journal: when it died, was replayed, died again, and was closed."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from core.decision import OPEN_DECISIONS, Decision
from journal.reader import dataset_of
from journal.schema import TIMESTAMP, JournalRow, from_arrow

_LIFE = ["item_seq", "seq", "decision", "decided_at"]
_DEATH = [
    *("seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at", "provider", "event_type"),
    *("error_class", "error_code", "error_message", "error_stack", "error_kind"),
]


@dataclass(slots=True)
class Life:
    """One item from its first death on. ``closed_by`` is None while it is open; ``again``: deaths after a replay.

    ``dead_since``: None while it isn't dead, but being replayed or closed.
    """

    item_seq: int
    died_at: datetime
    dead_since: datetime | None
    closed_at: datetime | None = None
    closed_by: Decision | None = None
    replays: list[datetime] = field(default_factory=list)
    again: list[datetime] = field(default_factory=list)

    def over(self, age: timedelta) -> datetime | None:
        """When it came to be open for longer than that; None where it was closed before."""
        passed = self.died_at + age
        return passed if self.closed_at is None or self.closed_at > passed else None


@dataclass(frozen=True, slots=True)
class History:
    """``lives`` by item, of all that died before the moment that was asked for; ``steps``: how many more were dead
    from then on, in time order.
    """

    lives: dict[int, Life]
    steps: list[tuple[datetime, int]]


def history(journal: str, until: datetime) -> History:
    """What had happened before ``until``; empty while there is no journal."""
    lives: dict[int, Life] = {}
    steps: list[tuple[datetime, int]] = []
    for item, decision, at in _events(journal, until):
        life = lives.get(item)
        if decision is Decision.DEAD:
            if life is None:
                life = lives[item] = Life(item, at, None)
            elif life.dead_since is not None:
                continue
            else:
                life.again.append(at)
                life.closed_at = life.closed_by = None
            life.dead_since = at
            steps.append((at, 1))
        elif life is not None:
            _moved_on(life, decision, at, steps)
    return History(lives, sorted(steps, key=operator.itemgetter(0)))


def deaths(journal: str, since: datetime, until: datetime) -> list[JournalRow]:
    """The rows of what died in between, in seq order, with few columns."""
    if not DeltaTable.is_deltatable(journal):
        return []
    at = pc.field("decided_at")
    wanted = (pc.field("decision") == Decision.DEAD.value) & (at >= _moment(since)) & (at < _moment(until))
    return from_arrow(dataset_of(DeltaTable(journal)).to_table(columns=_DEATH, filter=wanted).sort_by("seq"))


def _moved_on(life: Life, decision: Decision, at: datetime, steps: list[tuple[datetime, int]]) -> None:
    if life.dead_since is not None:
        life.dead_since = None
        steps.append((at, -1))
    if decision is Decision.REPLAYED:
        life.replays.append(at)
    if decision not in OPEN_DECISIONS:
        life.closed_at, life.closed_by = at, decision


def _events(journal: str, until: datetime) -> Iterator[tuple[int, Decision, datetime]]:
    """Rows of items that ever died, in seq order."""
    if not DeltaTable.is_deltatable(journal):
        return
    dataset = dataset_of(DeltaTable(journal))
    died = pc.field("decision") == Decision.DEAD.value
    before = pc.field("decided_at") < _moment(until)
    told = dataset.to_table(columns=_LIFE, filter=before & (died | ~pc.field("first")))
    dead_items = told.filter(pc.equal(told["decision"], Decision.DEAD.value))["item_seq"].combine_chunks().unique()
    of_dead = told.filter(pc.is_in(told["item_seq"], value_set=dead_items)).sort_by("seq")
    for batch in of_dead.to_batches():
        columns = (batch.column(name).to_pylist() for name in ("item_seq", "decision", "decided_at"))
        for item, decision, at in zip(*columns, strict=True):
            yield item, Decision(decision), at


def _moment(at: datetime) -> pa.Scalar:
    return pa.scalar(at, TIMESTAMP)
