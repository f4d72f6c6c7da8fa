"""A journal with dead items and the index that follows it, for tests of whatever reads them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import dead_letters.follow
from core.clock import ManualClock
from core.decision import Decision, ErrorKind
from core.layout import Layout, StreamLayout
from core.money import Movement
from core.routing import Shard
from dead_letters.dead_letter_index import Amounts, DeadLetterIndex
from dead_letters.listing import Filter
from dead_letters.payload import BodyStatuses, Origin, Payloads
from journal.reader import JournalReader
from journal.schema import JournalRow
from tests.small_ledger import START, SmallLedger

STACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/payhook/ledger/handler.py", line 71, in lookup\n'
    "    raise MerchantUnknown(name)\n"
    "MerchantUnknown: it isn't there\n"
)


@dataclass
class DeadItems:
    """Rows are collected, and written by `commit`; the clock stands at ``now``."""

    data: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(START + timedelta(days=3)))
    shard: int = 0
    ledger: SmallLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = SmallLedger(self.data, shard=self.shard)

    @property
    def layout(self) -> StreamLayout:
        return Layout(self.data).ledger(number=self.shard)

    def divided(self) -> DeadItems:
        """Divides the journal between two shards. This one goes on as the first; returns the other, of a copy."""
        other = DeadItems(self.data, self.clock, shard=1)
        other.ledger.rows = list(self.ledger.rows)
        shutil.copytree(self.ledger.journal, other.ledger.journal)
        if Path(self.ledger.bodies).exists():
            shutil.copytree(self.ledger.bodies, other.ledger.bodies)
        for items, is_copy in ((other, True), (self, False)):
            items.ledger.divide(Shard(items.shard, 2), self.now, is_copy=is_copy)
        return other

    def index_is_lost(self) -> None:
        """Its folder is gone: it is made again from the journal."""
        shutil.rmtree(self.layout.dead_letter_index, ignore_errors=True)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def dead(self, **changes: Any) -> JournalRow:
        """An event that dies at once of an unknown merchant, or of what ``changes`` say."""
        said: dict[str, Any] = {
            "decision": Decision.DEAD,
            "error_class": "MerchantUnknown",
            "error_message": "merchant 'acct_1' isn't in the directory",
            "error_stack": STACK,
            "error_kind": ErrorKind.NRE,
            "blocking": True,
            "postings": None,
        }
        payment, provider = changes.pop("payment", None), changes.pop("provider", "stripe")
        return self.ledger.add(Movement.CAPTURE, payment=payment, provider=provider, **said | changes)

    def deaths(self, count: int, **changes: Any) -> list[JournalRow]:
        return [self.dead(**changes) for _ in range(count)]

    def parked(self, payment: str, **changes: Any) -> JournalRow:
        """An event that waits behind an earlier one of its payment."""
        said: dict[str, Any] = {
            "decision": Decision.PARKED,
            "postings": None,
            "handler_version": None,
            "blocking": True,
        }
        return self.ledger.add(Movement.REFUND, payment=payment, **said | changes)

    def then(self, of: JournalRow, *decisions: Decision, **changes: Any) -> JournalRow:
        """Further rows of an item; each failure keeps the error that was there."""
        for decision in decisions:
            failed = decision in (Decision.DEAD, Decision.RETRY)
            cleared = dict.fromkeys(("error_class", "error_message", "error_stack", "error_kind", "log_lines"))
            of = self.ledger.later(of, decision, **({} if failed else cleared) | changes)
        return of

    def row_at(self, seq: int) -> JournalRow:
        """The journal's row."""
        return JournalReader(str(self.layout.journal)).rows_of([seq])[0]

    def commit(self, *, with_bodies: bool = False) -> None:
        self.ledger.commit(with_bodies=with_bodies, with_postings=False)

    def index(
        self,
        closed_days: float = 30.0,
        statuses: BodyStatuses | None = None,
        origin: Origin | None = None,
        amounts: Amounts | None = None,
    ) -> DeadLetterIndex:
        """The index, not followed yet."""
        layout, closed = self.layout, timedelta(days=closed_days)
        payloads = Payloads(layout.bodies_table, statuses, origin)
        return DeadLetterIndex(layout.dead_letter_index, layout.journal, payloads, self.clock, closed, amounts)

    def followed(self, **chosen: Any) -> DeadLetterIndex:
        index = self.index(**chosen)
        index.follow()
        return index


def seqs(items: Sequence[Any]) -> list[int]:
    """The items' numbers."""
    return [item.item_seq for item in items]


def follow_until(data: Path, seq: int, counted: Queue[int]) -> None:
    """What one of several processes does: tells 0 when it begins, follows in small steps until the index goes so far,
    and tells how many rows it took in itself.
    """
    dead_letters.follow.ROWS_PER_PICK = 3
    index, rows, reached = DeadItems(data).index(), 0, 0
    counted.put(0)
    while reached < seq:
        followed = index.follow()
        rows, reached = rows + followed.rows, followed.seq
        index.page(Filter())
    counted.put(rows)
