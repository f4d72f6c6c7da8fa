"""Answers requests that aren't served: problem details at the API; a page, or the way to sign in, elsewhere."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from console.access.accounts import UserUnknown
from console.access.roles import NotAllowed, NotSignedIn, TokenOver
from console.access.users import UsersUnreadable
from console.bookings import AnotherPersonWanted
from console.forms import FormRefused
from console.pages.place import TooMuchAsked
from console.rendering import HOME, path_of, render_page
from core.errors import PayhookError
from dead_letters.file import DeadLetterIndexUnreadable
from dead_letters.listing import FilterInvalid
from dead_letters.payload import OriginUnreadable
from dead_letters.story import ItemUnknown
from ingest.idempotency.request import Problem
from ingest.idempotency.store import IdempotentRun
from journal.errors import JournalBroken
from ledger.queries.export import NothingBooked
from ledger.reversals import EntryUnfit, ProposalUnknown
from operations.audit_log import AuditLogBroken, AuditLogUnwritable
from operations.command import CommandInvalid
from operations.commands import CommandNotSent
from operations.frozen import SelectionBroken, SelectionUnknown
from operations.selection.model import RunRefused, SecondPersonWanted, SelectionEmpty, SelectionsFull, SelectionTooLarge

log = logging.getLogger(__name__)

API = "/api"
DOCS_URL = "/openapi.json"
SIGN_IN = "/login"
RETRY_AFTER_S = 5
ERRORS_NAMED_MAX = 10


class ForeignPage(PayhookError):
    def __init__(self, header: str) -> None:
        self.header = header
        super().__init__(
            f"{header} says that a web page from elsewhere sends this; use `payhook`, curl, or the listener's own pages"
        )


class NotJson(PayhookError):
    """Raised for a body at the API that doesn't say it is JSON: what a form of another site could send."""

    def __init__(self) -> None:
        super().__init__("send a JSON body with Content-Type: application/json")


@dataclass(frozen=True, slots=True)
class RefusalAnswer:
    """Says how one kind of error is answered. ``detail``: instead of the error's own text, which is then only logged.

    ``closes``: the request's body wasn't read, so the connection ends.
    """

    status: int
    slug: str
    title: str
    detail: str = ""
    closes: bool = False


_INVALID = RefusalAnswer(422, "invalid", "The request isn't valid")
_SECOND_PERSON = RefusalAnswer(409, "second-person", "Another admin must approve it")
_NO_RECORD = RefusalAnswer(
    503,
    "record-unavailable",
    "This can't be recorded",
    "see the listener's log, then send the order again: it has one effect",
    closes=True,
)
_UNAVAILABLE = RefusalAnswer(
    503, "unavailable", "This can't be answered now", "the listener's log says why", closes=True
)
ANSWERS: Mapping[type[Exception], RefusalAnswer] = {
    TokenOver: RefusalAnswer(401, "token-over", "The token has expired", closes=True),
    NotSignedIn: RefusalAnswer(401, "not-signed-in", "You are not signed in", closes=True),
    NotAllowed: RefusalAnswer(403, "not-allowed", "You may not do this", closes=True),
    ForeignPage: RefusalAnswer(403, "foreign-page", "Another site's page may not do this", closes=True),
    NotJson: RefusalAnswer(415, "not-json", "The body must be JSON", closes=True),
    FormRefused: RefusalAnswer(400, "form-refused", "The form wasn't accepted", closes=True),
    UsersUnreadable: RefusalAnswer(
        503,
        "users-unreadable",
        "Nobody can sign in now",
        "the file of users can't be read; the listener's log says why",
        closes=True,
    ),
    AuditLogUnwritable: _NO_RECORD,
    AuditLogBroken: _NO_RECORD,
    UserUnknown: RefusalAnswer(404, "user-unknown", "No such user"),
    ItemUnknown: RefusalAnswer(404, "item-unknown", "No such item"),
    ProposalUnknown: RefusalAnswer(404, "proposal-unknown", "No such proposal"),
    SelectionUnknown: RefusalAnswer(404, "selection-unknown", "No such selection"),
    NothingBooked: RefusalAnswer(404, "nothing-booked", "Nothing is booked yet"),
    AnotherPersonWanted: _SECOND_PERSON,
    SecondPersonWanted: _SECOND_PERSON,
    EntryUnfit: _INVALID,
    CommandInvalid: _INVALID,
    FilterInvalid: _INVALID,
    SelectionEmpty: RefusalAnswer(409, "nothing-matches", "No dead events match"),
    SelectionTooLarge: RefusalAnswer(409, "selection-too-large", "Too many items match"),
    SelectionsFull: RefusalAnswer(409, "selections-full", "No room for another selection"),
    SelectionBroken: RefusalAnswer(409, "selection-broken", "The selection was changed after it was frozen"),
    RunRefused: RefusalAnswer(409, "run-refused", "The run was refused"),
    CommandNotSent: RefusalAnswer(503, "kafka-unavailable", "Kafka doesn't answer"),
    OriginUnreadable: RefusalAnswer(503, "origin-unreadable", "Kafka doesn't answer"),
    DeadLetterIndexUnreadable: RefusalAnswer(503, "index-unreadable", "The list of dead items can't be read"),
    JournalBroken: RefusalAnswer(503, "journal-unreadable", "The journal can't be read"),
    TooMuchAsked: RefusalAnswer(503, "too-much-asked", "This can't be answered now"),
    PayhookError: RefusalAnswer(503, "unavailable", "This can't be answered now"),
    OSError: _UNAVAILABLE,
    sqlite3.Error: _UNAVAILABLE,
    Exception: RefusalAnswer(500, "bug", "The listener failed", "the listener's log has the error"),
}
"""The answers by the error's class, or the nearest of those that it is derived from."""

_NOT_SERVED = {
    400: ("not-readable", "The request was refused"),
    404: ("no-such-page", "There is no such page"),
    405: ("wrong-method", "This page doesn't support that method"),
}


def add_refusals(app: FastAPI) -> None:
    for kind in (Problem, PayhookError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _handle_refusal)


def answer_refusal(request: Request, error: Exception) -> Response:
    """Answers what the guard raised, or a route.

    A refusal below 500 came before anything began: the Idempotency-Key of the request stays free for a corrected one.
    """
    to_api = is_api(request)
    if isinstance(error, NotSignedIn) and not to_api:
        return _to_sign_in(request)
    problem = _problem_of(error, to_api=to_api)
    run: IdempotentRun | None = getattr(request.state, "idempotency", None)
    if run is not None and problem.status < 500:
        run.nothing_began()
    if to_api:
        answer = Response(problem.body(DOCS_URL), problem.status, problem.headers(DOCS_URL))
        if problem.status == 401:
            answer.headers["www-authenticate"] = 'Bearer realm="payhook"'
    else:
        detail = "" if isinstance(error, HTTPException) and error.status_code in _NOT_SERVED else problem.detail
        answer = render_page(request, "refused.html", problem.status, title=problem.title, detail=detail)
    if isinstance(error, HTTPException):
        answer.headers.update(error.headers or {})
    return answer


def is_api(request: Request) -> bool:
    return f"{request.url.path}/".startswith(f"{API}/")


async def _handle_refusal(request: Request, error: Exception) -> Response:
    return answer_refusal(request, error)


def _problem_of(error: Exception, *, to_api: bool) -> Problem:
    match error:
        case Problem():
            return error
        case HTTPException():
            slug, title = _NOT_SERVED.get(error.status_code, ("refused", "The request was refused"))
            return Problem(error.status_code, slug, title, error.detail)
        case RequestValidationError():
            return _explain_invalid(error)
    answer = next(ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS)
    status = error.status if isinstance(error, FormRefused) else answer.status
    detail = answer.detail or _describe_error(error)
    if answer.detail:
        log.error("%s: %s", answer.title, error, exc_info=None if isinstance(error, PayhookError) else error)
    if to_api and status == 500:
        detail = f"{detail}; repeat the request with the same Idempotency-Key"
    retries = status == 503 and not answer.closes
    return Problem(
        status,
        answer.slug,
        answer.title,
        detail,
        retry_after_s=RETRY_AFTER_S if retries else None,
        closes=answer.closes,
    )


def _describe_error(error: Exception) -> str:
    if isinstance(error, NotSignedIn) and not isinstance(error, TokenOver):
        return "send Authorization: Bearer with a token from `payhook users token NAME`, or sign in at /login"
    return str(error)


def _explain_invalid(invalid: RequestValidationError) -> Problem:
    errors = invalid.errors()[:ERRORS_NAMED_MAX]
    problems = [{"at": "/" + "/".join(map(str, error["loc"])), "problem": str(error["msg"])} for error in errors]
    places = ", ".join(sorted({str(error["loc"][-1]) for error in errors}))
    return Problem(422, "invalid", "The request isn't valid", f"correct {places}", errors=problems)


def _to_sign_in(request: Request) -> Response:
    """Redirects to the sign-in page, and back from it to this page.

    A link on another site is followed without the session's cookie (SameSite=Strict). The page in between follows it
    once more, and that is a request of our own page, with the cookie.
    """
    path = path_of(request)
    if request.method not in ("GET", "HEAD"):
        return RedirectResponse(SIGN_IN, 303)
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return render_page(request, "arrived.html", path=path)
    return RedirectResponse(SIGN_IN if path == HOME else f"{SIGN_IN}?next={quote(path, safe='')}", 303)
