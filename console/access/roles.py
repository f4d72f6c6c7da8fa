"""Roles, and who has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from core.errors import PayhookError


class Role(StrEnum):
    """A person with the role may do what it says. A route asks for exactly one."""

    VIEWER = "viewer"
    """Reads dead events, their statistics and the audit log."""

    REPLAYER = "replayer"
    """Also selects, replays and resolves."""

    ADMIN = "admin"
    """May do everything, also purge and approve."""

    FINANCE = "finance"
    """Reads the ledger's pages, and proposes bookings."""


INCLUDED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.REPLAYER: frozenset({Role.VIEWER, Role.REPLAYER}),
    Role.ADMIN: frozenset(Role),
    Role.FINANCE: frozenset({Role.FINANCE}),
}
"""What each role includes."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        return any(role in INCLUDED[own_role] for own_role in self.roles)


class NotSignedIn(PayhookError):
    def __init__(self) -> None:
        super().__init__("sign in first")


class TokenOver(NotSignedIn):
    def __init__(self, name: str, label: str, ends_at: str) -> None:
        self.name = name
        self.label = label
        self.ends_at = ends_at
        PayhookError.__init__(
            self, f"the token {label!r} of {name} ended at {ends_at}; `payhook users token {name}` makes another"
        )


class NotAllowed(PayhookError):
    def __init__(self, user: User, role: Role) -> None:
        self.user = user
        self.role = role
        super().__init__(f"you need the role {role}; an administrator gives it with `payhook users roles {user.name}`")
