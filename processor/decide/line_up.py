"""Step 3 for events that wait: which of an entity's may run now, in which order, and what holds back the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import Decision
from journal.open_item import OpenItem


@dataclass(slots=True)
class LineUp:
    """One entity's waiting events.

    ``run`` may be tried, in this order. ``holder`` is the first that may not: later ones wait behind it. ``doomed`` die
    with it. ``behind`` are due, but it isn't their turn. ``beyond``: more wait than one batch takes, from here on.
    """

    run: list[OpenItem] = field(default_factory=list)
    holder: OpenItem | None = None
    doomed: list[OpenItem] = field(default_factory=list)
    behind: list[OpenItem] = field(default_factory=list)
    beyond: OpenItem | None = None

    @property
    def count(self) -> int:
        """Events that are taken up."""
        return len(self.run) + len(self.doomed) + len(self.behind)

    @property
    def size(self) -> int:
        """Bytes of their bodies."""
        return sum(len(waiting.body) for waiting in (*self.run, *self.doomed, *self.behind))


def line_up(
    queue: Iterator[OpenItem],
    due: Sequence[OpenItem],
    now: datetime,
    drain_max: int,
    *,
    die_with_it: bool,
    bytes_max: float = math.inf,
) -> LineUp:
    """Lines up what holds later ones back (``queue``, head first) and what doesn't but is due.

    Never early, unless ``due`` names it: an event with a time of its own that hasn't come holds those behind it,
    whoever was before it.

    :param drain_max: most events of the queue
    :param bytes_max: after bodies of so many bytes no other event of the queue runs
    """
    line = LineUp()
    size = 0
    called = {waiting.row.item_seq for waiting in due}
    for waiting in queue:
        if len(line.run) == drain_max or (line.run and size >= bytes_max) or not _may_run(waiting, now, called):
            line.holder = waiting
            break
        line.run.append(waiting)
        size += len(waiting.body)
    if line.holder is not None:
        if die_with_it and is_dead(line.holder):
            _doom(line, queue, called, drain_max)
        elif _may_run(line.holder, now, called):
            line.beyond = line.holder
    _place_due(line, due, die_with_it=die_with_it)
    line.run.sort(key=lambda waiting: waiting.row.item_seq)
    return line


def is_dead(item: OpenItem) -> bool:
    return item.row.decision is Decision.DEAD


def _may_run(waiting: OpenItem, now: datetime, called: set[int]) -> bool:
    if is_dead(waiting):
        return False
    return waiting.row.due_at is None or waiting.row.due_at <= now or waiting.row.item_seq in called


def _doom(line: LineUp, followers: Iterator[OpenItem], due: set[int], drain_max: int) -> None:
    """The first of those that wait behind the dead holder; ``due`` are placed in any case."""
    for waiting in followers:
        if is_dead(waiting) or waiting.row.item_seq in due:
            continue
        if len(line.doomed) == drain_max:
            line.beyond = waiting
            return
        line.doomed.append(waiting)


def _place_due(line: LineUp, due: Sequence[OpenItem], *, die_with_it: bool) -> None:
    """What is due and isn't placed yet: before the holder it runs, behind it it waits its turn or dies with it."""
    placed = {waiting.row.item_seq for waiting in (*line.run, *line.doomed)}
    holder = line.holder
    for waiting in due:
        seq = waiting.row.item_seq
        if seq in placed or (holder is not None and seq == holder.row.item_seq):
            continue
        if holder is None or seq < holder.row.item_seq:
            line.run.append(waiting)
        elif die_with_it and is_dead(holder):
            line.doomed.append(waiting)
        else:
            line.behind.append(waiting)
