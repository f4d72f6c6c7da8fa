"""``/ledger``: what is on each account, now or as of a moment, and how it came to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from console.forms import Fields
from console.pages.place import Place
from console.plots import Steps, short, steps_plot
from core import moments
from core.money import decimals_of
from ledger.queries import AsOf, Balance, BalancesOverTime, Total, balances, balances_over_time, decimal_text, totals

ROWS_PER_PAGE = 100
PLOTS_MAX = 3
"""Currencies that are plotted; another one is when it is asked for."""

SEQ_MAX = 2**63 - 1
CURRENCY_CHARS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form asks for."""

    as_of: AsOf
    merchant: str | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything of the page. ``plots``: by currency."""

    balances: Sequence[Balance]
    totals: Sequence[Total]
    plots: Sequence[tuple[str, Markup, BalancesOverTime]]


def add_balances(router: APIRouter, place: Place) -> None:
    @router.get("/ledger")
    async def ledger(request: Request) -> Response:
        fields = Fields(request.query_params)
        asked, page = read(fields), fields.number("page", 1, 1_000_000) or 1
        context = {"fields": fields, "asked": asked, "answer": None, "page": page}
        if fields.problems:
            return place.show(request, "ledger/balances.html", 422, **context)
        answer = await place.asking.ask(answered, str(place.ledger(request).postings), asked)
        begin = (page - 1) * ROWS_PER_PAGE
        context |= {
            "answer": answer,
            "shown": answer.balances[begin : begin + ROWS_PER_PAGE],
            "pages": -(-len(answer.balances) // ROWS_PER_PAGE),
        }
        return place.show(request, "ledger/balances.html", **context)


def read(fields: Fields) -> Asked:
    """The form's fields; problems are told there."""
    before, seq = fields.moment("as_of", moments.as_of), fields.number("seq", 0, SEQ_MAX)
    if before is not None and seq is not None:
        fields.wrong("seq", "a time or a row, not both")
    currency = fields.text("currency", CURRENCY_CHARS)
    return Asked(AsOf(before, seq), fields.text("merchant"), currency.upper() if currency else None)


def answered(postings: str, asked: Asked) -> Answer:
    """
    :raises LedgerUnreadable: the table is damaged
    """
    found = balances(postings, asked.merchant, asked.currency, asked.as_of)
    # A row of the journal is no moment: there is nothing to plot up to it.
    currencies = [total.currency for total in totals(found)] if asked.as_of.seq is None else []
    told = []
    for currency in currencies[:PLOTS_MAX]:
        over_time = balances_over_time(postings, currency, merchant=asked.merchant, until=asked.as_of.before)
        told.append((currency, plot(over_time), over_time))
    return Answer(found, totals(found), told)


def plot(over_time: BalancesOverTime) -> Markup:
    """A line for each account."""
    decimals = decimals_of(over_time.currency)
    shown = [
        Steps(one.account, [(at, balance / 10**decimals) for at, balance in one.points]) for one in over_time.accounts
    ]
    return steps_plot(
        f"Balances in {over_time.currency} over time", _described(over_time), shown, told=short, whole=not decimals
    )


def _described(over_time: BalancesOverTime) -> str:
    """The plot in words, for those who don't see it."""
    told = [
        f"{one.account}: {decimal_text(one.points[-1][1], over_time.currency, grouped=True)} at the end"
        for one in over_time.accounts
    ]
    left_out = f"; {over_time.left_out} accounts with smaller balances aren't plotted" if over_time.left_out else ""
    return f"Debits minus credits by account. {'; '.join(told)}{left_out}."
