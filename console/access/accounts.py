"""Changes of users, each put on record before it takes effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from console.access import passwords
from console.access.roles import Role
from console.access.tokens import new_token, token_sha256
from console.access.users import (
    TOKEN_DAYS,
    TOKENS_MAX,
    Account,
    Accounts,
    Token,
    Users,
    UserUnfit,
    checked_name,
    new_stamp,
)
from core.clock import to_rfc3339

Recording = Callable[[str, str | None, str | None], None]
"""Gets a user's name, and what they were and will be as JSON without secrets; raises where it can't be recorded."""


class UserUnknown(UserUnfit):
    """There is no such user."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no user {name!r}; `payhook users list` shows who there is")


def add_user(
    users: Users, name: str, roles: frozenset[Role], password: str, record: Recording, by: str | None = None
) -> None:
    """``by``: which user does it, from a page; None: it is done on the machine.

    :raises UserUnfit, PasswordUnfit: nothing was changed
    """
    made = Account(checked_name(name), roles, passwords.hashed(password, name), new_stamp())

    def add(accounts: dict[str, Account]) -> None:
        if name in accounts:
            raise UserUnfit(f"there is a user {name!r} already; `payhook users roles` or `password` changes them")
        accounts[name] = replace(made, set_by=_hands(accounts, by))

    users.change(add, _witness(name, record))


def set_roles(users: Users, name: str, roles: frozenset[Role], record: Recording) -> None:
    """Ends the user's sessions.

    :raises UserUnknown: nothing was changed
    """
    _alter(users, name, lambda account: account.stamped(roles=roles), record)


def set_password(users: Users, name: str, password: str, record: Recording, by: str | None = None) -> None:
    """Ends the user's sessions and tokens. ``by``: as of `add_user`. A user's own hand adds none to theirs.

    :raises UserUnknown, PasswordUnfit: nothing was changed
    """
    secret = passwords.hashed(password, name)

    def change(accounts: dict[str, Account]) -> None:
        account = _known(accounts, name)
        hands = frozenset() if by is None else account.set_by | _hands(accounts, by) - {name}
        accounts[name] = account.stamped(password=secret, set_by=hands, tokens=())

    users.change(change, _witness(name, record))


def remove_user(users: Users, name: str, record: Recording) -> None:
    """Ends the user's sessions and tokens.

    :raises UserUnknown: nothing was changed
    """

    def remove(accounts: dict[str, Account]) -> None:
        del accounts[_known(accounts, name).name]

    users.change(remove, _witness(name, record))


def make_token(users: Users, name: str, label: str, at: datetime, record: Recording, days: int = TOKEN_DAYS) -> str:
    """A new bearer token of a user, to be shown once. It ends after so many days, and with the user's password. Those
    of the user's that are over are forgotten with it: it may have the name of one.

    :raises UserUnknown, UserUnfit: nothing was changed
    """
    secret = new_token()
    made = Token(checked_name(label), token_sha256(secret), to_rfc3339(at), to_rfc3339(at + timedelta(days=days)))

    def add(account: Account) -> Account:
        live = tuple(token for token in account.tokens if not token.is_over(at))
        if any(token.name == label for token in live):
            raise UserUnfit(f"{name} has a token {label!r} already; revoke it, or take another name")
        if len(live) >= TOKENS_MAX:
            raise UserUnfit(f"{name} has {TOKENS_MAX} tokens, which is the most; revoke one")
        return replace(account, tokens=(*live, made))

    _alter(users, name, add, record)
    return secret


def revoke_token(users: Users, name: str, label: str, record: Recording) -> None:
    """
    :raises UserUnknown, UserUnfit: nothing was changed
    """

    def revoke(account: Account) -> Account:
        left = tuple(token for token in account.tokens if token.name != label)
        if len(left) == len(account.tokens):
            raise UserUnfit(f"{name} has no token {label!r}; `payhook users list` shows which there are")
        return replace(account, tokens=left)

    _alter(users, name, revoke, record)


def _alter(users: Users, name: str, alter: Callable[[Account], Account], record: Recording) -> None:
    def change(accounts: dict[str, Account]) -> None:
        accounts[name] = alter(_known(accounts, name))

    users.change(change, _witness(name, record))


def _hands(accounts: Accounts, by: str | None) -> frozenset[str]:
    """Who could have given a password that ``by`` gives."""
    if by is None:
        return frozenset()
    return frozenset({by}) | (accounts[by].set_by if by in accounts else frozenset())


def _known(accounts: dict[str, Account], name: str) -> Account:
    if name not in accounts:
        raise UserUnknown(name)
    return accounts[name]


def _witness(name: str, record: Recording) -> Callable[[Accounts, Accounts], None]:
    return lambda before, after: record(name, _told(before.get(name)), _told(after.get(name)))


def _told(account: Account | None) -> str | None:
    """What may be read for ever: neither hashes nor stamps, which only say that they changed."""
    if account is None:
        return None
    tokens = sorted(f"{token.name} until {token.ends_at[:10]}" for token in account.tokens)
    told = {"roles": sorted(account.roles), "tokens": tokens}
    return json.dumps(told)
