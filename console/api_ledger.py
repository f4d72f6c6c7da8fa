"""The API's reading of the ledger: what finance's pages and `payhook ledger` read, by the same queries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from console.access.roles import Role
from console.access.routes import STORY_READERS, check_reader, require_role, signed_in
from console.api_routes import StrictRoute, problem_responses
from console.as_json import event_story, hit_to_json, to_json_value
from console.bookings import Bookings
from console.ledger_words import (
    BalancesAsked,
    BalancesPage,
    EntityAsked,
    HitsPage,
    Key,
    LedgerAsked,
    PostingsAsked,
    ReconciliationAsked,
    ReconciliationRun,
    ReconciliationsPage,
    SearchAsked,
    UnknownReport,
    Verification,
    invalid_field,
)
from console.pages.ledger import open_reconciliations
from console.pages.ledger_home import read_results
from console.pages.place import QuestionRunner
from core.layout import Layout
from ingest.idempotency.request import Problem
from journal.journals import StreamUnknown
from ledger.queries.balances import Balance, sum_balances, sum_owed, sum_totals
from ledger.queries.journals import CursorInvalid, LedgerJournals, RowAmbiguous
from ledger.queries.postings import PostingsPage, read_postings_page
from ledger.queries.search import search_decisions
from ledger.queries.story import EntityStory
from ledger.queries.unknown import find_closed_unknown, find_unknown_events
from ledger.reconciliations import Reconciliation, UnknownRun, run_as_dict

Answer = TypeVar("Answer")

FIND = "GET /api/ledger/search?text=… finds a part of a key"
UNDECIDED = "it was answered, and isn't decided yet: ask again in a moment, or see `payhook status`"


class LedgerReader:
    """Answers questions about the ledger; each method but the private ones is a route."""

    def __init__(self, services: Bookings, asking: QuestionRunner) -> None:
        self._services = services
        self._asking = asking

    async def balances(self, asked: Annotated[BalancesAsked, Query()]) -> Response:
        """Lists each account's debits, credits and balance (debits minus credits), now or as of a moment."""
        return await self._answer(asked, lambda journals: _read_balances(journals, asked))

    async def postings(self, asked: Annotated[PostingsAsked, Query()]) -> Response:
        """Lists what is booked on an account, the newest first, each with the balance after it."""

        def read(journals: LedgerJournals) -> PostingsPage:
            as_of, tables = asked.find_as_of(journals), journals.list_postings()
            return _read_page(
                lambda: read_postings_page(
                    tables, asked.account, asked.currency, asked.merchant, as_of, asked.cursor, asked.limit
                )
            )

        return await self._answer(asked, read)

    async def search(self, asked: Annotated[SearchAsked, Query()]) -> Response:
        """Decisions that match, the newest first."""
        wanted = asked.to_search()

        def read(journals: LedgerJournals) -> HitsPage:
            tables = journals.list_journals(), journals.list_postings()
            hits_found = _read_page(lambda: search_decisions(*tables, wanted, asked.limit + 1, asked.cursor))
            hits = hits_found[: asked.limit]
            return HitsPage(
                [hit_to_json(match) for match in hits], hits[-1].cursor if len(hits_found) > asked.limit else None
            )

        return await self._answer(asked, read)

    async def event(self, key: Key, request: Request, asked: Annotated[LedgerAsked, Query()]) -> Response:
        """Shows an event's whole story, by its key, a fact's key, or seq:N of a row of the journal.

        Who may replay reads the stories of what they may replay, finance all of them.
        """
        user = signed_in(request)

        def read(journals: LedgerJournals) -> dict[str, Any]:
            try:
                story, bodies = journals.read_story(key)
            except (RowAmbiguous, StreamUnknown) as wrong:
                raise Problem(404, "event-unknown", "No such event", str(wrong)) from None
            if not story.rows:
                raise _not_found("event", UNDECIDED if story.receipts else FIND)
            check_reader(user, story.rows)
            return {"key": key, **event_story(story, bodies)}

        return await self._answer(asked, read)

    async def entity(self, key: Key, request: Request, asked: Annotated[EntityAsked, Query()]) -> Response:
        """Shows an entity's events (a payment's, say) in Kafka's order, with the balances that they leave.

        Who may replay reads the stories of what they may replay, finance all of them.
        """
        user = signed_in(request)

        def read(journals: LedgerJournals) -> EntityStory:
            story = journals.read_entity(key, asked.limit)
            if not story.total:
                raise _not_found("entity")
            check_reader(user, itertools.chain.from_iterable(event.rows for event in story.events))
            return story

        return await self._answer(asked, read)

    async def unknown(self, asked: Annotated[LedgerAsked, Query()]) -> Response:
        """Events of which no table says what they mean for money, by type and reason."""

        def read(journals: LedgerJournals) -> UnknownReport:
            return UnknownReport(
                find_unknown_events(journals.list_journals()), find_closed_unknown(journals.list_journals())
            )

        return await self._answer(asked, read)

    async def verification(self, asked: Annotated[LedgerAsked, Query()]) -> Response:
        """Returns what each invariant says, and whether it held when it was last looked at."""
        return await self._answer(
            asked, lambda journals: Verification(read_results(Layout(journals.first_place.root), asked.mode))
        )

    async def reconciliations(self, asked: Annotated[ReconciliationAsked, Query()]) -> Response:
        """Providers' reports that were compared with the ledger, the newest first."""

        def read(journals: LedgerJournals) -> ReconciliationsPage:
            runs = open_reconciliations(journals).list_runs()
            return ReconciliationsPage([run_as_dict(run) for run in runs[: asked.limit]], len(runs))

        return await self._answer(asked, read)

    async def reconciliation(self, run_id: Key, asked: Annotated[ReconciliationAsked, Query()]) -> Response:
        """Returns one reconciliation, and its first differences, kind by kind."""

        def read(journals: LedgerJournals) -> ReconciliationRun:
            reports = open_reconciliations(journals)
            try:
                run: Reconciliation = reports.find_run(run_id)
            except UnknownRun as wrong:
                title = "No such reconciliation"
                raise Problem(404, "reconciliation-unknown", title, str(wrong)) from None
            differences = itertools.islice(reports.read_differences(run_id), asked.limit)
            return ReconciliationRun(run_as_dict(run), list(differences))

        return await self._answer(asked, read)

    async def _answer(self, asked: LedgerAsked, read: Callable[[LedgerJournals], Any]) -> Response:
        service = self._services.get(asked.mode)
        if service is None:
            raise Problem(404, "mode-unknown", "No such ledger", f"{asked.mode} traffic isn't accepted here")
        places = service.ledger.places
        return await self._asking.ask(lambda: JSONResponse(to_json_value(read(LedgerJournals.open(places)))))


def ledger_routes(services: Bookings) -> APIRouter:
    router, reader = APIRouter(prefix="/ledger", route_class=StrictRoute), LedgerReader(services, QuestionRunner())
    finance = Depends(require_role(Role.FINANCE))
    for path, read, summary, shape, readers in (
        ("/balances", reader.balances, "List balances", BalancesPage, finance),
        ("/postings", reader.postings, "List an account's postings", PostingsPage, finance),
        ("/search", reader.search, "Search decisions", HitsPage, finance),
        ("/events/{key:path}", reader.event, "Show an event's story", dict[str, Any], STORY_READERS),
        ("/entities/{key:path}", reader.entity, "Show an entity's story", EntityStory, STORY_READERS),
        ("/unknown", reader.unknown, "List unknown events", UnknownReport, finance),
        ("/verification", reader.verification, "Show the last verification", Verification, finance),
        ("/reconciliations", reader.reconciliations, "List reconciliations", ReconciliationsPage, finance),
        ("/reconciliations/{run_id}", reader.reconciliation, "Show a reconciliation", ReconciliationRun, finance),
    ):
        router.add_api_route(
            path,
            read,
            summary=summary,
            responses=problem_responses(401, 403, 404, 422, 503),
            response_model=shape,
            dependencies=[readers],
        )
    return router


def _read_page(read: Callable[[], Answer]) -> Answer:
    try:
        return read()
    except CursorInvalid as wrong:
        raise invalid_field("cursor", str(wrong)) from None


def _read_balances(journals: LedgerJournals, asked: BalancesAsked) -> BalancesPage:
    all_balances = sum_balances(journals.list_postings(), asked.merchant, asked.currency, asked.find_as_of(journals))
    rest = _skip_to_cursor(all_balances, asked.cursor)
    page = rest[: asked.limit]
    more = _cursor_of(page[-1]) if len(rest) > asked.limit else None
    return BalancesPage(list(page), sum_totals(all_balances), sum_owed(all_balances), more)


def _cursor_of(balance: Balance) -> str:
    return f"{balance.currency}~{balance.account}"


def _skip_to_cursor(listed: Sequence[Balance], cursor: str | None) -> Sequence[Balance]:
    if cursor is None:
        return listed
    currency, mark, account = cursor.partition("~")
    if not mark:
        raise invalid_field("cursor", str(CursorInvalid(cursor)))
    return [balance for balance in listed if (balance.account, balance.currency) > (account, currency)]


def _not_found(what: str, then: str = FIND) -> Problem:
    return Problem(404, f"{what}-unknown", f"No such {what}", f"no such {what} in the ledger; {then}")
