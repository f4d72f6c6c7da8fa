"""What became of each item that wasn't settled by its first row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ledger.verify.survey.decided import CLOSES, DEAD, FIRST, IGNORED, REPLAYED, WAITS

ITEM = np.dtype([("item", "<i8"), ("seq", "<i8"), ("since", "<i8"), ("is", "<u2")])
"""One row of an item: ``since`` is when it was received, or decided where that isn't known or the row takes it up
again, in microseconds; ``is`` are the flags of `ledger.verify.survey.decided`."""

OPEN = np.dtype([("item", "<i8"), ("last", "<i8"), ("since", "<i8"), ("dead", "?")])
"""An item that is open: the seq of its last row, since when, and whether it is dead."""


@dataclass(frozen=True, slots=True)
class Items:
    """``open`` items, and whether one of all has a row before its first one or after its last one.

    ``reopened`` are items that were taken up again after a row that ignored them. That row may be the item's first and
    then isn't here: whether it is there is asked by itself (`ReprocessedWereIgnored`).
    """

    open: np.ndarray
    doubtful: bool
    reopened: np.ndarray


def items(parts: Sequence[np.ndarray]) -> Items:
    """Of all rows of some items, in any order."""
    found = np.concatenate(parts) if parts else np.empty(0, ITEM)
    found = found[np.lexsort((found["seq"], found["item"]))]
    if len(found) == 0:
        return Items(np.empty(0, OPEN), False, np.empty(0, "<i8"))
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
    return Items(_open(head, last), bool(wrong.any()), reopened)


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
