"""A small ledger to divide among shards, by the real writers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from core.clock import ManualClock
from core.decision import Decision
from core.layout import StreamLayout
from core.routing import Shard
from core.store import StorageSettings
from journal.bodies import BodyStore
from journal.index import Index
from journal.reader import JournalReader
from journal.state import JournalState
from journal.writer import JournalWriter
from stack.settings import Settings
from tests.unit.journal.rows import NOW, TOPIC, row, sha

PARTITIONS = 4
DEAD, PARKED, POISON = (5, 6, 7, 8), (9, 10, 11, 12), 13
LAST = 13


def entity(partition: int, number: int = 0) -> str:
    """An entity whose events are on a partition."""
    names = (f"stripe:acct:pi_{number}_{n}" for n in range(1_000))
    return next(name for name in names if Shard(partition, PARTITIONS).has_entity(name))


class DividedLake:
    """A ledger with a payment on each of four partitions, whose second event is dead and holds the third one back."""

    def __init__(self, root: Path, lake_url: str = "") -> None:
        self.settings = Settings(data_dir=root, storage=StorageSettings(url=lake_url))
        self.clock = ManualClock(NOW + timedelta(hours=1))
        places = self.place(0)
        writer = JournalWriter.create_or_open(str(places.journal), places.stream)
        writer.begin_epoch({TOPIC: dict.fromkeys(range(PARTITIONS), 0)})
        bodies = BodyStore(str(places.bodies_table))
        rows = [self._row(seq, (seq - 1) % 4, (seq - 1) // 4) for seq in range(1, LAST)]
        poison: dict[str, Any] = {"decision": Decision.DEAD, "event_key": None, "entity_key": None}
        rows.append(row(POISON, 3, partition=1, body_sha256=sha("poison"), **poison))
        texts = [one.event_key or "poison" for one in rows]
        bodies.append([(sha(text), text.encode()) for text in texts])
        writer.commit(rows, {TOPIC: {0: 3, 1: 4, 2: 3, 3: 3}}, LAST)

    def _row(self, seq: int, partition: int, turn: int) -> Any:
        decision = (Decision.APPLIED, Decision.DEAD, Decision.PARKED)[turn]
        held: dict[str, Any] = {"decision": decision, "blocking": decision is not Decision.APPLIED}
        key = f"stripe:evt_{seq}:charge.succeeded"
        return row(
            seq, turn, partition=partition, entity_key=entity(partition), event_key=key, body_sha256=sha(key), **held
        )

    def place(self, shard: int) -> StreamLayout:
        return self.settings.layout.ledger("live", shard)

    def state(self, shard: int) -> JournalState:
        return JournalReader(str(self.place(shard).journal)).state()

    @contextlib.contextmanager
    def index(self, shard: int, count: int) -> Iterator[Index]:
        """As a processor's start makes it."""
        place = self.place(shard)
        index = Index.open(place.index, self.state(shard).epoch)
        index.catch_up(JournalReader(str(place.journal)), BodyStore(str(place.bodies_table)))
        index.keep_part(Shard(shard, count))
        yield index
        index.close()

    def open_items(self, count: int) -> list[set[int]]:
        found = []
        for shard in range(count):
            with self.index(shard, count) as index:
                found.append({item.row.item_seq for item in index.open_items()})
                assert index.open_count() == len(found[-1])
        return found
