"""A line holds one entity's open events in order, what holds them back, and what becomes of each in a batch.

Two pure steps. `line_up` says which of an entity's events may run now, and in which order. `decide_line` gives each
event its row, once handlers have answered. Neither looks anything up, and neither knows of another line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.decision import Decision, ErrorKind
from core.work import Held, Outcome, PreviousEvent
from journal.open_item import DELAYED, ClosedHead, OpenItem
from processor.decide.item import (
    BEHIND,
    BatchItem,
    block_item,
    choose_retry_policy,
    dead_letter_item,
    explain_wait,
    fail_item,
    finish_item,
    park_item,
    reject_duplicate_fact,
    reopen_item,
)
from processor.errors.classify import Failure, catch_event_error
from processor.rules import StreamRules
from processor.settings import RETRIED_KINDS, DeadHead


@dataclass(slots=True)
class LineUp:
    """The waiting events of one entity, sorted for one batch.

    ``run`` may be tried, in this order. ``holder`` is the first that may not: later ones wait behind it. ``behind`` are
    due, but it isn't their turn. ``beyond``: more wait than one batch takes, from here on.
    """

    run: list[OpenItem] = field(default_factory=list)
    holder: OpenItem | None = None
    behind: list[OpenItem] = field(default_factory=list)
    beyond: OpenItem | None = None

    @property
    def count(self) -> int:
        return len(self.run) + len(self.behind)

    @property
    def size(self) -> int:
        return sum(len(waiting.body) for waiting in (*self.run, *self.behind))


def line_up(
    queue: Iterable[OpenItem],
    due: Sequence[OpenItem],
    now: datetime,
    drain_max: int,
    *,
    bytes_max: float = math.inf,
) -> LineUp:
    """Sorts the events that hold later ones back (``queue``, head first) and those that don't but are due.

    No event runs early unless ``due`` names it: one that isn't due yet holds those behind it, even due ones.

    :param queue: read as far as it is needed
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
    if line.holder is not None and _may_run(line.holder, now, called):
        line.beyond = line.holder
    _place_due(line, due)
    line.run.sort(key=lambda waiting: waiting.row.item_seq)
    return line


def is_dead(item: OpenItem) -> bool:
    return item.row.decision is Decision.DEAD


def _may_run(waiting: OpenItem, now: datetime, called: set[int]) -> bool:
    if is_dead(waiting):
        return False
    return waiting.row.due_at is None or waiting.row.due_at <= now or waiting.row.item_seq in called


def _place_due(line: LineUp, due: Sequence[OpenItem]) -> None:
    placed = {waiting.row.item_seq for waiting in line.run}
    holder = line.holder
    for waiting in due:
        seq = waiting.row.item_seq
        if seq in placed or (holder is not None and seq == holder.row.item_seq):
            continue
        if holder is None or seq < holder.row.item_seq:
            line.run.append(waiting)
        else:
            line.behind.append(waiting)


@dataclass(slots=True)
class Line:
    """An entity's events in one batch. ``items`` may run, in Kafka's order; ``settled`` are decided without a
    handler.

    ``holder`` is the first waiting event that may not run: newcomers go behind it. ``beyond``: of those that the batch
    doesn't take, the one to be handled next. ``died`` is the first event of the entity that died and was passed over,
    with its item; ``applied_upto`` the last one that was applied past others; ``closed_heads`` are events that held
    back the entity until a person closed them. ``delays``: an event of the batch waits until its delay is over.
    """

    rules: StreamRules
    holder: OpenItem | None = None
    beyond: OpenItem | None = None
    died: tuple[int, PreviousEvent] | None = None
    applied_upto: int = 0
    closed_heads: Sequence[ClosedHead] = ()
    delays: bool = False
    items: list[BatchItem] = field(default_factory=list)
    settled: list[BatchItem] = field(default_factory=list)

    def take_up(self, item: BatchItem) -> None:
        self._note_passed(item)
        self._append_item(item)
        if item.previous is None:
            item.previous = next((head.as_previous() for head in self.closed_heads if head.held_back(item.seq)), None)

    def park_rest(self, line: LineUp) -> None:
        for item in map(reopen_item, line.behind):
            self._note_passed(item)
            park_item(item, BEHIND if line.holder is None else explain_wait(line.holder.row))
            self.settled.append(item)

    def _note_passed(self, item: BatchItem) -> None:
        """Notes in the row that a later event was applied before it; the index forgets that once it is a holder."""
        item.row.out_of_order |= self.applied_upto > item.seq

    def add_arrival(self, item: BatchItem, now: datetime) -> None:
        due_at = self._due_at(item, now)
        if self.holder is None and due_at is None and not self.delays:
            self._append_item(item)
            return
        self.delays = self.delays or due_at is not None
        park_item(item, DELAYED if self.holder is None else explain_wait(self.holder.row), due_at)
        self.settled.append(item)

    def _due_at(self, item: BatchItem, now: datetime) -> datetime | None:
        if not self.rules.delay or item.row.received_at is None:
            return None
        due_at = min(item.row.received_at, now) + self.rules.delay
        return due_at if due_at > now else None

    def _append_item(self, item: BatchItem) -> None:
        if self.died is not None and self.died[0] < item.seq:
            item.previous = self.died[1]
        if item.condemned is not None and (self.died is None or item.seq < self.died[0]):
            dead = PreviousEvent(item.row.event_key or "", Decision.DEAD.value, self.rules.config.retry.default)
            self.died = item.seq, dead
        self.items.append(item)

    def select_runnable(self) -> Iterator[BatchItem]:
        for item in self.items:
            if item.condemned is not None and self.rules.config.dead_head is DeadHead.WAIT:
                return
            if item.known_fact is None and item.condemned is None:
                yield item


def list_last_try(item: BatchItem, rules: StreamRules) -> tuple[ErrorKind, ...]:
    return tuple(kind for kind in RETRIED_KINDS if _is_last_try(item, rules, kind))


def _is_last_try(item: BatchItem, rules: StreamRules, kind: ErrorKind) -> bool:
    policy = choose_retry_policy(item, rules, kind)
    return policy.tries is not None and item.row.attempt >= policy.tries


@dataclass(frozen=True, slots=True)
class Answers:
    """The handlers' answers by item, and what holds in the whole batch. An event without an answer wasn't tried.

    ``blocked_by``: why the whole stream is blocked, if it is.
    """

    by_item: Mapping[int, Outcome | Failure]
    handler_version: str
    now: datetime
    blocked_by: str | None = None

    @property
    def not_tried_because(self) -> str:
        if self.blocked_by is None:
            return "the batch's deadline passed before its turn"
        return f"the stream is blocked: {self.blocked_by}"


def decide_line(line: Line, answers: Answers) -> list[BatchItem]:
    decided, head, dead = list(line.settled), None, None
    for item in line.items:
        if head is None:
            head = item if _decide_item(item, answers, line.rules, dead) else None
            dead = item if item.row.decision is Decision.DEAD else dead
        elif item.is_new:
            park_item(item, explain_wait(head.row))
        else:
            continue
        decided.append(item)
    if head is None:
        decided += _wake_next(line.beyond, answers.now)
    return decided


def _wake_next(waiting: OpenItem | None, now: datetime) -> list[BatchItem]:
    if waiting is None or waiting.row.due_at is not None or is_dead(waiting):
        return []
    following = reopen_item(waiting)
    park_item(following, waiting.row.reason or BEHIND, now)
    return [following]


def _decide_item(item: BatchItem, answers: Answers, rules: StreamRules, dead: BatchItem | None) -> bool:
    failed = catch_event_error(_fill_in, item, answers, rules)
    if failed is not None:
        item.row.handler_version = answers.handler_version
        dead_letter_item(item, failed, blocking=rules.config.dead_head is DeadHead.WAIT)
    answer = answers.by_item.get(item.seq)
    if item.row.decision is Decision.DEAD and isinstance(answer, Failure) and answer.previous_dead:
        _name_cause(item, dead)
    return item.row.blocking


def _name_cause(item: BatchItem, dead: BatchItem | None) -> None:
    if dead is not None:
        item.cause = dead
    elif item.previous is not None:
        item.row.cause_seq = item.previous.seq


def _fill_in(item: BatchItem, answers: Answers, rules: StreamRules) -> None:
    if item.known_fact is not None:
        reject_duplicate_fact(item, item.known_fact)
        return
    if item.condemned is not None:
        item.row.retry_policy = rules.config.retry.default
        dead_letter_item(item, item.condemned, blocking=rules.config.dead_head is DeadHead.WAIT)
        return
    answer, now = answers.by_item.get(item.seq), answers.now
    if answer is None:
        park_item(item, answers.not_tried_because, now)
    elif isinstance(answer, Failure) and answer.is_blocking:
        block_item(item, answer, now)
    elif isinstance(answer, Held):
        park_item(item, f"{answer.downstream} {answer.reason}", now + timedelta(seconds=answer.retry_after_s))
    elif isinstance(answer, Failure):
        item.row.handler_version = answers.handler_version
        fail_item(item, answer, rules, now)
    else:
        finish_item(item, answer, answers.handler_version)
