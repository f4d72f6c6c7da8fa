"""Who may do what at the management listener: local users, their sessions and tokens, and the role of each route."""

from __future__ import annotations

from console.access.accounts import UserService
from console.access.roles import (
    Everybody,
    NotAllowed,
    NotSignedIn,
    Role,
    RouteUndeclared,
    User,
    require,
    signed_in,
    user_of,
)
from console.access.sessions import Sessions
from console.access.sign_in import Access, SignInBusy, SignInRefused, SignInThrottle, SignInTooSoon
from console.access.users import Users

__all__ = [
    "Access",
    "Everybody",
    "NotAllowed",
    "NotSignedIn",
    "Role",
    "RouteUndeclared",
    "Sessions",
    "SignInBusy",
    "SignInRefused",
    "SignInThrottle",
    "SignInTooSoon",
    "User",
    "UserService",
    "Users",
    "require",
    "signed_in",
    "user_of",
]
