"""What follows from each row's decision by itself: the same that `ledger.verify.evidence.journal_view` says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.decision import NO_STEP_DECISIONS, OPEN_DECISIONS, Decision
from journal.open_item import CONFLICT_CLASS
from ledger.postings import BOOKING_DECISIONS

FIRST, HOLDS, WAITS, CLOSES, BOOKS = 1, 2, 4, 8, 16
APPLIED, DUPLICATE, DUPLICATE_FACT, REVERSED, DEAD, REPLAYED, PURGED, IGNORED = 32, 64, 128, 256, 512, 1024, 2048, 4096
LOST, PORTION = 8192, 16384

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

    :raises ValueError: a decision that nobody knows
    """
    decisions = rows["decision"].dictionary_encode()
    words = decisions.dictionary.to_pylist()
    if strangers := [word for word in words if word not in _FLAGS]:
        raise ValueError(f"nobody knows the decisions {strangers}")
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
