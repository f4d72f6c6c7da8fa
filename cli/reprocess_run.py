"""Sends the commands of ``payhook ledger reprocess``, one after the other, and watches what becomes of their events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cli.acting import orders, this_account
from cli.ledger_tables import looking
from cli.place import Place
from core.clock import Clock, SystemClock
from core.decision import OPEN_DECISIONS, Decision
from core.routing import topics_of
from dlq.commands import REPROCESS_MAX, SPREAD_S_MAX, Target, propose_reprocess, reprocess
from dlq.orders import DeltaView
from journal.schema import JournalRow
from ledger.reprocess import Forecast

SPAN_SEQS_MAX = 250_000
"""From a command's first event to its last: the processor reads their rows again while its stream waits, and rows lie
by their seq."""

DECIDED_S_MAX = 60.0
SETTLED_S_MAX = 90.0
"""Beside the time that a rate takes: a retry or two."""
LOOK_S = 0.5

WELL = frozenset({Decision.APPLIED, Decision.DUPLICATE_FACT})
"""Its movement is booked, by it or by another event that reported the same one."""


@dataclass(slots=True)
class Ran:
    """``commands``: each command's id and what was decided of it, None: not decided yet. ``rows``: the last row of each
    item that was named, as far as it was waited for."""

    commands: dict[str, str | None] = field(default_factory=dict)
    rows: dict[int, JournalRow] = field(default_factory=dict)
    waited: bool = False

    @property
    def is_well(self) -> bool:
        return not self.waited or all(row.decision in WELL for row in self.rows.values())


def run(
    place: Place,
    books: Sequence[Forecast],
    reason: str,
    per_s: float | None,
    *,
    what: str,
    wait: bool,
    propose: bool = False,
) -> Ran:
    """Gives one command after the other: a next one only when the processor has decided the one before.

    ``propose``: each is a proposal, and nothing becomes of the events yet.

    :raises CommandNotSent: Kafka didn't acknowledge one; those before it are on their way
    :raises AuditLogUnwritable: it can't be put on record
    """
    clock, ran = SystemClock(), Ran(waited=wait and not propose)
    topic = topics_of(place.mode).control
    view = DeltaView(place.ledger.journal, topic)
    lineage = view.lineage()
    interval_us = 0 if per_s is None else round(1_000_000 / per_s)
    name, order = ("propose_reprocess", propose_reprocess) if propose else ("reprocess", reprocess)
    giving = orders(place).giving(this_account(), name, f"{place.mode} {what}", reason)
    with giving as act, looking("the processor decides"):
        wanted = [Target.of(one.row) for one in books]
        for number, targets in enumerate(commands_of(wanted, interval_us)):
            if number and not propose:
                time.sleep(at_once_of(interval_us) * interval_us / 1_000_000)
            command = order(
                place.ledger.stream, lineage, targets, this_account(), reason, clock.now(), interval_us=interval_us
            )
            act.send(command)
            decided = _decided(view, command.command_id, clock) if wait else None
            ran.commands[command.command_id] = (decided.reason or decided.decision.value) if decided else None
            if wait and decided is None:
                break
    if ran.waited:
        ran.rows = _settled(view, [one.row.item_seq for one in books], clock)
    return ran


def commands_of(targets: Sequence[Target], interval_us: int) -> Iterator[list[Target]]:
    """What goes into one command each: neighbours in the journal, and no more than are due within a command's time."""
    at_once = at_once_of(interval_us)
    some: list[Target] = []
    for target in sorted(targets, key=lambda one: one.seen_seq):
        if some and (len(some) == at_once or target.seen_seq - some[0].seen_seq >= SPAN_SEQS_MAX):
            yield some
            some = []
        some.append(target)
    if some:
        yield some


def at_once_of(interval_us: int) -> int:
    """Events of one command at a rate."""
    return min(REPROCESS_MAX, int(SPREAD_S_MAX * 1_000_000 // interval_us) + 1) if interval_us else REPROCESS_MAX


def _decided(view: DeltaView, command_id: str, clock: Clock) -> JournalRow | None:
    until = clock.monotonic() + DECIDED_S_MAX
    while (row := view.command_row(command_id)) is None and clock.monotonic() < until:
        time.sleep(LOOK_S)
    return row


def _settled(view: DeltaView, items: Sequence[int], clock: Clock) -> dict[int, JournalRow]:
    """The items' last rows, once none of them is open; after a while as they are."""
    until = clock.monotonic() + SETTLED_S_MAX
    rows = view.last_rows(items)
    while any(row.decision in OPEN_DECISIONS and not _is_dead(row) for row in rows.values()):
        if clock.monotonic() >= until:
            break
        time.sleep(LOOK_S)
        rows = view.last_rows(items)
    return rows


def _is_dead(row: JournalRow) -> bool:
    return row.decision is Decision.DEAD
