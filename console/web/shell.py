"""Puts pages on the listener, with what each of them needs around it."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from console.access import Access, Everybody, NotAllowed, NotSignedIn
from console.access.users import UsersUnreadable
from console.cookies import Cookies
from console.refusals import answer_refusal
from console.web.own_password import own_password_routes
from console.web.rendering import render
from console.web.sign_in import sign_in_routes
from console.web.static import FOR_EVER, PATH, static_files
from dlq.audit_log import AuditLogBroken, AuditLogUnwritable

TITLES = {404: "There is no such page", 405: "This page doesn't take that"}


def mount_pages(app: FastAPI, access: Access, cookies: Cookies, pages: Iterable[APIRouter]) -> None:
    """Adds signing in and out, static files, ``pages``, and the pages of what goes wrong."""
    for router in (sign_in_routes(access, cookies), own_password_routes(access, cookies), _static_routes(), *pages):
        # Not include_router: it hides what each route demands behind objects of the framework's own.
        app.router.routes.extend(router.routes)
    for refusal in (NotSignedIn, NotAllowed, AuditLogUnwritable, AuditLogBroken, UsersUnreadable):
        app.add_exception_handler(refusal, _refused)
    app.add_exception_handler(HTTPException, _not_served)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(Exception, _bug)


def _static_routes() -> APIRouter:
    router = APIRouter()

    @router.get(PATH + "/{name}", dependencies=[Depends(Everybody("the sign-in page needs them; they say nothing"))])
    async def static(name: str) -> Response:
        file = static_files().get(name)
        if file is None:
            raise HTTPException(404)
        return Response(file.data, media_type=file.media_type, headers={"cache-control": FOR_EVER})

    return router


async def _refused(request: Request, refusal: Exception) -> Response:
    return answer_refusal(request, refusal)


async def _not_served(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, HTTPException)
    title = TITLES.get(refused.status_code, "This can't be shown")
    detail = "" if refused.status_code in TITLES else str(refused.detail)
    page = render(request, "refused.html", refused.status_code, title=title, detail=detail)
    page.headers.update(refused.headers or {})
    return page


async def _not_valid(request: Request, invalid: Exception) -> Response:
    assert isinstance(invalid, RequestValidationError)
    names = ", ".join(sorted({str(error["loc"][-1]) for error in invalid.errors()}))
    title, detail = "The address or the form isn't valid", f"look at {names}"
    return render(request, "refused.html", 422, title=title, detail=detail)


async def _bug(request: Request, _failed: Exception) -> Response:
    """What it was is in the listener's log, with its stack: a page could show a stranger's text."""
    title, detail = "This page failed", "nothing more is known here; the listener's log has the error"
    return render(request, "refused.html", 500, title=title, detail=detail)
