"""Reads replayed poison again, once its adapter is mended, and publishes what it holds.

The events come in at the end of their topic, with their own keys, like any other: nothing is decided of them here. A
crash between the publication and the commit publishes them once more, and the second copy is a duplicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

from core.decision import Decision
from core.errors import Unparseable
from core.event import Dedupe, Event, Headers, Mode, from_record, quote_text, to_headers
from processor.decide.item import POISON_CLASS, BatchItem, dead_letter_item, park_item, settle_item
from processor.decide.ports import Outgoing, PutBackRecord, Republish
from processor.errors.classify import (
    MESSAGE_CHARS_MAX,
    Failure,
    catch_event_error,
    clean_text,
    make_engine_failure,
    make_event_failure,
)
from providers.port import Adapter
from providers.reread import reread_events

AGAIN_S = 5.0
"""Until the next try where Kafka didn't take the events."""
KEYS_SHOWN_MAX = 5
PER_BATCH_MAX = 500
"""Events that arrive meanwhile wait for the batch: what is beyond is read in the next one."""
REREAD_OF = "reread_of"
"""Header of an event that was poison: the stream and the item, such as ``ledger/1041``."""


@dataclass(slots=True)
class Rereads:
    """Decides the poison that one batch takes up again.

    ``republish``: None where the stream reads no topic; ``put_back``: None where it reads no other program's.
    """

    stream: str
    mode: Mode
    adapters: Mapping[str, object]
    republish: Republish | None
    put_back: PutBackRecord | None
    now: datetime

    def settle(self, items: Sequence[BatchItem]) -> None:
        """Fills in each item's row: resolved, dead again, or parked because Kafka is away."""
        taken: list[tuple[BatchItem, list[Outgoing]]] = []
        for item in items[PER_BATCH_MAX:]:
            park_item(item, "more poison is replayed than one batch reads again", self.now)
        for item in items[:PER_BATCH_MAX]:
            if item.row.event_key is None:
                self._put_back(item)
                continue
            read = catch_event_error(self._prepare_events, item)
            if isinstance(read, Failure):
                dead_letter_item(item, read, blocking=False)
            else:
                taken.append((item, read))
        outgoing = [event for _, events in taken for event in events]
        problem = self.republish(outgoing) if outgoing and self.republish is not None else None
        for item, events in taken:
            if problem is not None and events:
                park_item(item, f"its events aren't published yet: {problem}", self.now + timedelta(seconds=AGAIN_S))
            else:
                settle_item(item, Decision.RESOLVED, _describe_published(events))

    def _put_back(self, item: BatchItem) -> None:
        """Publishes another program's record again that couldn't be named: its copy may be, or dies in its own
        place."""
        if self.put_back is None:
            dead_letter_item(
                item,
                make_engine_failure(POISON_CLASS, "this stream reads no other program's topic any more"),
                blocking=False,
            )
            return
        problem = catch_event_error(self.put_back, item.row, (REREAD_OF, self._name(item)))
        if isinstance(problem, Failure):
            dead_letter_item(item, problem, blocking=False)
        elif problem is not None:
            park_item(item, f"it isn't published again yet: {problem}", self.now + timedelta(seconds=AGAIN_S))
        else:
            settle_item(
                item, Decision.RESOLVED, f"published again at the end of {item.row.topic}: its copy is decided there"
            )

    def _name(self, item: BatchItem) -> bytes:
        return quote_text(f"{self.stream}/{item.seq}").encode()

    def _prepare_events(self, item: BatchItem) -> list[Outgoing] | Failure:
        try:
            events = self._events(item)
        except Unparseable as unreadable:
            message = clean_text(unreadable.problem, MESSAGE_CHARS_MAX)
            return replace(make_event_failure(unreadable), error_class=POISON_CLASS, message=message)
        outgoing = [(event, self._headers(item, event)) for event in events]
        for event, headers in outgoing:
            from_record(event.body, headers)
        return outgoing

    def _events(self, item: BatchItem) -> list[Event]:
        row = item.row
        if self.republish is None:
            raise Unparseable("this stream reads no topic that its events could be published to")
        adapter = self.adapters.get(row.provider or "")
        if not hasattr(adapter, "events"):
            raise Unparseable(f"there is no adapter for {row.provider}")
        return reread_events(cast(Adapter, adapter), item.body, cast(Mode, row.mode), row.tenant, row.zone)

    def _headers(self, item: BatchItem, event: Event) -> Headers:
        received_at = item.row.received_at or self.now
        headers = to_headers(event, received_at, Dedupe.DEFERRED)
        return [*headers, (REREAD_OF, self._name(item))]


def _describe_published(events: Sequence[Outgoing]) -> str:
    if not events:
        return "its adapter reads it now, and it holds no event"
    keys = ", ".join(event.event_key for event, _ in events[:KEYS_SHOWN_MAX])
    more = f" and {len(events) - KEYS_SHOWN_MAX} more" if len(events) > KEYS_SHOWN_MAX else ""
    return f"its adapter reads it now; published as {keys}{more}"[:500]
