"""``/ledger/overview``: where finance begins. What is held and owed, what waits for a person, and what came last.

``/ledger/postings`` and ``/ledger/owed``: the movements of a balance, and what each merchant is owed.
``/ledger/verification``: what each invariant says, whether it held when it was last looked at, and its query.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from console.bookings import BookingService
from console.forms import Fields
from console.pages.ledger import BalancesFilter, open_reconciliations, read_balances
from console.pages.place import PagePlace
from core.decision import Decision
from core.event import Mode
from core.keys import key_part
from core.layout import LEDGER, Layout
from core.routing import base_of, mode_of, stream_of
from core.status_file import moment_of, read_said
from ledger.queries.balances import Balance, OwedAmount, list_owed_parts, sum_balances, sum_owed
from ledger.queries.journals import CursorInvalid, LedgerJournals
from ledger.queries.postings import PostingsPage, read_postings_page
from ledger.queries.search import DecisionFilter, Hit, search_decisions
from ledger.queries.unknown import UnknownEvents, find_unknown_events
from ledger.reconciliations import Reconciliation
from ledger.verify.job import OF_DEEP_ALONE, OF_THE_LEDGER, explain, list_invariant_types
from ledger.verify.report import UNKNOWN, WRONG, InvariantState, read_known_invariants

DEEP = frozenset(invariant.name for invariant in OF_DEEP_ALONE)
NOT_YET = "not checked yet"
LOOKED_AT_BY_DEEP = "checked by `payhook verify --deep` only"


@dataclass(frozen=True, slots=True)
class InvariantResult:
    """``state``: holds, wrong or unknown. ``offenders``: some of what the last look found, a JSON text each.

    ``at``: None where it was never looked at. ``note``: what else there is to know of that look; empty: nothing.
    """

    name: str
    sentence: str
    query: str
    state: str
    at: datetime | None
    note: str
    offenders: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamResult:
    """``at``: when it was last verified, ``seq``: the last row then; None: never. ``problem``: why the last round by
    schedule couldn't verify it.
    """

    stream: str
    at: datetime | None
    seq: int | None
    wrong: int
    problem: str | None
    invariants: Sequence[InvariantResult]


def read_results(layout: Layout, mode: Mode) -> list[StreamResult]:
    verified, by_schedule = read_said(layout.verified_file) or {}, read_said(layout.verification_file) or {}
    problems: Mapping[str, str] = by_schedule.get("problems") or {}
    streams = {stream_of(LEDGER, mode), *(stream for stream in (*verified, *problems) if mode_of(stream) == mode)}
    ordered = sorted(streams, key=lambda stream: (base_of(stream) != LEDGER, stream))
    return [_of_stream(stream, verified.get(stream) or {}, problems.get(stream)) for stream in ordered]


def _of_stream(stream: str, known: Mapping[str, Any], problem: str | None) -> StreamResult:
    results = read_known_invariants(known)
    # What a verification left out isn't asked of this stream, but for what only a deep one looks at.
    others = frozenset[str]() if base_of(stream) == LEDGER else OF_THE_LEDGER
    invariant_names = [
        name
        for name in list_invariant_types()
        if name in results or (name not in others and (not results or name in DEEP))
    ]
    invariants = [_result_of(name, results.get(name), was_verified=bool(results)) for name in invariant_names]
    invariants.sort(key=lambda invariant: invariant.state != WRONG)
    return StreamResult(
        stream, moment_of(known, "at"), known.get("seq"), len(known.get("wrong") or []), problem, invariants
    )


def _result_of(name: str, known: InvariantState | None, *, was_verified: bool) -> InvariantResult:
    query, sentence = explain(name), list_invariant_types()[name].sentence
    if known is None:
        note = LOOKED_AT_BY_DEEP if name in DEEP and was_verified else NOT_YET
        return InvariantResult(name, sentence, query, UNKNOWN, None, note, ())
    notes = [
        *([f"not checked: {known['not_checked']}"] if known["not_checked"] else []),
        *([f"of the rows from {known['since']:,} on"] if known["since"] > 1 else []),
    ]
    offenders = [json.dumps(offender, ensure_ascii=False) for offender in known["offenders"]]
    return InvariantResult(name, sentence, query, known["state"], moment_of(known, "at"), "; ".join(notes), offenders)


def add_verification(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/verification")
    async def verification(request: Request) -> Response:
        results = await place.asking.ask(read_results, place.layout, place.mode(request))
        return place.show(request, "ledger/verification.html", results=results)


OWED_SHOWN = 10
BOOKED_SHOWN = 10


@dataclass(frozen=True, slots=True)
class FinanceHome:
    """``held``: what providers hold, and ``owed_in_all``, in minor units by currency. ``owed``: the greatest amounts.

    ``last_run``: the newest reconciliation; None: there was none. ``verified_at``: of the stream whose verification is
    oldest; None: one never was. ``wrong``: how many invariants don't hold.
    """

    held: Mapping[str, int]
    owed_in_all: Mapping[str, int]
    owed: Sequence[OwedAmount]
    merchants: int
    unknown: Sequence[UnknownEvents]
    waiting: int
    last_run: Reconciliation | None
    verified_at: datetime | None
    wrong: int
    booked: Sequence[Hit]

    @property
    def unknown_count(self) -> int:
        return sum(group.events for group in self.unknown)

    @property
    def differing(self) -> int:
        return 0 if self.last_run is None else sum(self.last_run.counts.values())


def add_home(router: APIRouter, place: PagePlace, services: Mapping[Mode, BookingService]) -> None:
    @router.get("/ledger/overview")
    async def home(request: Request) -> Response:
        mode = place.mode(request)
        shown = await place.asking.ask(read_home, place, mode, place.ledger(request), services[mode])
        parts = list_owed_parts(shown.owed)
        return place.show(request, "ledger/home.html", shown=shown, parts=parts, account_of=account_of)


def read_home(place: PagePlace, mode: Mode, journals: LedgerJournals, service: BookingService) -> FinanceHome:
    all_balances = sum_balances(journals.list_postings())
    to_merchants = sum_owed(all_balances)
    runs = open_reconciliations(journals).list_runs()
    results = read_results(place.layout, mode)
    return FinanceHome(
        held=_sum_held(all_balances),
        owed_in_all=_by_currency(to_merchants),
        owed=sorted(to_merchants, key=lambda merchant: -abs(merchant.owed_minor) / 10**merchant.decimals)[:OWED_SHOWN],
        merchants=len({merchant.merchant for merchant in to_merchants}),
        unknown=find_unknown_events(journals.list_journals()),
        waiting=sum(proposal.waits for proposal in service.proposals()),
        last_run=runs[0] if runs else None,
        verified_at=_find_oldest(results),
        wrong=sum(invariant.state == WRONG for result in results for invariant in result.invariants),
        booked=_read_booked(journals),
    )


def _sum_held(accounts: Sequence[Balance]) -> dict[str, int]:
    by_currency: Counter[str] = Counter()
    for balance in accounts:
        if balance.account.startswith("provider:"):
            by_currency[balance.currency] += balance.balance_minor
    return dict(sorted(by_currency.items()))


def _by_currency(merchants: Sequence[OwedAmount]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for merchant in merchants:
        sums[merchant.currency] += merchant.owed_minor
    return dict(sorted(sums.items()))


def _find_oldest(results: Sequence[StreamResult]) -> datetime | None:
    moments = [result.at for result in results if result.at is not None]
    return min(moments) if len(moments) == len(results) else None


def _read_booked(journals: LedgerJournals) -> list[Hit]:
    applied = search_decisions(
        journals.list_journals(), journals.list_postings(), DecisionFilter(decision=Decision.APPLIED), BOOKED_SHOWN
    )
    return [hit for hit in applied if hit.amount_minor is not None]


POSTINGS_PER_PAGE = 100
OWED_MAX = 200
"""Merchants and currencies on one page; another merchant is found by its name."""


def add_postings(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/postings")
    async def of_account(request: Request) -> Response:
        fields, journals = Fields(request.query_params), place.ledger(request)
        asked = await place.asking.ask(read_balances, fields, journals)
        account = fields.text("account")
        context = {"fields": fields, "account": account, "found": None}
        if fields.problems:
            return place.show(request, "ledger/postings.html", 422, **context)
        if account is None:
            return place.show(request, "ledger/postings.html", **context)
        try:
            shown = await place.asking.ask(_read_page, journals, asked, account, fields.text("cursor"))
        except CursorInvalid as wrong:
            fields.add_problem("account", str(wrong))
            return place.show(request, "ledger/postings.html", 422, **context)
        return place.show(request, "ledger/postings.html", **{**context, "found": shown})


def _read_page(journals: LedgerJournals, asked: BalancesFilter, account: str, cursor: str | None) -> PostingsPage:
    tables = journals.list_postings()
    return read_postings_page(tables, account, asked.currency, asked.merchant, asked.as_of, cursor, POSTINGS_PER_PAGE)


def add_owed(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/owed")
    async def to_merchants(request: Request) -> Response:
        fields, journals = Fields(request.query_params), place.ledger(request)
        asked = await place.asking.ask(read_balances, fields, journals)
        context: dict[str, Any] = {"fields": fields, "found": None, "parts": [], "more": 0, "account_of": account_of}
        if fields.problems:
            return place.show(request, "ledger/owed.html", 422, **context)
        merchants = await place.asking.ask(_read_owed, journals, asked)
        context |= {
            "found": merchants[:OWED_MAX],
            "parts": list_owed_parts(merchants),
            "more": len(merchants) - OWED_MAX,
        }
        return place.show(request, "ledger/owed.html", **context)


def _read_owed(journals: LedgerJournals, asked: BalancesFilter) -> list[OwedAmount]:
    return sum_owed(sum_balances(journals.list_postings(), asked.merchant, asked.currency, asked.as_of))


def account_of(merchant: str, part: str) -> str:
    return f"merchant:{key_part(merchant)}:{part}"
