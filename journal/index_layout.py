"""The keys that the index keeps, and their values; and a table of entities that surely have none under `QUEUE`."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping

from core.keys import hash_key

FORMAT = 7
"""Another number makes every index again from its journal."""

TABLE_PREFIX = f"{FORMAT}:".encode()
"""Before the id of the journal's table, under `TABLE`."""

CONTENT_BYTES = 8

MARK, TABLE = b"m", b"t"
LINEAGE = b"y"

EVENT, CONFLICT, FACT = b"e", b"c", b"f"
ITEM, DUE, BODILESS = b"i", b"d", b"b"
"""An open item by its seq, without its body: that is kept apart, under the same key."""

QUEUE, BESIDE, DIED = b"q", b"n", b"p"
"""Every open item stands under one of these, by its entity and its seq: it holds later ones back, it doesn't, or it
doesn't any more because it died and was passed over."""

REVERSED = b"r"
"""Keys by item: its booking was taken back."""

REOPENED = b"o"
"""Keys by item: it was handled again after it was ignored or unknown. The value is the seq of the row that did so, or
of the last one that ended it so since."""

PURGED = b"\x01"
"""After an event key's content: its holder was purged, so that another content under it may be replayed."""

CLOSED = b"x"
"""Keys by entity and seq: an item that held later ones back until a person closed it. The value is JSON of the closing
row's seq, the event key, how it was closed, and the item's retry policy."""

LINE = b"l"
"""Keys by entity, while open items of it hold nothing back: how many those are, and what was applied meanwhile."""

PAIR = b"u"
"""Keys by pair: its movements less its undos."""

COUNT = struct.Struct(">q")
SEQ = struct.Struct(">Q")
COUNTS = struct.Struct(">QQQ")
LINE_VALUE = struct.Struct(">QQ")


ORIGINAL = b"="
"""After an event key and a content: it is the holder's own, as it was sent, before card data in it was masked. Without
it the content is another one's that died or was purged."""


def shorten_content_hash(sha256: str) -> bytes:
    return bytes.fromhex(sha256[: 2 * CONTENT_BYTES]).ljust(CONTENT_BYTES, b"\0")


def conflict_key(event_key: str, content_sha256: str) -> bytes:
    return CONFLICT + hash_key(f"{event_key}\x1f{content_sha256}")


def place_key(place: bytes, entity_key: str | None, item_seq: int) -> bytes:
    return place + hash_key(entity_key or "") + SEQ.pack(item_seq)


def line_key(entity_key: str | None) -> bytes:
    return LINE + hash_key(entity_key or "")


def seq_of(key: bytes) -> int:
    return int(SEQ.unpack_from(key, len(key) - SEQ.size)[0])


BITS = 20
"""4 MiB of counters. With 10,000 events that wait one look in a hundred goes to the store in vain."""


class Queues:
    """Counts the keys under `QUEUE`, by the first `BITS` of their entity's hash. Zero says that a queue is empty.

    Nearly every new event's is, and to ask the store (an iterator and a seek) takes longer than all its other look-ups.
    """

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._counts = array("I", bytes(4 << BITS))
        at = len(QUEUE)
        for key in keys:
            self._counts[_find_counter(key[at:])] += 1

    def is_empty(self, entity: bytes) -> bool:
        """Returns whether an entity has no keys; False may also mean that another entity's are counted at the same
        place.
        """
        return self._counts[_find_counter(entity)] == 0

    def change(self, steps: Mapping[bytes, int]) -> None:
        for entity, step in steps.items():
            self._counts[_find_counter(entity)] += step


def _find_counter(entity: bytes) -> int:
    return int.from_bytes(entity[:4], "big") >> (32 - BITS)
