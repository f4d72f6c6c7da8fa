"""A ledger on disk that two shards go on with, as the processors' own writers make it."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.decision import Decision
from core.keys import join_key
from core.layout import Layout, StreamLayout
from core.money import Movement
from core.routing import WHOLE, Shard, topics_of
from journal.bodies import BodyStore
from journal.reader import JournalReader, lineage_of
from journal.schema import JournalRow
from journal.target import ItemTarget
from journal.writer import JournalWriter
from ledger.postings import PostingsWriter
from ledger.queries.journals import LedgerJournals
from operations.command import PROPOSE_REVERSAL, Command
from operations.commands import encode
from operations.orders import command_entity
from tests.small_ledger import START, TOPIC, SmallLedger, body_of

PARTITIONS = 2
CONTROL = topics_of("live").control


def payments(shard: Shard, count: int) -> list[str]:
    """Payments whose events a shard decides."""
    named = (f"pi_{number}" for number in itertools.count(100))
    return list(itertools.islice((one for one in named if shard.has_entity(f"stripe:acct:{one}")), count))


STAYS, MOVES = (payments(Shard(number, 2), 4) for number in (0, 1))
"""Payments of the first shard, and of the other one."""


@dataclass
class ShardLedger(SmallLedger):
    """A shard's; or, as the whole, the ledger from which the shards come."""

    of: Shard = WHOLE
    _bodies: dict[str, bytes] = field(default_factory=dict)

    @property
    def places(self) -> StreamLayout:
        return Layout(self.data, shards=self.of.count).ledger(number=self.of.number)

    @property
    def journal(self) -> str:
        return str(self.places.journal)

    @property
    def postings(self) -> str:
        return str(self.places.postings)

    @property
    def bodies(self) -> str:
        return str(self.places.bodies_table)

    def split(self) -> list[ShardLedger]:
        """The first shard goes on with this journal, the other one with a copy."""
        found = []
        for number in (1, 0):
            one = ShardLedger(self.data, list(self.rows), of=Shard(number, 2))
            if number:
                shutil.copytree(self.journal, one.journal)
                shutil.copytree(self.bodies, one.bodies)
            one._writer = JournalWriter.create_or_open(one.journal, one.places.stream)
            one._writer.divide_journal(TOPIC, one.of, START, "c" * 32 if number else None)
            found.append(one)
        return found[::-1]

    def commit(self, *, with_bodies: bool = True, with_postings: bool = True) -> None:
        if self._writer is None:
            self._writer = JournalWriter.create_or_open(self.journal, self.places.stream)
            self._writer.begin_epoch({TOPIC: dict.fromkeys(range(PARTITIONS), 0), CONTROL: {0: 0}})
        if with_bodies:
            hashes = [(row.body_sha256 or "", row) for row in self._fresh]
            BodyStore(self.bodies).append([(name, self._bodies.get(name) or body_of(row)) for name, row in hashes])
        own = [number for number in range(PARTITIONS) if self.of.has_partition(number)]
        marks = {TOPIC: {number: self._held(TOPIC, number) for number in own}, CONTROL: {0: self._held(CONTROL, 0)}}
        self._writer.commit(self._fresh, marks, 0)
        self._fresh = []
        if with_postings:
            PostingsWriter.open(self.postings).catch_up(JournalReader(self.journal))

    def given(self, command: Command, decision: Decision, **changes: Any) -> JournalRow:
        """A command: every shard has a row of it."""
        raw, seq = encode(command), self._next
        digest = hashlib.sha256(raw).hexdigest()
        self._bodies[digest] = raw
        row = JournalRow(
            seq=seq,
            item_seq=seq,
            first=True,
            topic=CONTROL,
            partition=0,
            offset=self._held(CONTROL, 0),
            decision=decision,
            decided_at=START + timedelta(minutes=seq),
            event_key=join_key("payhook", command.command_id, command.action),
            entity_key=command_entity(command.command_id),
            event_type=command.action,
            provider="payhook",
            actor=command.actor,
            body_sha256=digest,
        )
        for name, value in changes.items():
            setattr(row, name, value)
        return self._add(row)

    def _held(self, topic: str, partition: int) -> int:
        """How many records of a partition there are."""
        return sum(one.first and (one.topic, one.partition) == (topic, partition) for one in self.rows)

    def _row(
        self, seq: int, provider: str, payment: str, movement: Movement | None, decided_at: datetime
    ) -> JournalRow:
        row = super()._row(seq, provider, payment, movement, decided_at)
        assert self.of.has_entity(row.entity_key or ""), f"{row.entity_key} isn't of the shard {self.of}"
        row.partition = zlib.crc32((row.entity_key or "").encode()) % PARTITIONS
        row.offset = self._held(TOPIC, row.partition)
        if self.of.number:
            row.event_key = f"{provider}:evt_{seq}_{self.of.number}:{row.event_type}"
            row.body_sha256 = hashlib.sha256(body_of(row)).hexdigest()
        return row


@dataclass
class DividedLedger:
    """Two shards, and the same events in a ledger of one."""

    shards: list[ShardLedger]
    whole: SmallLedger
    charged: dict[str, JournalRow]

    @property
    def layout(self) -> Layout:
        return Layout(self.shards[0].data, shards=2)

    @property
    def ledger(self) -> LedgerJournals:
        return LedgerJournals(self.layout.all_ledgers())

    def proposed(self, action: str = PROPOSE_REVERSAL) -> tuple[Command, JournalRow]:
        """A proposal about the second shard's last row, and that row; the first shard has another row of its number."""
        first, second = self.shards
        meant = second.rows[-1]
        command = Command.with_new_id(
            "ledger.1", lineage_of(second.journal), action, [ItemTarget.of_row(meant)], "fay", "wrong", START
        )
        first.given(command, Decision.IGNORED, reason="for the stream ledger.1")
        second.given(command, Decision.RESOLVED)
        for shard in self.shards:
            shard.commit()
        return command, meant

    @classmethod
    def under(cls, folder: Path) -> DividedLedger:
        """Before the division a charge of each of two payments; after it a refund of each, and a charge of two more."""
        before, whole = ShardLedger(folder / "data"), SmallLedger(folder / "whole")
        charged = {}
        for number, payment in enumerate((STAYS[0], MOVES[0]), 1):
            for one in (whole, before):
                charged[payment] = one.add(Movement.CAPTURE, 1_000 * number, payment=payment)
        for one in (before, whole):
            one.commit()
        shards = before.split()
        for shard, (first, second, *_) in zip(shards, (STAYS, MOVES), strict=True):
            for one in (shard, whole):
                one.add(Movement.REFUND, 300, payment=first)
                one.add(Movement.CAPTURE, 50, payment=second, merchant="m-2")
            shard.commit()
        whole.commit()
        return cls(shards, whole, charged)
