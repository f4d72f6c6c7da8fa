"""Ignored events that a person has taken up again, because a handler knows their type by now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from core.decision import Decision
from core.errors import Unparseable
from dlq.acceptance import Lookup, Meanwhile
from dlq.commands import Command, Target
from dlq.refusals import restored
from journal.index_changes import EMPTY_SHA256
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.decide.admission import again
from processor.decide.intake import Item
from processor.decide.line_up import is_dead
from processor.decide.one_person import OnePerson
from processor.decide.own_error import attempt, failure_of
from processor.decide.renaming import AppliedUpto, named_today, passed
from processor.decide.reversals import RowsOf
from processor.decide.told import told_of
from processor.judge.classify import MESSAGE_CHARS_MAX, Failure, clean
from processor.rules import StreamRules
from processor.settings import DeadHead

BodiesOf: TypeAlias = Callable[[Iterable[str]], Mapping[str, bytes]]
"""Bodies by their hash; those that aren't kept are left out."""


class ReopenLookup(Lookup, Protocol):
    """What deciding asks of the index."""

    def reopened_at(self, item_seq: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class _Named:
    """A target that may be taken up: its last row under the names that it has today, and its body."""

    row: JournalRow
    body: bytes


@dataclass(slots=True)
class Reprocessing:
    """Decides which events of one batch's commands are taken up again. Each gets a row `replayed`, which opens it: the
    next batch hands it to the handler like anything that is due.

    Its place is in its entity's order as far as that still holds: before all that came later and waits, behind what
    was applied since. Its fact and its entity are named anew, because an adapter names no movement of money in a type
    that it doesn't know.
    """

    rules: StreamRules
    index: ReopenLookup
    adapters: Mapping[str, object]
    rows_of: RowsOf
    bodies_of: BodiesOf
    applied_upto: AppliedUpto
    now: datetime
    one_person: OnePerson
    meanwhile: Meanwhile

    def propose(self, control: Item, command: Command) -> None:
        """Takes a proposal down, or says why nothing could come of it. Nothing is taken up."""
        named, refusals = self._named(command.targets)
        done = f"{len(named)} of {len(command.targets)} proposed to be taken up again, nothing is yet" if named else ""
        row = control.row
        row.decision = Decision.RESOLVED if named else Decision.IGNORED
        row.reason = told_of(done, refusals, command.reason if named else "")

    def take_up(self, control: Item, command: Command) -> list[Item]:
        """Each target by itself; the command's row tells how many were taken, and why the others weren't."""
        named, refusals = self._named(command.targets)
        refused = self.one_person.refusal(control, command, [(one.row, one.body) for one in named])
        if refused is not None:
            control.row.decision, control.row.reason = Decision.IGNORED, told_of("", [refused])
            return []
        late = passed([one.row for one in named], self.applied_upto, self.meanwhile)
        interval = timedelta(microseconds=command.interval_us)
        items = []
        for number, one in enumerate(named):
            due_at = self.now + number * interval
            items.append(self._opened(one, control, command, due_at, in_place=one.row.item_seq not in late))
        row = control.row
        row.decision = Decision.REPLAYED if items else Decision.IGNORED
        row.reason = told_of(f"{len(items)} of {len(command.targets)} taken up again", refusals)
        return items

    def _named(self, targets: Sequence[Target]) -> tuple[list[_Named], list[str]]:
        targets = sorted(targets, key=lambda target: target.item_seq)
        rows = self.rows_of(sorted({target.seen_seq for target in targets}))
        bodies = self.bodies_of({row.body_sha256 for row in rows.values() if row.body_sha256 is not None})
        named: list[_Named] = []
        refusals: list[str] = []
        for target in targets:
            row = rows.get(target.seen_seq)
            refusal = self._refusal(target, row)
            if refusal is None and row is not None:
                found = self._by_today(row, bodies)
                if isinstance(found, _Named):
                    named.append(found)
                    continue
                refusal = found
            refusals.append(refusal or "")
        return named, refusals

    def _refusal(self, target: Target, row: JournalRow | None) -> str | None:
        """Why a target isn't an ignored event as it was seen."""
        number = target.item_seq
        if row is None or row.item_seq != number:
            return f"there is no row {target.seen_seq} of item {number}"
        if not target.is_row(row):
            return restored(target).why
        if row.topic == self.rules.control_topic or row.event_key is None:
            return f"item {number} is a command, not an event"
        if row.decision is not Decision.IGNORED:
            return f"row {target.seen_seq} of item {number} is {row.decision.value}, not ignored"
        if number in self.meanwhile.moved or self.index.open_item(number) is not None:
            return f"item {number} was taken up again and is open: see what comes of it first"
        last = self.index.reopened_at(number)
        if last is not None and last != target.seen_seq:
            return f"item {number} was taken up again before, by row {last}; look again"
        return None

    def _by_today(self, row: JournalRow, bodies: Mapping[str, bytes]) -> _Named | str:
        """The event as today's adapter names it, or why it can't be."""
        number = row.item_seq
        body = b"" if row.body_sha256 == EMPTY_SHA256 else bodies.get(row.body_sha256 or "")
        if body is None:
            return f"the body of item {number} isn't kept: retention dropped it, or it was redacted"
        adapter = self.adapters.get(row.provider or "")
        if adapter is None:
            return f"there is no adapter for {row.provider}, the provider of item {number}"
        named = attempt(_named_today, adapter, row, body)
        if isinstance(named, Failure):
            return f"item {number} can't be read again: {named.message}"
        head = self._dead_head_before(named)
        if head is not None:
            return f"item {number} would die with item {head}, which is dead before it: replay that one first"
        return _Named(named, body)

    def _dead_head_before(self, row: JournalRow) -> int | None:
        """Where followers die with their head: the one with which it would."""
        if self.rules.dead_head is not DeadHead.DIE_WITH_IT:
            return None
        for waiting in self.index.queue(row.entity_key or ""):
            if waiting.row.item_seq >= row.item_seq:
                return None
            if is_dead(waiting) and waiting.row.item_seq not in self.meanwhile.moved:
                return waiting.row.item_seq
        return None

    def _opened(self, one: _Named, control: Item, command: Command, due_at: datetime, *, in_place: bool) -> Item:
        item = again(OpenItem(one.row, one.body, one.row.seq))
        row = item.row
        row.decision, row.blocking = Decision.REPLAYED, in_place
        row.attempt, row.due_at = 0, due_at
        row.actor, row.reason = command.actor, command.reason
        row.out_of_order |= not in_place
        item.cause = control
        self.meanwhile.moved.add(item.seq)
        return item


def _named_today(adapter: object, row: JournalRow, body: bytes) -> JournalRow | Failure:
    """The row with the names that its adapter gives the event today."""
    try:
        return named_today(adapter, row, body)
    except Unparseable as unreadable:
        return replace(failure_of(unreadable), message=clean(unreadable.problem, MESSAGE_CHARS_MAX))
