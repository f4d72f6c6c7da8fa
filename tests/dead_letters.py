"""A data folder whose ledger the engine itself decided, with what dies in it: real journal, bodies and postings.

No server and no JVM: Kafka is a list, the handler answers what the test sets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.decision import ErrorKind
from core.event import Dedupe, to_headers
from core.layout import Layout, StreamLayout
from core.money import Money, MoneyFact, Movement
from core.work import Applied, Outcome, WorkItem
from journal.bodies import BodyStore
from journal.schema import JournalRow
from journal.state import Marks
from journal.writer import CommittedBatch, JournalWriter
from ledger.accounts import book_fact
from ledger.postings import PostingsWriter
from operations.frozen import SelectionFiles
from tests.events import make_event
from tests.unit.processor.fakes import ListBodies, ListJournal
from tests.unit.processor.harness import CONTROL, EVENTS, Engine

HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe\u202c\u2066",
    "</pre></textarea></title><svg onload=alert(1)>",
    "{{ 7*7 }}{% raw %}",
)
"""What a stranger puts into whatever is shown."""


class UnknownMerchant(Exception):
    """Only this event is stuck: it dies after its retries."""

    kind = ErrorKind.SNBE


class Rejected(Exception):
    """No retry will help."""

    kind = ErrorKind.NRE


class JournalOnDisk(ListJournal):
    """Commits to the list, to Delta, and what is booked to the postings."""

    def begin(self, layout: StreamLayout) -> None:
        self._writer = JournalWriter.create_or_open(str(layout.journal), layout.stream)
        self.lineage = self._writer.begin_epoch(self.marks).lineage
        self._postings = PostingsWriter.open(str(layout.postings))

    def commit(
        self, rows: Sequence[JournalRow], marks: Marks, published_upto: int, notes: Mapping[str, str]
    ) -> CommittedBatch:
        super().commit(rows, marks, published_upto, notes)
        committed = self._writer.commit(rows, marks, published_upto, notes)
        self._postings.follow(rows)
        return committed


class BodiesOnDisk(ListBodies):
    """Bodies in memory, for the index, and in their table."""

    def __init__(self, layout: StreamLayout) -> None:
        super().__init__()
        self._store = BodyStore(str(layout.bodies_table))

    def append(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        super().append(bodies)
        self._store.append(bodies)


class DeadLetters(Engine):
    """A stack's data folder under ``data`` with one stream in it. `receive` and `dies`, then `batch` or `advance`."""

    def __init__(self, data: Path, stream: str = "ledger") -> None:
        self.layout = Layout(data).stream(stream)
        scratch = data / "engine"
        scratch.mkdir(parents=True)
        super().__init__(scratch, stream=stream)

    def start(self, *, keeps_index: bool = False) -> None:
        if not isinstance(self.journal, JournalOnDisk):
            self.journal = JournalOnDisk(marks={EVENTS: {0: 0}, CONTROL: {0: 0}})
            self.journal.begin(self.layout)
            self.lineage = self.journal.lineage
            self.bodies = BodiesOnDisk(self.layout)
            self.selections = SelectionFiles(self.layout.selections)
        super().start(keeps_index=keeps_index)

    def receive(
        self,
        event_id: str,
        *,
        provider: str = "stripe",
        event_type: str = "charge.captured",
        payment: str | None = None,
        body: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        fact: str | None = None,
    ) -> str:
        """An event in Kafka, of a money movement where ``fact`` names one; returns its key."""
        payment = payment or f"pi_{event_id}"
        if body is None:
            body = json.dumps({"id": event_id, "type": event_type, "payment": payment}).encode()
        event = make_event(
            event_id,
            event_type,
            provider,
            entity_key=f"{provider}:acct_1:{payment}",
            body=body,
            fact_key=None if fact is None else f"{provider}:{fact}",
            fact_sha256=None if fact is None else hashlib.sha256(fact.encode()).hexdigest(),
        )
        reported = to_headers(event, self.clock.now(), Dedupe.CLAIMED)
        self.send(EVENTS, body, [*reported, ("ce_source", f"/webhooks/{provider}".encode()), *headers])
        return event.event_key

    def books(
        self, key: str, amount_minor: int, currency: str, movement: Movement = Movement.CAPTURE, merchant: str = "m-1"
    ) -> None:
        """Its event is applied with this booking, when it is tried."""
        provider, payment = key.split(":")[0], key.split(":")[1]
        fact = MoneyFact(f"{provider}:f_{payment}", movement, "acct_1", payment, Money(amount_minor, currency))
        postings = tuple(book_fact(fact, provider, merchant))

        def act(_: WorkItem) -> Outcome:
            return Applied(postings)

        self.handler.script[key] = act

    def dies(self, key: str, error: Exception, times: int = 1, then: tuple[int, str] = (1_000, "EUR")) -> None:
        """Its event fails with an error that no retry helps, so often, and then books."""
        self.books(key, *then)
        applied, left = self.handler.script[key], [times]

        def act(item: WorkItem) -> Outcome:
            if left[0] > 0:
                left[0] -= 1
                raise error
            return applied(item)

        self.handler.script[key] = act

    def poison(self, body: bytes) -> None:
        """A record that nothing can be read from."""
        self.send(EVENTS, body, [])


class Taking:
    """A producer, and the record that it was given last: Kafka has it at once."""

    def flush(self, timeout: float) -> int:
        return 0

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


class ToTheEngine(Taking):
    """Kafka's control topic, read by the engine."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters = letters

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        assert topic == CONTROL
        self._letters.send(CONTROL, value, [])
        on_delivery(None, self)
