"""What one person may order alone: beyond a day's limits an order carries the proposal that it approves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from core.money import Money
from dlq.command import PROPOSE_RUN, Command, Portion
from dlq.limits import AloneLimits, Volume, kind_of
from journal.schema import JournalRow
from processor.decide.bookings import not_approved
from processor.decide.item import Item, attempt
from processor.decide.ports import Known
from providers.reconciled import reader_of

Events: TypeAlias = Iterable[tuple[JournalRow, bytes]]
"""What an order would act on: row and body of each event."""


@dataclass(slots=True)
class OnePerson:
    """Judges the orders of one batch, with what each person did without a second one, this batch included."""

    known: Known
    limits: AloneLimits
    now: datetime

    def refusal(self, control: Item, command: Command, events: Events) -> str | None:
        """Why an order takes a second person, or why what the second one approves doesn't stand. None: it is carried
        out, and what one person does alone is noted in the order's row."""
        if command.proposal is not None:
            whole = command.run if isinstance(command, Portion) and command.run is not None else command
            return not_approved(self.known.index, whole)
        kind, wanted = kind_of(command.action), self._volume(events)
        if not wanted.items:
            return None
        why = self.limits.beyond(kind, wanted, self.known.done_alone.of(command.actor, kind, self.now))
        if why is not None:
            return f"{why}: have it proposed (propose_{command.action})"
        control.row.headers = wanted.to_json(kind)
        self.known.done_alone.add(control.row)
        return None

    def run_refusal(self, command: Command, wanted: Volume) -> str | None:
        """As `refusal`, of a whole run as it begins. Nothing is noted yet: each of its portions is."""
        if command.proposal is not None:
            return not_approved(self.known.index, command)
        kind = kind_of(command.act)
        why = self.limits.beyond(kind, wanted, self.known.done_alone.of(command.actor, kind, self.now))
        return None if why is None else f"{why}: have it proposed ({PROPOSE_RUN})"

    def _volume(self, events: Events) -> Volume:
        """How many there are, and what they moved by currency. Those that no adapter can read count as no money."""
        items, amounts = 0, Counter[str]()
        for row, body in events:
            items += 1
            money = attempt(self._money, row, body)  # poison, or an adapter's bug, may be what is ordered here
            if isinstance(money, Money):
                amounts[money.currency] += abs(money.amount_minor)
        return Volume(items, amounts)

    def _money(self, row: JournalRow, body: bytes) -> Money | None:
        adapter, event_type = self.known.adapters.get(row.provider or ""), row.event_type or ""
        if adapter is None:
            return None
        fact = reader_of(adapter, event_type).money(body, event_type)
        return fact.money if fact is not None else None
