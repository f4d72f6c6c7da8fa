"""Purge and resolve: a person ends items for good. Much at once, or much money, takes two people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.decision import Decision
from dlq.acceptance import Judged, Lookup, Meanwhile, judge_closing
from dlq.commands import PROPOSE_PURGE, PURGE, Command
from journal.open_item import OpenItem, frees_key
from processor.decide.admission import again
from processor.decide.intake import Item
from processor.decide.one_person import OnePerson, alone
from processor.decide.told import told_of


@dataclass(slots=True)
class Closings:
    """Decides the purges and resolves of one batch. ``rows`` of what was closed come back; ``heads`` are those of
    them that held back their entity."""

    index: Lookup
    one_person: OnePerson
    meanwhile: Meanwhile
    closed: set[int] = field(default_factory=set)
    heads: dict[str, Item] = field(default_factory=dict)

    def propose(self, control: Item, command: Command) -> None:
        """Takes a proposal down, or says why nothing could come of it. Nothing is closed."""
        told = judge_closing(command, self.index, self.meanwhile)
        possible = sum(one.refusal is None for one in told)
        row, act = control.row, "purged" if command.action == PROPOSE_PURGE else "resolved"
        row.decision = Decision.RESOLVED if possible else Decision.IGNORED
        done = f"{possible} of {len(told)} proposed to be {act}, nothing is closed yet" if possible else ""
        row.reason = told_of(done, _refusals(told), command.reason if possible else "")

    def close(self, control: Item, command: Command) -> list[Item]:
        """Each target by itself: one that can't be closed doesn't keep the others open."""
        told = judge_closing(command, self.index, self.meanwhile)
        control.refusals = [one.refusal for one in told if one.refusal is not None]
        possible = [one.item for one in told if one.refusal is None and one.item is not None]
        refused = self.one_person.refusal(control, command, [(item.row, item.body) for item in possible])
        row = control.row
        if refused is not None:
            control.refusals += alone(refused, possible)
        if refused is not None or not possible:
            row.decision = Decision.IGNORED
            row.reason = told_of("", [refused] if refused else _refusals(told))
            return []
        row.decision = Decision.PURGED if command.action == PURGE else Decision.RESOLVED
        by = f", as {command.proposal.actor} proposed ({command.proposal.command_id})" if command.proposal else ""
        row.reason = told_of(f"{len(possible)} of {len(told)} {row.decision.value}{by}", _refusals(told))
        return [self._closed(item, control, command) for item in possible]

    def _closed(self, found: OpenItem, control: Item, command: Command) -> Item:
        item = again(found)
        row = item.row
        row.decision = control.row.decision
        row.actor, row.reason, row.blocking = command.actor, command.reason, False
        item.cause = control
        self.meanwhile.moved.add(item.seq)
        self.closed.add(item.seq)
        if found.row.blocking:
            self.heads[row.entity_key or ""] = item
        if row.event_key is not None and frees_key(row, found.row):
            self.meanwhile.freed.add(row.event_key)
            self.meanwhile.taken.discard(row.event_key)
        return item


def _refusals(told: Sequence[Judged]) -> list[str]:
    return [one.refusal.why for one in told if one.refusal is not None]
