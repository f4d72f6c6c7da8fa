"""Finance's pages that read: balances, search, stories of events and entities, reconciliations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from console.access.routes import StoryReader, check_reader
from console.details import journal_says, make_timeline, run_details
from console.forms import UPLOAD_BYTES_MAX, Fields
from console.pages.place import PagePlace
from console.plots import PlotSeries, steps_plot
from core import moments
from core.decision import Decision
from core.money import AmountInvalid, decimals_of, format_decimal, parse_minor_units
from journal.journals import StreamUnknown
from ledger.queries.balances import (
    AsOf,
    Balance,
    BalancesOverTime,
    Total,
    read_balances_over_time,
    sum_balances,
    sum_totals,
)
from ledger.queries.journals import LedgerJournals, RowAmbiguous, RowNameInvalid
from ledger.queries.search import DecisionFilter, Hit, search_decisions
from ledger.queries.unknown import ClosedUnknown, UnknownEvents, find_closed_unknown, find_unknown_events
from ledger.reconciliations import KINDS, Difference, Kind, Reconciliation, Reconciliations, UnknownRun

ROWS_PER_PAGE = 100
PLOTS_MAX = 3
"""Currencies that are plotted; another one is when it is asked for."""

CURRENCY_CHARS = 3

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class BalancesFilter:
    as_of: AsOf
    merchant: str | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class BalancesReport:
    balances: Sequence[Balance]
    totals: Sequence[Total]
    plots: Sequence[tuple[str, Markup, BalancesOverTime]]


def add_balances(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger")
    async def ledger(request: Request) -> Response:
        fields = Fields(request.query_params)
        journals = place.ledger(request)
        asked = await place.asking.ask(read_balances, fields, journals)
        page = fields.number("page", 1, 1_000_000) or 1
        context = {"fields": fields, "asked": asked, "answer": None, "page": page}
        if fields.problems:
            return place.show(request, "ledger/balances.html", 422, **context)
        answer = await place.asking.ask(report_balances, journals, asked)
        shown, pages = _cut_page(answer.balances, page, ROWS_PER_PAGE)
        return place.show(
            request, "ledger/balances.html", **{**context, "answer": answer, "shown": shown, "pages": pages}
        )


def _cut_page(rows: Sequence[Row], page: int, per_page: int) -> tuple[Sequence[Row], int]:
    begin = (page - 1) * per_page
    return rows[begin : begin + per_page], -(-len(rows) // per_page)


def read_balances(fields: Fields, journals: LedgerJournals) -> BalancesFilter:
    as_of, row = AsOf(fields.read("as_of", moments.as_of)), fields.text("seq")
    if as_of.before is not None and row is not None:
        fields.add_problem("seq", "Enter a time or a row, not both")
    elif row is not None:
        try:
            as_of = journals.find_as_of(row)
        except (RowNameInvalid, StreamUnknown) as wrong:
            fields.add_problem("seq", str(wrong))
    currency = fields.text("currency", CURRENCY_CHARS)
    return BalancesFilter(as_of, fields.text("merchant"), currency.upper() if currency else None)


def report_balances(journals: LedgerJournals, asked: BalancesFilter) -> BalancesReport:
    postings = journals.list_postings()
    all_balances = sum_balances(postings, asked.merchant, asked.currency, asked.as_of)
    # A row of the journal is no moment: there is nothing to plot up to it.
    currencies = [total.currency for total in sum_totals(all_balances)] if asked.as_of.seq is None else []
    plotted = []
    for currency in currencies[:PLOTS_MAX]:
        over_time = read_balances_over_time(postings, currency, merchant=asked.merchant, until=asked.as_of.before)
        plotted.append((currency, plot_balances(over_time), over_time))
    return BalancesReport(all_balances, sum_totals(all_balances), plotted)


def plot_balances(over_time: BalancesOverTime) -> Markup:
    decimals = decimals_of(over_time.currency)
    shown = [
        PlotSeries(account.account, [(at, balance / 10**decimals) for at, balance in account.points])
        for account in over_time.accounts
    ]
    return steps_plot(
        f"Balances in {over_time.currency} over time", _describe_plot(over_time), shown, whole=not decimals
    )


def _describe_plot(over_time: BalancesOverTime) -> str:
    parts = [
        f"{account.account}: {format_decimal(account.points[-1][1], over_time.currency)} at the end"
        for account in over_time.accounts
    ]
    left_out = f"; {over_time.left_out} accounts with smaller balances aren't plotted" if over_time.left_out else ""
    return f"Debits minus credits by account. {'; '.join(parts)}{left_out}."


def add_unknown(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/unknown")
    async def unknown(request: Request) -> Response:
        unknown, closed = await place.asking.ask(_read_unknown, place.ledger(request))
        return place.show(request, "ledger/unknown_events.html", found=unknown, closed=closed)


def _read_unknown(journals: LedgerJournals) -> tuple[list[UnknownEvents], list[ClosedUnknown]]:
    return find_unknown_events(journals.list_journals()), find_closed_unknown(journals.list_journals())


HITS_MAX = 100
DECISIONS = tuple(decision.value for decision in Decision)
FIELDS = ("text", "event_type", "provider", "merchant", "decision", "from", "to", "amount", "currency")


def add_search(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/search")
    async def find(request: Request) -> Response:
        fields = Fields(request.query_params)
        wanted = read_search(fields)
        context = {"fields": fields, "decisions": DECISIONS, "hits": None, "shown_max": HITS_MAX}
        if fields.problems:
            return place.show(request, "ledger/search.html", 422, **context)
        if any(name in request.query_params for name in FIELDS):
            context["hits"] = await place.asking.ask(_find_hits, place.ledger(request), wanted)
        return place.show(request, "ledger/search.html", **context)


def _find_hits(journals: LedgerJournals, wanted: DecisionFilter) -> list[Hit]:
    return search_decisions(journals.list_journals(), journals.list_postings(), wanted, HITS_MAX)


def read_search(fields: Fields) -> DecisionFilter:
    decision = fields.read_choice("decision", DECISIONS)
    currency = fields.text("currency", 3)
    currency = currency.upper() if currency else None
    return DecisionFilter(
        event_type=fields.text("event_type"),
        provider=fields.text("provider"),
        merchant=fields.text("merchant"),
        decision=Decision(decision) if decision else None,
        since=fields.read("from", moments.parse_since),
        until=fields.read("to", moments.parse_until),
        amount_minor=_read_amount(fields, currency),
        currency=currency,
        in_keys=fields.text("text"),
    )


def _read_amount(fields: Fields, currency: str | None) -> int | None:
    amount = fields.text("amount")
    if amount is None:
        return None
    if currency is None:
        fields.add_problem("currency", "Enter a currency: an amount needs one")
        return None
    try:
        return parse_minor_units(amount, currency)
    except AmountInvalid as wrong:
        fields.add_problem("amount", str(wrong))
        return None


ENTITY_EVENTS_MAX = 100
ROWS_SHOWN_MAX = 100
"""The most deliveries of one event on one page; the journal may hold more."""
RECEIPTS_SHOWN_MAX = 50


def add_stories(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/events/{key:path}")
    async def event(request: Request, key: str, user: StoryReader) -> Response:
        try:
            story, bodies = await place.asking.ask(place.ledger(request).read_story, key)
        except (RowAmbiguous, StreamUnknown) as unknown:
            return place.show(request, "ledger/unknown.html", 404, what="event or fact", key=key, problem=str(unknown))
        if not story.rows:
            return place.show(request, "ledger/unknown.html", 404, what="event or fact", key=key)
        check_reader(user, story.rows)
        shown = 0
        deliveries = []
        for delivery in story.deliveries:
            if shown < ROWS_SHOWN_MAX:
                deliveries.append(make_timeline(delivery, story, ROWS_SHOWN_MAX))
                shown += len(delivery.rows)
        receipts = (story.receipts or [])[:RECEIPTS_SHOWN_MAX]
        context = {"key": key, "story": story, "deliveries": deliveries, "bodies": bodies, "receipts": receipts}
        return place.show(request, "ledger/event.html", **context)

    @router.get("/ledger/entities/{key:path}")
    async def entity(request: Request, key: str, user: StoryReader) -> Response:
        story = await place.asking.ask(place.ledger(request).read_entity, key, ENTITY_EVENTS_MAX)
        if not story.total:
            return place.show(request, "ledger/unknown.html", 404, what="entity", key=key)
        check_reader(user, itertools.chain.from_iterable(event.rows for event in story.events))
        return place.show(request, "ledger/entity.html", key=key, story=story)


RUNS_PER_PAGE = 50
DIFFERENCES_MAX = 50
"""The most differences of one kind where all kinds are shown; `OF_KIND_MAX` where one is asked for."""
OF_KIND_MAX = 200


@dataclass(frozen=True, slots=True)
class DifferencesOfKind:
    kind: Kind
    explained: str
    count: int
    shown: Sequence[Difference]


def add_reports(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/reconciliations")
    async def runs(request: Request) -> Response:
        return await show_runs(place, request, Fields(request.query_params))

    @router.get("/ledger/reconciliations/{run_id}")
    async def run(request: Request, run_id: str) -> Response:
        fields = Fields(request.query_params)
        kind = fields.read_choice("kind", tuple(KINDS))
        try:
            head, kinds = await place.asking.ask(
                read_differences, open_reconciliations(place.ledger(request)), run_id, kind
            )
        except UnknownRun:
            return place.show(request, "ledger/unknown.html", 404, what="reconciliation", key=run_id)
        context = {"details_known": run_details(head), "says": journal_says}
        return place.show(request, "ledger/reconciliation.html", run=head, kinds=kinds, only=kind, **context)


async def show_runs(place: PagePlace, request: Request, fields: Fields, status: int = 200) -> Response:
    page = Fields(request.query_params).number("page", 1, 1_000_000) or 1
    runs = await place.asking.ask(open_reconciliations(place.ledger(request)).list_runs)
    shown, pages = _cut_page(runs, page, RUNS_PER_PAGE)
    context = {"runs": shown, "page": page, "pages": pages, "fields": fields, "uploads": place.uploads}
    return place.show(request, "ledger/reconciliations.html", status, bytes_max=UPLOAD_BYTES_MAX, **context)


def open_reconciliations(journals: LedgerJournals) -> Reconciliations:
    return Reconciliations(journals.locate_shared("reconciliation"), journals.locate_shared("reconciliation-runs"))


def read_differences(
    reports: Reconciliations, run_id: str, only: str | None
) -> tuple[Reconciliation, list[DifferencesOfKind]]:
    run = reports.find_run(run_id)
    most = OF_KIND_MAX if only else DIFFERENCES_MAX
    kinds = []
    for kind, explained in KINDS.items():
        if run.counts[kind] and only in (None, kind):
            shown = list(itertools.islice(reports.read_differences(run_id, kind, most), most))
            kinds.append(DifferencesOfKind(kind, explained, run.counts[kind], shown))
    return run, kinds
