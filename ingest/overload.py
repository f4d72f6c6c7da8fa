"""What the receiver takes on at once; beyond it a request is refused before it costs memory, and told when to come.

A refused request loses nothing: the provider sends it again, and nothing of it was published.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping

from core.clock import Clock
from ingest.errors import overloaded, too_many_requests

PART_OF_A_SOURCE = 1 / 8
"""Of all places, for requests whose bodies have been awaited for `GRACE_S`."""

GRACE_S = 2.0
"""A body may come so long after its head without making way while there are places: in a burst all heads come first."""

BURST_S = 2.0
"""A provider may use so many seconds' worth of its rate at once: redeliveries come in clusters."""


class Load:
    """Requests under way and the bytes of their bodies, counted as they arrive, until the request is answered.

    A request whose body isn't whole yet makes way for a newer one: the oldest of a source that has more of them than
    its part (`PART_OF_A_SOURCE`) once it has had its time, and where all places are taken the oldest of the source that
    has most. What is opened and never finished keeps no other request out.
    """

    def __init__(self, requests_max: int, bytes_max: int, retry_after_s: int, clock: Clock) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._retry_after_s = retry_after_s
        self._clock = clock
        self._unfinished: dict[str, list[Held]] = {}
        """By source, the oldest first."""
        self.requests = 0
        self.bytes = 0

    def begin(self, source: str, give_up: Callable[[], None]) -> Held:
        """A place for one more request; it must be given back by `Held.end`.

        :param source: whom it comes from, as `source_of` has it
        :param give_up: ends its reading, when it must make way
        :raises Refused: 503, as many requests as may be are under way
        """
        mine, now = self._unfinished.get(source, []), self._clock.monotonic()
        if len(mine) >= max(1, int(self._requests_max * PART_OF_A_SOURCE)) and now - mine[0].began_at >= GRACE_S:
            mine[0].make_way()
        if self.requests >= self._requests_max and not self._one_makes_way(None):
            raise overloaded(f"{self._requests_max} requests", self._retry_after_s)
        held = Held(self, source, now, give_up)
        self._unfinished.setdefault(source, []).append(held)
        self.requests += 1
        return held

    def hold(self, size: int, held: Held) -> None:
        """
        :raises Refused: 503, and nothing was counted
        """
        while self.bytes + size > self._bytes_max:
            if not self._one_makes_way(held):
                raise overloaded(f"{self._bytes_max} bytes", self._retry_after_s)
        self.bytes += size

    def finished(self, held: Held) -> None:
        """Its body is whole, or given up."""
        mine = self._unfinished[held.source]
        mine.remove(held)
        if not mine:
            del self._unfinished[held.source]

    def _one_makes_way(self, for_whom: Held | None) -> bool:
        """Of the source that has most of them the oldest but ``for_whom``; False where there is none."""
        others = [one for one in max(self._unfinished.values(), key=len, default=[]) if one is not for_whom]
        if others:
            others[0].make_way()
        return bool(others)


class Held:
    """What one request holds of a `Load`."""

    __slots__ = ("_bytes", "_give_up", "_load", "_unfinished", "began_at", "source")

    def __init__(self, load: Load, source: str, began_at: float, give_up: Callable[[], None]) -> None:
        self.source = source
        self.began_at = began_at
        self._load = load
        self._give_up = give_up
        self._unfinished = True
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Counts ``size`` more bytes of the body, before they are kept.

        :raises Refused: 503
        """
        self._load.hold(size, self)
        self._bytes += size

    def arrived(self) -> None:
        """Its body is whole."""
        if self._unfinished:
            self._unfinished = False
            self._load.finished(self)

    def make_way(self) -> None:
        """Its place is another request's from now on."""
        self.arrived()
        self._release()
        self._give_up()

    def end(self) -> None:
        self.arrived()
        self._release()

    def _release(self) -> None:
        """Once: a request that made way ends too."""
        if self._bytes >= 0:
            self._load.requests -= 1
            self._load.bytes -= self._bytes
            self._bytes = -1


def source_of(client: tuple[str, int] | None) -> str:
    """Whom a request comes from: an address, or the network of 64 bits that one IPv6 host may have to itself."""
    if client is None:
        return ""
    address = client[0]
    if ":" not in address:
        return address
    try:
        return str(ipaddress.IPv6Address(address.partition("%")[0]).packed[:8].hex())
    except ValueError:
        return address


class RateLimits:
    """A token bucket by provider, of requests whose signature was verified: nobody else can use a provider's share up.

    ``per_s``: requests a second of this process, by provider; a provider without one isn't limited.
    """

    def __init__(self, per_s: Mapping[str, float], clock: Clock) -> None:
        self._per_s = dict(per_s)
        self._clock = clock
        self._most = {provider: max(1.0, rate * BURST_S) for provider, rate in per_s.items()}
        self._left = dict(self._most)
        self._at = dict.fromkeys(per_s, clock.monotonic())

    def take(self, provider: str) -> None:
        """
        :raises Refused: 429, with the time after which there is room again
        """
        rate = self._per_s.get(provider)
        if rate is None:
            return
        now = self._clock.monotonic()
        left = min(self._most[provider], self._left[provider] + (now - self._at[provider]) * rate)
        self._at[provider] = now
        if left < 1.0:
            self._left[provider] = left
            raise too_many_requests(rate, (1.0 - left) / rate)
        self._left[provider] = left - 1.0
