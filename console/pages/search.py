"""``/search``: payments by whatever a person has in hand, from the box that every page has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from console.access.roles import Role, User
from console.access.routes import require_role
from console.forms import Fields
from console.pages.place import DlqPlace, PagePlace, PageStream
from console.rendering import quote_segment
from core.clock import Deadline
from core.decision import Decision
from core.layout import LEDGER
from core.routing import of_stream, stream_of
from dead_letters.item import Item
from dead_letters.listing import Filter
from ledger.queries.journals import LedgerJournals
from ledger.queries.payments import (
    FOUND_MAX,
    SEARCH_S_MAX,
    TEXT_CHARS_MAX,
    Payment,
    Payments,
    find_payments,
    read_amount,
)

REPLAYABLE = (Decision.DEAD, Decision.IGNORED, Decision.UNKNOWN)
"""The decisions that an order may replay."""


def search_routes(place: PagePlace, dlq: DlqPlace) -> APIRouter:
    router = APIRouter()

    @router.get("/search")
    async def search(request: Request, user: Annotated[User, Depends(require_role(None))]) -> Response:
        """Finance finds every payment, an operator those of which an event may be replayed. One alone is shown."""
        only = () if user.may(Role.FINANCE) else REPLAYABLE
        may_search = user.may(Role.FINANCE) or user.may(Role.VIEWER)
        fields = Fields(request.query_params)
        words = fields.text("q", TEXT_CHARS_MAX) if may_search else None
        context = {
            "fields": fields,
            "found": None,
            "only": only,
            "most": FOUND_MAX,
            "seconds": SEARCH_S_MAX,
            "order_field": place.order_field,
        }
        context |= {"may_search": may_search, "seconds": SEARCH_S_MAX, "order_field": place.order_field}
        if fields.problems:
            return place.show(request, "search.html", 422, page_of_payment=None, **context)
        if words is None:
            return place.show(request, "search.html", page_of_payment=None, **context)

        mode = place.mode(request)
        streams = list(of_stream(dlq.streams, stream_of(LEDGER, mode)).values())

        def find(ledger: LedgerJournals) -> Payments:
            payments = find_payments(ledger, words, Deadline(place.clock, SEARCH_S_MAX), place.order_field, only=only)
            return _join_payments(payments, _dead_of_amount(streams, words) if user.may(Role.VIEWER) else [])

        matches = await place.asking.ask(find, place.ledger(request))

        def page_of_payment(payment: Payment) -> str:
            return _page_of(place, request, user, payment)

        if len(matches.found) == 1:
            return RedirectResponse(page_of_payment(matches.found[0]), 303)
        return place.show(request, "search.html", page_of_payment=page_of_payment, **{**context, "found": matches})

    return router


def _dead_of_amount(streams: Sequence[PageStream], words: str) -> list[Payment]:
    """Finds payments with a dead event of an amount: it isn't booked, so that no posting has it."""
    amount = read_amount(words)
    if amount is None:
        return []
    payments = []
    for stream in streams:
        stream.index.follow()
        pages = [
            stream.index.page(Filter(amount_minor=minor), limit=FOUND_MAX) for minor in sorted(amount.list_minors())
        ]
        items = [item for page in pages for item in page.items if amount.is_of(item.amount_minor, item.currency)]
        payments += [payment for item in items if (payment := _payment_of(item, stream.name)) is not None]
    return payments


def _payment_of(item: Item, stream: str) -> Payment | None:
    key = item.entity_key or item.event_key
    if key is None or item.amount_minor is None or item.currency is None:
        return None
    amounts = {item.currency: item.amount_minor}
    is_entity = item.entity_key is not None
    return Payment(key, is_entity, Decision.DEAD.value, item.event_type, item.since, stream, amounts=amounts)


def _join_payments(payments_found: Payments, dead: Sequence[Payment]) -> Payments:
    by_key = {payment.key: payment for payment in (*dead, *payments_found.found)}
    payments = sorted(by_key.values(), key=lambda payment: payment.at, reverse=True)
    return Payments(
        tuple(payments[:FOUND_MAX]), payments_found.more or len(payments) > FOUND_MAX, payments_found.looked_since
    )


def _page_of(place: PagePlace, request: Request, user: User, payment: Payment) -> str:
    if user.may(Role.FINANCE) or user.may(Role.REPLAYER):
        return place.link(
            request, f"/ledger/{'entities' if payment.is_entity else 'events'}/{quote_segment(payment.key)}"
        )
    return f"/dlq?view=items&stream={payment.stream}&entity={quote_segment(payment.key)}"
