"""Changes of users, each on record before it takes effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from console.access import passwords
from console.access.roles import NotSignedIn, Role
from console.access.sessions import Sessions
from console.access.users import (
    TOKEN_DAYS,
    TOKENS_MAX,
    Account,
    Accounts,
    Token,
    Users,
    UserUnfit,
    check_signed_in,
    checked_name,
    new_stamp,
    new_token,
    secret_sha256,
)
from core.clock import Clock, to_rfc3339
from operations.audit_log import AuditLog
from operations.recorder import Recorder

Recording = Callable[[str, str | None, str | None], None]
"""Gets a user's name, and what they were and will be as JSON without secrets; raises where it can't be recorded."""


class UserUnknown(UserUnfit):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no user {name!r}; `payhook users list` shows who there is")


def add_user(
    users: Users, name: str, roles: frozenset[Role], password: str, record: Recording, by: str | None = None
) -> None:
    """Adds a user. ``by``: which user does it, from a page; None: it is done on the machine.

    :raises UserUnfit, PasswordUnfit: nothing was changed
    :raises NotSignedIn: ``by`` is no user any more; nothing was changed
    """
    account = Account(checked_name(name), roles, passwords.hash_password(password, name), new_stamp())

    def add(accounts: dict[str, Account]) -> None:
        if name in accounts:
            raise UserUnfit(f"there is a user {name!r} already; `payhook users roles` or `password` changes them")
        _check_signed_in(accounts, by)
        accounts[name] = account

    users.change(add, _make_witness(name, record))


def set_roles(users: Users, name: str, roles: frozenset[Role], record: Recording) -> None:
    """Ends the user's sessions.

    :raises UserUnknown: nothing was changed
    """
    _alter_account(users, name, lambda account: account.with_new_stamp(roles=roles), record)


def set_password(
    users: Users, name: str, password: str, record: Recording, by: str | None = None, stamp: str | None = None
) -> None:
    """Sets a password. Ends the user's sessions and tokens. ``by``: as in `add_user`.

    ``stamp``: that of the account whose current password the user gave; None: no password was asked for.

    :raises UserUnknown, PasswordUnfit: nothing was changed
    :raises NotSignedIn: as of `add_user`, or the account's stamp is another one by now
    """
    secret = passwords.hash_password(password, name)

    def change(accounts: dict[str, Account]) -> None:
        account = _find_account(accounts, name)
        if stamp not in (None, account.stamp):
            raise NotSignedIn
        _check_signed_in(accounts, by)
        accounts[name] = account.with_new_stamp(password=secret, tokens=())

    users.change(change, _make_witness(name, record))


def remove_user(users: Users, name: str, record: Recording) -> None:
    """Ends the user's sessions and tokens.

    :raises UserUnknown: nothing was changed
    """

    def remove(accounts: dict[str, Account]) -> None:
        del accounts[_find_account(accounts, name).name]

    users.change(remove, _make_witness(name, record))


def make_token(users: Users, name: str, label: str, at: datetime, record: Recording, days: int = TOKEN_DAYS) -> str:
    """Makes a new bearer token of a user, to be shown once. It ends after ``days``, and with the user's password.

    The user's expired tokens are removed: the new one may have the name of one of them.

    :raises UserUnknown, UserUnfit: nothing was changed
    """
    secret = new_token()
    made = Token(checked_name(label), secret_sha256(secret), to_rfc3339(at), to_rfc3339(at + timedelta(days=days)))

    def add(account: Account) -> Account:
        live = tuple(token for token in account.tokens if not token.is_over(at))
        if any(token.name == label for token in live):
            raise UserUnfit(f"{name} has a token {label!r} already; revoke it, or choose another name")
        if len(live) >= TOKENS_MAX:
            raise UserUnfit(f"{name} has {TOKENS_MAX} tokens, which is the most; revoke one")
        return replace(account, tokens=(*live, made))

    _alter_account(users, name, add, record)
    return secret


def revoke_token(users: Users, name: str, label: str, record: Recording) -> None:
    def revoke(account: Account) -> Account:
        tokens_left = tuple(token for token in account.tokens if token.name != label)
        if len(tokens_left) == len(account.tokens):
            raise UserUnfit(f"{name} has no token {label!r}; `payhook users list` shows which there are")
        return replace(account, tokens=tokens_left)

    _alter_account(users, name, revoke, record)


def _alter_account(users: Users, name: str, alter: Callable[[Account], Account], record: Recording) -> None:
    def change(accounts: dict[str, Account]) -> None:
        accounts[name] = alter(_find_account(accounts, name))

    users.change(change, _make_witness(name, record))


def _check_signed_in(accounts: Accounts, by: str | None) -> None:
    if by is not None:
        check_signed_in(accounts, by)


def _find_account(accounts: dict[str, Account], name: str) -> Account:
    if name not in accounts:
        raise UserUnknown(name)
    return accounts[name]


def _make_witness(name: str, record: Recording) -> Callable[[Accounts, Accounts], None]:
    return lambda before, after: record(name, _as_text(before.get(name)), _as_text(after.get(name)))


def _as_text(account: Account | None) -> str | None:
    """Writes an account as it may be read for ever: without hashes and stamps, which only say that they changed."""
    if account is None:
        return None
    tokens = sorted(f"{token.name} until {token.ends_at[:10]}" for token in account.tokens)
    return json.dumps({"roles": sorted(account.roles), "tokens": tokens})


class MachineOnly(UserUnfit):
    def __init__(self, what: str, command: str) -> None:
        super().__init__(f"{what} on the machine alone: `{command}`")


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    roles: Sequence[Role]
    tokens: Sequence[Token]
    signed_in_at: datetime | None

    @property
    def is_admin(self) -> bool:
        return Role.ADMIN in self.roles


class UserService:
    """Changes users. Each change is on record as the actor's before it takes effect, and each refusal too.

    ``channel``: ``page`` or ``cli``. From a page no administrator is made, changed or removed: an administrator
    approves what one may not do alone, and that must not be somebody whom the first person made.
    Blocks; threads may share it.

    :raises UserUnfit, PasswordUnfit: by each change: nothing was changed
    :raises AuditLogUnwritable: by each change: it can't be put on record; nothing was changed
    """

    def __init__(
        self, users: Users, sessions: Sessions | None, audit_log: AuditLog, clock: Clock, channel: str
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._clock = clock
        self._channel = channel
        self._recorder = Recorder(audit_log, clock, channel)

    def list_people(self) -> list[Person]:
        signed_in = self._sessions.last_sign_ins() if self._sessions is not None else {}
        return [
            Person(name, sorted(account.roles), account.tokens, signed_in.get(name))
            for name, account in sorted(self._users.read_accounts().items())
        ]

    def find_person(self, name: str) -> Person:
        person = next((person for person in self.list_people() if person.name == name), None)
        if person is None:
            raise UserUnknown(name)
        return person

    def add(self, actor: str, name: str, roles: frozenset[Role], password: str) -> None:
        with self._audit_change(actor, "user_add", name) as record:
            self._check_given(roles, f"payhook users add {name} --role admin")
            add_user(self._users, name, roles, password, record, by=self._page_actor(actor))

    def set_roles(self, actor: str, name: str, roles: frozenset[Role]) -> None:
        with self._audit_change(actor, "user_roles", name) as record:
            self._check_changed(name, f"payhook users roles {name}")
            self._check_given(roles, f"payhook users roles {name} --role admin")
            set_roles(self._users, name, roles, record)

    def set_password(self, actor: str, name: str, password: str) -> None:
        with self._audit_change(actor, "user_password", name) as record:
            self._check_changed(name, f"payhook users password {name}")
            set_password(self._users, name, password, record, by=self._page_actor(actor))

    def remove(self, actor: str, name: str) -> None:
        with self._audit_change(actor, "user_remove", name) as record:
            self._check_changed(name, f"payhook users remove {name}")
            remove_user(self._users, name, record)

    def make_token(self, actor: str, name: str, label: str, days: int) -> str:
        with self._audit_change(actor, "token_make", name) as record:
            return make_token(self._users, name, label, self._clock.now(), record, days)

    def revoke_token(self, actor: str, name: str, label: str) -> None:
        """Revokes also an administrator's token, and from a page too: it only takes away."""
        with self._audit_change(actor, "token_revoke", name) as record:
            revoke_token(self._users, name, label, record)

    def _page_actor(self, actor: str) -> str | None:
        return actor if self._channel == "page" else None

    def _check_changed(self, name: str, command: str) -> None:
        account = self._users.read_accounts().get(name)
        if self._channel == "page" and account is not None and Role.ADMIN in account.roles:
            raise MachineOnly("an administrator is changed", command)

    def _check_given(self, roles: frozenset[Role], command: str) -> None:
        if self._channel == "page" and Role.ADMIN in roles:
            raise MachineOnly("an administrator is made", command)

    @contextmanager
    def _audit_change(self, actor: str, action: str, name: str) -> Iterator[Recording]:
        def record(_name: str, before: str | None, after: str | None) -> None:
            self._recorder.record(actor, action, name, before=before, after=after)

        with self._recorder.record_refusals(actor, action, name):
            yield record
