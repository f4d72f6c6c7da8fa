"""``/users``: who may sign in, as what; for administrators. Each change is on record as an act of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from console.access import Role, User, UserService, require
from console.access.passwords import BYTES_MAX, CHARS_MIN, PasswordUnfit
from console.access.users import UserUnfit
from console.forms import Fields
from console.pages.place import Asking
from console.rendering import render, segment
from core.clock import Clock

ROLES_TOLD = {
    Role.VIEWER: "reads dead events and the record of acts",
    Role.REPLAYER: "also selects, replays and resolves",
    Role.FINANCE: "reads the ledger's pages",
}
"""Those that are given here: administrators are made on the machine."""

Admin = Annotated[User, Depends(require(Role.ADMIN))]


class UserPages:
    """The pages of users, for routes to call."""

    def __init__(self, users: UserService, asking: Asking, clock: Clock) -> None:
        self._users = users
        self._asking = asking
        self._clock = clock

    async def listed(self, request: Request, fields: Fields | None = None, status: int = 200) -> Response:
        people = await self._asking.ask(self._users.people)
        context = {"people": people, "fields": fields or Fields(QueryParams()), "roles_told": ROLES_TOLD}
        return render(request, "users/list.html", status, now=self._clock.now(), chars_min=CHARS_MIN, **context)

    async def one(self, request: Request, name: str, fields: Fields | None = None, status: int = 200) -> Response:
        person = await self._asking.ask(self._users.person, name)
        fields = fields or Fields(QueryParams())
        given = fields.choices("role") if status != 200 else tuple(person.roles)
        context = {"person": person, "fields": fields, "given": given, "roles_told": ROLES_TOLD}
        return render(request, "users/one.html", status, now=self._clock.now(), chars_min=CHARS_MIN, **context)

    async def add(self, request: Request, actor: User) -> Response:
        fields = Fields(await request.form())
        name, password, roles = fields.text("name"), new_password(fields), roles_of(fields)
        if name is None:
            fields.wrong("name", "a name is wanted")
        if fields.problems or name is None or password is None:
            return await self.listed(request, fields, 422)
        try:
            await self._asking.ask(self._users.add, actor.name, name, roles, password)
        except (UserUnfit, PasswordUnfit) as refused:
            fields.wrong("name" if isinstance(refused, UserUnfit) else "password", str(refused))
            return await self.listed(request, fields, 409)
        return RedirectResponse(f"/users/{segment(name)}", 303)

    async def roles(self, request: Request, actor: User, name: str) -> Response:
        fields = Fields(await request.form())
        roles = roles_of(fields)
        return await self._change(request, name, fields, "role", lambda: self._users.set_roles(actor.name, name, roles))

    async def password(self, request: Request, actor: User, name: str) -> Response:
        fields = Fields(await request.form())
        password = new_password(fields) or ""
        return await self._change(
            request, name, fields, "password", lambda: self._users.set_password(actor.name, name, password)
        )

    async def revoke(self, request: Request, actor: User, name: str) -> Response:
        fields = Fields(await request.form())
        label = fields.text("token") or ""
        return await self._change(
            request, name, fields, "token", lambda: self._users.revoke_token(actor.name, name, label)
        )

    async def remove(self, request: Request, actor: User, name: str) -> Response:
        fields = Fields(await request.form())
        if fields.text("sure") != name:
            fields.wrong("sure", f"write {name} to remove them")
        return await self._change(request, name, fields, "sure", lambda: self._users.remove(actor.name, name), "/users")

    async def _change(
        self, request: Request, name: str, fields: Fields, about: str, change: Callable[[], None], then: str = ""
    ) -> Response:
        """``about``: the field whose problem a refusal is."""
        await self._asking.ask(self._users.person, name)
        if fields.problems:
            return await self.one(request, name, fields, 422)
        try:
            await self._asking.ask(change)
        except (UserUnfit, PasswordUnfit) as refused:
            fields.wrong(about, str(refused))
            return await self.one(request, name, fields, 409)
        return RedirectResponse(then or f"/users/{segment(name)}", 303)


def user_routes(users: UserService, asking: Asking, clock: Clock) -> APIRouter:
    router, pages, path = APIRouter(), UserPages(users, asking, clock), "/users/{name}"

    @router.get("/users")
    async def listed(request: Request, _user: Admin) -> Response:
        return await pages.listed(request)

    @router.post("/users")
    async def add(request: Request, user: Admin) -> Response:
        return await pages.add(request, user)

    @router.get(path)
    async def one(request: Request, name: str, _user: Admin) -> Response:
        return await pages.one(request, name)

    @router.post(path + "/roles")
    async def roles(request: Request, name: str, user: Admin) -> Response:
        return await pages.roles(request, user, name)

    @router.post(path + "/password")
    async def password(request: Request, name: str, user: Admin) -> Response:
        return await pages.password(request, user, name)

    @router.post(path + "/revoke")
    async def revoke(request: Request, name: str, user: Admin) -> Response:
        return await pages.revoke(request, user, name)

    @router.post(path + "/remove")
    async def remove(request: Request, name: str, user: Admin) -> Response:
        return await pages.remove(request, user, name)

    return router


def roles_of(fields: Fields) -> frozenset[Role]:
    """Those that are ticked: any role's name, so that a refused one is on record as what was asked for."""
    return frozenset(Role(name) for name in fields.choices("role", [role.value for role in Role]))


def new_password(fields: Fields) -> str | None:
    """A password that was written twice; not stripped and never shown again. None: `Fields.problems` says why."""
    first, again = (next(iter(fields.listed(name)), "") for name in ("password", "again"))
    if not first or len(first) > BYTES_MAX:
        fields.wrong("password", f"a password of {CHARS_MIN} characters or more is wanted")
        return None
    if first != again:
        fields.wrong("again", "this isn't the same password")
        return None
    return first
