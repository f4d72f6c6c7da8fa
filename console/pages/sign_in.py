"""``/login``, ``/logout`` and ``/password``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from console.access.passwords import CHARS_MIN, PasswordUnfit
from console.access.roles import User
from console.access.routes import Everybody, require_role, user_of
from console.access.sign_in import Access, SignInBusy, SignInRefused, SignInTooSoon
from console.forms import Cookies, new_visitor
from console.rendering import HOME, local_path, render_page
from core.errors import PayhookError


def sign_in_routes(access: Access, cookies: Cookies) -> APIRouter:
    router = APIRouter()
    anyone = Depends(Everybody("who isn't signed in has to come here"))

    @router.get("/login", dependencies=[anyone])
    async def login(request: Request, next: str = HOME) -> Response:  # noqa: A002 - as the address has it
        if user_of(request) is not None:
            return RedirectResponse(local_path(next), 303)
        return _show_form(request, access, cookies, next)

    @router.post("/login", dependencies=[anyone])
    async def sign_in(
        request: Request,
        name: Annotated[str, Form()] = "",
        password: Annotated[str, Form()] = "",
        next: Annotated[str, Form()] = HOME,  # noqa: A002 - as the form has it
    ) -> Response:
        address = request.client.host if request.client else ""
        try:
            secret = await access.sign_in(name.strip().lower(), password, address)
        except (SignInRefused, SignInTooSoon, SignInBusy) as refused:
            return _show_refusal(refused, partial(_show_form, request, access, cookies, next))
        answer = RedirectResponse(local_path(next), 303)
        cookies.set_session(answer, secret)
        return answer

    @router.post("/logout")
    def logout(request: Request, user: Annotated[User, Depends(require_role(None))]) -> Response:
        if (secret := cookies.read_session(request)) is not None:
            access.sign_out(secret, user)
        answer = RedirectResponse("/login", 303)
        cookies.end_session(answer)
        return answer

    return router


_STATUSES: Mapping[type[PayhookError], int] = {
    SignInRefused: 401,
    SignInTooSoon: 429,
    SignInBusy: 503,
    PasswordUnfit: 422,
}


def _show_refusal(refusal: PayhookError, form: Callable[[int, str], Response]) -> Response:
    answer = form(_STATUSES[type(refusal)], str(refusal))
    if isinstance(refusal, SignInTooSoon):
        answer.headers["retry-after"] = str(max(1, round(refusal.wait_s)))
    return answer


def _show_form(
    request: Request, access: Access, cookies: Cookies, wanted: str, status: int = 200, problem: str = ""
) -> Response:
    visitor = cookies.read_visitor(request)
    request.state.csrf_secret = secret = visitor or new_visitor()
    shown = {"next": local_path(wanted), "problem": problem, "has_users": access.has_users}
    page = render_page(request, "login.html", status, **shown)
    if visitor is None:
        cookies.set_visitor(page, secret)
    return page


SignedIn = Annotated[User, Depends(require_role(None))]


def own_password_routes(access: Access, cookies: Cookies) -> APIRouter:
    router = APIRouter()

    @router.get("/password")
    async def asked(request: Request, _user: SignedIn) -> Response:
        return _password_form(request)

    @router.post("/password")
    async def change(
        request: Request,
        user: SignedIn,
        current: Annotated[str, Form()] = "",
        password: Annotated[str, Form()] = "",
        again: Annotated[str, Form()] = "",
    ) -> Response:
        if password != again:
            return _password_form(request, 422, "the new password isn't the same twice")
        address = request.client.host if request.client else ""
        try:
            await access.change_password(user, current, password, address)
        except SignInRefused:
            return _password_form(request, 401, "the current password is wrong")
        except (SignInTooSoon, SignInBusy, PasswordUnfit) as refused:
            return _show_refusal(refused, partial(_password_form, request))
        answer = RedirectResponse("/login", 303)
        cookies.end_session(answer)
        return answer

    return router


def _password_form(request: Request, status: int = 200, problem: str = "") -> Response:
    return render_page(request, "password.html", status, problem=problem, chars_min=CHARS_MIN)
