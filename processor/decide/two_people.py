"""Decides what takes two people, one who proposes and another who approves.

These are reversals of what was booked, entries by hand, and what is beyond the limits of one person.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from core.decision import Decision
from core.keys import join_key
from core.money import Money
from core.work import postings_from_json, postings_to_json, reversed_postings
from journal.index import Index
from journal.index_layout import CONTENT_BYTES
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import APPROVED_ALWAYS, PROPOSE_ENTRY, PROPOSE_REVERSAL, Command
from operations.commands import encode
from operations.limits import AloneLimits, Volume, account_of, kind_of
from operations.refusals import refuse_restored
from processor.decide.admit import BatchLookups
from processor.decide.item import BatchItem
from processor.errors.classify import catch_event_error
from providers.reconciled import choose_reader

REFUSALS_SHOWN_MAX = 10

HAVE_IT_APPROVED = "propose it (`payhook dlq … --propose`, or a selection's run), then another person must approve it"
"""The advice for an order beyond what one person may do alone."""

Events: TypeAlias = Iterable[tuple[JournalRow, bytes]]
"""What an order would act on: row and body of each event."""


def format_reason(done: str, refusals: Sequence[str]) -> str:
    more = len(refusals) - REFUSALS_SHOWN_MAX
    refused = f"refused: {'; '.join(refusals[:REFUSALS_SHOWN_MAX])}" if refusals else ""
    return "; ".join(part for part in (done, refused, f"and {more} more" if more > 0 else "") if part)


def explain_missing_approval(index: Index, command: Command) -> str | None:
    """Says why an approval doesn't stand.

    Its proposal counts only if the journal holds that very one, from another person than the one who approves.
    """
    proposed = command.proposed_command
    known = index.known_event(join_key("payhook", proposed.command_id, proposed.action))
    if known is None or known.content8 != hashlib.sha256(encode(proposed)).digest()[:CONTENT_BYTES]:
        return f"no proposal {proposed.command_id} with these items, this proposer and this reason was received"
    if account_of(proposed.actor) == account_of(command.actor):
        return f"{command.actor} proposed it: another person must approve it"
    return None


@dataclass(slots=True)
class Reversals:
    """Decides the reversals of one batch. An approval is checked as its proposal was: another reversal may have come
    between them.
    """

    known: BatchLookups
    _done: set[int] = field(default_factory=set)

    def decide(self, control: BatchItem, command: Command) -> list[BatchItem]:
        """Makes the reversing entries of an approved proposal: of all of its targets, or of none."""
        proposes = command.action == PROPOSE_REVERSAL
        refused = None if proposes else explain_missing_approval(self.known.index, command)
        bookings, refusals = self._bookings(command) if refused is None else ([], [refused])
        row, count = control.row, len(command.targets)
        if refusals:
            row.decision, row.reason = Decision.IGNORED, format_reason("", refusals)
            return []
        if proposes:
            row.decision = Decision.RESOLVED
            row.reason = f"{count} proposed, nothing is booked yet: {command.reason}"
            return []
        first = command.proposal
        assert first is not None
        row.decision = Decision.REVERSED
        row.reason = f"{count} reversed as {first.actor} proposed ({first.command_id}): {command.reason}"
        self._done |= {booking.item_seq for booking in bookings}
        return [self._make_entry(booking, control, command) for booking in bookings]

    def _bookings(self, command: Command) -> tuple[list[JournalRow], list[str]]:
        rows = self.known.rows_of(sorted({target.seen_seq for target in command.targets}))
        refusals = [why for target in command.targets if (why := self._find_refusal(target, rows.get(target.seen_seq)))]
        return [rows[target.seen_seq] for target in command.targets] if not refusals else [], refusals

    def _find_refusal(self, target: ItemTarget, row: JournalRow | None) -> str | None:
        number = target.item_seq
        if row is None or row.item_seq != number:
            return f"there is no row {target.seen_seq} of item {number}"
        if not target.is_row(row):
            return refuse_restored(target).why_refused
        if row.decision is not Decision.APPLIED or row.postings is None:
            return f"row {target.seen_seq} booked nothing: it is {row.decision.value}"
        if number in self._done or self.known.index.is_reversed(number):
            return f"item {number} was reversed before"
        return None

    def _make_entry(self, booking: JournalRow, control: BatchItem, command: Command) -> BatchItem:
        assert booking.postings is not None and command.proposal is not None
        row = copy.copy(booking)
        row.first, row.blocking, row.attempt, row.headers = False, False, 0, None
        row.decision = Decision.REVERSED
        row.postings = postings_to_json(reversed_postings(postings_from_json(booking.postings)))
        row.occurred_at, row.due_at = command.at, None
        row.cause_seq, row.actor = control.seq, command.actor
        row.reason = f"{command.proposal.reason} (proposed by {command.proposal.actor})"
        return BatchItem(row, b"", cause=control)


@dataclass(slots=True)
class Entries:
    """Decides the entries by hand of one batch. The command's own row books: it is an event of the entry's entity.

    Its fact is the proposal, so that a second approval of the same proposal books nothing.
    """

    index: Index
    _booked: set[str] = field(default_factory=set)

    def decide(self, control: BatchItem, command: Command) -> None:
        row = control.row
        if command.action == PROPOSE_ENTRY:
            row.decision = Decision.RESOLVED
            row.reason = f"an entry is proposed, nothing is booked yet: {command.reason}"
        elif (refused := self._find_refusal(command)) is not None:
            row.decision, row.reason = Decision.IGNORED, f"refused: {refused}"
        else:
            self._book_entry(row, command)

    def _find_refusal(self, command: Command) -> str | None:
        fact = _fact_key(command)
        if fact in self._booked or self.index.known_fact(fact) is not None:
            return "the entry was booked before"
        return explain_missing_approval(self.index, command)

    def _book_entry(self, row: JournalRow, command: Command) -> None:
        entry, first = command.entry, command.proposal
        assert entry is not None and first is not None
        row.decision, row.entity_key, row.occurred_at = Decision.APPLIED, entry.entity_key, entry.occurred_at
        row.postings = entry.postings_json
        row.fact_key, row.fact_sha256 = _fact_key(command), entry.postings_sha256
        row.reason = (
            f"{first.reason} (proposed by {first.actor}, {first.command_id}); approved: {command.reason}; "
            f"evidence {entry.evidence_sha256}"
        )
        self._booked.add(row.fact_key)


def _fact_key(command: Command) -> str:
    assert command.proposal is not None
    return join_key("payhook", command.proposal.command_id, PROPOSE_ENTRY)


@dataclass(slots=True)
class OnePerson:
    """Judges the orders of one batch, with what each account did without a second person, this batch included."""

    known: BatchLookups
    limits: AloneLimits
    now: datetime

    def find_refusal(self, control: BatchItem, command: Command, events: Events) -> str | None:
        """Says why an order takes a second person.

        Returns None where it is carried out; what one person does alone is noted in the order's row. A run's approval
        was checked when the run began (`find_run_refusal`).
        """
        if command.proposal is not None:
            return None
        kind, volume = kind_of(command.action), self._measure_volume(events)
        if not volume.items:
            return None
        why = self.limits.why_beyond(kind, volume, self.known.done_alone.sum_volume(command.actor, kind, self.now))
        if why is not None:
            return f"{why}: {HAVE_IT_APPROVED}"
        control.row.headers = volume.to_json(kind)
        self.known.done_alone.add(control.row)
        return None

    def find_run_refusal(self, command: Command, wanted: Volume) -> str | None:
        if command.proposal is not None:
            return explain_missing_approval(self.known.index, command)
        if command.act in APPROVED_ALWAYS:
            return f"a {command.act} always takes a second person: {HAVE_IT_APPROVED}"
        kind = kind_of(command.act)
        why = self.limits.why_beyond(kind, wanted, self.known.done_alone.sum_volume(command.actor, kind, self.now))
        return None if why is None else f"{why}: {HAVE_IT_APPROVED}"

    def _measure_volume(self, events: Events) -> Volume:
        """Counts the events, and sums what they moved by currency. Those that no adapter can read count as no money."""
        items, amounts = 0, Counter[str]()
        for row, body in events:
            items += 1
            money = catch_event_error(
                self._read_money, row, body
            )  # poison, or an adapter's bug, may be what is ordered here
            if isinstance(money, Money):
                amounts[money.currency] += abs(money.amount_minor)
        return Volume(items, amounts)

    def _read_money(self, row: JournalRow, body: bytes) -> Money | None:
        adapter, event_type = self.known.adapters.get(row.provider or ""), row.event_type or ""
        if adapter is None:
            return None
        fact = choose_reader(adapter, event_type).money(body, event_type)
        return fact.money if fact is not None else None
