"""What the receiver takes on at once; beyond it a request is refused before it costs memory, and told when to come.

A refused request loses nothing: the provider sends it again, and nothing of it was published.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.clock import Clock
from ingest.errors import overloaded, too_many_requests

BURST_S = 2.0
"""A provider may use so many seconds' worth of its rate at once: redeliveries come in clusters."""


class Load:
    """Requests under way and the bytes of their bodies, counted from the head of a request to its answer."""

    def __init__(self, requests_max: int, bytes_max: int, retry_after_s: int) -> None:
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._retry_after_s = retry_after_s
        self.requests = 0
        self.bytes = 0

    def begin(self) -> Held:
        """A place for one more request; it must be given back by `Held.end`.

        :raises Refused: 503, as many requests as may be are under way
        """
        if self.requests >= self._requests_max:
            raise overloaded(f"{self._requests_max} requests", self._retry_after_s)
        self.requests += 1
        return Held(self)

    def hold(self, size: int) -> None:
        """
        :raises Refused: 503, and nothing was counted
        """
        if self.bytes + size > self._bytes_max:
            raise overloaded(f"{self._bytes_max} bytes", self._retry_after_s)
        self.bytes += size


class Held:
    """What one request holds of a `Load`."""

    __slots__ = ("_bytes", "_load")

    def __init__(self, load: Load) -> None:
        self._load = load
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Counts ``size`` more bytes of the body: announced ones before they are read.

        :raises Refused: 503
        """
        self._load.hold(size)
        self._bytes += size

    def end(self) -> None:
        self._load.requests -= 1
        self._load.bytes -= self._bytes


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
