"""Roles, and what each of them may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a person may do. A route asks for exactly one of them."""

    VIEWER = "viewer"
    """Reads dead events, their statistics and the record of acts."""

    REPLAYER = "replayer"
    """Also selects, replays and resolves."""

    ADMIN = "admin"
    """May do everything, also purge and approve."""

    FINANCE = "finance"
    """Reads the ledger's and audit's pages."""


INCLUDED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.REPLAYER: frozenset({Role.VIEWER, Role.REPLAYER}),
    Role.ADMIN: frozenset(Role),
    Role.FINANCE: frozenset({Role.FINANCE}),
}
"""The roles that whoever has one has with it."""


@dataclass(frozen=True, slots=True)
class User:
    """Who a request comes from."""

    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Whether a route that asks for the role is theirs."""
        return any(role in INCLUDED[held] for held in self.roles)
