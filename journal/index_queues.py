"""Which entities surely have nothing that waits, known without a look into the store."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

from journal import index_layout as layout

BITS = 20
"""4 MiB of counters. With 10,000 events that wait one look in a hundred goes to the store in vain."""


class Queues:
    """How many keys stand under `layout.QUEUE`, by the first `BITS` of their entity's hash.

    Zero says that an entity's queue is empty. Nearly every new event's is, and to ask the store for it (an iterator and
    a seek) takes longer than all other look-ups of the event together.
    """

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        """``keys``: all that stand under `layout.QUEUE`."""
        self._counts = array("I", bytes(4 << BITS))
        at = len(layout.QUEUE)
        for key in keys:
            self._counts[_place(key[at:])] += 1

    def is_empty(self, entity: bytes) -> bool:
        """False where it isn't known: another entity's events may be counted at the same place."""
        return self._counts[_place(entity)] == 0

    def change(self, steps: Mapping[bytes, int]) -> None:
        """``steps``: by entity hash, how many keys more there are."""
        for entity, step in steps.items():
            self._counts[_place(entity)] += step


def _place(entity: bytes) -> int:
    return int.from_bytes(entity[:4], "big") >> (32 - BITS)
