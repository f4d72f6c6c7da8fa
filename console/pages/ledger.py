"""Finance's pages that read: balances, search, stories of events and entities, reconciliations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from console.details import journal_says, run_details, timeline
from console.forms import UPLOAD_BYTES_MAX, Fields
from console.pages.place import Place
from console.plots import Steps, steps_plot
from console.stories import StoryReader, check_reader
from core import moments
from core.decision import Decision
from core.money import decimals_of
from journal.journals import StreamUnknown
from ledger.queries import (
    AmountInvalid,
    AsOf,
    Balance,
    BalancesOverTime,
    ClosedUnknown,
    Hit,
    Total,
    UnknownEvents,
    Wanted,
    balances,
    balances_over_time,
    closed_unknown,
    decimal_text,
    minor_units,
    search,
    totals,
    unknown_events,
)
from ledger.queries.journals import LedgerJournals, RowAmbiguous, RowUnreadable
from ledger.reconciliations import KINDS, Difference, Kind, Reconciliation, Reconciliations, UnknownRun

ROWS_PER_PAGE = 100
PLOTS_MAX = 3
"""Currencies that are plotted; another one is when it is asked for."""

CURRENCY_CHARS = 3

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Asked:
    as_of: AsOf
    merchant: str | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Holds what the page shows. ``plots``: by currency."""

    balances: Sequence[Balance]
    totals: Sequence[Total]
    plots: Sequence[tuple[str, Markup, BalancesOverTime]]


def add_balances(router: APIRouter, place: Place) -> None:
    @router.get("/ledger")
    async def ledger(request: Request) -> Response:
        fields = Fields(request.query_params)
        journals = place.ledger(request)
        asked = await place.asking.ask(read_balances, fields, journals)
        page = fields.number("page", 1, 1_000_000) or 1
        context = {"fields": fields, "asked": asked, "answer": None, "page": page}
        if fields.problems:
            return place.show(request, "ledger/balances.html", 422, **context)
        answer = await place.asking.ask(answered, journals, asked)
        shown, pages = _page(answer.balances, page, ROWS_PER_PAGE)
        return place.show(
            request, "ledger/balances.html", **{**context, "answer": answer, "shown": shown, "pages": pages}
        )


def _page(rows: Sequence[Row], page: int, per_page: int) -> tuple[Sequence[Row], int]:
    """Returns the rows of one page, and how many pages there are."""
    begin = (page - 1) * per_page
    return rows[begin : begin + per_page], -(-len(rows) // per_page)


def read_balances(fields: Fields, journals: LedgerJournals) -> Asked:
    """Reads the form's fields; its problems are in `Fields.problems`. Of several journals a row is looked up.

    :raises LedgerUnreadable: a journal is damaged
    """
    as_of, row = AsOf(fields.read("as_of", moments.as_of)), fields.text("seq")
    if as_of.before is not None and row is not None:
        fields.wrong("seq", "a time or a row, not both")
    elif row is not None:
        try:
            as_of = journals.after_row(row)
        except (RowUnreadable, StreamUnknown) as wrong:
            fields.wrong("seq", str(wrong))
    currency = fields.text("currency", CURRENCY_CHARS)
    return Asked(as_of, fields.text("merchant"), currency.upper() if currency else None)


def answered(journals: LedgerJournals, asked: Asked) -> Answer:
    """
    :raises LedgerUnreadable: a table is damaged
    """
    postings = journals.postings()
    all_balances = balances(postings, asked.merchant, asked.currency, asked.as_of)
    # A row of the journal is no moment: there is nothing to plot up to it.
    currencies = [total.currency for total in totals(all_balances)] if asked.as_of.seq is None else []
    plotted = []
    for currency in currencies[:PLOTS_MAX]:
        over_time = balances_over_time(postings, currency, merchant=asked.merchant, until=asked.as_of.before)
        plotted.append((currency, plot(over_time), over_time))
    return Answer(all_balances, totals(all_balances), plotted)


def plot(over_time: BalancesOverTime) -> Markup:
    decimals = decimals_of(over_time.currency)
    shown = [
        Steps(account.account, [(at, balance / 10**decimals) for at, balance in account.points])
        for account in over_time.accounts
    ]
    return steps_plot(f"Balances in {over_time.currency} over time", _described(over_time), shown, whole=not decimals)


def _described(over_time: BalancesOverTime) -> str:
    """Says in words what the plot shows, for those who don't see it."""
    parts = [
        f"{account.account}: {decimal_text(account.points[-1][1], over_time.currency)} at the end"
        for account in over_time.accounts
    ]
    left_out = f"; {over_time.left_out} accounts with smaller balances aren't plotted" if over_time.left_out else ""
    return f"Debits minus credits by account. {'; '.join(parts)}{left_out}."


def add_unknown(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/unknown")
    async def unknown(request: Request) -> Response:
        unknown, closed = await place.asking.ask(_unknown, place.ledger(request))
        return place.show(request, "ledger/unknown_events.html", found=unknown, closed=closed)


def _unknown(journals: LedgerJournals) -> tuple[list[UnknownEvents], list[ClosedUnknown]]:
    return unknown_events(journals.journals()), closed_unknown(journals.journals())


HITS_MAX = 100
DECISIONS = tuple(decision.value for decision in Decision)
FIELDS = ("text", "event_type", "provider", "merchant", "decision", "from", "to", "amount", "currency")


def add_search(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/search")
    async def find(request: Request) -> Response:
        fields = Fields(request.query_params)
        wanted = read_search(fields)
        context = {"fields": fields, "decisions": DECISIONS, "hits": None, "shown_max": HITS_MAX}
        if fields.problems:
            return place.show(request, "ledger/search.html", 422, **context)
        if any(name in request.query_params for name in FIELDS):
            context["hits"] = await place.asking.ask(_hits, place.ledger(request), wanted)
        return place.show(request, "ledger/search.html", **context)


def _hits(journals: LedgerJournals, wanted: Wanted) -> list[Hit]:
    return search(journals.journals(), journals.postings(), wanted, HITS_MAX)


def read_search(fields: Fields) -> Wanted:
    """Reads the form's fields; its problems are in `Fields.problems`."""
    decision = fields.choice("decision", DECISIONS)
    currency = fields.text("currency", 3)
    currency = currency.upper() if currency else None
    return Wanted(
        event_type=fields.text("event_type"),
        provider=fields.text("provider"),
        merchant=fields.text("merchant"),
        decision=Decision(decision) if decision else None,
        since=fields.read("from", moments.since),
        until=fields.read("to", moments.until),
        amount_minor=_amount(fields, currency),
        currency=currency,
        in_keys=fields.text("text"),
    )


def _amount(fields: Fields, currency: str | None) -> int | None:
    amount = fields.text("amount")
    if amount is None:
        return None
    if currency is None:
        fields.wrong("currency", "an amount wants its currency: 100 is one thing in EUR and another in JPY")
        return None
    try:
        return minor_units(amount, currency)
    except AmountInvalid as wrong:
        fields.wrong("amount", str(wrong))
        return None


ENTITY_EVENTS_MAX = 100
ROWS_SHOWN_MAX = 100
"""Of one event on one page; the journal may hold more."""
RECEIPTS_SHOWN_MAX = 50


def add_stories(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/events/{key:path}")
    async def event(request: Request, key: str, user: StoryReader) -> Response:
        try:
            story, bodies = await place.asking.ask(place.ledger(request).story, key)
        except (RowAmbiguous, StreamUnknown) as unknown:
            return place.show(request, "ledger/unknown.html", 404, what="event or fact", key=key, problem=str(unknown))
        if not story.rows:
            return place.show(request, "ledger/unknown.html", 404, what="event or fact", key=key)
        check_reader(user, story.rows)
        shown = 0
        deliveries = []
        for delivery in story.deliveries:
            if shown < ROWS_SHOWN_MAX:
                deliveries.append(timeline(delivery, story, ROWS_SHOWN_MAX))
                shown += len(delivery.rows)
        receipts = (story.receipts or [])[:RECEIPTS_SHOWN_MAX]
        context = {"key": key, "story": story, "deliveries": deliveries, "bodies": bodies, "receipts": receipts}
        return place.show(request, "ledger/event.html", **context)

    @router.get("/ledger/entities/{key:path}")
    async def entity(request: Request, key: str, user: StoryReader) -> Response:
        story = await place.asking.ask(place.ledger(request).entity, key, ENTITY_EVENTS_MAX)
        if not story.total:
            return place.show(request, "ledger/unknown.html", 404, what="entity", key=key)
        check_reader(user, itertools.chain.from_iterable(event.rows for event in story.events))
        return place.show(request, "ledger/entity.html", key=key, story=story)


RUNS_PER_PAGE = 50
DIFFERENCES_MAX = 50
"""Of one kind, where all kinds are shown; of one that is asked for, `OF_KIND_MAX`."""
OF_KIND_MAX = 200


@dataclass(frozen=True, slots=True)
class Kinded:
    kind: Kind
    explained: str
    count: int
    shown: Sequence[Difference]


def add_reports(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/reconciliations")
    async def runs(request: Request) -> Response:
        return await show_runs(place, request, Fields(request.query_params))

    @router.get("/ledger/reconciliations/{run_id}")
    async def run(request: Request, run_id: str) -> Response:
        fields = Fields(request.query_params)
        kind = fields.choice("kind", tuple(KINDS))
        try:
            head, kinds = await place.asking.ask(differing, reconciliations(place.ledger(request)), run_id, kind)
        except UnknownRun:
            return place.show(request, "ledger/unknown.html", 404, what="reconciliation", key=run_id)
        context = {"details_known": run_details(head), "says": journal_says}
        return place.show(request, "ledger/reconciliation.html", run=head, kinds=kinds, only=kind, **context)


async def show_runs(place: Place, request: Request, fields: Fields, status: int = 200) -> Response:
    page = Fields(request.query_params).number("page", 1, 1_000_000) or 1
    runs = await place.asking.ask(reconciliations(place.ledger(request)).runs)
    shown, pages = _page(runs, page, RUNS_PER_PAGE)
    context = {"runs": shown, "page": page, "pages": pages, "fields": fields, "uploads": place.uploads}
    return place.show(request, "ledger/reconciliations.html", status, bytes_max=UPLOAD_BYTES_MAX, **context)


def reconciliations(journals: LedgerJournals) -> Reconciliations:
    return Reconciliations(journals.shared("reconciliation"), journals.shared("reconciliation-runs"))


def differing(reports: Reconciliations, run_id: str, only: str | None) -> tuple[Reconciliation, list[Kinded]]:
    """Reads a run, and of each kind the first differences.

    :raises UnknownRun: there is none of that id
    """
    run = reports.run(run_id)
    most = OF_KIND_MAX if only else DIFFERENCES_MAX
    kinds = []
    for kind, explained in KINDS.items():
        if run.counts[kind] and only in (None, kind):
            shown = list(itertools.islice(reports.differences(run_id, kind, most), most))
            kinds.append(Kinded(kind, explained, run.counts[kind], shown))
    return run, kinds
