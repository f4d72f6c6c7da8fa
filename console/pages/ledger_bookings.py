"""``/ledger/reversals`` and ``/ledger/entries``: bookings by two people, proposed and approved."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from console.bookings import AnotherPersonWanted, BookingService
from console.forms import Fields, FormFields
from console.pages.dlq_selections import reason_of
from console.pages.place import Admin, Finance, PagePlace
from core import moments
from core.decision import Decision
from core.errors import PayhookError
from core.event import Mode
from core.money import Money, parse_minor_units
from core.work import Posting
from ledger.queries.journals import LedgerJournals
from ledger.queries.search import DecisionFilter, Hit, search_decisions
from ledger.reversals import EntryUnfit, ProposalUnknown, ReadProposal, build_entry
from operations.command import CommandInvalid, new_command_id
from operations.entry import ENTRY_LINES_MAX, ManualEntry, entry_to_tree
from operations.frozen import COMMAND_ID_CHARS

SHOWN_MAX = 100
LINES_CHARS_MAX = 20_000
MISSING = {
    "entity": "Enter an entity",
    "occurred": "Enter a day or a time",
    "evidence": "Enter the document's SHA-256",
    "lines": "Enter the lines of the booking",
}
"""Problems of fields that were left empty."""


class LineUnreadable(PayhookError):
    def __init__(self, number: int, problem: str) -> None:
        self.number = number
        self.problem = problem
        super().__init__(f"line {number}: {problem}; write such as `debit merchant:m-1:refunds 12.50 EUR`")


class BookingPages:
    """Shows bookings by two people; each method but the private ones is a route."""

    def __init__(self, place: PagePlace, services: Mapping[Mode, BookingService]) -> None:
        self._place = place
        self._services = services

    async def listed(self, request: Request, _user: Finance) -> Response:
        return await self._list(request)

    async def approve(self, request: Request, command_id: str, user: Admin, fields: FormFields) -> Response:
        reason = reason_of(fields)
        if reason is None:
            return await self._list(request, fields.problems["reason"], 422)
        service = self._service(request)
        try:
            await self._place.asking.ask(service.approve, command_id, user.name, reason, new_command_id())
        except AnotherPersonWanted as refused:
            return await self._list(request, str(refused), 409)
        except ProposalUnknown as unknown:
            return await self._list(request, str(unknown), 404)
        return RedirectResponse(self._place.link(request, "/ledger/reversals", sent=command_id), 303)

    async def form(self, request: Request, _user: Finance) -> Response:
        return self._form(request, Fields(QueryParams()))

    async def propose(self, request: Request, user: Finance, fields: FormFields) -> Response:
        entry, reason = entry_asked(fields), reason_of(fields)
        if entry is None or reason is None:
            return self._form(request, fields, 422)
        service, command_id = self._service(request), proposal_id(_form_of(fields), user.name, entry, reason)
        await self._place.asking.ask(service.propose_entry, entry, user.name, reason, command_id)
        return RedirectResponse(self._place.link(request, "/ledger/reversals", sent=command_id), 303)

    def _form(self, request: Request, fields: Fields, status: int = 200) -> Response:
        return self._place.show(request, "ledger/entry.html", status, fields=fields, form=_form_of(fields))

    async def _list(self, request: Request, problem: str = "", status: int = 200) -> Response:
        service, ledger = self._service(request), self._place.ledger(request)
        proposed, done = await self._place.asking.ask(_read_list, service, ledger)
        context = {"proposals": proposed, "reversals": done, "problem": problem, "fields": Fields(QueryParams())}
        return self._place.show(request, "ledger/reversals.html", status, **context)

    def _service(self, request: Request) -> BookingService:
        return self._services[self._place.mode(request)]


def booking_routes(place: PagePlace, services: Mapping[Mode, BookingService]) -> APIRouter:
    router, pages = APIRouter(prefix="/ledger"), BookingPages(place, services)
    router.add_api_route("/reversals", pages.listed, methods=["GET"])
    router.add_api_route("/reversals/{command_id}/approve", pages.approve, methods=["POST"])
    router.add_api_route("/entries", pages.form, methods=["GET"])
    router.add_api_route("/entries", pages.propose, methods=["POST"])
    return router


def _form_of(fields: Fields) -> str:
    return fields.text("form") or secrets.token_hex(16)


def proposal_id(form: str, actor: str, entry: ManualEntry, reason: str) -> str:
    """Makes the command's id: a form that is sent again is the same proposal, one that was changed meanwhile is
    another.
    """
    identity_text = json.dumps([form, actor, entry_to_tree(entry), reason], sort_keys=True)
    return hashlib.sha256(identity_text.encode("utf-8")).hexdigest()[:COMMAND_ID_CHARS]


def entry_asked(fields: Fields) -> ManualEntry | None:
    wanted: dict[str, Any] = {
        "entity": fields.text("entity"),
        "occurred": fields.read("occurred", moments.parse_since),
        "evidence": fields.text("evidence"),
        "lines": fields.text("lines", LINES_CHARS_MAX),
    }
    for name, value in wanted.items():
        if value is None:
            fields.add_problem(name, MISSING[name])
    if fields.problems:
        return None
    evidence = wanted["evidence"]
    if len(evidence) != 64 or set(evidence) - set("0123456789abcdef"):
        fields.add_problem("evidence", "Enter 64 hex digits in small letters, as `sha256sum FILE` prints them")
        return None
    try:
        return build_entry(wanted["entity"], wanted["occurred"], evidence, postings_of(wanted["lines"]))
    except (LineUnreadable, EntryUnfit, CommandInvalid) as wrong:
        fields.add_problem("lines", str(wrong))
        return None


def postings_of(text: str) -> list[Posting]:
    """Reads one posting a line: its side, account, amount as a decimal number, and currency.

    :raises LineUnreadable: it isn't that
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return [_read_posting(number, line.split()) for number, line in enumerate(lines[: ENTRY_LINES_MAX + 1], 1)]


def _read_posting(number: int, words: Sequence[str]) -> Posting:
    match words:
        case ["debit" | "credit" as side, account, amount, currency]:
            try:
                return Posting(account, side, Money(parse_minor_units(amount, currency), currency))
            except PayhookError as wrong:
                raise LineUnreadable(number, str(wrong)) from wrong
    raise LineUnreadable(number, "expected a side, an account, an amount and a currency")


def _read_list(service: BookingService, ledger: LedgerJournals) -> tuple[Sequence[ReadProposal], list[Hit]]:
    done = search_decisions(
        ledger.list_journals(), ledger.list_postings(), DecisionFilter(decision=Decision.REVERSED), SHOWN_MAX
    )
    # The approval's own row books nothing.
    return service.proposals()[:SHOWN_MAX], [hit for hit in done if hit.amount_minor is not None]
