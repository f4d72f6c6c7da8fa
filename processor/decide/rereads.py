"""Reads a replayed event again by its adapter as it is now: an event gets its names, what poison holds is published.
So is what a passed-over event tells besides: nobody knew of its fees while nobody knew its type.

Its receiver may have run another version, or the adapter didn't know its type yet. A fact that was named otherwise was
never looked up, so it could be booked twice.

The events of poison come in at the end of their topic, with their own keys, like any other: nothing is decided of them
here. A crash between the publication and the commit publishes them once more, and the second copy is a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias, cast

from core.decision import WITHOUT_EFFECT, Decision
from core.errors import Unparseable
from core.event import POISON_TYPE, Dedupe, Event, Headers, Mode, from_record, quote_text, to_headers
from journal.index import Index
from journal.index_changes import EMPTY_SHA256
from journal.open_item import OpenItem
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.acceptance import NONE_IGNORED, ChangesSoFar, IgnoredEvents
from processor.decide.admit import BatchLookups
from processor.decide.item import POISON_CLASS, BatchItem, dead_letter_item, park_item, settle_item
from processor.errors.classify import (
    MESSAGE_CHARS_MAX,
    Failure,
    catch_event_error,
    clean_text,
    make_engine_failure,
    make_event_failure,
)
from providers.port import Adapter
from providers.reread import CurrentNames, OtherKey, read_current_names, reread_events

AGAIN_S = 5.0
"""Until the next try where Kafka didn't take the events."""
KEYS_SHOWN_MAX = 5
PER_BATCH_MAX = 500
"""Events that arrive meanwhile wait for the batch: what is beyond is read in the next one."""
REREAD_OF = "reread_of"
"""Header of an event that was poison, or was told by one that was passed over: the stream and that item, such as
``ledger/1041``."""

Outgoing: TypeAlias = tuple[Event, Headers]

Republish: TypeAlias = Callable[[Sequence[Outgoing]], str | None]
"""Puts events into the stream's own topic. Returns once every replica has each of them, or why not; then some may be
there all the same."""

PutBackRecord: TypeAlias = Callable[[JournalRow, tuple[str, bytes]], str | None]
"""Publishes another program's record once more, with a header more (`processor.source.put_back`). Returns why it
couldn't; then the copy may be there all the same."""


@dataclass(slots=True)
class Rereads:
    """Decides the poison that a stream's batches read again.

    ``republish``: None where the stream reads no topic; ``put_back``: None where it reads no other program's.
    """

    stream: str
    adapters: Mapping[str, Adapter]
    republish: Republish | None = None
    put_back: PutBackRecord | None = None

    def settle(self, items: Sequence[BatchItem], now: datetime) -> None:
        taken: list[tuple[BatchItem, list[Outgoing]]] = []
        for item in items[PER_BATCH_MAX:]:
            park_item(item, "more poison is replayed than one batch reads again", now)
        for item in items[:PER_BATCH_MAX]:
            if item.row.event_key is None:
                self._put_back(item, now)
                continue
            read = catch_event_error(self._prepare_events, item, now)
            if isinstance(read, Failure):
                dead_letter_item(item, read, blocking=False)
            else:
                taken.append((item, read))
        outgoing = [event for _, events in taken for event in events]
        problem = self.republish(outgoing) if outgoing and self.republish is not None else None
        for item, events in taken:
            if problem is not None and events:
                park_item(item, f"its events aren't published yet: {problem}", now + timedelta(seconds=AGAIN_S))
            else:
                settle_item(item, Decision.RESOLVED, _describe_published(events))

    def publish_others(self, index: Index, items: Iterable[OpenItem], now: datetime) -> str | None:
        """Publishes the other events of what was ignored or unknown, as far as the journal has none of them.

        :returns: why Kafka didn't take them; then some may be there all the same
        """
        if self.republish is None:
            return None
        outgoing = [
            event for item in items if item.row.decision in WITHOUT_EFFECT for event in self._list_others(item, now)
        ]
        known = index.known_events([event.event_key for event, _ in outgoing])
        missing = [event for event, decided in zip(outgoing, known, strict=True) if decided is None]
        return self.republish(missing) if missing else None

    def _list_others(self, item: OpenItem, now: datetime) -> list[Outgoing]:
        row, adapter = item.row, self.adapters.get(item.row.provider or "")
        if adapter is None or not item.body:
            return []
        events = catch_event_error(reread_events, adapter, item.body, cast(Mode, row.mode), row.tenant, row.zone)
        if isinstance(events, Failure) or row.event_key not in {event.event_key for event in events}:
            return []  # it can't be read, or only under another name
        others = [event for event in events if event.event_key != row.event_key]
        return [(event, self._make_headers(row, row.item_seq, event, now)) for event in others]

    def _put_back(self, item: BatchItem, now: datetime) -> None:
        if self.put_back is None:
            dead_letter_item(
                item,
                make_engine_failure(POISON_CLASS, "this stream reads no other program's topic any more"),
                blocking=False,
            )
            return
        problem = catch_event_error(self.put_back, item.row, (REREAD_OF, self._name(item.seq)))
        if isinstance(problem, Failure):
            dead_letter_item(item, problem, blocking=False)
        elif problem is not None:
            park_item(item, f"it isn't published again yet: {problem}", now + timedelta(seconds=AGAIN_S))
        else:
            settle_item(
                item, Decision.RESOLVED, f"published again at the end of {item.row.topic}: its copy is decided there"
            )

    def _name(self, item_seq: int) -> bytes:
        return quote_text(f"{self.stream}/{item_seq}").encode()

    def _prepare_events(self, item: BatchItem, now: datetime) -> list[Outgoing] | Failure:
        try:
            events = self._events(item)
        except Unparseable as unreadable:
            message = clean_text(unreadable.problem, MESSAGE_CHARS_MAX)
            return replace(make_event_failure(unreadable), error_class=POISON_CLASS, message=message)
        outgoing = [(event, self._make_headers(item.row, item.seq, event, now)) for event in events]
        for event, headers in outgoing:
            from_record(event.body, headers)
        return outgoing

    def _events(self, item: BatchItem) -> list[Event]:
        row = item.row
        if self.republish is None:
            raise Unparseable("this stream reads no topic that its events could be published to")
        adapter = self.adapters.get(row.provider or "")
        if adapter is None:
            raise Unparseable(f"there is no adapter for {row.provider}")
        return reread_events(adapter, item.body, cast(Mode, row.mode), row.tenant, row.zone)

    def _make_headers(self, row: JournalRow, item_seq: int, event: Event, now: datetime) -> Headers:
        headers = to_headers(event, row.received_at or now, Dedupe.DEFERRED)
        return [*headers, (REREAD_OF, self._name(item_seq))]


def _describe_published(events: Sequence[Outgoing]) -> str:
    if not events:
        return "its adapter reads it now, and it holds no event"
    keys = ", ".join(event.event_key for event, _ in events[:KEYS_SHOWN_MAX])
    more = f" and {len(events) - KEYS_SHOWN_MAX} more" if len(events) > KEYS_SHOWN_MAX else ""
    return f"its adapter reads it now; published as {keys}{more}"[:500]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that an order acts on.

    ``in_place``: it runs before all that came later of its entity. ``left``: the entity that it belonged to before its
    adapter gave it another one.
    """

    item: OpenItem
    in_place: bool = False
    left: str | None = None


def rename_by_adapter(adapter: Adapter, row: JournalRow, body: bytes) -> JournalRow:
    """Returns the row with its entity and its fact as the adapter names them.

    :raises Unparseable: the adapter can't read it; says why
    :raises OtherKey: it has another key by now
    """
    names = read_current_names(
        adapter,
        row.event_key or "",
        row.event_type or "",
        body,
        cast(Mode, row.mode),
        row.tenant,
    )
    return _apply_names(names, row)


def rename_if_readable(adapters: Mapping[str, Adapter], row: JournalRow, body: bytes) -> JournalRow:
    """Renames a row as `rename_by_adapter` does; what no adapter can read, or has no body any more, keeps its names.

    An event that would get another key keeps its key and entity, and gets its fact. So the same money under the new key
    is a duplicate.
    """
    adapter = adapters.get(row.provider or "")
    has_body = bool(body) or row.body_sha256 == EMPTY_SHA256
    if adapter is None or not has_body or row.event_key is None or row.event_type == POISON_TYPE:
        return row
    named = catch_event_error(_named_or_kept, adapter, row, body)
    return row if isinstance(named, Failure) else named


def _named_or_kept(adapter: Adapter, row: JournalRow, body: bytes) -> JournalRow:
    try:
        return rename_by_adapter(adapter, row, body)
    except OtherKey as other:
        return _apply_names(other.names, row)
    except Unparseable:
        return row


def rename_accepted(known: BatchLookups, accepted: Iterable[Accepted], meanwhile: ChangesSoFar) -> list[Accepted]:
    """Renames events as their adapters name them now.

    An event that moves to another entity leaves its line, and takes its place in the other one's order as far as
    possible.
    """
    named = [_rename_event(known, event) for event in accepted]
    moving = [event.item.row for event in named if event.left is not None]
    late = _find_passed_items(moving, known, meanwhile) if moving else set()
    return [
        event if event.left is None else replace(event, in_place=event.item.row.item_seq not in late) for event in named
    ]


def _rename_event(known: BatchLookups, event: Accepted) -> Accepted:
    before = event.item.row
    row = rename_if_readable(known.adapters, before, event.item.body)
    left = before.entity_key if row.entity_key != before.entity_key else None
    return replace(event, item=replace(event.item, row=row), left=left)


def _find_passed_items(rows: Iterable[JournalRow], known: BatchLookups, meanwhile: ChangesSoFar) -> set[int]:
    items = [(row.entity_key or "", row.item_seq) for row in rows]
    first: dict[str, int] = {}
    for entity, item_seq in items:
        first[entity] = min(first.get(entity, item_seq), item_seq)
    applied = dict(known.applied_upto(first)) if first else {}
    for entity in first:
        applied[entity] = max(applied.get(entity, 0), meanwhile.applied.get(entity, 0))
    return {item_seq for entity, item_seq in items if applied[entity] > item_seq}


def _apply_names(names: CurrentNames, row: JournalRow) -> JournalRow:
    entity_key = names.entity_key or row.entity_key
    return replace(row, entity_key=entity_key, fact_key=names.fact_key, fact_sha256=names.fact_sha256)


def find_ignored_events(known: BatchLookups, targets: Iterable[ItemTarget], control_topic: str) -> IgnoredEvents:
    closed = sorted({target.seen_seq for target in targets if known.index.open_item(target.item_seq) is None})
    rows = {seq: row for seq, row in known.rows_of(closed).items() if row.topic != control_topic} if closed else {}
    if not rows:
        return NONE_IGNORED
    bodies = known.bodies_of({row.body_sha256 for row in rows.values() if row.body_sha256 is not None})
    by_row = {seq: OpenItem(row, bodies.get(row.body_sha256 or "", b""), seq) for seq, row in rows.items()}
    first: dict[str, int] = {}
    for row in rows.values():
        entity = row.entity_key or ""
        first[entity] = min(first.get(entity, row.item_seq), row.item_seq)
    return IgnoredEvents(by_row, dict(known.applied_upto(first)))
