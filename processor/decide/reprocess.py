"""Events that a person has taken up again, under the names that their adapter gives them now: dead ones, and ignored
ones whose type a handler knows by now.

Their receiver may have run another version, or the adapter didn't know their type yet. A fact that was named otherwise
was never looked up, so it could be booked twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from core.decision import Decision
from core.errors import Unparseable
from core.event import POISON_TYPE, Mode
from dlq.acceptance import Meanwhile
from dlq.command import Command, Target
from dlq.refusals import restored
from journal.index_changes import EMPTY_SHA256
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.decide.item import attempt, failure_of
from processor.decide.ports import AppliedUpto, Known
from processor.judge.classify import MESSAGE_CHARS_MAX, Failure, clean
from processor.rules import StreamRules
from providers.reread import Names, OtherKey, Reader, renamed


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that an order acts on. ``in_place``: it runs before all that came later of its entity. ``left``: the
    entity that it was one of and isn't any more, by the names that its adapter gives it now."""

    item: OpenItem
    in_place: bool = False
    left: str | None = None


def named_today(adapter: object, row: JournalRow, body: bytes) -> JournalRow:
    """The row with its entity and its fact as the adapter names them.

    :raises Unparseable: the adapter can't read it; says why
    :raises OtherKey: it has another key by now
    """
    names = renamed(
        cast(Reader, adapter),
        row.event_key or "",
        row.event_type or "",
        body,
        cast(Mode, row.mode),
        row.tenant,
    )
    return _under(names, row)


def renamed_if_readable(adapters: Mapping[str, object], row: JournalRow, body: bytes) -> JournalRow:
    """As `named_today`; what no adapter can read, or has no body any more, keeps its names.

    One with another key by now keeps its key and its entity, and gets its fact: under the new key the same money is a
    duplicate by that.
    """
    adapter = adapters.get(row.provider or "")
    has_body = bool(body) or row.body_sha256 == EMPTY_SHA256
    if adapter is None or not has_body or row.event_key is None or row.event_type == POISON_TYPE:
        return row
    named = attempt(_named_or_kept, adapter, row, body)
    return row if isinstance(named, Failure) else named


def _named_or_kept(adapter: object, row: JournalRow, body: bytes) -> JournalRow:
    try:
        return named_today(adapter, row, body)
    except OtherKey as other:
        return _under(other.names, row)
    except Unparseable:
        return row


def passed(rows: Iterable[JournalRow], applied_upto: AppliedUpto, meanwhile: Meanwhile) -> set[int]:
    """Items that a later event of their entity was applied before."""
    items = [(row.entity_key or "", row.item_seq) for row in rows]
    first: dict[str, int] = {}
    for entity, item_seq in items:
        first[entity] = min(first.get(entity, item_seq), item_seq)
    applied = dict(applied_upto(first)) if first else {}
    for entity in first:
        applied[entity] = max(applied.get(entity, 0), meanwhile.applied.get(entity, 0))
    return {item_seq for entity, item_seq in items if applied[entity] > item_seq}


def _under(names: Names, row: JournalRow) -> JournalRow:
    entity_key = names.entity_key or row.entity_key
    return replace(row, entity_key=entity_key, fact_key=names.fact_key, fact_sha256=names.fact_sha256)


@dataclass(slots=True)
class Reprocess:
    """Judges which events of one batch's commands are taken up again. Each gets a row `replayed`, which opens it: the
    next batch hands it to the handler like anything that is due.

    Its place is in its entity's order as far as that still holds: before all that came later and waits, behind what
    was applied since. Its fact and its entity are named again, because an adapter names no movement of money in a type
    that it doesn't know.
    """

    known: Known
    rules: StreamRules
    meanwhile: Meanwhile

    def judge(self, command: Command) -> tuple[list[Accepted], list[str]]:
        """The events that may be taken up, under the names of now, and of each other one why not."""
        targets = sorted(command.targets, key=lambda target: target.item_seq)
        rows = self.known.rows_of(sorted({target.seen_seq for target in targets}))
        bodies = self.known.bodies_of({row.body_sha256 for row in rows.values() if row.body_sha256 is not None})
        named: list[OpenItem] = []
        refusals: list[str] = []
        for target in targets:
            found = self._judge(target, rows.get(target.seen_seq), bodies)
            if isinstance(found, OpenItem):
                named.append(found)
            else:
                refusals.append(found)
        late = passed([one.row for one in named], self.known.applied_upto, self.meanwhile)
        return [Accepted(one, one.row.item_seq not in late) for one in named], refusals

    def _judge(self, target: Target, row: JournalRow | None, bodies: Mapping[str, bytes]) -> OpenItem | str:
        """The event as today's adapter names it, or why it can't be taken up as it was seen."""
        number = target.item_seq
        if row is None or row.item_seq != number:
            return f"there is no row {target.seen_seq} of item {number}"
        if not target.is_row(row):
            return restored(target).why
        if row.topic == self.rules.control_topic or row.event_key is None:
            return f"item {number} is a command, not an event"
        if row.decision is not Decision.IGNORED:
            return f"row {target.seen_seq} of item {number} is {row.decision.value}, not ignored"
        if number in self.meanwhile.moved or self.known.index.open_item(number) is not None:
            return f"item {number} was taken up again and is open: see what comes of it first"
        last = self.known.index.reopened_at(number)
        if last is not None and last != target.seen_seq:
            return f"item {number} was taken up again before, by row {last}; look again"
        return self._by_today(row, bodies)

    def _by_today(self, row: JournalRow, bodies: Mapping[str, bytes]) -> OpenItem | str:
        number = row.item_seq
        body = b"" if row.body_sha256 == EMPTY_SHA256 else bodies.get(row.body_sha256 or "")
        if body is None:
            return f"the body of item {number} isn't kept: retention dropped it, or it was redacted"
        adapter = self.known.adapters.get(row.provider or "")
        if adapter is None:
            return f"there is no adapter for {row.provider}, the provider of item {number}"
        named = attempt(_named_today, adapter, row, body)
        if isinstance(named, Failure):
            return f"item {number} can't be read again: {named.message}"
        return OpenItem(named, body, named.seq)


def _named_today(adapter: object, row: JournalRow, body: bytes) -> JournalRow | Failure:
    """The row with the names that its adapter gives the event today."""
    try:
        return named_today(adapter, row, body)
    except Unparseable as unreadable:
        return replace(failure_of(unreadable), message=clean(unreadable.problem, MESSAGE_CHARS_MAX))
