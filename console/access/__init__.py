"""Who may do what at the management listener: local users, their sessions and tokens, and the role of each route."""

from __future__ import annotations

from console.access.access import Access, SignInBusy, SignInRefused, SignInTooSoon
from console.access.desk import UserDesk
from console.access.requirement import Everybody, NotAllowed, NotSignedIn, RouteUndeclared, require, signed_in, user_of
from console.access.roles import Role, User
from console.access.sessions import Sessions
from console.access.throttle import SignInThrottle
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
    "UserDesk",
    "Users",
    "require",
    "signed_in",
    "user_of",
]
