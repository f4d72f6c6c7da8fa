"""The words of the API's reading of the ledger: what may be asked for, and pages of answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from console.pages.ledger_home import StreamResult
from core import moments
from core.decision import Decision
from core.errors import PayhookError
from core.event import Mode
from core.money import AmountInvalid, parse_minor_units
from ingest.idempotency.request import Problem
from journal.journals import StreamUnknown
from ledger.queries.balances import AsOf, Balance, OwedAmount, Total
from ledger.queries.journals import LedgerJournals, RowNameInvalid
from ledger.queries.postings import POSTINGS_MAX
from ledger.queries.search import DecisionFilter
from ledger.queries.story import EVENTS_MAX
from ledger.queries.unknown import ClosedUnknown, UnknownEvents
from ledger.reconciliations import Difference

LISTED_MAX = 1_000
DIFFERENCES_MAX = 10_000
TEXT_CHARS_MAX = 1_000


def invalid_field(name: str, problem: str) -> Problem:
    errors = [{"at": f"/query/{name}", "problem": problem}]
    return Problem(422, "invalid", "The request isn't valid", f"{name}: {problem}", errors=errors)


def _moment_by(read: Callable[[str], datetime]) -> BeforeValidator:
    def parse(text: object) -> object:
        try:
            return read(text) if isinstance(text, str) else text
        except PayhookError as wrong:
            raise ValueError(str(wrong)) from None

    return BeforeValidator(parse, json_schema_input_type=str)


_DAY_OR_TIME = WithJsonSchema({"type": "string", "examples": ["2026-01-31", "2026-01-31T12:00:00Z"]})
Since = Annotated[datetime, _moment_by(moments.parse_since), _DAY_OR_TIME]
Until = Annotated[datetime, _moment_by(moments.parse_until), _DAY_OR_TIME]
Then = Annotated[datetime, _moment_by(moments.as_of), _DAY_OR_TIME]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]
Currency = Annotated[str, Field(pattern="^[A-Za-z]{3}$", examples=["EUR"]), AfterValidator(str.upper)]
Key = Annotated[str, Path(min_length=1, max_length=TEXT_CHARS_MAX)]
Cursor = Annotated[str, Field(max_length=TEXT_CHARS_MAX, description="`next` of the page before")]


class LedgerAsked(BaseModel):
    """Names the ledger."""

    model_config = ConfigDict(extra="forbid")

    mode: Mode = Field("live", description="live or test traffic")


class BalancesAsked(LedgerAsked):
    """Says which balances count, and which page of them."""

    merchant: Text | None = Field(None, description="only this merchant's bookings, with the provider's side of them")
    currency: Currency | None = None
    as_of: Then | None = Field(None, description="as it stood then; a day counts as a whole; UTC")
    seq: Text | None = Field(None, description="as it stood after this row of the journal: 12, or ledger.1:12")
    cursor: Cursor | None = None
    limit: int = Field(100, ge=1, le=LISTED_MAX)

    def find_as_of(self, journals: LedgerJournals) -> AsOf:
        if self.seq is None:
            return AsOf(self.as_of)
        if self.as_of is not None:
            raise invalid_field("seq", "expected a time or a row, not both")
        try:
            return journals.find_as_of(self.seq)
        except (RowNameInvalid, StreamUnknown) as wrong:
            raise invalid_field("seq", str(wrong)) from None


class PostingsAsked(BalancesAsked):
    """Says which postings are listed."""

    account: Text = Field(description="as the balances name it", examples=["merchant:m-1:payable"])
    limit: int = Field(100, ge=1, le=POSTINGS_MAX)


class SearchAsked(LedgerAsked):
    """Says what a decision must be like."""

    text: Text | None = Field(None, description="a part of the event's, the fact's or the entity's key")
    event_type: Text | None = None
    provider: Text | None = None
    merchant: Text | None = None
    decision: Decision | None = None
    since: Since | None = Field(None, alias="from", description="decided then or later")
    until: Until | None = Field(None, alias="to", description="decided before then; a day counts as a whole")
    amount: Text | None = Field(None, description="as a decimal number of its currency, which it needs: 12.50")
    currency: Currency | None = None
    cursor: Cursor | None = None
    limit: int = Field(100, ge=1, le=LISTED_MAX)

    def to_search(self) -> DecisionFilter:
        return DecisionFilter(
            event_type=self.event_type,
            provider=self.provider,
            merchant=self.merchant,
            decision=self.decision,
            since=self.since,
            until=self.until,
            amount_minor=self._amount_minor(),
            currency=self.currency,
            in_keys=self.text,
        )

    def _amount_minor(self) -> int | None:
        if self.amount is None:
            return None
        if self.currency is None:
            raise invalid_field("currency", "an amount needs its currency, such as EUR")
        try:
            return parse_minor_units(self.amount, self.currency)
        except AmountInvalid as wrong:
            raise invalid_field("amount", str(wrong)) from None


class EntityAsked(LedgerAsked):
    """Says how many of an entity's events to return."""

    limit: int = Field(
        100, ge=1, le=EVENTS_MAX, description="the first so many events; `total` says how many there are"
    )


class ReconciliationAsked(LedgerAsked):
    """Says how many of a run's differences to return."""

    limit: int = Field(DIFFERENCES_MAX, ge=1, le=DIFFERENCES_MAX)


@dataclass(frozen=True, slots=True)
class BalancesPage:
    """A page of ``balances`` by account; ``totals`` and ``owed`` are of all of them."""

    balances: list[Balance]
    totals: list[Total]
    owed: list[OwedAmount]
    next: str | None


@dataclass(frozen=True, slots=True)
class HitsPage:
    """Decisions, the newest first, each with what it booked."""

    hits: list[dict[str, Any]]
    next: str | None


@dataclass(frozen=True, slots=True)
class UnknownReport:
    """Holds unknown events by provider, type and reason, the most first. ``closed``: by a person, the newest first."""

    unknown: list[UnknownEvents]
    closed: list[ClosedUnknown]


@dataclass(frozen=True, slots=True)
class Verification:
    """The results of each stream that was verified, the ledger's first."""

    streams: list[StreamResult]


@dataclass(frozen=True, slots=True)
class ReconciliationsPage:
    """The newest ``runs``, of ``count``."""

    runs: list[dict[str, Any]]
    count: int


@dataclass(frozen=True, slots=True)
class ReconciliationRun:
    """Shows one run, and what differs."""

    run: dict[str, Any]
    differences: list[Difference]
