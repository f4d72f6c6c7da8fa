"""What follows from each row's decision, and what became of each item that wasn't settled by its first row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.clock import from_micros
from core.decision import NO_STEP_DECISIONS, OPEN_DECISIONS, Decision
from journal.open_item import CONFLICT_CLASS
from ledger.postings import BOOKING_DECISIONS

FIRST, HOLDS, WAITS, CLOSES, BOOKS = 1, 2, 4, 8, 16
APPLIED, DUPLICATE, DUPLICATE_FACT, REVERSED, DEAD, REPLAYED, PURGED, IGNORED = 32, 64, 128, 256, 512, 1024, 2048, 4096
LOST, PORTION, ELSEWHERE = 8192, 16384, 32768

_NAMED = {
    Decision.APPLIED: APPLIED,
    Decision.DUPLICATE: DUPLICATE,
    Decision.DUPLICATE_FACT: DUPLICATE_FACT,
    Decision.REVERSED: REVERSED,
    Decision.DEAD: DEAD,
    Decision.REPLAYED: REPLAYED,
    Decision.PURGED: PURGED,
    Decision.IGNORED: IGNORED,
    Decision.LOST: LOST,
    Decision.PORTION: PORTION,
}


def _of(decision: Decision) -> int:
    found = _NAMED.get(decision, 0)
    if decision in OPEN_DECISIONS:
        found |= WAITS
    elif decision not in NO_STEP_DECISIONS:
        found |= CLOSES
    if decision in BOOKING_DECISIONS:
        found |= BOOKS
    return found


_FLAGS: Mapping[str, int] = {decision.value: _of(decision) for decision in Decision}


def flags(rows: pa.RecordBatch) -> np.ndarray:
    """The flags of each row, as bits of a 16-bit number.

    :raises ValueError: an unknown decision
    """
    decisions = rows["decision"].dictionary_encode()
    words = decisions.dictionary.to_pylist()
    if unknown := [word for word in words if word not in _FLAGS]:
        raise ValueError(f"unknown decisions: {unknown}")
    found: np.ndarray = np.array([_FLAGS[word] for word in words], "u2")[decisions.indices.to_numpy()]
    first = rows["first"].to_numpy(zero_copy_only=False)
    found |= first.astype("u2") * FIRST
    held = first & ((found & (DUPLICATE | LOST)) == 0)
    if (found & DEAD).any():
        held &= ~(_conflict(rows) & ((found & DEAD) > 0))
    found |= held.astype("u2") * HOLDS
    commands = first & ((found & REPLAYED) > 0)
    found[commands] &= ~np.uint16(WAITS)
    return found


def _conflict(rows: pa.RecordBatch) -> np.ndarray:
    """A handler's own error of that name comes with the handler's version."""
    named = pc.fill_null(pc.equal(rows["error_class"], CONFLICT_CLASS), False)
    found: np.ndarray = pc.and_(named, pc.is_null(rows["handler_version"])).to_numpy(zero_copy_only=False)
    return found


ITEM = np.dtype([("item", "<i8"), ("seq", "<i8"), ("since", "<i8"), ("is", "<u2")])
"""One row of an item: ``since`` is when it was received, or decided where that isn't known or the row takes it up
again, in microseconds; ``is`` are the flags of `ledger.verify.fast_path.items`. ``ELSEWHERE``: the item is another
shard's (`journal.shards.decides`)."""

OPEN = np.dtype([("item", "<i8"), ("last", "<i8"), ("since", "<i8"), ("dead", "?")])
"""An item that is open: the seq of its last row, since when, and whether it is dead."""


@dataclass(frozen=True, slots=True)
class OpenItems:
    """Items that are open, by their number."""

    found: np.ndarray = field(default_factory=lambda: np.empty(0, OPEN))

    @classmethod
    def of(cls, parts: Iterable[np.ndarray]) -> Self:
        return cls(np.concatenate([np.empty(0, OPEN), *parts]))

    def waiting(self) -> int:
        return int(np.count_nonzero(~self.found["dead"]))

    def dead(self) -> int:
        return int(np.count_nonzero(self.found["dead"]))

    def oldest_waiting(self) -> tuple[int, datetime] | None:
        """The item that has waited longest, and since when."""
        waiting = self.found[~self.found["dead"]]
        if not len(waiting):
            return None
        oldest = waiting[np.lexsort((waiting["item"], waiting["since"]))[0]]
        return int(oldest["item"]), from_micros(int(oldest["since"]))

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        """Item, seq of its last row, whether it is dead."""
        return zip(self.found["item"].tolist(), self.found["last"].tolist(), self.found["dead"].tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class Items:
    """``open`` items, and whether one of all has a row before its first one or after its last one. Open items that are
    another shard's are ``elsewhere``.

    ``reopened`` are items that were taken up again after a row that ignored them. That row may be the item's first and
    then isn't here: whether it is there is asked by itself (`ReprocessedWereIgnored`).
    """

    open: np.ndarray
    doubtful: bool
    reopened: np.ndarray
    elsewhere: np.ndarray


def items(parts: Sequence[np.ndarray]) -> Items:
    """Of all rows of some items, in any order."""
    found = np.concatenate(parts) if parts else np.empty(0, ITEM)
    found = found[np.lexsort((found["seq"], found["item"]))]
    if len(found) == 0:
        return Items(np.empty(0, OPEN), False, np.empty(0, "<i8"), np.empty(0, OPEN))
    begins = np.flatnonzero(np.concatenate([[True], found["item"][1:] != found["item"][:-1]]))
    ends = np.append(begins[1:], len(found)) - 1
    head, last = found[begins], found[ends]
    again = _again(found, begins)
    closes = ((found["is"] & CLOSES) > 0) & ~again
    closings = np.add.reduceat(closes.astype("i4"), begins)
    firsts = np.add.reduceat(((found["is"] & FIRST) > 0).astype("i4"), begins)
    settled_first = ((head["is"] & REPLAYED) > 0) & ((head["is"] & FIRST) == 0)
    wrong = np.where(settled_first, firsts != 0, (firsts != 1) | (head["seq"] != head["item"])) | (closings > 1)
    wrong |= (closings == 1) & ~closes[ends]
    reopened = np.unique(np.concatenate([head["item"][settled_first], found["item"][again]]))
    is_elsewhere = (last["is"] & ELSEWHERE) > 0
    own, others = (_open(head[which], last[which]) for which in (~is_elsewhere, is_elsewhere))
    return Items(own, bool(wrong.any()), reopened, others)


def _again(found: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Rows that ignored their item, and were followed by one that took it up again."""
    followed = np.zeros(len(found), "?")
    followed[:-1] = (found["is"][1:] & REPLAYED) > 0
    followed[begins[1:] - 1] = False
    return followed & ((found["is"] & IGNORED) > 0)


def _open(head: np.ndarray, last: np.ndarray) -> np.ndarray:
    waits = (last["is"] & WAITS) > 0
    found = np.empty(int(waits.sum()), OPEN)
    found["item"], found["last"] = last["item"][waits], last["seq"][waits]
    found["since"] = head["since"][waits]
    found["dead"] = (last["is"][waits] & DEAD) > 0
    return found
