"""The dead-letter index: one stream's dead and waiting items, to list, count and look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias

from core.clock import Clock
from core.location import Location
from core.money import Money
from dead_letters.file import IndexFile
from dead_letters.follow import Follower, FollowResult
from dead_letters.item import FrozenItem
from dead_letters.listing import Filter, Page, Sort, read_frozen_items, read_page
from dead_letters.payload import Payloads
from dead_letters.rates import Rate
from dead_letters.stats import GROUPS_MAX, Group, Stats, read_amounts, read_groups, read_rates, read_stats
from dead_letters.story import ItemStory, StoryReader
from dlq.settings import AgeLimits

PAGE_SIZE = 50
CLOSED_KEPT = timedelta(days=35)
"""Closed items stay in the list and its statistics for so long: a month, whichever it is."""

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
    """Fills in the amounts of items that died, the oldest first, each once. They are read from bodies: a row that
    booked nothing has none."""

    def __init__(self, file: IndexFile, payloads: Payloads, amounts: Amounts) -> None:
        self._file = file
        self._payloads = payloads
        self._amounts = amounts

    def fill_amounts(self) -> None:
        for _ in range(READS_MAX):
            with self._file.begin_read() as connection:
                rows = connection.execute(
                    "SELECT item_seq, provider, event_type, body_sha256 FROM items"
                    " WHERE priced = 0 AND first_dead_at IS NOT NULL ORDER BY item_seq LIMIT ?",
                    (ITEMS_PER_READ,),
                )
                unpriced = [_Unpriced(*row) for row in rows]
            if not unpriced:
                return
            hashes = {item.body_sha256 for item in unpriced if item.body_sha256 is not None}
            bodies = self._payloads.fetch_kept(hashes)
            self._write([self._price_item(item, bodies) for item in unpriced])

    def _price_item(self, item: _Unpriced, bodies: Mapping[str, bytes]) -> tuple[int | None, str | None, int]:
        body = bodies.get(item.body_sha256 or "")
        money = None
        if body is not None and item.provider is not None and item.event_type is not None:
            money = self._amounts(item.provider, item.event_type, body)
        return (None, None, item.item_seq) if money is None else (money.amount_minor, money.currency, item.item_seq)

    def _write(self, priced: Sequence[tuple[int | None, str | None, int]]) -> None:
        with self._file.begin_write() as connection:
            connection.executemany(
                "UPDATE items SET amount_minor = ?, currency = ?, priced = 1 WHERE item_seq = ? AND priced = 0", priced
            )


class DeadLetterIndex:
    """Reads one stream's items. Its methods block: call them off an event loop. Threads and processes may share it.

    Nothing follows the journal by itself: call `follow` before what must be fresh. Everything is derived from the
    journal, so ``folder`` may be deleted at any time; it is made again.
    """

    def __init__(
        self,
        folder: Path,
        journal: Location,
        payloads: Payloads,
        clock: Clock,
        closed: timedelta = CLOSED_KEPT,
        amounts: Amounts | None = None,
        ages: AgeLimits | None = None,
    ) -> None:
        """
        :param folder: the index's own (`core.layout.StreamLayout.dead_letter_index`)
        :param journal: the stream's journal; its folder's name is the stream's
        :param closed: for how long closed items are kept
        :param amounts: reads amounts from bodies (`stack.services.dead_letters.BodyAmounts`); without it only what was
            booked has one
        :param ages: how old an open item may be (``age_h_max``, ``escalate_h``); None: as without a setting
        """
        self._file = IndexFile(folder)
        self._clock = clock
        self.ages = ages or AgeLimits()
        self._follower = Follower(self._file, str(journal), clock, closed)
        self._prices = Prices(self._file, payloads, amounts) if amounts is not None else None
        self._context = StoryReader(Path(journal).name, self._file, str(journal), payloads)

    def follow(self) -> FollowResult:
        """Takes in what the journal has gained; an index that isn't of this journal's history begins again.

        Of one that began again amounts come some thousands a call (`Prices`).

        :raises JournalBroken: the journal is damaged, or the bodies are
        :raises DeadLetterIndexUnreadable: the index's file can't be written
        """
        followed = self._follower.follow()
        if self._prices is not None:
            self._prices.fill_amounts()
        return followed

    def page(self, wanted: Filter, cursor: str | None = None, limit: int = PAGE_SIZE, sort: Sort = Sort.OLDEST) -> Page:
        """Lists some items; ``cursor`` is `Page.next` of the page before.

        :raises FilterInvalid: cursor or limit can't be one
        """
        return read_page(self._file, wanted, cursor, limit, sort)

    def read_frozen_items(self, wanted: Filter) -> Iterator[FrozenItem]:
        """Yields number and last row of every item that matches, as of one moment, for a selection to freeze.

        Made for ``executemany`` of another file. Take it to its end, or close it.
        """
        return read_frozen_items(self._file, wanted)

    def stats(self, wanted: Filter | None = None) -> Stats:
        with self._file.begin_read() as connection:
            return read_stats(connection, wanted or Filter(), self._clock.now(), self.ages)

    def read_rates(self, wanted: Filter | None = None) -> tuple[Rate, ...]:
        with self._file.begin_read() as connection:
            return read_rates(connection, wanted or Filter(), self._clock.now())

    def amounts(self) -> dict[str, int]:
        """Sums open items by currency, in minor units, as far as their amounts are known."""
        with self._file.begin_read() as connection:
            return read_amounts(connection)

    def groups(self, wanted: Filter | None = None, limit: int = GROUPS_MAX) -> list[Group]:
        with self._file.begin_read() as connection:
            return read_groups(connection, wanted or Filter(), limit)

    def item(self, item_seq: int) -> ItemStory:
        """Reads an item with its whole context, whether it is open or not.

        :raises ItemUnknown: no row has this number
        :raises TableUnreadable, JournalBroken: the journal can't be read, or the bodies
        :raises OriginUnreadable: only Kafka has its bytes, and doesn't answer
        """
        return self._context.read_story(item_seq)
