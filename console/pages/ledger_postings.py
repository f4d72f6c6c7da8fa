"""``/ledger/postings`` and ``/ledger/owed``: the movements of a balance, and what each merchant is owed."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from console.forms import Fields
from console.pages.ledger import BalancesFilter, read_balances
from console.pages.place import PagePlace
from core.keys import key_part
from ledger.queries import (
    CursorInvalid,
    OwedAmount,
    PostingsPage,
    list_owed_parts,
    read_postings_page,
    sum_balances,
    sum_owed,
)
from ledger.queries.journals import LedgerJournals

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
