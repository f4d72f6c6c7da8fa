"""Holds an event of a batch, and fills in its journal row once it is known what becomes of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.decision import Decision, ErrorKind
from core.work import Applied, Ignored, PreviousEvent, PreviousEventDead, Unknown, postings_to_json
from journal.open_item import CONFLICT_CLASS, FACT_CONFLICT_CLASS, OpenItem
from journal.schema import JournalRow
from operations.refusals import ItemRefusal
from processor.errors.classify import MESSAGE_CHARS_MAX, Failure, make_engine_failure
from processor.errors.retry import RetryPolicy, choose_policy
from processor.rules import StreamRules
from processor.settings import DeadHead
from processor.source.records import EarlyAnswer

POISON_CLASS = "Poison"
PREVIOUS_DEAD_CLASS = PreviousEventDead.__name__
REASON_CHARS_MAX = 500
BEHIND = "behind an earlier event of its entity"
"""That one failed, and is tried again or dead."""
BEHIND_WAITING = f"{BEHIND}, which waits"
"""That one couldn't be tried: its followers wait for the same."""


@dataclass(frozen=True, slots=True)
class Booked(Applied):
    text: str | None = None


@dataclass(slots=True)
class BatchItem:
    """An event in this batch. ``row`` is filled in as things are decided and becomes its journal row.

    ``waiting`` is the open item that is handled again; new events and a command's doings have none. ``refused`` is why
    a record is no event of this stream, or is poison. ``known_fact``: its fact was taken before, with that hash
    (`Index.known_fact`). ``condemned`` is why it is dead-lettered without another try. ``cause`` is the item of this
    batch whose row caused this one's. ``previous`` is for the handler (`core.work.WorkItem`).
    ``early``: what it answered in the map stage. ``refusals``: of a command, why nothing happens to some of its items.
    """

    row: JournalRow
    body: bytes
    waiting: OpenItem | None = None
    refused: Failure | None = None
    known_fact: bytes | None = None
    condemned: Failure | None = None
    cause: BatchItem | None = None
    previous: PreviousEvent | None = None
    early: EarlyAnswer | None = None
    refusals: list[ItemRefusal] = field(default_factory=list)

    @property
    def seq(self) -> int:
        return self.row.item_seq

    @property
    def is_new(self) -> bool:
        return self.row.first

    @property
    def is_suspect(self) -> bool:
        return self.waiting is not None and is_suspect(self.waiting.row)

    @property
    def has_died(self) -> bool:
        return self.waiting is not None and self.waiting.died

    @property
    def last_error_kind(self) -> ErrorKind | None:
        return None if self.waiting is None else self.waiting.row.error_kind

    @property
    def headers(self) -> str | None:
        return self.row.headers if self.waiting is None else self.waiting.row.headers

    @property
    def goes_on_waiting(self) -> bool:
        """Returns whether nothing changes for the event but its due time: that takes no row."""
        if self.waiting is None or self.row.decision is not Decision.PARKED or self.row.due_at is None:
            return False
        before, after = self.waiting.row, self.row
        return (
            before.decision in (Decision.PARKED, Decision.RETRY)
            and before.due_at is not None
            and (before.blocking, before.out_of_order) == (after.blocking, after.out_of_order)
            and is_suspect(before) == is_suspect(after)
        )

    @property
    def answer(self) -> Booked | Ignored | None:
        if self.early is None or self.previous is not None or self.has_died:
            return None
        early = self.early
        if early.ignored_because is not None:
            return Ignored(early.ignored_because)
        return Booked(pair=early.pair, undoes=early.undoes, text=early.postings)


def reopen_item(waiting: OpenItem) -> BatchItem:
    """Makes a waiting event an item of this batch: it keeps its identities and loses its last decision.

    One that failed before keeps its retry policy.
    """
    row = copy.copy(waiting.row)
    row.seq = 0
    row.first = False
    row.due_at = row.reason = row.cause_seq = row.actor = None
    row.retry_policy = row.retry_policy if row.attempt > 0 else None
    row.error_class = row.error_code = row.error_message = row.error_stack = row.error_kind = None
    row.log_lines = row.handler_version = row.postings = row.headers = None
    return BatchItem(row, waiting.body, waiting)


def is_suspect(row: JournalRow) -> bool:
    """Returns whether the last try of an open event failed as if the whole stream were blocked."""
    return row.error_kind is ErrorKind.SBE


def is_rescheduled(row: JournalRow) -> bool:
    """Returns whether the last try of an open event gave it a later time: it failed by its own fault, or it was
    held."""
    held = row.decision is Decision.PARKED and row.due_at is not None and row.due_at > row.decided_at
    return held or row.decision is Decision.RETRY


def explain_wait(head: JournalRow) -> str:
    could_not_be_tried = head.decision is Decision.PARKED and head.attempt == 0 and head.reason != BEHIND
    return BEHIND_WAITING if could_not_be_tried else BEHIND


def has_followed_failing(row: JournalRow) -> bool:
    """Returns whether a waiting event's last row says that it waits for an earlier one that failed, even if that one is
    closed now.
    """
    return row.decision is Decision.PARKED and (row.reason == BEHIND or row.cause_seq is not None)


def make_conflict_failure(event_key: str, same: bool | Failure) -> Failure:
    """Makes the failure of an event whose key another one holds, with other content or with content that can't be
    compared.

    ``same`` is the comparison's failure then. The key stays with the first event that had it.
    """
    if not isinstance(same, Failure):
        return make_engine_failure(
            CONFLICT_CLASS,
            f"{event_key} was received before with other content. Compare both bodies, ask the provider which one "
            "holds. If the first was booked, it stays booked: discard this one. If it is dead, discard the wrong one "
            "of the two; this one can be replayed then.",
        )
    text = (
        f"{event_key} was received before, and whether this copy says the same can't be found out: {same.error_class}: "
        f"{same.message}. Fix that, then compare both bodies: discard this one if they say the same; if they don't, "
        "ask the provider which one is right."
    )
    return replace(same, error_class=CONFLICT_CLASS, error_code=same.error_class, message=text[:MESSAGE_CHARS_MAX])


def finish_item(item: BatchItem, outcome: Applied | Ignored | Unknown, handler_version: str) -> None:
    row = item.row
    row.handler_version = handler_version
    row.blocking = False
    if isinstance(outcome, Applied):
        row.decision = Decision.APPLIED
        row.postings = outcome.text if isinstance(outcome, Booked) else postings_to_json(outcome.postings)
    elif isinstance(outcome, Unknown):
        row.decision, row.error_code, row.reason = Decision.UNKNOWN, outcome.code, outcome.reason
    else:
        row.decision, row.reason = Decision.IGNORED, outcome.reason


def settle_item(item: BatchItem, decision: Decision, reason: str) -> None:
    item.row.decision = decision
    item.row.reason = reason
    item.row.blocking = False


def park_item(item: BatchItem, reason: str, due_at: datetime | None = None) -> None:
    row = item.row
    row.decision = Decision.PARKED
    row.reason = reason[:REASON_CHARS_MAX]
    row.due_at = due_at
    row.blocking = True
    row.error_kind = ErrorKind.SBE if item.is_suspect else None


def block_item(item: BatchItem, failure: Failure, due_at: datetime) -> None:
    """Parks an event that failed as if the whole stream were blocked; it spends no attempt."""
    park_item(item, "", due_at)
    _record_failure(item, failure)
    item.row.reason = f"the stream is blocked: {item.row.reason}"[:REASON_CHARS_MAX]


def dead_letter_item(item: BatchItem, failure: Failure, *, blocking: bool) -> None:
    _record_failure(item, failure)
    item.row.decision = Decision.DEAD
    item.row.blocking = blocking


def reject_duplicate_fact(item: BatchItem, fact8: bytes) -> None:
    """Rejects an event whose fact was applied under another event key: as a duplicate, or as a conflict where the two
    reports differ."""
    row = item.row
    own_fact8 = bytes.fromhex(row.fact_sha256 or "")[:8]
    if not own_fact8 or not fact8 or own_fact8 == fact8:
        settle_item(item, Decision.DUPLICATE_FACT, f"{row.fact_key} was applied under another event key")
        return
    text = (
        f"{row.fact_key} was applied with another amount, currency or account under another event key. "
        "Ask the provider which report is right. If it is this one, reverse the booking, book this one by hand "
        "(payhook ledger enter) and resolve it: a replay dies again."
    )
    dead_letter_item(item, make_engine_failure(FACT_CONFLICT_CLASS, text), blocking=False)


def fail_item(item: BatchItem, failure: Failure, rules: StreamRules, now: datetime) -> None:
    """Records a failed try: as a retry with its due time, or as death when the error or the policy says so.

    An event that misses a predecessor holds nothing back: the predecessor may be one of its followers. Neither does one
    that dies because an earlier event did.

    A first failure of a kind takes the policy of the rules; a later one keeps the event's own. Tries of all kinds count
    together. `journal.index.Index.find_due` takes the retry up; docs/processor.md, "A retry is late", says what holds
    it for longer, and where.
    """
    row = item.row
    policy = choose_retry_policy(item, rules, failure.kind)
    retry = row.attempt + 1
    delay_s = None if failure.kind is ErrorKind.NRE else policy.delay_s(retry, rules.jitter)
    row.retry_policy = policy.text
    if delay_s is None:
        beside = failure.missing_predecessor or failure.previous_dead
        dead_letter_item(item, failure, blocking=rules.config.dead_head is DeadHead.WAIT and not beside)
        return
    _record_failure(item, failure)
    row.decision = Decision.RETRY
    row.attempt = retry
    row.due_at = now + timedelta(seconds=max(delay_s, failure.retry_after_s or 0.0))
    row.blocking = not failure.missing_predecessor


def choose_retry_policy(item: BatchItem, rules: StreamRules, kind: ErrorKind) -> RetryPolicy:
    alone = {ErrorKind.SBE: ErrorKind.SNBE}
    before = item.last_error_kind
    kind = alone.get(kind, kind)
    is_same = before is None or alone.get(before, before) is kind
    return choose_policy(item.row.retry_policy if is_same else None, rules.config.retry.policies[kind])


def _record_failure(item: BatchItem, failure: Failure) -> None:
    row = item.row
    row.error_class, row.error_code = failure.error_class, failure.error_code
    row.error_message, row.error_stack = failure.message, failure.stack
    row.error_kind, row.log_lines = failure.kind, failure.log_lines
    row.reason = f"{failure.error_class}: {failure.message}"[:REASON_CHARS_MAX]
