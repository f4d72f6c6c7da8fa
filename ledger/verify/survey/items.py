"""What became of each item that wasn't settled by its first row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ledger.verify.survey.decided import CLOSES, DEAD, FIRST, WAITS

ITEM = np.dtype([("item", "<i8"), ("seq", "<i8"), ("since", "<i8"), ("is", "<u2")])
"""One row of an item: ``since`` is when it was received, or decided where that isn't known, in microseconds; ``is``
are the flags of `ledger.verify.survey.decided`."""

OPEN = np.dtype([("item", "<i8"), ("last", "<i8"), ("since", "<i8"), ("dead", "?")])
"""An item that is open: the seq of its last row, since when, and whether it is dead."""


@dataclass(frozen=True, slots=True)
class Items:
    """``open`` items, and whether one of all has a row before its first one or after its last one."""

    open: np.ndarray
    doubtful: bool


def items(parts: Sequence[np.ndarray]) -> Items:
    """Of all rows of some items, in any order."""
    found = np.concatenate(parts) if parts else np.empty(0, ITEM)
    found = found[np.lexsort((found["seq"], found["item"]))]
    if len(found) == 0:
        return Items(np.empty(0, OPEN), False)
    begins = np.flatnonzero(np.concatenate([[True], found["item"][1:] != found["item"][:-1]]))
    ends = np.append(begins[1:], len(found)) - 1
    head, last = found[begins], found[ends]
    closes = (found["is"] & CLOSES) > 0
    closings = np.add.reduceat(closes.astype("i4"), begins)
    firsts = np.add.reduceat(((found["is"] & FIRST) > 0).astype("i4"), begins)
    wrong = (firsts != 1) | (head["seq"] != head["item"]) | (closings > 1)
    wrong |= (closings == 1) & ~closes[ends]
    return Items(_open(head, last), bool(wrong.any()))


def _open(head: np.ndarray, last: np.ndarray) -> np.ndarray:
    waits = (last["is"] & WAITS) > 0
    found = np.empty(int(waits.sum()), OPEN)
    found["item"], found["last"] = last["item"][waits], last["seq"][waits]
    found["since"] = head["since"][waits]
    found["dead"] = (last["is"][waits] & DEAD) > 0
    return found
