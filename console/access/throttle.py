"""How often somebody may try to sign in: after a few wrong passwords each try waits longer than the one before.

Names and addresses are kept as numbers of `BUCKETS` places, under a key that changes with each start: whatever is
tried, memory is bounded, nobody can push somebody else's wait out of it, and a name that isn't there waits like one
that is.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import threading
from dataclasses import dataclass

from core.clock import Clock

BUCKETS = 1 << 16
FORGOTTEN_AFTER_S = 900.0
WAIT_S_MAX = 60.0
"""A person who is kept out by somebody else's tries comes in within minutes."""

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
    """Counts tries, in this process alone. Each counts as failed until it is told to have succeeded: many at once
    have no more of them than one after the other. Threads may share it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._tries: dict[int, _Tries] = {}

    def begin(self, name: str, address: str) -> float:
        """Seconds to wait; 0: this is a try, and counts."""
        now = self._clock.monotonic()
        places = ((self._place("user", name), USER_TRIES), (self._place("address", site(address)), ADDRESS_TRIES))
        with self._lock:
            wait_s = max(self._wait_s(place, free, now) for place, free in places)
            if wait_s > 0:
                return wait_s
            for place, _ in places:
                tries = self._tries.setdefault(place, _Tries(0, now))
                tries.count, tries.last_s = tries.count + 1, now
        return 0.0

    def succeeded(self, name: str, address: str) -> None:
        """The try was no wrong one. The address gets back this one alone: who has one password may still guess."""
        with self._lock:
            self._tries.pop(self._place("user", name), None)
            if (tries := self._tries.get(self._place("address", site(address)))) is not None:
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

    def _place(self, kind: str, what: str) -> int:
        digest = hashlib.blake2b(f"{kind} {what}".encode(errors="replace"), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") % BUCKETS


def site(address: str) -> str:
    """What one holder of addresses has: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, IPV6_SITE), strict=False))
    return str(found)
