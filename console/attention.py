"""Collects what waits for people: alerts that fire, and orders and bookings that need another person's approval."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from deltalake.exceptions import DeltaError

from alerts.standing import AlertsStanding, FiringAlert
from console.access.roles import Role, User
from console.bookings import Bookings
from core.clock import Clock
from core.errors import PayhookError
from ledger.reversals import ReadProposal
from operations.selection.model import KeptSelection
from operations.selection.selections import Selections

log = logging.getLogger(__name__)

EVERY_S = 15.0
BOOKINGS_EVERY_S = 60.0
"""To find proposals takes a look through the journal."""

PAGE, FINANCE_PAGE = "/alerts", "/ledger"
"""The links that have the badge: of operators, and of finance alone."""


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """Something that one person proposed and another one approves, or doesn't. ``kind``: of a selection's run, or of
    bookings. ``name``: the selection's, or the proposal's command id. ``count``: items; ``amounts``: what they come to
    by currency, in minor units. ``page``: the path of the page where it is approved.
    """

    kind: Literal["selection", "booking"]
    name: str
    stream: str
    action: str
    actor: str
    reason: str
    at: datetime
    count: int
    amounts: Mapping[str, int]
    page: str

    @property
    def reader(self) -> Role:
        return Role.VIEWER if self.kind == "selection" else Role.FINANCE


@dataclass(frozen=True, slots=True)
class WaitingForPeople:
    alerts: AlertsStanding = field(default_factory=AlertsStanding)
    approvals: Sequence[WaitingApproval] = ()

    def alerts_for(self, user: User) -> Sequence[FiringAlert]:
        return self.alerts.firing if user.may(Role.VIEWER) else ()

    def approvals_for(self, user: User) -> list[WaitingApproval]:
        return [approval for approval in self.approvals if user.may(approval.reader)]


@dataclass(frozen=True, slots=True)
class Badge:
    count: int
    text: str


class Attention:
    """Reads what waits, `EVERY_S` at most. Threads may share it."""

    def __init__(
        self,
        alerts: Callable[[], AlertsStanding],
        selections: Mapping[str, Selections],
        bookings: Bookings,
        clock: Clock,
    ) -> None:
        self._alerts = alerts
        self._selections = selections
        self._bookings = bookings
        self._clock = clock
        self._reading = threading.Lock()
        self._latest = WaitingForPeople()
        self._read_s = self._bookings_read_s = float("-inf")
        self._booked: list[WaitingApproval] = []

    async def follow(self) -> None:
        while True:
            await asyncio.to_thread(self.now)
            await asyncio.sleep(EVERY_S)

    def now(self) -> WaitingForPeople:
        """Returns what waits as of `EVERY_S` ago at most; blocks. What can't be read now stays as it was read last."""
        with self._reading:
            now_s = self._clock.monotonic_s()
            if now_s - self._read_s >= EVERY_S:
                self._read_s = now_s
                self._latest = WaitingForPeople(self._alerts(), self._read_approvals(now_s))
            return self._latest

    def badges_for(self, user: User) -> Mapping[str, Badge]:
        """Returns the numbers beside a user's links by the link's path, as read last; never blocks."""
        latest = self._latest
        firing, waiting = len(latest.alerts_for(user)), len(latest.approvals_for(user))
        parts = [
            *([f"{firing} alert{'' if firing == 1 else 's'} firing"] if firing else []),
            *([f"{waiting} approval{'' if waiting == 1 else 's'} waiting"] if waiting else []),
        ]
        page = PAGE if user.may(Role.VIEWER) else FINANCE_PAGE
        return {page: Badge(firing + waiting, ", ".join(parts))} if parts else {}

    def _read_approvals(self, now_s: float) -> Sequence[WaitingApproval]:
        try:
            runs = [
                _run_approval(name, kept_run)
                for name, kept in self._selections.items()
                for kept_run in kept.proposals()
            ]
            if now_s - self._bookings_read_s >= BOOKINGS_EVERY_S:
                bookings = [
                    (mode, booking) for mode, service in self._bookings.items() for booking in service.proposals()
                ]
                self._booked = [_booking_approval(mode, booking) for mode, booking in bookings if booking.waits]
                self._bookings_read_s = now_s
        except (PayhookError, DeltaError, OSError) as unread:
            log.warning("what waits for an approval can't be read: %s", unread)
            return self._latest.approvals
        return sorted([*runs, *self._booked], key=lambda approval: approval.at)


def _run_approval(stream: str, kept: KeptSelection) -> WaitingApproval:
    selection, run = kept.selection, kept.run
    assert run is not None
    return WaitingApproval(
        kind="selection",
        name=selection.name,
        stream=stream,
        action=run.run.action,
        actor=run.actor,
        reason=run.run.reason,
        at=run.started_at,
        count=selection.count,
        amounts=selection.amounts,
        page=f"/dlq/selections/{selection.number}?stream={stream}",
    )


def _booking_approval(mode: str, proposed: ReadProposal) -> WaitingApproval:
    command = proposed.command
    debits = (
        [posting.money for posting in command.entry.postings if posting.side == "debit"]
        if command.entry is not None
        else []
    )
    amounts = {
        currency: sum(money.amount_minor for money in debits if money.currency == currency)
        for currency in sorted({money.currency for money in debits})
    }
    return WaitingApproval(
        kind="booking",
        name=command.command_id,
        stream=command.stream,
        action=command.action,
        actor=command.actor,
        reason=command.reason,
        at=command.at,
        count=1 if command.entry is not None else len(command.targets),
        amounts=amounts,
        page=f"/ledger/reversals?mode={mode}",
    )
