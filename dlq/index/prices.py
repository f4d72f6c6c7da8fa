"""What dead items are about in money: read from their bodies, because a row that booked nothing has no amount."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from deltalake import DeltaTable

from core.money import Money
from dlq.index.file import IndexFile
from journal.bodies import BodyStore

Amounts: TypeAlias = Callable[[str, str, bytes], Money | None]
"""Reads the amount of an event from its provider, type and body; None: it moves no money, or can't be read."""

ITEMS_PER_READ = 1_000
READS_MAX = 5
"""In one call: an index that was made again gets its amounts call by call, so that no list takes long."""


class _Unpriced(NamedTuple):
    item_seq: int
    provider: str | None
    event_type: str | None
    body_sha256: str | None


class Prices:
    """Gives items that died their amounts, the oldest first, each once."""

    def __init__(self, file: IndexFile, bodies: str, amounts: Amounts) -> None:
        self._file = file
        self._bodies = bodies
        self._amounts = amounts

    def fill(self) -> None:
        """Some that have none yet.

        :raises JournalBroken: the bodies can't be read
        :raises DeadLetterIndexUnreadable: the index's file can't be written
        """
        for _ in range(READS_MAX):
            with self._file.reading() as connection:
                found = connection.execute(
                    "SELECT item_seq, provider, event_type, body_sha256 FROM items"
                    " WHERE priced = 0 AND first_dead_at IS NOT NULL ORDER BY item_seq LIMIT ?",
                    (ITEMS_PER_READ,),
                )
                unpriced = [_Unpriced(*one) for one in found]
            if not unpriced:
                return
            bodies = self._fetch(unpriced)
            self._write([self._priced(item, bodies) for item in unpriced])

    def _fetch(self, unpriced: Sequence[_Unpriced]) -> Mapping[str, bytes]:
        if not DeltaTable.is_deltatable(self._bodies):
            return {}
        hashes = {item.body_sha256 for item in unpriced if item.body_sha256 is not None}
        return BodyStore(self._bodies, may_create=False).fetch(hashes)

    def _priced(self, item: _Unpriced, bodies: Mapping[str, bytes]) -> tuple[int | None, str | None, int]:
        body = bodies.get(item.body_sha256 or "")
        money = None
        if body is not None and item.provider is not None and item.event_type is not None:
            money = self._amounts(item.provider, item.event_type, body)
        return (None, None, item.item_seq) if money is None else (money.amount_minor, money.currency, item.item_seq)

    def _write(self, priced: Sequence[tuple[int | None, str | None, int]]) -> None:
        with self._file.writing() as connection:
            connection.executemany(
                "UPDATE items SET amount_minor = ?, currency = ?, priced = 1 WHERE item_seq = ? AND priced = 0", priced
            )
