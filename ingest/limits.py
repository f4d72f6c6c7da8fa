"""Limits what the receiver takes on: connections, requests at once, the bytes of their bodies, and their rate.

A refused request loses nothing: the provider sends it again, and nothing of it was published.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from core.clock import Clock
from ingest.errors import RequestRefused

PART_OF_A_SOURCE = 1 / 8
"""The part of all places for one sender's requests whose bodies have been awaited for `GRACE_S`."""

GRACE_S = 2.0
"""A body may come so long after its head without making way while there are places: in a burst all heads come first."""

PUBLISH_TIMEOUT_MS_MAX = 4_900

BURST_S = 2.0
"""A provider may use so many seconds' worth of its rate at once: redeliveries come in clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverLimits:
    """Limits of one receiver process that aren't settings; tests pass others.

    A claim outlives its request: waiting, reading and publishing end within ``lease_s``. ``publish_timeout_ms`` is
    below the shortest time-out of a provider (5 s).
    """

    header_deadline_s: float = 5.0
    """From a head's first byte to its last."""
    idle_s: float = 30.0
    """How long a connection stays open on which nothing happens."""
    connections_max: int = 900
    """Below the usual 1,024 files of a process, and above ``in_flight_max``: one that isn't under way makes way."""
    read_deadline_s: float = 10.0
    """Until the whole body is there."""
    in_flight_max: int = 512
    """Requests under way."""
    in_flight_bytes_max: int = 64 << 20
    """Bytes of the bodies of requests under way."""
    in_flight_wait_s: float = 1.0
    """How long a request waits for another request's claim."""
    publish_timeout_ms: int = 4_000
    """Kafka's time to acknowledge an event."""
    lease_s: float = 30.0
    """A claim whose owner says nothing for so long is free again."""
    confirmed_s: float = 8 * 86_400.0
    """How long Redis knows a confirmed key: 7 days and 1 of margin."""
    redis_failures_max: int = 5
    """So many failures in a row open the breaker to Redis."""
    redis_reset_s: float = 2.0
    """Until an open breaker asks Redis again."""

    def __post_init__(self) -> None:
        assert self.connections_max > self.in_flight_max
        assert self.publish_timeout_ms <= PUBLISH_TIMEOUT_MS_MAX
        assert self.lease_s > self.in_flight_wait_s + self.read_deadline_s + self.publish_timeout_ms / 1000


LIMITS = ReceiverLimits()


class Load:
    """Requests under way and the bytes of their bodies, counted as they arrive, until the request is answered.

    A request whose body isn't whole yet makes way for a newer one. It is the oldest of a source that has more of them
    than its part (`PART_OF_A_SOURCE`), once it has had its time. Where all places are taken, it is the oldest of the
    source that has most. What is opened and never finished keeps no other request out.
    """

    def __init__(self, requests_max: int, bytes_max: int, clock: Clock) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._clock = clock
        self._unfinished: dict[str, list[OpenRequest]] = {}
        """By source, the oldest first."""
        self.requests = 0
        self.bytes = 0

    def begin(self, source: str, give_up: Callable[[], None]) -> OpenRequest:
        """Takes a place for one more request; it must be given back by `OpenRequest.end`.

        :param source: its sender, as `source_of` gives it
        :param give_up: ends its reading, when it must make way
        :raises RequestRefused: 503, as many requests as may be are under way
        """
        mine, now = self._unfinished.get(source, []), self._clock.monotonic_s()
        if len(mine) >= max(1, int(self._requests_max * PART_OF_A_SOURCE)) and now - mine[0].began_at >= GRACE_S:
            mine[0].make_way()
        if self.requests >= self._requests_max and not self._make_room(None):
            raise RequestRefused("overloaded", limit=f"{self._requests_max} requests")
        request = OpenRequest(self, source, now, give_up)
        self._unfinished.setdefault(source, []).append(request)
        self.requests += 1
        return request

    def reserve_bytes(self, size: int, request: OpenRequest) -> None:
        """
        :raises RequestRefused: 503, and nothing was counted
        """
        while self.bytes + size > self._bytes_max:
            if not self._make_room(request):
                raise RequestRefused("overloaded", limit=f"{self._bytes_max} bytes")
        self.bytes += size

    def finish_reading(self, request: OpenRequest) -> None:
        mine = self._unfinished[request.source]
        mine.remove(request)
        if not mine:
            del self._unfinished[request.source]

    def _make_room(self, for_whom: OpenRequest | None) -> bool:
        others = [request for request in max(self._unfinished.values(), key=len, default=[]) if request is not for_whom]
        if others:
            others[0].make_way()
        return bool(others)


class OpenRequest:
    __slots__ = ("_bytes", "_give_up", "_load", "_unfinished", "began_at", "source")

    def __init__(self, load: Load, source: str, began_at: float, give_up: Callable[[], None]) -> None:
        self.source = source
        self.began_at = began_at
        self._load = load
        self._give_up = give_up
        self._unfinished = True
        self._bytes = 0

    def reserve_bytes(self, size: int) -> None:
        self._load.reserve_bytes(size, self)
        self._bytes += size

    def finish_reading(self) -> None:
        if self._unfinished:
            self._unfinished = False
            self._load.finish_reading(self)

    def make_way(self) -> None:
        self.finish_reading()
        self._release()
        self._give_up()

    def end(self) -> None:
        self.finish_reading()
        self._release()

    def _release(self) -> None:
        """Gives the place back, once: a request that made way ends too."""
        if self._bytes >= 0:
            self._load.requests -= 1
            self._load.bytes -= self._bytes
            self._bytes = -1


def source_of(client: tuple[str, int] | None) -> str:
    """Returns a request's sender: an address, or the network of 64 bits that one IPv6 host may have to itself."""
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
    """A token bucket by provider, of verified requests with events: strangers can't use a provider's share up.

    ``per_s``: requests a second of this process, by provider; a provider without one isn't limited.
    """

    def __init__(self, per_s: Mapping[str, float], clock: Clock) -> None:
        self._per_s = dict(per_s)
        self._clock = clock
        self._most = {provider: max(1.0, rate * BURST_S) for provider, rate in per_s.items()}
        self._left = dict(self._most)
        self._at = dict.fromkeys(per_s, clock.monotonic_s())

    def take_token(self, provider: str) -> None:
        """
        :raises RequestRefused: 429, with the time after which there is room again
        """
        rate = self._per_s.get(provider)
        if rate is None:
            return
        now = self._clock.monotonic_s()
        left = min(self._most[provider], self._left[provider] + (now - self._at[provider]) * rate)
        self._at[provider] = now
        if left < 1.0:
            self._left[provider] = left
            after_s = max(1, math.ceil((1.0 - left) / rate))
            raise RequestRefused("too_many_requests", retry_after_s=after_s, per_s=rate)
        self._left[provider] = left - 1.0


class Connection(Protocol):
    def make_way(self) -> None: ...


@dataclass(slots=True)
class _Source:
    count: int = 0
    waiting: dict[Connection, float] = field(default_factory=dict)
    """It holds those that wait for their client, the longest first, and since when."""


class Connections:
    """The open connections by source. Where all places are taken, one that waits for its client makes way.

    It is the longest waiting of the source that has most connections. A connection whose request is under way keeps its
    place: `Load` bounds those.
    """

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._count = 0
        self._sources: dict[str, _Source] = {}

    def admit_connection(self, connection: Connection, source: str, now: float) -> bool:
        """Gives a new connection a place, in which it waits for its client; False: none is to be had."""
        if self._count >= self._connections_max and not self._make_room():
            return False
        sender = self._sources.setdefault(source, _Source())
        sender.count += 1
        sender.waiting[connection] = now
        self._count += 1
        return True

    def set_waiting_since(self, connection: Connection, source: str, since: float | None) -> None:
        """Notes since when a connection waits for its client; None: its request is under way.

        A connection without a place is passed over; one that waits already keeps its time.
        """
        sender = self._sources.get(source)
        if sender is None:
            return
        if since is None:
            sender.waiting.pop(connection, None)
        else:
            sender.waiting.setdefault(connection, since)

    def release(self, connection: Connection, source: str) -> None:
        sender = self._sources[source]
        sender.waiting.pop(connection, None)
        sender.count -= 1
        self._count -= 1
        if not sender.count:
            del self._sources[source]

    def find_busiest_source(self) -> tuple[str, int]:
        source = max(self._sources, key=lambda name: self._sources[name].count, default="")
        return source, self._sources[source].count if source in self._sources else 0

    def _make_room(self) -> bool:
        busiest = max(
            (source for source in self._sources.values() if source.waiting),
            key=lambda source: (source.count, -next(iter(source.waiting.values()))),
            default=None,
        )
        if busiest is None:
            return False
        next(iter(busiest.waiting)).make_way()
        return True
