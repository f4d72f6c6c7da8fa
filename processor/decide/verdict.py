"""How an item's journal row is filled in once it is known what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.decision import Decision, ErrorKind
from core.work import Applied, Ignored, postings_to_json
from journal.open_item import CONFLICT_CLASS, FACT_CONFLICT_CLASS
from journal.schema import JournalRow
from processor.decide.intake import Item
from processor.judge.classify import Failure
from processor.judge.retry import RetryPolicy, policy_for
from processor.settings import DeadHead

__all__ = [
    "CONFLICT_CLASS",
    "FACT_CONFLICT_CLASS",
    "HEAD_DEAD_CLASS",
    "POISON_CLASS",
    "Booked",
    "block",
    "die",
    "die_with",
    "duplicate",
    "fail",
    "finish",
    "ignore",
    "park",
]

POISON_CLASS = "Poison"
HEAD_DEAD_CLASS = "HeadDead"


@dataclass(frozen=True, slots=True)
class Booked(Applied):
    """`Applied`, with its booking as the journal keeps it."""

    text: str | None = None


def finish(item: Item, outcome: Applied | Ignored, handler_version: str) -> None:
    """The handler answered."""
    row = item.row
    row.handler_version = handler_version
    row.blocking = False
    if isinstance(outcome, Applied):
        row.decision = Decision.APPLIED
        row.postings = outcome.text if isinstance(outcome, Booked) else postings_to_json(outcome.postings)
    else:
        row.decision = Decision.IGNORED
        row.reason = outcome.reason


def duplicate(item: Item, decision: Decision, reason: str) -> None:
    """The event or its fact is held already: `duplicate` or `duplicate_fact`."""
    item.row.decision = decision
    item.row.reason = reason
    item.row.blocking = False


def ignore(item: Item, reason: str) -> None:
    """Of no effect, and no handler was asked."""
    item.row.decision = Decision.IGNORED
    item.row.reason = reason
    item.row.blocking = False


def park(item: Item, reason: str, due_at: datetime | None = None) -> None:
    """Waits behind its entity's head, or until ``due_at`` where it is the head itself."""
    item.row.decision = Decision.PARKED
    item.row.reason = reason
    item.row.due_at = due_at
    item.row.blocking = True
    item.row.error_kind = ErrorKind.SBE if item.suspect else None


def block(item: Item, failure: Failure, due_at: datetime) -> None:
    """It failed as if the whole stream were blocked: it waits, and no attempt is spent."""
    park(item, "", due_at)
    _record(item, failure)
    item.row.reason = f"the stream is blocked: {item.row.reason}"[:500]


def die(item: Item, failure: Failure, *, blocking: bool) -> None:
    """No further try: a person decides."""
    _record(item, failure)
    item.row.decision = Decision.DEAD
    item.row.blocking = blocking


def die_with(item: Item, head: JournalRow) -> None:
    """Its entity's head is dead, and this stream's followers die with theirs. It holds back nobody: the head does."""
    text = (
        f"{head.event_key}, an earlier event of its entity, is dead, and followers die with their head here. Replay "
        "that one first, then this one."
    )
    die(item, Failure(ErrorKind.NRE, HEAD_DEAD_CLASS, None, text, stack=""), blocking=False)


def fail(
    item: Item,
    failure: Failure,
    policy: RetryPolicy,
    dead_head: DeadHead,
    now: datetime,
    random: Callable[[], float],
) -> None:
    """A try failed: a retry with its due time, or death when the error or the policy says so.

    What misses a predecessor holds nobody back: that may be one of its followers. ``policy`` is for events that fail
    for the first time; one that failed before goes on with its own.
    """
    policy = policy_for(item.row.retry_policy, policy)
    retry = item.row.attempt + 1
    delay_s = None if failure.kind is ErrorKind.NRE else policy.delay_s(retry, random)
    item.row.retry_policy = policy.text
    if delay_s is None:
        die(item, failure, blocking=dead_head is not DeadHead.CONTINUE and not failure.missing_predecessor)
        return
    _record(item, failure)
    item.row.decision = Decision.RETRY
    item.row.attempt = retry
    item.row.due_at = now + timedelta(seconds=max(delay_s, failure.retry_after_s or 0.0))
    item.row.blocking = not failure.missing_predecessor


def _record(item: Item, failure: Failure) -> None:
    row = item.row
    row.error_class, row.error_code = failure.error_class, failure.error_code
    row.error_message, row.error_stack = failure.message, failure.stack
    row.error_kind, row.log_lines = failure.kind, failure.log_lines
    row.reason = f"{failure.error_class}: {failure.message}"[:500]
