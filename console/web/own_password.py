"""``/password``: whoever is signed in changes their own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from console.access import Access, SignInBusy, SignInRefused, SignInTooSoon, User, require
from console.access.passwords import CHARS_MIN, PasswordUnfit
from console.cookies import Cookies
from console.web.rendering import render

Whoever = Annotated[User, Depends(require(None))]


def own_password_routes(access: Access, cookies: Cookies) -> APIRouter:
    router = APIRouter()

    @router.get("/password")
    async def asked(request: Request, _user: Whoever) -> Response:
        return _form(request)

    @router.post("/password")
    async def change(
        request: Request,
        user: Whoever,
        current: Annotated[str, Form()] = "",
        password: Annotated[str, Form()] = "",
        again: Annotated[str, Form()] = "",
    ) -> Response:
        if password != again:
            return _form(request, 422, "the new password isn't the same twice")
        address = request.client.host if request.client else ""
        try:
            await access.change_password(user, current, password, address)
        except SignInRefused:
            return _form(request, 401, "the password you have now is another one")
        except SignInTooSoon as early:
            answer = _form(request, 429, str(early))
            answer.headers["retry-after"] = str(max(1, round(early.wait_s)))
            return answer
        except SignInBusy as busy:
            return _form(request, 503, str(busy))
        except PasswordUnfit as unfit:
            return _form(request, 422, str(unfit))
        answer = RedirectResponse("/login", 303)
        cookies.end_session(answer)
        return answer

    return router


def _form(request: Request, status: int = 200, problem: str = "") -> Response:
    return render(request, "password.html", status, problem=problem, chars_min=CHARS_MIN)
