"""Everything that is known of one item: what an operator needs before deciding about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.decision import Decision, ErrorKind
from core.errors import PayhookError
from dlq.index.item import Item
from dlq.index.payload import Payload
from journal.schema import JournalRow

ACTED = frozenset({Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED, Decision.REVERSED})


class ItemUnknown(PayhookError):
    """No journal row has this item's number."""

    def __init__(self, item_seq: int) -> None:
        self.item_seq = item_seq
        super().__init__(f"there is no item {item_seq}; `payhook dlq list` shows the open ones")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try, with how it ended. ``number`` counts all of them from 1; the error's fields are None where it went well.

    ``log_lines``: the last lines that were logged during it.
    """

    number: int
    seq: int
    at: datetime
    decision: Decision
    kind: ErrorKind | None
    error_class: str | None
    error_code: str | None
    message: str | None
    stack: str | None
    log_lines: str | None
    handler_version: str | None


@dataclass(frozen=True, slots=True)
class Act:
    """What a person did to the item. ``cause_seq``: the row of the command that did it."""

    seq: int
    at: datetime
    decision: Decision
    actor: str | None
    reason: str | None
    cause_seq: int | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another event of the same entity, with what was decided of it last."""

    item_seq: int
    seq: int
    event_key: str | None
    event_type: str | None
    occurred_at: datetime | None
    received_at: datetime | None
    decided_at: datetime
    decision: Decision
    reason: str | None
    out_of_order: bool


@dataclass(frozen=True, slots=True)
class ItemStory:
    """One item with its whole context. Its JSON has the same fields, but for the payload (`console.as_json.story`).

    ``item``: where it stands. ``rows``: every decision, oldest first (``rows_cut``: the first and the last of more).
    ``headers``: as they were received. ``before``, ``after``: events of its entity around it, in Kafka's order.
    ``held``: the first of the ``held_total`` that wait or died because of it. ``alike``: earlier ones with its
    fingerprint, the latest of ``alike_total``.
    """

    stream: str
    item: Item
    rows: tuple[JournalRow, ...]
    rows_cut: bool
    attempts: tuple[Attempt, ...]
    acts: tuple[Act, ...]
    headers: dict[str, str]
    payload: Payload
    before: tuple[Neighbour, ...]
    after: tuple[Neighbour, ...]
    held: tuple[Item, ...]
    held_total: int
    alike: tuple[Item, ...]
    alike_total: int

    @property
    def first(self) -> JournalRow:
        return self.rows[0]

    @property
    def last(self) -> JournalRow:
        return self.rows[-1]

    @property
    def died_of(self) -> Attempt | None:
        """The latest try that failed: its class, message, stack and log lines are what the item died of."""
        return next((one for one in reversed(self.attempts) if one.error_class is not None), None)


def attempts_of(rows: Sequence[JournalRow]) -> tuple[Attempt, ...]:
    """The rows that tell of a try: it failed, or a handler answered."""
    tried = [row for row in rows if row.error_class is not None or row.handler_version is not None]
    tried = [row for row in tried if row.decision not in ACTED]
    return tuple(
        Attempt(
            number=number,
            seq=row.seq,
            at=row.decided_at,
            decision=row.decision,
            kind=row.error_kind,
            error_class=row.error_class,
            error_code=row.error_code,
            message=row.error_message,
            stack=row.error_stack or None,
            log_lines=row.log_lines,
            handler_version=row.handler_version,
        )
        for number, row in enumerate(tried, 1)
    )


def acts_of(rows: Sequence[JournalRow]) -> tuple[Act, ...]:
    """What people did, oldest first."""
    return tuple(
        Act(row.seq, row.decided_at, row.decision, row.actor, row.reason, row.cause_seq)
        for row in rows
        if row.decision in ACTED
    )


def headers_of(first: JournalRow) -> dict[str, str]:
    """The record's headers as they were received."""
    headers = json.loads(first.headers) if first.headers else {}
    return {str(name): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
