"""Bookings taken back by two people: one proposes, another approves, and the entry that reverses is booked once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from core.decision import Decision
from core.work import postings_from_json, postings_to_json, reversed_postings
from dlq.commands import Command, Target
from dlq.refusals import restored
from journal.index import KnownEvent
from journal.schema import JournalRow
from processor.decide.approvals import not_approved
from processor.decide.intake import Item
from processor.decide.told import told_of

RowsOf = Callable[[Sequence[int]], Mapping[int, JournalRow]]
"""Committed rows by their seq; those that aren't there are left out."""


class ReversalLookup(Protocol):
    """What deciding about reversals asks of the index."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def is_reversed(self, item_seq: int) -> bool: ...


@dataclass(slots=True)
class Reversals:
    """Decides the reversals of one batch. Both acts are checked in the same way: what can't be reversed can't be
    proposed, and what was proposed may have been reversed since.
    """

    index: ReversalLookup
    rows_of: RowsOf
    now: datetime
    _done: set[int] = field(default_factory=set)

    def propose(self, control: Item, command: Command) -> None:
        """Takes a proposal down, or says why nobody could approve it. Nothing is booked."""
        _, refusals = self._bookings(command)
        row = control.row
        row.decision = Decision.IGNORED if refusals else Decision.RESOLVED
        proposed = f"{len(command.targets)} proposed, nothing is booked yet: {command.reason}"
        row.reason = told_of("", refusals) or proposed

    def reverse(self, control: Item, command: Command) -> list[Item]:
        """The reversing entries of an approved proposal: of all of its targets, or of none."""
        refused = not_approved(self.index, command)
        bookings, refusals = self._bookings(command) if refused is None else ([], [refused])
        row = control.row
        if refusals:
            row.decision, row.reason = Decision.IGNORED, told_of("", refusals)
            return []
        assert command.proposal is not None
        first = command.proposal
        row.decision = Decision.REVERSED
        row.reason = f"{len(bookings)} reversed as {first.actor} proposed ({first.command_id}): {command.reason}"
        self._done |= {booking.item_seq for booking in bookings}
        return [self._entry(booking, control, command) for booking in bookings]

    def _bookings(self, command: Command) -> tuple[list[JournalRow], list[str]]:
        """The booked rows of a command's targets, and of each that isn't one why."""
        found = self.rows_of(sorted({target.seen_seq for target in command.targets}))
        refusals = [why for target in command.targets if (why := self._refusal(target, found.get(target.seen_seq)))]
        return [found[target.seen_seq] for target in command.targets] if not refusals else [], refusals

    def _refusal(self, target: Target, row: JournalRow | None) -> str | None:
        number = target.item_seq
        if row is None or row.item_seq != number:
            return f"there is no row {target.seen_seq} of item {number}"
        if not target.is_row(row):
            return restored(target).why
        if row.decision is not Decision.APPLIED or row.postings is None:
            return f"row {target.seen_seq} booked nothing: it is {row.decision.value}"
        if number in self._done or self.index.is_reversed(number):
            return f"item {number} was reversed before"
        return None

    def _entry(self, booking: JournalRow, control: Item, command: Command) -> Item:
        """The row that takes a booking back, of the same event; who asked for it is in its reason."""
        assert booking.postings is not None and command.proposal is not None
        row = copy.copy(booking)
        row.first, row.blocking, row.attempt, row.headers = False, False, 0, None
        row.decision = Decision.REVERSED
        row.postings = postings_to_json(reversed_postings(postings_from_json(booking.postings)))
        row.occurred_at, row.due_at = command.at, None
        row.cause_seq, row.actor = control.seq, command.actor
        row.reason = f"{command.proposal.reason} (proposed by {command.proposal.actor})"
        return Item(row, b"", new=False, cause=control)
