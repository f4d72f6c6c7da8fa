"""The links at the top of every page."""

from __future__ import annotations

from dataclasses import dataclass

from console.access.roles import Role, User


@dataclass(frozen=True, slots=True)
class Link:
    """``role``: who sees it; its page demands the same."""

    label: str
    path: str
    role: Role


NAVIGATION: tuple[Link, ...] = (
    Link("Overview", "/", Role.VIEWER),
    Link("Dead letters", "/dlq", Role.VIEWER),
    Link("Selections", "/dlq/selections", Role.VIEWER),
    Link("Week", "/dlq/report", Role.VIEWER),
    Link("Acts", "/dlq/audit", Role.VIEWER),
    Link("Ledger", "/ledger", Role.FINANCE),
    Link("Users", "/users", Role.ADMIN),
)
"""In the order in which they stand. Every signed-in user has the overview before them."""


def links_for(user: User | None) -> list[Link]:
    """What a user may follow."""
    return [] if user is None else [link for link in NAVIGATION if user.may(link.role)]
