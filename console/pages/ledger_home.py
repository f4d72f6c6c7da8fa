"""``/ledger/overview``: where finance begins. What is held and owed, what waits for a person, and what came last.

``/ledger/postings`` and ``/ledger/owed``: the movements of a balance, and what each merchant is owed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from console.bookings import BookingService
from console.forms import Fields
from console.pages.ledger import BalancesFilter, open_reconciliations, read_balances
from console.pages.ledger_verification import StreamResult, read_results
from console.pages.place import PagePlace
from core.decision import Decision
from core.event import Mode
from core.keys import key_part
from ledger.queries.balances import Balance, OwedAmount, list_owed_parts, sum_balances, sum_owed
from ledger.queries.journals import CursorInvalid, LedgerJournals
from ledger.queries.postings import PostingsPage, read_postings_page
from ledger.queries.search import DecisionFilter, Hit, search_decisions
from ledger.queries.unknown import UnknownEvents, find_unknown_events
from ledger.reconciliations import Reconciliation
from ledger.verify.report import WRONG

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
    """
    :raises LedgerUnreadable: a table is damaged
    """
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
    """Names the account whose balance is a part of what the merchant is owed."""
    return f"merchant:{key_part(merchant)}:{part}"
