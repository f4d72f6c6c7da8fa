"""Requests that aren't passed on, as the asker reads them: problem details at the API, a page or the way to sign in."""

from __future__ import annotations

import logging
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from console.access import NotAllowed, NotSignedIn
from console.access.requirement import TokenOver
from console.access.users import UsersUnreadable
from console.forms import FormRefused
from console.web import render
from console.web.paths import HOME, path_of
from core.errors import PayhookError
from dlq.audit_log import AuditLogBroken, AuditLogUnwritable
from ingest.idempotency import Problem

log = logging.getLogger(__name__)

API = "/api"
DOCS_URL = "/openapi.json"
SIGN_IN = "/login"


class ForeignPage(PayhookError):
    """A web page from elsewhere sends this, as the browser says."""

    def __init__(self, header: str) -> None:
        self.header = header
        super().__init__(
            f"{header} says that a web page from elsewhere sends this; use `payhook`, curl, or the listener's own pages"
        )


class NotJson(PayhookError):
    """A body at the API that doesn't say it is JSON: what a form of another site could send."""

    def __init__(self) -> None:
        super().__init__("the body is JSON, and its Content-Type says so: application/json")


def answer_refusal(request: Request, refusal: Exception) -> Response:
    """Whatever the guard raised, or a dependency of a page."""
    if f"{request.url.path}/".startswith(f"{API}/"):
        problem = _problem(refusal)
        return Response(problem.body(DOCS_URL), problem.status, {**problem.headers(DOCS_URL), **_challenge(problem)})
    if isinstance(refusal, NotSignedIn):
        return _to_sign_in(request)
    problem = _problem(refusal)
    return render(request, "refused.html", problem.status, title=problem.title, detail=problem.detail)


def _problem(refusal: Exception) -> Problem:
    match refusal:
        case TokenOver():
            return Problem(401, "token-over", "The token's time is over", str(refusal), closes=True)
        case NotSignedIn():
            detail = "send Authorization: Bearer and a token that `payhook users token NAME` made, or sign in at /login"
            return Problem(401, "not-signed-in", "Nobody is signed in", detail, closes=True)
        case NotAllowed():
            return Problem(403, "not-allowed", "You may not do this", str(refusal), closes=True)
        case ForeignPage():
            return Problem(403, "foreign-page", "Another site's page may not do this", str(refusal), closes=True)
        case NotJson():
            return Problem(415, "not-json", "JSON is wanted", str(refusal), closes=True)
        case FormRefused():
            return Problem(refusal.status, "form-refused", "The form wasn't taken", str(refusal), closes=True)
        case UsersUnreadable():
            log.error("nobody can be let in: %s", refusal)
            detail = "the file of users can't be read; the listener's log says why"
            return Problem(503, "users-unreadable", "Nobody can be let in", detail, closes=True)
        case AuditLogUnwritable() | AuditLogBroken():
            log.error("nothing can be put on record: %s", refusal)
            detail = "the listener's log says why; an order that was given all the same has one effect when repeated"
            return Problem(503, "record-unavailable", "This can't be put on record", detail, closes=True)
    log.error("a request can't be looked at", exc_info=refusal)
    return Problem(503, "unavailable", "This can't be answered now", "the listener's log says why", closes=True)


def _challenge(problem: Problem) -> dict[str, str]:
    return {"www-authenticate": 'Bearer realm="payhook"'} if problem.status == 401 else {}


def _to_sign_in(request: Request) -> Response:
    """The way to sign in, and back to the page.

    A link on another site is followed without the session's cookie (SameSite=Strict). The page in between follows it
    once more, and that is a request of our own page, with the cookie.
    """
    path = path_of(request)
    if request.method not in ("GET", "HEAD"):
        return RedirectResponse(SIGN_IN, 303)
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return render(request, "arrived.html", path=path)
    return RedirectResponse(SIGN_IN if path == HOME else f"{SIGN_IN}?next={quote(path, safe='')}", 303)
