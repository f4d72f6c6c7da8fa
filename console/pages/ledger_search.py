"""``/ledger/search``: decisions that match, the newest first."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from console.forms import Fields
from console.pages.place import Place
from core import moments
from core.decision import Decision
from core.layout import StreamLayout
from ledger.queries import AmountInvalid, Hit, Wanted, minor_units, search

SHOWN_MAX = 100
DECISIONS = tuple(decision.value for decision in Decision)
FIELDS = ("text", "event_type", "provider", "merchant", "decision", "from", "to", "amount", "currency")


def add_search(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/search")
    async def find(request: Request) -> Response:
        fields = Fields(request.query_params)
        wanted = read(fields)
        context = {"fields": fields, "decisions": DECISIONS, "hits": None, "shown_max": SHOWN_MAX}
        if fields.problems:
            return place.show(request, "ledger/search.html", 422, **context)
        if any(name in request.query_params for name in FIELDS):
            context["hits"] = await place.asking.ask(_hits, place.ledger(request), wanted)
        return place.show(request, "ledger/search.html", **context)


def _hits(ledger: StreamLayout, wanted: Wanted) -> list[Hit]:
    return search(str(ledger.journal), str(ledger.postings), wanted, SHOWN_MAX)


def read(fields: Fields) -> Wanted:
    """The form's fields; problems are told there."""
    decision = fields.choice("decision", DECISIONS)
    currency = fields.text("currency", 3)
    currency = currency.upper() if currency else None
    return Wanted(
        event_type=fields.text("event_type"),
        provider=fields.text("provider"),
        merchant=fields.text("merchant"),
        decision=Decision(decision) if decision else None,
        since=fields.moment("from", moments.since),
        until=fields.moment("to", moments.until),
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
