"""Books in a ledger what two people agree on (entries, reversals): one proposes, one approves; and its API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from console.access.roles import Role
from console.access.routes import require_role, signed_in
from console.api_routes import COMMAND_ID, StrictRoute, Text, add_acting_route, problem_responses
from console.as_json import BookingProposal, to_json_value
from core.clock import Clock, from_rfc3339
from core.errors import PayhookError
from core.event import Mode
from core.layout import StreamLayout
from core.money import AMOUNT_MINOR_MAX, AmountInvalid, Money, parse_minor_units
from core.work import Posting
from ingest.idempotency.request import Problem
from ingest.idempotency.store import IdempotentRun
from journal.reader import lineage_of
from ledger.queries.journals import LedgerJournals
from ledger.reversals import ReadProposal, build_entry, find_proposed_journal, find_waiting_proposal, read_all_proposals
from operations.command import PROPOSE_ENTRY, Command, approve, propose_entry
from operations.entry import ENTRY_LINES_MAX, ManualEntry
from operations.limits import account_of
from operations.orders import DeltaView, OrderAct, OrderSender


class AnotherPersonWanted(PayhookError):
    def __init__(self, command_id: str, proposer: str) -> None:
        self.command_id = command_id
        self.proposer = proposer
        super().__init__(f"{proposer} proposed it: ask another admin to approve it. Nothing is booked yet")


class BookingService:
    """Proposes and approves bookings. Blocks; threads may share it."""

    def __init__(
        self,
        ledger: LedgerJournals,
        control_topic: str,
        orders: OrderSender,
        clock: Clock,
    ) -> None:
        self.ledger = ledger
        self._control_topic = control_topic
        self._orders = orders
        self._clock = clock

    def proposals(self) -> Sequence[ReadProposal]:
        return read_all_proposals(self.ledger, self._control_topic)

    def propose_entry(self, entry: ManualEntry, actor: str, reason: str, command_id: str) -> CommandSent:
        """Sends a proposal, unless it was decided already; the processor takes it down. ``command_id``: the same
        order, given again, has the same one.

        :raises CommandNotSent: Kafka didn't acknowledge it
        :raises AuditLogUnwritable: it can't be put on record
        """
        layout = self.ledger.of_entity(entry.entity_key)
        with self._orders.begin_act(actor, PROPOSE_ENTRY, f"{layout.stream} {entry.entity_key}", reason) as giving:
            if (decided := self._find_decided(layout, command_id, giving)) is not None:
                return decided
            lineage, now = lineage_of(str(layout.journal)), self._clock.now()
            return _send_command(giving, propose_entry(layout.stream, lineage, entry, actor, reason, now, command_id))

    def approve(self, proposal_id: str, actor: str, reason: str, command_id: str) -> CommandSent:
        """Sends the approval of a proposal that waits, unless it was decided already; the processor books it, once.
        ``command_id``: as of `propose_entry`.

        :raises ProposalUnknown: there is none that waits
        :raises AnotherPersonWanted: it is one's own
        :raises CommandNotSent: Kafka didn't acknowledge it
        :raises AuditLogUnwritable: it can't be put on record
        """
        layout = find_proposed_journal(self.ledger, self._control_topic, proposal_id)
        with self._orders.begin_act(
            actor, "approve_booking", f"{layout.stream} proposal {proposal_id}", reason
        ) as giving:
            if (decided := self._find_decided(layout, command_id, giving)) is not None:
                return decided
            proposal = find_waiting_proposal(self.ledger, self._control_topic, proposal_id).command
            if account_of(proposal.actor) == account_of(actor):
                raise AnotherPersonWanted(proposal_id, proposal.actor)
            return _send_command(giving, approve(proposal, actor, reason, self._clock.now(), command_id))

    def _find_decided(self, at: StreamLayout, command_id: str, giving: OrderAct) -> CommandSent | None:
        row = DeltaView(at.journal, self._control_topic).command_row(command_id)
        if row is None:
            return None
        giving.changes.after = f"command {command_id}"
        return CommandSent(command_id=command_id, action=row.event_type or "")


def _send_command(giving: OrderAct, command: Command) -> CommandSent:
    giving.send(command)
    return CommandSent(command_id=command.command_id, action=command.action)


Bookings = Mapping[Mode, BookingService]


class LineAsked(BaseModel):
    """Describes one line of a booking."""

    model_config = ConfigDict(strict=True, extra="forbid")

    account: Text = Field(description="an account of the ledger, such as merchant:m-1:dispute_losses")
    side: Literal["debit", "credit"]
    amount: Text | None = Field(
        None, description="a decimal number as a text: 12.50 EUR, 1250 JPY, 1.250 KWD", examples=["12.50"]
    )
    amount_minor: int | None = Field(
        None, ge=1, le=AMOUNT_MINOR_MAX, description="or, in place of amount, a number of the currency's minor units"
    )
    currency: str = Field(pattern="^[A-Z]{3}$")

    @model_validator(mode="after")
    def _has_one_amount(self) -> Self:
        if self.amount is None and self.amount_minor is None:
            raise ValueError("amount or amount_minor is missing")
        if self.amount is not None and self.amount_minor is not None:
            raise ValueError("expected amount or amount_minor, not both")
        try:
            amount_minor = self.posting().money.amount_minor
        except AmountInvalid as wrong:
            raise ValueError(str(wrong)) from None
        if amount_minor < 1:
            raise ValueError("expected an amount above zero; the side says which way it goes")
        return self

    def posting(self) -> Posting:
        minor = self.amount_minor if self.amount is None else parse_minor_units(self.amount, self.currency)
        assert minor is not None
        return Posting(self.account, self.side, Money(minor, self.currency))


class EntryAsked(BaseModel):
    """A booking by hand. Nothing is booked until another admin approves it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    entity: Text = Field(description="what it is about: the entity key of a payment's events")
    occurred_at: Text = Field(description="when the money moved, RFC 3339 with its offset")
    evidence_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the document that shows it")
    lines: list[LineAsked] = Field(min_length=2, max_length=ENTRY_LINES_MAX)
    reason: Text = Field(description="kept with the entry")
    mode: Mode = Field("live", description="whose ledger: live or test traffic")

    def entry(self) -> ManualEntry:
        return build_entry(
            self.entity, self._read_occurred_at(), self.evidence_sha256, [line.posting() for line in self.lines]
        )

    def _read_occurred_at(self) -> datetime:
        try:
            return from_rfc3339(self.occurred_at)
        except ValueError as wrong:
            raise Problem(422, "invalid", "The request isn't valid", f"occurred_at: {wrong}") from None


class BookingApproved(BaseModel):
    """The reason for an approval."""

    model_config = ConfigDict(strict=True, extra="forbid")

    reason: Text = Field(description="what was checked; kept with the booking")
    mode: Mode = Field("live", description="whose ledger: live or test traffic")


@dataclass(frozen=True, slots=True)
class Proposals:
    """Newest first."""

    proposals: list[BookingProposal]


class CommandSent(BaseModel):
    """Kafka has the command; the processor decides it."""

    command_id: str
    action: str


def booking_routes(services: Bookings) -> APIRouter:
    router = APIRouter(prefix="/ledger", route_class=StrictRoute)

    @router.get(
        "/proposals",
        summary="List proposed bookings",
        responses=problem_responses(401, 403, 404, 422, 503),
        response_model=Proposals,
        dependencies=[Depends(require_role(Role.FINANCE))],
    )
    async def proposals(mode: Mode = "live") -> Response:
        """Reversals and entries that were proposed, newest first."""
        proposals = await asyncio.to_thread(_find_service(services, mode).proposals)
        return JSONResponse(
            to_json_value(Proposals([BookingProposal.from_proposed(proposal) for proposal in proposals]))
        )

    @add_acting_route(router, "/entries", Role.FINANCE, summary="Propose a booking")
    async def propose(asked: EntryAsked, request: Request) -> CommandSent:
        """Proposes a booking by hand."""
        service, entry, actor = _find_service(services, asked.mode), asked.entry(), signed_in(request).name
        run: IdempotentRun = request.state.idempotency
        return await asyncio.to_thread(service.propose_entry, entry, actor, asked.reason, run.request_id)

    @add_acting_route(router, "/proposals/{command_id}/approve", Role.ADMIN, summary="Approve a proposed booking")
    async def approve(
        command_id: Annotated[str, Path(pattern=COMMAND_ID)], asked: BookingApproved, request: Request
    ) -> CommandSent:
        """Approves what another person proposed. Of a reversal or an entry all is booked, or none, and once."""
        service, actor, run = _find_service(services, asked.mode), signed_in(request).name, request.state.idempotency
        return await asyncio.to_thread(service.approve, command_id, actor, asked.reason, run.request_id)

    return router


def _find_service(services: Bookings, mode: Mode) -> BookingService:
    if mode not in services:
        raise Problem(404, "mode-unknown", "No such ledger", f"{mode} traffic isn't accepted here")
    return services[mode]
