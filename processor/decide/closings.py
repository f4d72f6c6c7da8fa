"""Purge and resolve: a person ends items for good. Much at once, or much money, takes two people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from core.decision import Decision
from core.money import Money, MoneyFact
from dlq.acceptance import Judged, Lookup, Meanwhile, judge_closing
from dlq.closed_alone import DAY, GivenSince, closed_alone
from dlq.commands import PROPOSE_PURGE, PURGE, Command
from dlq.limits import AloneLimits, Closed
from journal.open_item import OpenItem, frees_key
from journal.schema import JournalRow
from processor.decide.admission import again
from processor.decide.approvals import not_approved
from processor.decide.intake import Item
from processor.decide.own_error import attempt
from processor.decide.told import told_of
from providers.reconciled import reader_of


class MoneyReader(Protocol):
    """What an adapter says of an event's money."""

    def money(self, body: bytes, event_type: str) -> MoneyFact | None: ...


@dataclass(slots=True)
class Closings:
    """Decides the purges and resolves of one batch. ``rows`` of what was closed come back; ``heads`` are those of
    them that held back their entity. ``alone`` are the commands of this batch that needed no second person.
    """

    index: Lookup
    adapters: Mapping[str, MoneyReader]
    limits: AloneLimits
    meanwhile: Meanwhile
    now: datetime
    given_since: GivenSince
    alone: list[JournalRow] = field(default_factory=list)
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
        possible = [one.item for one in told if one.refusal is None and one.item is not None]
        wanted = Closed(len(possible), self._amounts(possible))
        refused = self._not_allowed(command, wanted)
        row = control.row
        if refused is not None or not possible:
            row.decision = Decision.IGNORED
            row.reason = told_of("", [refused] if refused else _refusals(told))
            return []
        if command.proposal is None:
            row.headers = wanted.to_json()
            self.alone.append(row)
        row.decision = Decision.PURGED if command.action == PURGE else Decision.RESOLVED
        by = f", as {command.proposal.actor} proposed ({command.proposal.command_id})" if command.proposal else ""
        row.reason = told_of(f"{len(possible)} of {len(told)} {row.decision.value}{by}", _refusals(told))
        return [self._closed(item, control, command) for item in possible]

    def _not_allowed(self, command: Command, wanted: Closed) -> str | None:
        """Why this takes a second person, or why what the second one approves doesn't stand."""
        if command.proposal is not None:
            return not_approved(self.index, command)
        before = closed_alone([*self.given_since(self.now - DAY), *self.alone], command.actor)
        why = self.limits.beyond(wanted, before)
        return None if why is None else f"{why}: have it proposed (propose_{command.action})"

    def _amounts(self, items: Sequence[OpenItem]) -> Counter[str]:
        """What the items' events moved, by currency. Those that no adapter can read count as nothing."""
        amounts: Counter[str] = Counter()
        for item in items:
            money = attempt(self._money, item)  # poison, or an adapter's bug, is what may be closed here
            if isinstance(money, Money):
                amounts[money.currency] += abs(money.amount_minor)
        return amounts

    def _money(self, item: OpenItem) -> Money | None:
        adapter, event_type = self.adapters.get(item.row.provider or ""), item.row.event_type or ""
        if adapter is None:
            return None
        fact = reader_of(adapter, event_type).money(item.body, event_type)
        return fact.money if fact is not None else None

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
