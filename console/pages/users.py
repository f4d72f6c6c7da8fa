"""``/users``: who may sign in, as what; for administrators. Each change is on record as an act of theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from console.access.accounts import UserService
from console.access.passwords import BYTES_MAX, CHARS_MIN, PasswordUnfit
from console.access.roles import Role
from console.access.users import UserUnfit
from console.forms import Fields, FormFields
from console.pages.place import Admin, QuestionRunner
from console.rendering import quote_segment, render_page
from core.clock import Clock

ROLES_SHOWN = {
    Role.VIEWER: "reads dead events and the audit log",
    Role.REPLAYER: "also selects, replays and resolves",
    Role.FINANCE: "reads the ledger's pages",
}
"""The roles that are given here: administrators are made on the machine."""


class UserPages:
    """Shows users; each method but the private ones is a route."""

    def __init__(self, users: UserService, asking: QuestionRunner, clock: Clock) -> None:
        self._users = users
        self._asking = asking
        self._clock = clock

    async def listed(self, request: Request, _user: Admin) -> Response:
        return await self._list(request, Fields(QueryParams()))

    async def one(self, request: Request, name: str, _user: Admin) -> Response:
        return await self._show_user(request, name, Fields(QueryParams()))

    async def add(self, request: Request, user: Admin, fields: FormFields) -> Response:
        name, password, roles = fields.text("name"), new_password(fields), roles_of(fields)
        if name is None:
            fields.add_problem("name", "Enter a name")
        if fields.problems or name is None or password is None:
            return await self._list(request, fields, 422)
        try:
            await self._asking.ask(self._users.add, user.name, name, roles, password)
        except (UserUnfit, PasswordUnfit) as refused:
            fields.add_problem("name" if isinstance(refused, UserUnfit) else "password", str(refused))
            return await self._list(request, fields, 409)
        return RedirectResponse(f"/users/{quote_segment(name)}", 303)

    async def roles(self, request: Request, name: str, user: Admin, fields: FormFields) -> Response:
        change = partial(self._users.set_roles, user.name, name, roles_of(fields))
        return await self._change(request, name, fields, "role", change)

    async def password(self, request: Request, name: str, user: Admin, fields: FormFields) -> Response:
        change = partial(self._users.set_password, user.name, name, new_password(fields) or "")
        return await self._change(request, name, fields, "password", change)

    async def revoke(self, request: Request, name: str, user: Admin, fields: FormFields) -> Response:
        change = partial(self._users.revoke_token, user.name, name, fields.text("token") or "")
        return await self._change(request, name, fields, "token", change)

    async def remove(self, request: Request, name: str, user: Admin, fields: FormFields) -> Response:
        if fields.text("sure") != name:
            fields.add_problem("sure", f"Enter {name} to remove them")
        return await self._change(request, name, fields, "sure", partial(self._users.remove, user.name, name), "/users")

    async def _list(self, request: Request, fields: Fields, status: int = 200) -> Response:
        return self._show(
            request, "users/list.html", status, fields, people=await self._asking.ask(self._users.list_people)
        )

    async def _show_user(self, request: Request, name: str, fields: Fields, status: int = 200) -> Response:
        person = await self._asking.ask(self._users.find_person, name)
        given = fields.choices("role") if status != 200 else tuple(person.roles)
        return self._show(request, "users/one.html", status, fields, person=person, given=given)

    def _show(self, request: Request, template: str, status: int, fields: Fields, **context: Any) -> Response:
        shown = {"fields": fields, "roles_shown": ROLES_SHOWN, "now": self._clock.now(), "chars_min": CHARS_MIN}
        return render_page(request, template, status, **shown, **context)

    async def _change(
        self, request: Request, name: str, fields: Fields, about: str, change: Callable[[], None], then: str = ""
    ) -> Response:
        await self._asking.ask(self._users.find_person, name)
        if fields.problems:
            return await self._show_user(request, name, fields, 422)
        try:
            await self._asking.ask(change)
        except (UserUnfit, PasswordUnfit) as refused:
            fields.add_problem(about, str(refused))
            return await self._show_user(request, name, fields, 409)
        return RedirectResponse(then or f"/users/{quote_segment(name)}", 303)


def user_routes(users: UserService, asking: QuestionRunner, clock: Clock) -> APIRouter:
    router, pages = APIRouter(prefix="/users"), UserPages(users, asking, clock)
    router.add_api_route("", pages.listed, methods=["GET"])
    router.add_api_route("", pages.add, methods=["POST"])
    router.add_api_route("/{name}", pages.one, methods=["GET"])
    for action in (pages.roles, pages.password, pages.revoke, pages.remove):
        router.add_api_route(f"/{{name}}/{action.__name__}", action, methods=["POST"])
    return router


def roles_of(fields: Fields) -> frozenset[Role]:
    """Reads the roles that are ticked: any role's name, so that a refused one is on record as what was asked for."""
    return frozenset(Role(name) for name in fields.choices("role", [role.value for role in Role]))


def new_password(fields: Fields) -> str | None:
    """Reads a password that was written twice; not stripped and never shown again. None: `Fields.problems` says why."""
    first, again = (next(iter(fields.list_values(name)), "") for name in ("password", "again"))
    if not first or len(first) > BYTES_MAX:
        fields.add_problem("password", f"Enter a password of {CHARS_MIN} characters or more")
        return None
    if first != again:
        fields.add_problem("again", "Enter the same password again")
        return None
    return first
