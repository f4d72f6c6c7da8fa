"""The API's refusals: as problem details, and as its description names them."""

from __future__ import annotations

from typing import Any

from console.bookings import AnotherPersonWanted
from core.errors import PayhookError
from dlq.audit_log import AuditLogUnwritable
from dlq.commands import CommandInvalid, CommandNotSent
from dlq.index import DeadLetterIndexUnreadable, FilterInvalid, ItemUnknown, OriginUnreadable
from dlq.selection import (
    RunRefused,
    SecondPersonWanted,
    SelectionBroken,
    SelectionEmpty,
    SelectionsFull,
    SelectionTooLarge,
    SelectionUnknown,
)
from ingest.idempotency import Problem
from journal.errors import JournalBroken
from ledger.reversals import EntryUnfit, ProposalUnknown

RETRY_AFTER_S = 5

_TOLD = {
    400: "Idempotency-Key is missing or malformed, or the body isn't JSON",
    401: "nobody is signed in: Authorization: Bearer and a token is wanted",
    403: "the user isn't in the role, or a web page from elsewhere sends it",
    404: "no such item, command, selection or stream",
    409: "it isn't as you saw it, or it was begun otherwise before; `detail` says which",
    413: "the body is too large",
    415: "the body isn't application/json",
    422: "the request isn't valid, or this key came before with another request",
    503: "Kafka, the journal or the store of keys doesn't answer: repeat it with the same key (Retry-After)",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Of a route's description."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemTold"}}}
    return {status: {"description": _TOLD[status], "content": content} for status in statuses}


KNOWN: tuple[tuple[type[PayhookError], int, str, str], ...] = (
    (ItemUnknown, 404, "item-unknown", "No such item"),
    (ProposalUnknown, 404, "proposal-unknown", "No such proposal waits"),
    (AnotherPersonWanted, 409, "second-person", "Another person approves it"),
    (EntryUnfit, 422, "invalid", "The request isn't valid"),
    (CommandInvalid, 422, "invalid", "The request isn't valid"),
    (CommandNotSent, 503, "kafka-unavailable", "Kafka doesn't answer"),
    (SelectionUnknown, 404, "selection-unknown", "No such selection"),
    (FilterInvalid, 422, "invalid", "The request isn't valid"),
    (SelectionEmpty, 409, "nothing-matches", "Nothing that is dead matches"),
    (SelectionTooLarge, 409, "selection-too-large", "Too many items match"),
    (SelectionsFull, 409, "selections-full", "No room for another selection"),
    (SelectionBroken, 409, "selection-broken", "The selection isn't what was frozen"),
    (SecondPersonWanted, 409, "second-person", "Another person approves it"),
    (RunRefused, 409, "run-refused", "The run isn't taken"),
    (AuditLogUnwritable, 503, "acts-unwritable", "It can't be put on record"),
    (DeadLetterIndexUnreadable, 503, "board-unreadable", "The list of dead items can't be read"),
    (OriginUnreadable, 503, "origin-unreadable", "Kafka doesn't answer"),
    (JournalBroken, 503, "journal-unreadable", "The journal can't be read"),
)


def problem_of(refused: PayhookError) -> Problem:
    """What a function of the DLQ refused; anything else is a bug.

    :raises PayhookError: it isn't a refusal
    """
    for known, status, slug, title in KNOWN:
        if isinstance(refused, known):
            return Problem(status, slug, title, str(refused), retry_after_s=RETRY_AFTER_S if status == 503 else None)
    raise refused
