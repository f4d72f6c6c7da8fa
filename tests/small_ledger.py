"""A ledger on disk, as the processor's own writers make it: journal, postings and bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.decision import Decision
from core.layout import Layout
from core.money import Money, MoneyFact, Movement
from core.routing import Shard
from core.work import postings_to_json
from journal.bodies import BodyStore
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.accounts import book_fact
from ledger.postings import PostingsWriter

TOPIC = "payments.events"
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class SmallLedger:
    """Rows are added one after the other and written by `commit`; the data folder is a stack's. ``shard``: whose
    journal it is, after a division; its events come from the partition of that number.
    """

    data: Path
    rows: list[JournalRow] = field(default_factory=list)
    shard: int = 0
    _fresh: list[JournalRow] = field(default_factory=list)
    _writer: JournalWriter | None = None

    @property
    def journal(self) -> str:
        return str(Layout(self.data).ledger(number=self.shard).journal)

    @property
    def postings(self) -> str:
        return str(Layout(self.data).ledger(number=self.shard).postings)

    @property
    def bodies(self) -> str:
        return str(Layout(self.data).ledger(number=self.shard).bodies_table)

    def add(
        self,
        movement: Movement | None,
        amount_minor: int = 1_000,
        currency: str = "EUR",
        *,
        merchant: str = "m-1",
        provider: str = "stripe",
        payment: str | None = None,
        at: datetime | None = None,
        **changes: Any,
    ) -> JournalRow:
        """An event of its own that is applied; without a movement it moves no money and is ignored."""
        seq = self._next
        payment = payment or f"pi_{seq}"
        row = self._row(seq, provider, payment, movement, at or START + timedelta(minutes=seq))
        if movement is not None:
            fact = MoneyFact(f"{provider}:f_{seq}:{movement}", movement, "acct", payment, Money(amount_minor, currency))
            row.fact_key, row.fact_sha256 = fact.fact_key, fact.sha256
            row.postings = postings_to_json(book_fact(fact, provider, merchant))
        for name, value in changes.items():
            setattr(row, name, value)
        return self._add(row)

    def again(self, of: JournalRow, decision: Decision = Decision.DUPLICATE, **changes: Any) -> JournalRow:
        """The same event once more, at an offset of its own: a copy, unless ``decision`` says otherwise."""
        seq = self._next
        payment = (of.entity_key or "").rpartition(":")[2]
        row = self._row(seq, of.provider or "", payment, None, START + timedelta(minutes=seq))
        row.decision, row.cause_seq = decision, of.seq
        row.event_key, row.event_type, row.fact_key = of.event_key, of.event_type, of.fact_key
        row.content_sha256, row.body_sha256, row.fact_sha256 = of.content_sha256, of.body_sha256, of.fact_sha256
        for name, value in changes.items():
            setattr(row, name, value)
        return self._add(row)

    def later(self, of: JournalRow, decision: Decision, **changes: Any) -> JournalRow:
        """A further row of the same item."""
        seq = self._next
        row = JournalRow(**{name: getattr(of, name) for name in JournalRow.__dataclass_fields__})
        row.seq, row.first, row.decision, row.headers = seq, False, decision, None
        row.decided_at, row.postings = START + timedelta(minutes=seq), None
        for name, value in changes.items():
            setattr(row, name, value)
        return self._add(row)

    def commit(self, *, with_bodies: bool = True, with_postings: bool = True) -> None:
        """One commit of the journal with all that was added since the last one, and what is derived from it."""
        if self._writer is None:
            self._writer = JournalWriter.create_or_open(self.journal, "ledger")
            before = sum(row.first for row in self.rows) - sum(row.first for row in self._fresh)
            self._writer.begin_epoch({TOPIC: {self.shard: before}})
        if with_bodies:
            BodyStore(self.bodies).append([(row.body_sha256 or "", body_of(row)) for row in self._fresh])
        offsets = [row.offset for row in self.rows if row.first]
        self._writer.commit(self._fresh, {TOPIC: {self.shard: max(offsets) + 1}}, 0)
        if with_postings:
            PostingsWriter.open(self.postings).follow(self._fresh)
        self._fresh = []

    def divide(self, shard: Shard, at: datetime, *, is_copy: bool) -> None:
        """What is written from here on is that shard's."""
        JournalWriter.create_or_open(self.journal, "ledger").divide_journal(
            TOPIC, shard, at, "c" * 32 if is_copy else None
        )
        self._writer = None

    @property
    def _next(self) -> int:
        return len(self.rows) + 1

    def _add(self, row: JournalRow) -> JournalRow:
        self.rows.append(row)
        self._fresh.append(row)
        return row

    def _row(
        self, seq: int, provider: str, payment: str, movement: Movement | None, decided_at: datetime
    ) -> JournalRow:
        event_type = movement.value if movement is not None else "customer.updated"
        row = JournalRow(
            seq=seq,
            item_seq=seq,
            first=True,
            topic=TOPIC,
            partition=self.shard,
            offset=sum(one.first for one in self.rows),
            decision=Decision.APPLIED if movement is not None else Decision.IGNORED,
            decided_at=decided_at,
            received_at=decided_at - timedelta(milliseconds=300),
            occurred_at=decided_at - timedelta(seconds=2),
            event_key=f"{provider}:evt_{seq}:{event_type}",
            entity_key=f"{provider}:acct:{payment}",
            provider=provider,
            account="acct",
            event_type=event_type,
            mode="live",
            dedupe="claimed",
            content_version=1,
            handler_version="ledger-1",
            headers=f'{{"ce_source":"/webhooks/{provider}"}}',
        )
        row.content_sha256 = hashlib.sha256(f"content {row.event_key}".encode()).hexdigest()
        row.body_sha256 = hashlib.sha256(body_of(row)).hexdigest()
        return row


def body_of(row: JournalRow) -> bytes:
    return f"body of {row.event_key}".encode()


def lines_of(rows: Sequence[JournalRow]) -> list[dict[str, Any]]:
    """The postings of rows, as plain Python sees them."""
    from ledger.postings import flatten_postings

    found: list[dict[str, Any]] = flatten_postings(rows).to_pylist()
    return found
