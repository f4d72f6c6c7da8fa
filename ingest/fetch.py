"""Fetches, within limits, what an adapter wants from its provider before it can judge a request, or trust it.

A provider waits for its answer meanwhile, and anyone can make us ask: so there are limits on time, size, how much
happens at once and how many wait, one circuit breaker a host, and one request for all that want the same. What the
provider doesn't know yet is asked for again (`ingest.provider_client`).
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeAlias

import httpx2
import pybreaker

from core.clock import Clock, Deadline
from ingest.claims import BreakerLog
from ingest.provider_client import (
    AGAIN_AFTER_S,
    GONE,
    Absences,
    CredentialsRefused,
    FetchFailed,
    HostFails,
    NotThereYet,
    ProviderClient,
    strip_url,
)
from providers.port import Fetched, Wanted

log = logging.getLogger(__name__)

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
PAUSE_S_MAX = 60.0
"""What a host may ask for with Retry-After: its webhooks are put off for so long too."""
ASLEEP_PART = 4
"""A quarter of a domain's waiters may be asleep between two tries: ids that strangers made up leave room for others."""
ANSWER_S = 1.0
"""What is left of a request's time must leave so much for the answer, or nobody sleeps for it."""
SHARES = 3
"""Strangers make the receiver ask two providers, PayPal (a certificate) and Mollie (a payment), a third each; the last
third is left for requests that were proven before, of whichever provider."""


class ProviderFetch(Protocol):
    async def fetch(self, wanted: Wanted) -> Fetched:
        """Returns a 2xx; or a 404 or 410 that holds for every credential, and for each try where it may appear yet.

        :raises NotThereYet: a 404 or 410, and it isn't given up yet
        :raises FetchFailed: anything else; ask again later
        :raises CredentialsRefused: none of the credentials was taken, or the one that wasn't might know more
        """


_Key: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...], bytes]
_Outcome: TypeAlias = Fetched | FetchFailed | CredentialsRefused


class _SharedFetch:
    def __init__(self, key: _Key, before: _SharedFetch | None) -> None:
        self.key = key
        self.before = before
        self.asking = False
        self.task: asyncio.Task[_Outcome] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """A fetch happens while a provider waits for its answer: everything about it has a limit.

    A request waits for its turn and for the provider's answer, each up to ``timeout_s``: together that is less than
    the 15 s that Mollie gives, and than the receiver's ``lease_s``, which begins afterwards. A request of PayPal's that
    moves money may wait twice: for a certificate, which is kept for a day, and for what the API says of the event. What
    isn't there yet is asked for again for as long as `Wanted.within_s` says.

    ``answer_bytes_max``: a payment with its refunds is a few KB. ``waiting_max``: requests; one more is put off.
    ``kept_max``: answers that are used again. ``absent_max``: questions whose 404s are counted. ``failures_max``: in a
    row, then the breaker to a host opens for ``reset_s``; those of ``hosts_max`` hosts are remembered.
    """

    timeout_s: float = 3.0
    answer_bytes_max: int = 256 * 1024
    at_once_max: int = 16
    waiting_max: int = 256
    kept_max: int = 256
    absent_max: int = 4_096
    hosts_max: int = 32
    failures_max: int = 5
    reset_s: float = 5.0


@dataclass(slots=True)
class _DomainShare:
    places: asyncio.Semaphore
    waiting: int = 0
    asleep: int = 0


def _compute_share(whole: int) -> int:
    return max(1, whole // SHARES)


def _host_of(url: httpx2.URL) -> str:
    return f"{url.host}:{url.port}" if url.port else url.host


class HttpFetch:
    """`ProviderFetch` over a client that the caller opened.

    Equal questions share a request: one under way where an older answer would do as well (``kept_s`` > 0), else
    only one that hasn't been sent yet. An answer to a question from before a webhook may be older than its news.

    :param loopback: plain HTTP to this very machine is allowed: for tests and simulators
    :param instead: where to ask instead of an address that adapters name: by that address's beginning
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        clock: Clock,
        limits: FetchLimits = FetchLimits(),
        *,
        loopback: bool = False,
        instead: Mapping[str, str] = MappingProxyType({}),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._instead = instead
        self._provider = ProviderClient(client, clock, limits.answer_bytes_max)
        self._limits = limits
        self._clock = clock
        self._loopback = loopback
        self._places = asyncio.Semaphore(limits.at_once_max)
        self._waiting = 0
        self._shares: dict[tuple[str, bool], _DomainShare] = {}
        self._flights: dict[_Key, _SharedFetch] = {}
        self._kept: OrderedDict[_Key, tuple[float, Fetched]] = OrderedDict()
        self._breakers: OrderedDict[str, pybreaker.CircuitBreaker] = OrderedDict()
        self._absences = Absences(clock, limits.absent_max)
        self._pauses: OrderedDict[str, float] = OrderedDict()
        """By host: until when it asked not to be asked."""
        self._sleep = sleep
        self.failures = 0

    async def fetch(self, wanted: Wanted) -> Fetched:
        wanted = self._redirect_wanted(wanted)
        url = self._check_address(wanted.url)
        if wanted.token_url is not None:
            self._check_address(wanted.token_url)
        key = (wanted.url, wanted.bearers, wanted.queries, wanted.headers, wanted.content)
        if (known := self._find_kept(key, wanted.kept_s)) is not None:
            return known
        return await (self._ask_until_there if wanted.may_appear else self._ask_shared)(key, url, wanted)

    def _redirect_wanted(self, wanted: Wanted) -> Wanted:
        if not self._instead:
            return wanted
        token_url = None if wanted.token_url is None else self._replace_address(wanted.token_url)
        return replace(wanted, url=self._replace_address(wanted.url), token_url=token_url)

    def _replace_address(self, url: str) -> str:
        for named, asked in self._instead.items():
            if url.startswith(f"{named}/"):
                return asked + url.removeprefix(named)
        return url

    async def _ask_until_there(self, key: _Key, url: httpx2.URL, wanted: Wanted) -> Fetched:
        deadline = Deadline(self._clock, wanted.within_s)
        fetched: Fetched | None = None
        for _ in range(len(AGAIN_AFTER_S) + 1):
            await self._sleep_until_due(key, url, wanted, deadline)
            fetched = await self._ask_in_time(key, url, wanted, None if fetched is None else deadline)
            if fetched.status not in GONE:
                self._absences.forget_question(key)
                return fetched
            self._absences.record_absence(key)
            if self._absences.is_given_up(key):
                return fetched
        raise self._count_failure(NotThereYet(strip_url(url), self._absences.wait_s(key)))

    async def _sleep_until_due(self, key: _Key, url: httpx2.URL, wanted: Wanted, deadline: Deadline) -> None:
        wait_s, share = self._absences.wait_s(key), self._find_share(url, wanted)
        if wait_s == 0:
            return
        asleep_max = max(1, _compute_share(self._limits.waiting_max) // ASLEEP_PART)
        if wait_s + ANSWER_S > deadline.remaining_s or share.asleep >= asleep_max:
            raise self._count_failure(NotThereYet(strip_url(url), wait_s))
        share.asleep += 1
        try:
            await self._sleep(wait_s)
        finally:
            share.asleep -= 1

    async def _ask_in_time(self, key: _Key, url: httpx2.URL, wanted: Wanted, deadline: Deadline | None) -> Fetched:
        if deadline is None:
            return await self._ask_shared(key, url, wanted)
        try:
            async with asyncio.timeout(deadline.remaining_s):
                return await self._ask_shared(key, url, wanted)
        except TimeoutError:
            raise self._count_failure(
                FetchFailed(strip_url(url), "no answer in the time that the webhook's sender waits")
            ) from None

    async def _ask_shared(self, key: _Key, url: httpx2.URL, wanted: Wanted) -> Fetched:
        share = self._find_share(url, wanted)
        if self._waiting >= self._limits.waiting_max or share.waiting >= _compute_share(self._limits.waiting_max):
            raise self._count_failure(FetchFailed(strip_url(url), f"{share.waiting} requests wait for fetches already"))
        self._waiting += 1
        share.waiting += 1
        try:
            outcome = await self._await_fetch(self._join_fetch(key, url, wanted), url)
        finally:
            self._waiting -= 1
            share.waiting -= 1
        if isinstance(outcome, Fetched):
            return outcome
        # A copy for each: an exception that is raised in many places gathers all their traces.
        raise self._count_failure(copy.copy(outcome))

    async def close(self) -> None:
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _await_fetch(self, flight: asyncio.Task[_Outcome], url: httpx2.URL) -> _Outcome:
        """Waits without taking the fetch down when this one is cancelled: others may share it."""
        await asyncio.wait([flight])
        return FetchFailed(strip_url(url), "given up, the receiver ends") if flight.cancelled() else flight.result()

    def _count_failure(self, error: FetchFailed | CredentialsRefused) -> FetchFailed | CredentialsRefused:
        self.failures += 1
        return error

    def _check_address(self, text: str) -> httpx2.URL:
        try:
            url = httpx2.URL(text)
        except httpx2.InvalidURL:
            raise self._count_failure(FetchFailed("the wanted address", "isn't an address")) from None
        plain = url.scheme == "http" and self._loopback and url.host in LOOPBACK
        if not url.host or not (url.scheme == "https" or plain) or url.userinfo:
            raise self._count_failure(FetchFailed(strip_url(url), "only https addresses without a user are fetched"))
        return url

    def _find_kept(self, key: _Key, kept_s: float) -> Fetched | None:
        kept = self._kept.get(key) if kept_s > 0 else None
        if kept is None or self._clock.monotonic_s() - kept[0] >= kept_s:
            return None
        self._kept.move_to_end(key)
        return kept[1]

    def _keep_answer(self, key: _Key, fetched: Fetched, asked_at: float) -> None:
        self._kept[key] = (asked_at, fetched)
        self._kept.move_to_end(key)
        while len(self._kept) > self._limits.kept_max:
            self._kept.popitem(last=False)

    def _join_fetch(self, key: _Key, url: httpx2.URL, wanted: Wanted) -> asyncio.Task[_Outcome]:
        earlier = self._flights.get(key)
        if earlier is not None and earlier.task is not None and (wanted.kept_s > 0 or not earlier.asking):
            return earlier.task
        flight = self._flights[key] = _SharedFetch(key, earlier)
        flight.task = asyncio.create_task(self._run(flight, url, wanted))
        flight.task.add_done_callback(lambda _: self._forget_fetch(flight))
        return flight.task

    def _forget_fetch(self, flight: _SharedFetch) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]

    async def _run(self, flight: _SharedFetch, url: httpx2.URL, wanted: Wanted) -> _Outcome:
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                await self._await_place(flight, self._find_share(url, wanted))
        except TimeoutError:
            return FetchFailed(strip_url(url), f"no place to fetch was free within {self._limits.timeout_s:g} s")
        try:
            flight.asking, asked_at = True, self._clock.monotonic_s()
            fetched = await self._ask_through_breaker(url, wanted)
        except (FetchFailed, CredentialsRefused) as failed:
            return failed
        finally:
            self._places.release()
            self._find_share(url, wanted).places.release()
        if wanted.kept_s > 0 and 200 <= fetched.status <= 299:
            self._keep_answer(flight.key, fetched, asked_at)
        return fetched

    async def _await_place(self, flight: _SharedFetch, share: _DomainShare) -> None:
        before, flight.before = flight.before, None
        if before is not None and before.task is not None:
            await asyncio.wait([before.task])
        await share.places.acquire()
        try:
            await self._places.acquire()
        except BaseException:
            share.places.release()
            raise

    def _find_share(self, url: httpx2.URL, wanted: Wanted) -> _DomainShare:
        domain = ".".join(url.host.split(".")[-2:])
        places = asyncio.Semaphore(_compute_share(self._limits.at_once_max))
        return self._shares.setdefault((domain, wanted.verified), _DomainShare(places))

    async def _ask_through_breaker(self, url: httpx2.URL, wanted: Wanted) -> Fetched:
        left_s = self._pauses.get(_host_of(url), 0.0) - self._clock.monotonic_s()
        if left_s > 0:
            raise FetchFailed(strip_url(url), "the host asked for a pause", left_s)
        pause_s: float | None = None
        try:
            with self._breaker(url).calling():
                async with asyncio.timeout(self._limits.timeout_s):
                    return await self._provider.ask(url, wanted)
        except pybreaker.CircuitBreakerError:
            problem = "the host failed too often and isn't asked for now"
        except TimeoutError:
            problem = f"no answer within {self._limits.timeout_s:g} s"
        except HostFails as failed:
            problem, pause_s = str(failed), self._pause(url, failed.retry_after_s)
        raise FetchFailed(strip_url(url), problem, pause_s) from None

    def _pause(self, url: httpx2.URL, wanted_s: float | None) -> float | None:
        """Leaves the host alone for as long as it asks; returns that time in seconds."""
        if wanted_s is None:
            return None
        pause_s = min(wanted_s, PAUSE_S_MAX)
        self._pauses[_host_of(url)] = self._clock.monotonic_s() + pause_s
        while len(self._pauses) > self._limits.hosts_max:
            self._pauses.popitem(last=False)
        return pause_s

    def _breaker(self, url: httpx2.URL) -> pybreaker.CircuitBreaker:
        host = _host_of(url)
        breaker = self._breakers.get(host)
        if breaker is None:
            breaker = self._breakers[host] = pybreaker.CircuitBreaker(
                fail_max=self._limits.failures_max,
                reset_timeout=self._limits.reset_s,
                exclude=[FetchFailed, CredentialsRefused],
                listeners=[BreakerLog()],
                name=host,
                throw_new_error_on_trip=False,
            )
            while len(self._breakers) > self._limits.hosts_max:
                self._breakers.popitem(last=False)
        self._breakers.move_to_end(host)
        return breaker
