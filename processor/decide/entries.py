"""Bookings by hand, by two people: one proposes, another approves, and the entry is booked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from core.decision import Decision
from core.keys import join_key
from dlq.commands import PROPOSE_ENTRY, Command
from journal.index import KnownEvent, KnownFact
from processor.decide.approvals import not_approved
from processor.decide.intake import Item


class EntryLookup(Protocol):
    """What deciding about entries asks of the index."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def known_fact(self, fact_key: str) -> KnownFact | None: ...


@dataclass(slots=True)
class Entries:
    """Decides the entries of one batch. The command's own row books: it is an event of the entry's entity.

    Its fact is the proposal, so that a second approval of one books nothing.
    """

    index: EntryLookup
    _booked: set[str] = field(default_factory=set)

    def decide(self, control: Item, command: Command) -> None:
        """Takes a proposal down, or books what was proposed, or says why not."""
        row = control.row
        if command.action == PROPOSE_ENTRY:
            row.decision = Decision.RESOLVED
            row.reason = f"an entry is proposed, nothing is booked yet: {command.reason}"
        elif (refused := self._refusal(command)) is not None:
            row.decision, row.reason = Decision.IGNORED, f"refused: {refused}"
        else:
            self._book(control, command)

    def _refusal(self, command: Command) -> str | None:
        fact = _fact_key(command)
        if fact in self._booked or self.index.known_fact(fact) is not None:
            return "the entry was booked before"
        return not_approved(self.index, command)

    def _book(self, control: Item, command: Command) -> None:
        row, entry, first = control.row, command.entry, command.proposal
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
    """The event key of the proposal."""
    assert command.proposal is not None
    return join_key("payhook", command.proposal.command_id, PROPOSE_ENTRY)
