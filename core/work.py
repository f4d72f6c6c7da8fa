"""What a handler is given and what it may answer: the seam between the engine and a work stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from core.money import Money

Side: TypeAlias = Literal["debit", "credit"]


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One event to handle. ``attempt`` is 0 on the first run.

    ``previous_dead`` says that an earlier event of the same entity died and was passed over. Keys are scoped by
    ``tenant`` (`core.routing.of_tenant`).
    """

    item_seq: int
    event_key: str
    entity_key: str
    provider: str
    account: str
    event_type: str
    body: bytes
    fact_key: str | None
    attempt: int
    previous_dead: bool = False
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Posting:
    """One line of a booking; ``money.amount_minor`` is positive, the side says which way."""

    account: str
    side: Side
    money: Money


@dataclass(frozen=True, slots=True)
class Applied:
    """The event took effect; ``postings`` may be empty where a stream books nothing."""

    postings: tuple[Posting, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nobody handles this type yet; it can be reprocessed when someone does."""

    reason: str


Outcome: TypeAlias = Applied | Ignored


class Handler(Protocol):
    """A work stream's one function. It runs on an executor, serially within an entity."""

    version: str

    def __call__(self, item: WorkItem) -> Outcome:
        """Handles one event; whatever it raises is classified, never swallowed."""


def postings_to_json(postings: Sequence[Posting]) -> str | None:
    """Canonical JSON of a booking, or None for none: the journal's ``postings`` column."""
    if not postings:
        return None
    lines = [
        {
            "account": posting.account,
            "side": posting.side,
            "amount_minor": posting.money.amount_minor,
            "currency": posting.money.currency,
        }
        for posting in postings
    ]
    return json.dumps(lines, separators=(",", ":"), ensure_ascii=True)


def postings_from_json(text: str | None) -> tuple[Posting, ...]:
    """The inverse of `postings_to_json`."""
    if text is None:
        return ()
    return tuple(
        Posting(line["account"], line["side"], Money(line["amount_minor"], line["currency"]))
        for line in json.loads(text)
    )
