"""The users of one data folder: a JSON file that its owner alone can read, changed whole and under a lock."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from console.access.roles import NotSignedIn, Role, User
from core.clock import from_rfc3339, to_rfc3339
from core.errors import PayhookError
from core.files import hold_lock, write_whole

TOKEN_PREFIX = "payhook_"  # noqa: S105 - how a token begins, so that scanners of leaked secrets know one
TOKEN_BYTES = 32


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def secret_sha256(secret: str) -> str:
    """Hashes a secret of 256 random bits: it can't be guessed, so nothing slower is needed."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
USERS_MAX = 1_000
TOKENS_MAX = 50
"""The most tokens of one user."""

TOKEN_DAYS = 90
"""How long a token lasts where its maker doesn't say."""

STAMP_BYTES = 16


class UsersUnreadable(PayhookError):
    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"users {path}: {problem}")


class UserUnfit(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    sha256: str
    made_at: str
    ends_at: str

    def is_over(self, now: datetime) -> bool:
        return now >= from_rfc3339(self.ends_at)


@dataclass(frozen=True, slots=True)
class Account:
    """Holds one user as the file has them. ``stamp`` changes with password and roles: sessions of an older one are
    over.
    """

    name: str
    roles: frozenset[Role]
    password: str
    stamp: str
    tokens: tuple[Token, ...] = ()

    @property
    def user(self) -> User:
        return User(self.name, self.roles)

    def with_new_stamp(self, **changed: Any) -> Account:
        return replace(self, **changed, stamp=new_stamp())


Accounts: TypeAlias = Mapping[str, Account]
Change = Callable[[dict[str, Account]], None]
Witness = Callable[[Accounts, Accounts], None]


@dataclass(frozen=True, slots=True)
class _KnownUsers:
    seen: tuple[int, ...]
    accounts: Accounts
    tokens: Mapping[str, tuple[Account, Token]]


class Users:
    """Reads and changes the file at ``path``; it is made with the first user. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known = _KnownUsers((), {}, {})

    def read_accounts(self) -> Accounts:
        """Reads every account by its name, again only when the file has changed.

        :raises UsersUnreadable: see there
        """
        return self._now().accounts

    def check_signed_in(self, name: str) -> None:
        check_signed_in(self.read_accounts(), name)

    def by_token(self, sha256: str) -> tuple[Account, Token] | None:
        """Finds a token that is known, also one that is over, and whose it is.

        :raises UsersUnreadable: see there
        """
        return self._now().tokens.get(sha256)

    def change(self, change: Change, witness: Witness) -> None:
        """Applies a change to the accounts. ``witness`` sees before and after, and may still prevent it by raising.

        :raises UsersUnreadable, UserUnfit: nothing was changed
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with hold_lock(self._path.with_suffix(".lock")):
            before = self._read() if self._path.exists() else {}
            after = dict(before)
            change(after)
            if len(after) > USERS_MAX:
                raise UserUnfit(f"{len(after)} users, above the limit of {USERS_MAX}")
            witness(before, after)
            write_whole(self._path, _encode_accounts(after))

    def _now(self) -> _KnownUsers:
        with self._lock:
            try:
                seen = _file_identity(self._path)
            except FileNotFoundError:
                seen = ()
            if self._known.seen != seen:
                accounts = self._read() if seen else {}
                tokens = {token.sha256: (account, token) for account in accounts.values() for token in account.tokens}
                self._known = _KnownUsers(seen, accounts, tokens)
            return self._known

    def _read(self) -> dict[str, Account]:
        try:
            if stat.S_IMODE(self._path.stat().st_mode) & 0o077:
                raise UsersUnreadable(self._path, f"others can read it; `chmod 600 {self._path}`")
            return _decode_accounts(json.loads(self._path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
            problem = f"it can't be read ({type(wrong).__name__}: {wrong}); restore it, or remove it and add users"
            raise UsersUnreadable(self._path, problem) from wrong


def check_signed_in(known: Accounts, name: str) -> None:
    if name not in known:
        raise NotSignedIn


def new_stamp() -> str:
    return secrets.token_hex(STAMP_BYTES)


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UserUnfit(f"{name!r} can't be a name: expected up to 64 of a-z 0-9 . _ @ -, a letter or digit first")
    return name


def _encode_accounts(accounts: Accounts) -> str:
    tree = {
        name: {
            "roles": sorted(account.roles),
            "password": account.password,
            "stamp": account.stamp,
            "tokens": {
                token.name: {"sha256": token.sha256, "made_at": token.made_at, "ends_at": token.ends_at}
                for token in account.tokens
            },
        }
        for name, account in sorted(accounts.items())
    }
    return json.dumps({"users": tree}, indent=1) + "\n"


def _decode_accounts(tree: Any) -> dict[str, Account]:
    return {checked_name(name): _decode_account(name, fields) for name, fields in tree["users"].items()}


def _decode_account(name: str, fields: Any) -> Account:
    tokens = tuple(_decode_token(label, token) for label, token in fields["tokens"].items())
    roles = frozenset(Role(role) for role in fields["roles"])
    return Account(name, roles, str(fields["password"]), str(fields["stamp"]), tokens)


def _decode_token(label: str, fields: Any) -> Token:
    made_at, ends_at = (to_rfc3339(from_rfc3339(str(fields[name]))) for name in ("made_at", "ends_at"))
    return Token(label, str(fields["sha256"]), made_at, ends_at)


def _file_identity(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode
