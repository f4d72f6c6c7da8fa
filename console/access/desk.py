"""What an administrator changes of users from a page: each change, and each refusal, is on record as theirs.

Administrators themselves are made, changed and removed on the machine: a second person approves what one may not do
alone, and that must be nobody whom the first one could have made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from console.access import accounts
from console.access.accounts import Recording, UserUnknown
from console.access.roles import Role
from console.access.sessions import Sessions
from console.access.users import Account, Token, Users, UserUnfit
from core.clock import Clock
from dlq.audit_log import AuditLog
from dlq.recorder import Recorder


class MachineOnly(UserUnfit):
    """A change that nobody makes from a page."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(f"{what} on the machine alone, where a second person isn't one's own doing: `{command}`")


@dataclass(frozen=True, slots=True)
class Person:
    """One user as a page shows them. ``signed_in_at``: None where it isn't known. ``set_by``: `Account.set_by`."""

    name: str
    roles: Sequence[Role]
    tokens: Sequence[Token]
    signed_in_at: datetime | None
    set_by: Sequence[str]

    @property
    def is_admin(self) -> bool:
        return Role.ADMIN in self.roles


class UserDesk:
    """Blocks; threads may share it."""

    def __init__(
        self, users: Users, sessions: Sessions, audit_log: AuditLog, clock: Clock, channel: str = "page"
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._recorder = Recorder(audit_log, clock, channel)

    def people(self) -> list[Person]:
        """Everybody, by name."""
        signed_in = self._sessions.last_sign_ins()
        return [_person(one, signed_in.get(name)) for name, one in sorted(self._users.all().items())]

    def person(self, name: str) -> Person:
        """
        :raises UserUnknown: there is no such user
        """
        account = self._users.all().get(name)
        if account is None:
            raise UserUnknown(name)
        return _person(account, self._sessions.last_sign_ins().get(name))

    def add(self, actor: str, name: str, roles: frozenset[Role], password: str) -> None:
        """
        :raises UserUnfit, PasswordUnfit: nothing was changed
        """

        def add(record: Recording) -> None:
            _no_admin(roles, f"payhook users add {name} --role admin")
            accounts.add_user(self._users, name, roles, password, record, by=actor)

        self._recorded(actor, "user_add", name, add)

    def set_roles(self, actor: str, name: str, roles: frozenset[Role]) -> None:
        """
        :raises UserUnfit: nothing was changed
        """

        def change(record: Recording) -> None:
            self._no_administrator(name, f"payhook users roles {name}")
            _no_admin(roles, f"payhook users roles {name} --role admin")
            accounts.set_roles(self._users, name, roles, record)

        self._recorded(actor, "user_roles", name, change)

    def set_password(self, actor: str, name: str, password: str) -> None:
        """
        :raises UserUnfit, PasswordUnfit: nothing was changed
        """

        def change(record: Recording) -> None:
            self._no_administrator(name, f"payhook users password {name}")
            accounts.set_password(self._users, name, password, record, by=actor)

        self._recorded(actor, "user_password", name, change)

    def remove(self, actor: str, name: str) -> None:
        """
        :raises UserUnfit: nothing was changed
        """

        def change(record: Recording) -> None:
            self._no_administrator(name, f"payhook users remove {name}")
            accounts.remove_user(self._users, name, record)

        self._recorded(actor, "user_remove", name, change)

    def revoke_token(self, actor: str, name: str, label: str) -> None:
        """Also an administrator's: it only takes away.

        :raises UserUnfit: nothing was changed
        """
        self._recorded(
            actor, "token_revoke", name, lambda record: accounts.revoke_token(self._users, name, label, record)
        )

    def _no_administrator(self, name: str, command: str) -> None:
        account = self._users.all().get(name)
        if account is not None and Role.ADMIN in account.roles:
            raise MachineOnly("an administrator is changed", command)

    def _recorded(self, actor: str, action: str, name: str, change: Callable[[Recording], None]) -> None:
        def record(_name: str, before: str | None, after: str | None) -> None:
            self._recorder.record(actor, action, name, before=before, after=after)

        with self._recorder.refusals(actor, action, name):
            change(record)


def _no_admin(roles: frozenset[Role], command: str) -> None:
    if Role.ADMIN in roles:
        raise MachineOnly("an administrator is made", command)


def _person(account: Account, signed_in_at: datetime | None) -> Person:
    return Person(account.name, sorted(account.roles), account.tokens, signed_in_at, sorted(account.set_by))
