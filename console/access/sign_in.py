"""From a name and a password, a session's id or a token to a user; and how often somebody may try."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import ipaddress
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from console.access import accounts, passwords
from console.access.roles import TokenOver, User
from console.access.sessions import Sessions
from console.access.users import Users, secret_sha256
from core.clock import Clock
from core.errors import PayhookError
from operations.audit_log import AuditLog, AuditOutcome
from operations.recorder import Recorder

BUCKETS = 1 << 16
FORGOTTEN_AFTER_S = 900.0
WAIT_S_MAX = 60.0
"""A person who is kept out by the tries of others comes in within minutes."""

USER_TRIES = 5
ADDRESS_TRIES = 20
"""Before the first wait. More for an address: behind a tunnel or a proxy all people have the same one."""

IPV6_SITE = 64
"""Bits of an IPv6 address that one holder of addresses has."""


@dataclass(slots=True)
class _Tries:
    count: int
    last_s: float


class SignInThrottle:
    """Counts tries, in this process alone. Each counts as failed until `refund_try` says otherwise: many at once
    have no more of them than one after the other. Threads may share it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._tries: dict[int, _Tries] = {}

    def begin(self, name: str, address: str) -> float:
        """Returns the seconds to wait; 0: this is a try, and counts."""
        now = self._clock.monotonic_s()
        places = (
            (self._bucket_of("user", name), USER_TRIES),
            (self._bucket_of("address", network_of(address)), ADDRESS_TRIES),
        )
        with self._lock:
            wait_s = max(self._wait_s(place, free, now) for place, free in places)
            if wait_s > 0:
                return wait_s
            for place, _ in places:
                tries = self._tries.setdefault(place, _Tries(0, now))
                tries.count, tries.last_s = tries.count + 1, now
        return 0.0

    def refund_try(self, name: str, address: str) -> None:
        """Takes back a try that was no wrong one. The address gets back this one alone: who has one password may still
        guess.
        """
        with self._lock:
            self._tries.pop(self._bucket_of("user", name), None)
            if (tries := self._tries.get(self._bucket_of("address", network_of(address)))) is not None:
                tries.count = max(0, tries.count - 1)

    def _wait_s(self, place: int, free: int, now: float) -> float:
        tries = self._tries.get(place)
        if tries is None:
            return 0.0
        since_s = now - tries.last_s
        if since_s > FORGOTTEN_AFTER_S:
            del self._tries[place]
            return 0.0
        beyond = tries.count - free
        return 0.0 if beyond < 0 else max(0.0, min(WAIT_S_MAX, 2.0 ** min(beyond, 30)) - since_s)

    def _bucket_of(self, kind: str, what: str) -> int:
        digest = hashlib.blake2b(f"{kind} {what}".encode(errors="replace"), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") % BUCKETS


def network_of(address: str) -> str:
    """Returns the addresses that one person may hold: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, IPV6_SITE), strict=False))
    return str(parsed)


log = logging.getLogger(__name__)

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

AT_ONCE = 2
"""Passwords that are hashed at the same time: each takes 64 MiB and a core for some 50 ms."""

WAITING_MAX = 16
NOT_ALLOWED_MAX = 100
OWN_PASSWORD = "own_password"  # noqa: S105 - an act's name
NOBODY = "(unknown)"
"""The actor of an entry whose name isn't a user's: people type passwords into the wrong field, and entries stay."""


class SignInRefused(PayhookError):
    """Raised for a wrong name or password; the answer doesn't say which."""

    def __init__(self) -> None:
        super().__init__("wrong name or password")


class SignInTooSoon(PayhookError):
    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(f"too many wrong tries; wait {max(1, round(wait_s))} s, then try again")


class SignInBusy(PayhookError):
    def __init__(self) -> None:
        super().__init__("too many people are signing in now; try again")


class Access:
    """Knows who somebody is: the listener's one place. Every sign-in, taken or refused, is an act."""

    def __init__(
        self, users: Users, sessions: Sessions, throttle: SignInThrottle, audit_log: AuditLog, clock: Clock
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._throttle = throttle
        self._recorder = Recorder(audit_log, clock, "page")
        self._clock = clock
        self._hashing = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sign-in")
        self._waiting = 0
        self._not_allowed: dict[str, tuple[int, int]] = {}
        self._hashing.submit(passwords.unknown_hash)

    @property
    def has_users(self) -> bool:
        return bool(self._users.read_accounts())

    async def sign_in(self, name: str, password: str, address: str) -> str:
        """Signs a user in, and returns the new session's id.

        :raises SignInRefused, SignInTooSoon, SignInBusy: see there
        :raises AuditLogUnwritable: it can't be put on record, so there is no session
        """
        return await self._in_turn(self._sign_in, name, password, address)

    async def change_password(self, user: User, current: str, new: str, address: str) -> None:
        """Changes a user's own password, once they show that they know it. Ends their sessions and tokens.

        :raises SignInRefused, SignInTooSoon, SignInBusy: it isn't theirs, or is guessed too often
        :raises NotSignedIn: their password or roles were changed meanwhile
        :raises PasswordUnfit: the new one isn't taken
        :raises AuditLogUnwritable: it can't be put on record; nothing was changed
        """
        await self._in_turn(self._change_password, user.name, current, new, address)

    def by_session(self, secret: str) -> User | None:
        """Returns the user of a session. A session that began before the last change of password or roles is over."""
        session = self._sessions.find(secret)
        if session is None:
            return None
        account = self._users.read_accounts().get(session.name)
        if account is None or account.stamp != session.stamp:
            self._sessions.end(secret)
            return None
        return account.user

    def by_token(self, secret: str) -> User | None:
        """Returns the user of a bearer token; None: there is no such token.

        :raises TokenOver: its time is over
        """
        match = self._users.by_token(secret_sha256(secret))
        if match is None:
            return None
        account, token = match
        if token.is_over(self._clock.now()):
            raise TokenOver(account.name, token.name, token.ends_at)
        return account.user

    def sign_out(self, secret: str, user: User) -> None:
        self._sessions.end(secret)
        self._recorder.record(user.name, "sign_out", "", AuditOutcome.DONE)

    def not_allowed(self, user: User, what: str, channel: str) -> None:
        """Puts on record what a user tried and may not do; `NOT_ALLOWED_MAX` an hour, or they could fill the disk."""
        hour = int(self._clock.monotonic_s() // 3_600)
        since, count = self._not_allowed.get(user.name, (hour, 0))
        count = count + 1 if since == hour else 1
        self._not_allowed[user.name] = hour, count
        if count > NOT_ALLOWED_MAX:
            return
        last = f"; more of {user.name} in this hour isn't recorded" if count == NOT_ALLOWED_MAX else ""
        roles = ", ".join(sorted(user.roles)) or "no role"
        try:
            recorder = replace(self._recorder, channel=channel)
            recorder.record(user.name, "order", what, AuditOutcome.REFUSED, f"has {roles}{last}")
        except PayhookError as failed:
            log.error("%s of %s was refused, and that can't be recorded: %s", what, user.name, failed)

    def close(self) -> None:
        self._hashing.shutdown()
        self._sessions.close()

    async def _in_turn(self, hashes: Callable[Asked, Answer], *args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        if self._waiting >= WAITING_MAX:
            raise SignInBusy
        self._waiting += 1
        try:
            hash_call = functools.partial(hashes, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._hashing, hash_call)
        finally:
            self._waiting -= 1

    def _change_password(self, name: str, current: str, new: str, address: str) -> None:
        account = self._users.read_accounts().get(name)
        if (wait_s := self._throttle.begin(name, address)) > 0:
            raise SignInTooSoon(wait_s)
        if account is None or not passwords.is_password_of(current, account.password):
            self._recorder.record(
                name, OWN_PASSWORD, name, AuditOutcome.REFUSED, f"from {address}, with another password"
            )
            raise SignInRefused
        self._throttle.refund_try(name, address)

        def record(_name: str, _before: str | None, _after: str | None) -> None:
            self._recorder.record(name, OWN_PASSWORD, name, AuditOutcome.DONE)

        with self._recorder.record_refusals(name, OWN_PASSWORD, name):
            accounts.set_password(self._users, name, new, record, by=name, stamp=account.stamp)

    def _sign_in(self, name: str, password: str, address: str) -> str:
        account = self._users.read_accounts().get(name)
        if (wait_s := self._throttle.begin(name, address)) > 0:
            raise SignInTooSoon(wait_s)
        if not passwords.is_password_of(password, None if account is None else account.password) or account is None:
            self._recorder.record(
                NOBODY if account is None else name, "sign_in", f"from {address}", AuditOutcome.REFUSED
            )
            raise SignInRefused
        self._throttle.refund_try(name, address)
        self._recorder.record(name, "sign_in", f"from {address}", AuditOutcome.DONE)
        return self._sessions.begin(name, account.stamp)
