"""The board: one stream's dead and waiting items, for whoever lists, counts or looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from core.clock import Clock
from core.place import Place
from dlq.board.context import Context
from dlq.board.file import BoardFile
from dlq.board.filter import Filter, Sort
from dlq.board.follow import Followed, Follower
from dlq.board.groups import GROUPS_MAX, Group, read_groups
from dlq.board.item import Item, Seen
from dlq.board.listing import Listing, Page
from dlq.board.payload import Fates, Origin, Payloads
from dlq.board.prices import Amounts, Prices
from dlq.board.stats import Stats, read_stats
from dlq.board.story import ItemStory
from dlq.settings import BoardSettings

PAGE_SIZE = 50


class Board:
    """Reads one stream's items. Its methods block: call them off an event loop. Threads and processes may share it.

    Nothing follows the journal by itself: call `follow` before what must be fresh. Everything is derived from the
    journal, so ``folder`` may be deleted at any time; it is made again.
    """

    def __init__(
        self,
        folder: Path,
        journal: Place,
        bodies: Place,
        clock: Clock,
        settings: BoardSettings | None = None,
        fates: Fates | None = None,
        origin: Origin | None = None,
        amounts: Amounts | None = None,
    ) -> None:
        """
        :param folder: the board's own (`core.layout.StreamLayout.board`)
        :param journal: the stream's journal; its folder's name is the stream's
        :param bodies: the table of the stream's bodies
        :param fates: says which bodies were removed by order (`ledger.body_fates.fates`)
        :param origin: reads records from Kafka where a body isn't kept (`dlq.board.payload.kafka_origin`)
        :param amounts: reads amounts from bodies (`ledger.body_amounts.BodyAmounts`); without it only what was booked
            has one
        """
        self._file = BoardFile(folder)
        self._clock = clock
        closed = timedelta(days=(settings or BoardSettings()).closed_days)
        self._follower = Follower(self._file, str(journal), clock, closed)
        self._prices = Prices(self._file, str(bodies), amounts) if amounts is not None else None
        self._listing = Listing(self._file)
        self._context = Context(Path(journal).name, self._file, str(journal), Payloads(str(bodies), fates, origin))

    def follow(self) -> Followed:
        """Takes in what the journal has gained since; a board that isn't of this journal's history begins anew.

        Of one that began anew amounts come some thousands a call (`dlq.board.prices`).

        :raises JournalBroken: the journal is damaged, or the bodies are
        :raises BoardUnreadable: the board's file can't be written
        """
        followed = self._follower.follow()
        if self._prices is not None:
            self._prices.fill()
        return followed

    def page(self, wanted: Filter, cursor: str | None = None, limit: int = PAGE_SIZE, sort: Sort = Sort.OLDEST) -> Page:
        """Some items; ``cursor`` is `Page.next` of the page before.

        :raises FilterInvalid: cursor or limit can't be one
        """
        return self._listing.page(wanted, cursor, limit, sort)

    def count(self, wanted: Filter) -> int:
        """How many items match."""
        return self._listing.count(wanted)

    def look_up(self, item_seqs: Iterable[int]) -> dict[int, Item]:
        """Items by number, as they are now; those that the board doesn't hold are left out."""
        return self._listing.look_up(item_seqs)

    def seen(self, wanted: Filter) -> Iterator[Seen]:
        """Number and last row of every item that matches, as of one moment: what a selection freezes.

        Made for ``executemany`` of another file. Take it to its end, or close it.
        """
        return self._listing.seen(wanted)

    def stats(self, wanted: Filter | None = None) -> Stats:
        """What the items come to now."""
        with self._file.reading() as connection:
            return read_stats(connection, wanted or Filter(), self._clock.now())

    def groups(self, wanted: Filter | None = None, limit: int = GROUPS_MAX) -> list[Group]:
        """Items by their error's fingerprint, the largest group first."""
        with self._file.reading() as connection:
            return read_groups(connection, wanted or Filter(), limit)

    def item(self, item_seq: int) -> ItemStory:
        """One item with its whole context, whether it is open or not.

        :raises ItemUnknown: no row has this number
        :raises JournalBroken: the journal or the bodies can't be read
        :raises OriginUnreadable: only Kafka has its bytes, and doesn't answer
        """
        return self._context.story(item_seq)
