"""``/search``: payments by whatever a person has in hand, from the box that every page has."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from console.access.roles import Role, User
from console.access.routes import require
from console.forms import Fields
from console.pages.place import Place
from console.rendering import segment
from core.decision import Decision
from ledger.queries import LedgerJournals, Payment, Payments, find_payments
from ledger.queries.payments import FOUND_MAX, TEXT_CHARS_MAX

REPLAYABLE = (Decision.DEAD, Decision.IGNORED, Decision.UNKNOWN)
"""What was decided so may be replayed by order."""


def search_routes(place: Place) -> APIRouter:
    router = APIRouter()

    @router.get("/search")
    async def search(request: Request, user: Annotated[User, Depends(require(None))]) -> Response:
        """Finance finds every payment, an operator those of which an event may be replayed. One alone is shown."""
        only = () if user.may(Role.FINANCE) else REPLAYABLE
        may_search = user.may(Role.FINANCE) or user.may(Role.VIEWER)
        fields = Fields(request.query_params)
        words = fields.text("q", TEXT_CHARS_MAX) if may_search else None
        context = {"fields": fields, "found": None, "only": only, "most": FOUND_MAX, "order_field": place.order_field}
        context["may_search"] = may_search
        if fields.problems:
            return place.show(request, "search.html", 422, page_of_payment=None, **context)
        if words is None:
            return place.show(request, "search.html", page_of_payment=None, **context)

        def find(ledger: LedgerJournals) -> Payments:
            return find_payments(ledger, words, place.order_field, only=only)

        found = await place.asking.ask(find, place.ledger(request))

        def page_of_payment(payment: Payment) -> str:
            return _page_of(place, request, user, payment)

        if len(found.found) == 1:
            return RedirectResponse(page_of_payment(found.found[0]), 303)
        return place.show(request, "search.html", page_of_payment=page_of_payment, **{**context, "found": found})

    return router


def _page_of(place: Place, request: Request, user: User, payment: Payment) -> str:
    """The payment's story; to a viewer, who reads no stories, what is dead of it."""
    if user.may(Role.FINANCE) or user.may(Role.REPLAYER):
        return place.link(request, f"/ledger/{'entities' if payment.is_entity else 'events'}/{segment(payment.key)}")
    return f"/dlq?view=items&stream={payment.stream}&entity={segment(payment.key)}"
