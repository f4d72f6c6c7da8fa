"""Reads the open events of an entity from the index, beside its writer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.decision import Decision
from journal.errors import IndexUnreadable
from journal.index import Index
from journal.open_item import OpenItem

OPEN_TRIES_MAX = 5
OPEN_AGAIN_S = 0.2
LISTED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class EntityQueue:
    """An entity's open events as of the journal's row ``seq``, in Kafka's order, the first `LISTED_MAX` of ``total``.

    ``head`` is the event that the others wait behind, by its item; None: the next one that arrives runs at once.
    """

    entity_key: str
    seq: int
    total: int
    head: int | None
    items: tuple[OpenItem, ...]

    @property
    def previous_dead(self) -> bool:
        """Returns whether an event that arrives now would see that one before it died and was passed over."""
        return any(item.died for item in self.items)

    def describe_place(self, item: OpenItem) -> str:
        """Returns ``head``, ``waits`` behind it, or ``beside``: it holds nothing back."""
        if not item.row.blocking:
            return "beside"
        return "head" if item.row.item_seq == self.head else "waits"

    def find_dead_head(self) -> OpenItem | None:
        return next(
            (item for item in self.items if item.row.item_seq == self.head and item.row.decision is Decision.DEAD), None
        )


def read_entity(root: Path, entity_key: str) -> EntityQueue:
    """Reads an entity's open events; ``root`` is the stream's index folder.

    :raises IndexUnreadable: there is no index yet, or it is of another version
    """
    index = open_beside_its_writer(root)
    try:
        seqs = list(index.of_entity(entity_key))
        items = (index.open_item(seq) for seq in islice(seqs, LISTED_MAX))
        head = next(index.queue(entity_key), None)
        return EntityQueue(
            entity_key,
            index.seq,
            len(seqs),
            head.row.item_seq if head is not None else None,
            tuple(item for item in items if item is not None),
        )
    finally:
        index.close()


def read_item(root: Path, item_seq: int) -> EntityQueue | None:
    """Reads an open event with its entity's head; None if it isn't open. ``root`` is the stream's index folder.

    :raises IndexUnreadable: there is no index yet, or it is of another version
    """
    index = open_beside_its_writer(root)
    try:
        item = index.open_item(item_seq)
        if item is None:
            return None
        entity_key = item.row.entity_key or ""
        head = next(index.queue(entity_key), None)
        return EntityQueue(entity_key, index.seq, 1, None if head is None else head.row.item_seq, (item,))
    finally:
        index.close()


def open_beside_its_writer(root: Path) -> Index:
    """Opens the index as it is now. Its writer may drop a file while it is being opened: then it is opened again.

    :raises IndexUnreadable: there is no index yet, or it is of another version
    """
    if not any(root.glob("epoch-*")):
        raise IndexUnreadable(
            str(root), "there is none: ask where the stream's processor runs, whose first start makes one"
        )
    for left in range(OPEN_TRIES_MAX - 1, -1, -1):
        try:
            return Index.read_only(root)
        except IndexUnreadable:
            raise
        except Exception as error:
            if left == 0:
                raise IndexUnreadable(str(root), str(error)) from error
            time.sleep(OPEN_AGAIN_S)
    raise AssertionError("at least one try is made")
