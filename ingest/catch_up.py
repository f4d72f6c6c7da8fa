"""Catch-up: what a provider's own list of events has and the journal lacks comes in as its webhook would have.

A span of time at a time: list it, leave out what is known, claim and publish the rest in the order in which it came to
be. A webhook that comes later is a duplicate. Types that are known to move no money are passed over: an account's list
has all of its types, and an endpoint takes a few of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from core.clock import Clock, Deadline, doubled_s
from core.errors import PayhookError, Unparseable
from core.event import POISON_TYPE, Event
from ingest.endpoints import EndpointContext
from ingest.errors import RequestRefused
from ingest.event_reader import EventReader
from ingest.fetch import ProviderFetch
from ingest.protocol import TakeEvents
from ingest.provider_client import CredentialsRefused, FetchFailed
from ingest.reports import RequestReports
from providers.port import EndpointsAdapter, ListingAdapter, ModeMismatch, Span, Wanted

log = logging.getLogger(__name__)

SPAN = timedelta(hours=1)
"""The span that is listed at once; a catch-up that is ended continues at the last one."""
OVERLAP = timedelta(minutes=10)
"""Each list begins so long before the end of the one before it: clocks differ, and lists may lag behind."""
TRIES_MAX = 6
FIRST_WAIT_S, WAIT_S_MAX = 1.0, 60.0
"""Between two tries of a page, where the provider doesn't ask for a longer pause."""
PAGES_MAX = 10_000
"""The most pages of one span: a million events in an hour."""
ENTITIES_AT_ONCE = 16
HELD_S_MAX, HELD_AGAIN_S = 40.0, 5.0
"""How long an event that another request holds is waited for: one that was killed holds it for its lease of 30 s."""
_NO_TIME = datetime.max.replace(tzinfo=UTC)
ACCEPTED = 200
"""The status in receipts of events that were caught up."""


class ListUnavailable(PayhookError):
    """A provider's list couldn't be read to its end, or its events couldn't be taken; the next catch-up tries again.

    ``missing``: how many of its events Kafka doesn't hold; None where the list wasn't read to its end.
    """

    def __init__(self, source: str, problem: str, missing: int | None = None) -> None:
        self.source = source
        self.problem = problem
        self.missing = missing
        super().__init__(f"{source}: {problem}; missing events come in with the next catch-up that succeeds")


@dataclass(frozen=True, slots=True)
class ListingSource:
    """An endpoint whose provider lists its events. ``endpoint``: None for the provider's own."""

    adapter: ListingAdapter
    endpoint: str | None
    context: EndpointContext
    credentials: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return self.adapter.name if self.endpoint is None else f"{self.adapter.name}/{self.endpoint}"


@dataclass(frozen=True, slots=True)
class CaughtUpSpan:
    """The result of one span of a list.

    ``listed``: its events. ``known``: those that the journal or another request had. ``passed_over``: those that move
    no money. ``fetched``: those that came in now, in their order.
    """

    span: Span
    listed: int
    known: int
    passed_over: int
    fetched: tuple[Event, ...]


KnownKeys = Callable[[str, Span], Collection[str]]
"""The keys of a provider's events that came to be within a span and that the journal knows."""


class _MissingEvents(NamedTuple):
    occurred_at: datetime | None
    events: list[Event]


@dataclass(slots=True)
class _SpanCounts:
    listed: int = 0
    known: int = 0
    passed_over: int = 0


class ProviderCatchUp:
    def __init__(
        self,
        fetch: ProviderFetch,
        reader: EventReader,
        take: TakeEvents,
        reports: RequestReports,
        known_keys: KnownKeys,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._fetch = fetch
        self._reader = reader
        self._take = take
        self._reports = reports
        self._known_keys = known_keys
        self._clock = clock
        self._sleep = sleep

    async def catch_up(self, source: ListingSource, span: Span) -> CaughtUpSpan:
        """Lists the span, and takes what the journal lacks; all of it is with Kafka when this returns.

        :raises ListUnavailable: the list or an event couldn't be had, or Kafka didn't acknowledge one
        :raises CredentialsRefused: the provider takes none of the credentials
        """
        known = await asyncio.to_thread(self._known_keys, source.adapter.name, span)
        count, missing = _SpanCounts(), list[_MissingEvents]()
        async for body in self._list_bodies(source, span):
            events = [event for event in await self._read_events(source, body) if _is_within(event, span)]
            unknown = [event for event in events if event.event_key not in known]
            if any(_may_move_money(source.adapter, event) for event in unknown):
                events = await self._read_events(source, body, is_followed=True)
                unknown = [event for event in events if event.event_key not in known]
            wanted = [event for event in unknown if _may_move_money(source.adapter, event)]
            count.listed += len(events)
            count.known += len(events) - len(unknown)
            count.passed_over += len(unknown) - len(wanted)
            if wanted:
                missing.append(_MissingEvents(wanted[0].occurred_at, wanted))
        if source.adapter.newest_first:
            missing.reverse()
        fetched = await self._take_all(source, list(_in_order(missing)))
        count.known += sum(len(group.events) for group in missing) - len(fetched)
        return CaughtUpSpan(span, count.listed, count.known, count.passed_over, tuple(fetched))

    async def _list_bodies(self, source: ListingSource, span: Span) -> AsyncIterator[bytes]:
        adapter, page = source.adapter, None
        for _ in range(PAGES_MAX):
            wanted = adapter.page_wanted(span, page, source.context.mode, source.credentials)
            if wanted is None:
                raise ListUnavailable(source.name, f"no credential has the mode {source.context.mode}")
            try:
                listed = adapter.read_page(await self._fetch_page(source, wanted), span)
            except Unparseable as unreadable:
                raise ListUnavailable(source.name, f"its list can't be read: {unreadable.problem}") from None
            for body in listed.bodies:
                yield body
            if listed.next_page is None:
                return
            if listed.next_page == page:
                raise ListUnavailable(source.name, "its list names the same page again and again")
            page = listed.next_page
        raise ListUnavailable(source.name, f"more than {PAGES_MAX} pages since {span.since}")

    async def _fetch_page(self, source: ListingSource, wanted: Wanted) -> bytes:
        for failures in range(TRIES_MAX):
            try:
                fetched = await self._fetch.fetch(wanted)
                if fetched.is_there:
                    return fetched.body
                problem, pause_s = f"its list answers {fetched.status}", 0.0
            except FetchFailed as failed:
                problem, pause_s = str(failed), failed.retry_after_s or 0.0
            if failures + 1 < TRIES_MAX:
                await self._sleep(max(pause_s, doubled_s(FIRST_WAIT_S, failures, WAIT_S_MAX)))
        raise ListUnavailable(source.name, problem)

    async def _read_events(self, source: ListingSource, body: bytes, *, is_followed: bool = False) -> list[Event]:
        listed = source.adapter, body, source.endpoint, source.context
        try:
            if is_followed:
                return await self._reader.follow_listed(*listed, self._clock.now())
            return await self._reader.read_listed(*listed)
        except ModeMismatch:
            return []
        except FetchFailed as failed:
            raise ListUnavailable(source.name, str(failed)) from None
        except RequestRefused as refused:
            raise ListUnavailable(source.name, refused.code) from None

    async def _take_all(self, source: ListingSource, missing: Sequence[Event]) -> list[Event]:
        by_entity: dict[str, list[Event]] = {}
        for event in missing:
            by_entity.setdefault(event.entity_key, []).append(event)
        places, published, settled = asyncio.Semaphore(ENTITIES_AT_ONCE), set[str](), set[str]()

        async def take_entity(events: Sequence[Event]) -> None:
            async with places:
                for event in events:
                    if await self._take_event(source, event):
                        published.add(event.event_key)
                    settled.add(event.event_key)

        outcomes = await asyncio.gather(*map(take_entity, by_entity.values()), return_exceptions=True)
        for failed in outcomes:
            if isinstance(failed, ListUnavailable):
                raise ListUnavailable(source.name, failed.problem, len(missing) - len(settled)) from None
            if failed is not None:
                raise failed
        return [event for event in missing if event.event_key in published]

    async def _take_event(self, source: ListingSource, event: Event) -> bool:
        """Returns whether this published the event; else another request has it.

        :raises ListUnavailable: it isn't with Kafka
        """
        wait = Deadline(self._clock, HELD_S_MAX)
        while True:
            try:
                result = await self._take([event], self._clock.now(), None)
            except RequestRefused as refused:
                raise ListUnavailable(source.name, f"nothing can be published now ({refused.code})") from None
            if result.has_failed:
                raise ListUnavailable(source.name, "Kafka didn't acknowledge an event")
            if not result.is_in_flight:
                self._reports.report_events(source.adapter.name, result, ACCEPTED)
                return not result.is_replayed
            if wait.has_passed:
                raise ListUnavailable(source.name, "another request holds an event")
            await self._sleep(HELD_AGAIN_S)


def split_into_spans(since: datetime, until: datetime) -> Iterator[Span]:
    while since < until:
        end = min(since + SPAN, until)
        yield Span(since, end)
        since = end


def _is_within(event: Event, span: Span) -> bool:
    return event.occurred_at is None or span.since <= event.occurred_at < span.until


def _may_move_money(adapter: ListingAdapter, event: Event) -> bool:
    return event.event_type == POISON_TYPE or adapter.event_types.meaning_of(event.event_type) != "nothing"


def _in_order(missing: list[_MissingEvents]) -> Iterator[Event]:
    for listed in sorted(missing, key=lambda listed: (listed.occurred_at is None, listed.occurred_at or _NO_TIME)):
        yield from listed.events


async def is_switched_off(fetch: ProviderFetch, source: ListingSource) -> bool | None:
    """Returns whether all endpoints of this source's path are switched off; None: not known.

    An endpoint is payhook's by its path, ``…/webhooks/PROVIDER`` and the endpoint's name. A key that may read events
    need not be allowed to read endpoints: then it isn't known.

    :raises SettingError: a credential isn't of the provider's form
    """
    if not isinstance(source.adapter, EndpointsAdapter):
        return None
    wanted = source.adapter.endpoints_wanted(source.context.mode, source.credentials)
    if wanted is None:
        return None
    try:
        fetched = await fetch.fetch(wanted)
        endpoints = source.adapter.read_endpoints(fetched.body) if fetched.is_there else []
    except (FetchFailed, CredentialsRefused, Unparseable):
        return None
    ours = [
        endpoint.is_enabled for endpoint in endpoints if _path_of(endpoint.url).endswith(f"/webhooks/{source.name}")
    ]
    return not any(ours) if ours else None


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path.rstrip("/")
    except ValueError:
        return ""
