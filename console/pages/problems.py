"""What a page says when the answer is a refusal of payhook's own."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from console.access.accounts import UserUnknown
from console.pages.asking import TooMuchAsked
from console.web import render
from core.errors import PayhookError
from dlq.index import FilterInvalid, ItemUnknown
from dlq.selection import RunRefused, SelectionEmpty, SelectionsFull, SelectionTooLarge, SelectionUnknown
from ledger.queries import NothingBooked

STATUSES: dict[type[PayhookError], int] = {
    FilterInvalid: 422,
    ItemUnknown: 404,
    NothingBooked: 404,
    RunRefused: 409,
    SelectionEmpty: 409,
    SelectionTooLarge: 422,
    SelectionUnknown: 404,
    SelectionsFull: 503,
    TooMuchAsked: 503,
    UserUnknown: 404,
}
"""Others are of a file or a server that fails: 503."""

TITLES = {404: "It isn't there", 409: "It isn't done", 422: "It isn't done", 503: "It can't be had just now"}


def add_problems(app: FastAPI) -> None:
    app.add_exception_handler(PayhookError, _refused)


async def _refused(request: Request, problem: Exception) -> Response:
    status = next((STATUSES[one] for one in type(problem).__mro__ if one in STATUSES), 503)
    return render(request, "refused.html", status, title=TITLES[status], detail=str(problem))
