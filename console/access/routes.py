"""Finds what each route demands: a role, any signed-in user, or nothing. A route that demands nothing says why."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Scope

from console.access.roles import NotAllowed, NotSignedIn, Role, User
from core.decision import Decision
from core.errors import PayhookError
from journal.schema import JournalRow


class RouteUndeclared(PayhookError):
    def __init__(self, route: str, problem: str) -> None:
        self.route = route
        self.problem = problem
        super().__init__(f"{route}: {problem}; give it dependencies=[Depends(require(Role.…))]")


@dataclass(frozen=True, slots=True)
class RequiredRole:
    """A dependency: the signed-in user, who has the role, or one of the ``others``. None: any signed-in user.

    The framework asks for it when it has read the body, which may take its time: who the user is, and what they may do,
    is looked up again then.
    """

    role: Role | None
    others: tuple[Role, ...] = ()

    def __call__(self, request: Request) -> User:
        user: User = request.state.allow(self)
        return user

    def check_user(self, user: User | None) -> User:
        if user is None:
            raise NotSignedIn
        if self.role is not None and not any(user.may(role) for role in (self.role, *self.others)):
            raise NotAllowed(user, self.role)
        return user


@dataclass(frozen=True, slots=True)
class Everybody:
    why: str

    def __call__(self) -> None:
        return None


Demand: TypeAlias = RequiredRole | Everybody


@functools.cache
def require_role(role: Role | None, *others: Role) -> RequiredRole:
    """Makes a dependency for ``dependencies=[Depends(require_role(Role.VIEWER))]``, or for the user as an argument.

    None: any signed-in user. One of ``others`` will do too.
    """
    return RequiredRole(role, others)


def user_of(request: Request) -> User | None:
    user: User | None = getattr(request.state, "user", None)
    return user


def signed_in(request: Request) -> User:
    """Returns the user of a route that demands one.

    :raises NotSignedIn: it doesn't
    """
    return require_role(None).check_user(user_of(request))


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    methods: frozenset[str]
    path: str
    demand: Demand


def declared_routes(routes: Iterable[BaseRoute], prefix: str = "") -> Iterator[DeclaredRoute]:
    """Lists every route, those of mounted applications too.

    :raises RouteUndeclared: one doesn't say what it demands
    """
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            yield from declared_routes(route.routes, prefix + route.path)
        else:
            demand = demand_of(route, prefix)
            assert isinstance(route, APIRoute)
            yield DeclaredRoute(frozenset(route.methods or ()), prefix + route.path, demand)


def demand_of(route: BaseRoute, prefix: str = "") -> Demand:
    where = f"{prefix}{getattr(route, 'path', route)}"
    if not isinstance(route, APIRoute):
        raise RouteUndeclared(where, f"a {type(route).__name__} can't say what it demands")
    calls = (dependency.call for dependency in route.dependant.dependencies)
    demands = {call for call in calls if isinstance(call, (RequiredRole, Everybody))}
    if len(demands) != 1:
        raise RouteUndeclared(where, "it demands several things" if demands else "it doesn't say what it demands")
    return demands.pop()


def find_demand(routes: Iterable[BaseRoute], scope: Scope) -> Demand | None:
    """Returns what the route of a request demands; None: there is no such route. A path that is there for other methods
    alone demands what those do.
    """
    other_method: Demand | None = None
    for route in routes:
        match, inner = route.matches(scope)
        if match is Match.NONE:
            continue
        if isinstance(route, Mount):
            return find_demand(route.routes, {**scope, **inner})
        if match is Match.FULL:
            return demand_of(route)
        other_method = other_method or demand_of(route)
    return other_method


REPLAYABLE = frozenset({Decision.DEAD, Decision.IGNORED, Decision.UNKNOWN})
"""Decisions after which an event may be replayed by order."""

STORY_READERS = Depends(require_role(Role.FINANCE, Role.REPLAYER))
"""Whom a route of stories is for; `check_reader` then looks at the rows."""


StoryReader = Annotated[User, STORY_READERS]
"""The user that a route of stories gets."""


def check_reader(user: User, rows: Iterable[JournalRow]) -> None:
    """
    :raises NotAllowed: the user isn't finance, and none of the rows is of what may be replayed
    """
    if not user.may(Role.FINANCE) and not any(row.decision in REPLAYABLE for row in rows):
        raise NotAllowed(user, Role.FINANCE)
