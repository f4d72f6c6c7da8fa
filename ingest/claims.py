"""The claim on an event key: one atomic decision a key, so that of many copies one is published.

Redis is the fast path, not the authority: whatever it forgets or can't say, the journal decides.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from core.errors import PayhookError
from core.event import Mode
from core.keys import hash16

CONTENT_BYTES = 8
OWNER_BYTES = 16
PENDING_KEPT_S = 3_600
"""A pending key outlives its lease by far, so that who takes it over knows that there was an owner."""
HASH_BYTES = 16


class ClaimsUnavailable(PayhookError):
    """The store of claims can't be asked; whether anything was done there isn't known. The journal decides."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class ClaimState(StrEnum):
    """What a claim found, and what the claimer then does."""

    CLAIMED = "claimed"
    """Nobody had it, or the claimer itself: publish."""
    RECLAIMED = "reclaimed"
    """Its owner's lease is over: publish, flagged."""
    IN_FLIGHT = "in_flight"
    """Somebody publishes it now: wait, then ask again with one's own content."""
    DUPLICATE = "duplicate"
    """Published before with the same content: nothing to do."""
    CONFLICT = "conflict"
    """Published before with other content: publish, flagged; a person decides."""


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """The name of an event key's claim, and the head of the content's hash that the claimer has for it.

    ``name``: `name_prefix`, then `core.keys.hash16` of the event key, which is what the journal's index holds it by.
    """

    name: bytes
    content8: bytes

    @classmethod
    def of(cls, event_key: str, content_sha256: str, mode: Mode = "live", generation: int = 0) -> ClaimKey:
        """``content_sha256`` in hex. One key in two modes is two claims: each mode has a journal of its own."""
        name = name_prefix(mode, generation) + hash16(event_key)
        return cls(name, bytes.fromhex(content_sha256[: 2 * CONTENT_BYTES]))

    @classmethod
    def of_delivery(cls, provider: str, delivery_id: str, body_sha256: str) -> ClaimKey:
        """Of a delivery whose id stands for one body. No event's: `ingest.confirmed` doesn't read it."""
        return cls(b"delivery:" + hash16(f"{provider}:{delivery_id}"), bytes.fromhex(body_sha256[: 2 * CONTENT_BYTES]))


@functools.lru_cache(maxsize=16)
def name_prefix(mode: Mode, generation: int) -> bytes:
    """What stands before an event key's hash: nothing in live traffic's generation 0, then ``1:``; ``t:``, ``t1:``."""
    if mode == "live" and generation == 0:
        return b""
    return b"%s%s:" % (b"" if mode == "live" else b"t", b"%d" % generation if generation else b"")


class Generations(Protocol):
    """The generation that claims are made in, by mode."""

    def of(self, mode: Mode) -> int | None:
        """None where it isn't known, or its processor refuses: nothing is claimed then, and the journal decides."""


class Claims(Protocol):
    """The protocol's three steps, each one round trip for all its keys. ``owner``: 16 bytes of the request's own.

    Each raises `ClaimsUnavailable` where the store can't be asked in time.
    """

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        """Decides each key atomically, in order."""

    async def confirm(self, keys: Sequence[ClaimKey], owner: bytes) -> None:
        """Marks keys as published; one that another owner has taken over meanwhile stays as it is."""

    async def release(self, keys: Sequence[ClaimKey], owner: bytes) -> None:
        """Gives keys back that weren't published; only if still the owner."""

    def settle(self, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
        """Confirms and releases soon, tried until it worked or the lease is over; nobody hears of it.

        A claim that overtakes it is told "in flight".
        """
