"""A provider's account in simulated time: what it generates, delivers, never delivers, and lists over loopback.

The engine of the catch-up and its rounds are the real ones, and so is HTTP. Redis, Kafka, the journal and the table of
spans are in memory; their clock is moved by hand, so that a month takes minutes.
"""

from __future__ import annotations

import asyncio
import bisect
import random
import resource
import time
from array import array
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from core.clock import ManualClock
from core.event import Event, Headers
from ingest.catch_up import ListingSource, ProviderCatchUp
from ingest.endpoints import EndpointContext, EndpointContexts, SecretFiles
from ingest.event_reader import EventReader
from ingest.fetch import HttpFetch
from ingest.limits import LIMITS, RateLimits
from ingest.metrics import IngestMetrics
from ingest.pan import CardMasker
from ingest.protocol import ClaimProtocol
from ingest.provider_client import open_client
from ingest.reports import RequestReports
from ingest.settings import IngestSettings
from ingest.verifier import Verifier
from ledger.catch_ups import CatchUps, FetchedEvent, ListedSpan
from load.samples.stripe import stripe_event
from providers.port import Adapter, Fetched, ListingAdapter, Span, Wanted
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.catching_up import LISTS, SLACK, catch_up_source
from stack.rounds import ScheduledRound, begin_next_s
from tests.memory_claims import MemoryClaims
from tests.provider_lists import ListedEvent, Lists, serve_on_loop
from tests.unit.ingest.app_under_test import MASKING_KEY, SetGenerations
from tests.unit.ingest.provider_server import passing

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN_S = int(BEGIN.timestamp())
DAY_S = 86_400
EVERY_S = IngestSettings().catch_up_every_s
IDLE_EVERY_S = 3_600.0
"""Once the list has all, rounds are only waited for."""
START_S = 3.0
"""A round is a process of its own."""
ANSWER_S = 0.3
"""How long the provider takes for a page."""
DECIDED_S = 3.0
"""From Kafka to the journal."""
PAGE_MAX = 100
SHARE_LOST = 0.01
SHARE_LATE = 0.01
"""Delivered after minutes to days, as a provider does that was refused once."""
SHARE_WITHOUT_MONEY = 0.05
"""Events of a type that nobody subscribed to."""
SHARE_LISTED_LATE = 0.02
"""The list has them later than a catch-up looks back, within a few hours."""
LAG_S_MAX = 20.0
"""How long the list lags behind at other times."""
SHARE_REFUSED = 0.01
"""Of pages, each: 429 with Retry-After, 503, a connection that is dropped."""
RETRY_AFTER_S = (1, 2, 5, 10)
OUTAGE_S = 7_200
OUTAGE_EVERY_DAYS = 10

KEY = "sk_live_" + "A1b2C3d4E5" * 2
_ABOUT = {"payment": "pi_00000000", "account": "acct_1", "amount_minor": 500, "currency": "EUR"}
_CREATED = datetime.fromtimestamp(1_111_111_111, UTC)
TYPES = ("charge.succeeded", "customer.created")
_BODIES = tuple(
    stripe_event("evt_00000000", event_type, created=_CREATED, **_ABOUT)  # type: ignore[arg-type]
    for event_type in TYPES
)
READ_MAX = 150_000
"""So many events are remembered as read, those of two days: reading is tried elsewhere, and takes most of the time."""


class ListedAccount:
    """The events that a provider generates, by number in the order of their time. Times are seconds since `BEGIN`."""

    def __init__(self, count: int, days: int, chance: random.Random) -> None:
        self.count, self.days = count, days
        self.created = array("l", sorted(_moment_s(days, chance) for _ in range(count)))
        self.moves_money = bytearray(chance.random() >= SHARE_WITHOUT_MONEY for _ in range(count))
        self.visible = array("d")
        delivered: list[tuple[float, int]] = []
        for number, created_s in enumerate(self.created):
            listed_late = chance.random() < SHARE_LISTED_LATE
            lag_s = chance.uniform(660, 4 * 3_600) if listed_late else chance.random() ** 4 * LAG_S_MAX
            self.visible.append(created_s + lag_s)
            if self.moves_money[number] and chance.random() >= SHARE_LOST:
                is_late = chance.random() < SHARE_LATE
                delivered.append(
                    (created_s + (chance.uniform(60, 3 * DAY_S) if is_late else chance.random() * 5), number)
                )
        self.deliveries = deque(sorted(delivered))
        self.never_delivered = sum(self.moves_money) - len(delivered)

    def body(self, number: int) -> bytes:
        text = _BODIES[0 if self.moves_money[number] else 1].replace(b"00000000", b"%08d" % number)
        return text.replace(b"1111111111", b"%d" % (BEGIN_S + self.created[number]))

    def between(self, since: datetime | None, until: datetime | None) -> range:
        """The events that came to be from ``since`` to before ``until``."""
        start = 0 if since is None else bisect.bisect_left(self.created, seconds(since))
        end = self.count if until is None else bisect.bisect_left(self.created, seconds(until))
        return range(start, end)


def seconds(moment: datetime) -> float:
    """Seconds since `BEGIN`."""
    return moment.timestamp() - BEGIN_S


def _moment_s(days: int, chance: random.Random) -> int:
    """More by day than at night; a launch on the third day."""
    if days > 3 and chance.random() < 0.05:
        return int(2 * DAY_S + 12 * 3_600 + chance.expovariate(1 / 3_600)) % (days * DAY_S)
    hour = min(23.99, max(0.0, chance.gauss(14, 5)))
    return int(chance.randrange(days) * DAY_S + hour * 3_600)


@dataclass
class AccountLists(Lists):
    """The account's list: newest first, in pages whose events are in any order, behind a server that has troubles."""

    account: ListedAccount = field(default_factory=lambda: ListedAccount(0, 1, random.Random(0)))
    chance: random.Random = field(default_factory=random.Random)
    pages: int = 0
    refused: int = 0
    asked_within_pause: int = 0
    pause_until: datetime = BEGIN
    _ends: dict[str, int] = field(default_factory=dict)
    """Of each page by the id of its last event: the number of its oldest one."""

    def next_status(self) -> int:
        self.asked.clear()
        now, dice = self.now(), self.chance.random()
        self.asked_within_pause += now < self.pause_until
        self.retry_after_s = None
        if in_outage(seconds(now)):
            return 503
        if dice < 3 * SHARE_REFUSED:
            self.refused += 1
        if dice < SHARE_REFUSED:
            self.retry_after_s = self.chance.choice(RETRY_AFTER_S)
            self.pause_until = now + timedelta(seconds=self.retry_after_s)
            return 429
        if dice < 3 * SHARE_REFUSED:
            return 503 if dice < 2 * SHARE_REFUSED else 0
        return 200

    def newest_first(self, provider: str, since: datetime | None, until: datetime | None) -> list[ListedEvent]:
        assert provider == "stripe"
        now_s = seconds(self.now())
        numbers = self.account.between(since, until)
        return [ListedEvent(f"{n:08d}", BEGIN, b"") for n in reversed(numbers) if self.account.visible[n] <= now_s]

    def page(self, events: list[ListedEvent], after: str | None, size: int) -> tuple[list[ListedEvent], bool]:
        before = self.account.count if after is None else self._ends[after]
        rest = [number for event in events if (number := int(event.event_id)) < before]
        page, is_more = rest[:size], len(rest) > size
        self.pages += 1
        if after is None:
            self._ends.clear()
        if not page:
            return [], False
        oldest = page[-1]
        self.chance.shuffle(page)
        self._ends[f"evt_{page[-1]:08d}"] = oldest
        return [ListedEvent(f"evt_{number:08d}", BEGIN, self.account.body(number)) for number in page], is_more


def in_outage(moment_s: float) -> bool:
    """Whether the list answers nothing for hours: once in ten days."""
    return moment_s % (OUTAGE_EVERY_DAYS * DAY_S) > OUTAGE_EVERY_DAYS * DAY_S - OUTAGE_S


class MemoryCatchUps:
    """The table of spans in memory; of each source the first one and the last one are kept."""

    def __init__(self) -> None:
        self._first: dict[str, ListedSpan] = {}
        self._last: dict[str, ListedSpan] = {}

    def append(self, span: ListedSpan, events: Sequence[FetchedEvent] = ()) -> None:
        self._first.setdefault(span.source, span)
        before = self._last.get(span.source)
        self._last[span.source] = span if before is None or span.until >= before.until else before

    def spans(self, since: datetime | None = None) -> list[ListedSpan]:
        return [*self._first.values(), *self._last.values()]

    def listed_until(self, source: str) -> datetime | None:
        return self._last[source].until if source in self._last else None


class DecidingKafka:
    """Takes what is published, and the journal decides it a moment later."""

    def __init__(self, account: ListedAccount, clock: ManualClock) -> None:
        self.account, self.clock = account, clock
        self.times = bytearray(account.count)
        self.came_s = array("d", bytes(8 * account.count))
        self.by_list = 0

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Headers) -> bool:
        number = int(key[-8:])
        self.times[number] += 1
        self.came_s[number] = seconds(self.clock.now())
        self.by_list += any(name == "source" for name, _ in headers)
        return True

    def publish_unawaited(self, topic: str, value: bytes) -> None:
        """Receipts aren't looked at."""

    def known_keys(self, provider: str, span: Span) -> Collection[str]:
        decided_by = seconds(self.clock.now()) - DECIDED_S
        numbers = self.account.between(span.since - SLACK, span.until + SLACK)
        known = (number for number in numbers if self.times[number] and self.came_s[number] <= decided_by)
        return {f"{provider}:evt_{number:08d}:{TYPES[0]}" for number in known}


class RememberingReader(EventReader):
    """Reads each body once."""

    def __init__(self, verifier: Verifier, contexts: EndpointContexts, masker: CardMasker) -> None:
        super().__init__(verifier, contexts, masker)
        self._known: dict[bytes, list[Event]] = {}

    async def read_listed(
        self, adapter: Adapter, body: bytes, endpoint: str | None, context: EndpointContext
    ) -> list[Event]:
        known = self._known
        if body not in known:
            if len(known) >= READ_MAX:
                del known[next(iter(known))]
            known[body] = await super().read_listed(adapter, body, endpoint, context)
        return known[body]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthFigures:
    """What a simulated month came to. Gaps are from being listed to Kafka, an outage of the list left out:
    ``gap_s_max`` of what the list had at once, ``late_gap_s_max`` of what it had only later.
    """

    events: int
    never_delivered: int
    by_list: int
    missing: int
    twice: int
    gap_s_max: float
    late_gap_s_max: float
    rounds: int
    failed_rounds: int
    requests: int
    refused: int
    asked_within_pause: int
    seconds: float
    memory_mb: int

    def __str__(self) -> str:
        return (
            f"{self.events:,} events, {self.never_delivered:,} never delivered: {self.by_list:,} came in by the list, "
            f"missing {self.missing}, twice {self.twice}, gap {self.gap_s_max:.0f} s at most "
            f"({self.late_gap_s_max / 3600:.1f} h where the list itself was late); {self.rounds:,} rounds "
            f"({self.failed_rounds} failed), {self.requests:,} requests ({self.refused} refused or dropped, "
            f"{self.asked_within_pause} within a pause), {self.seconds:.0f} s, {self.memory_mb} MB"
        )


class SimulatedMonth:
    """Webhooks and rounds of catch-up in their order, until a day and a half after the last event."""

    def __init__(self, folder: Path, count: int, days: int, seed: int) -> None:
        chance = random.Random(seed)
        (folder / "stripe").write_text("whsec_" + "a" * 32 + "\n", "utf-8")
        (folder / "stripe-api").write_text(KEY + "\n", "utf-8")
        self.account = ListedAccount(count, days, chance)
        self.clock = ManualClock(BEGIN)
        self.lists = AccountLists(account=self.account, chance=chance, now=self.clock.now)
        self.kafka = DecidingKafka(self.account, self.clock)
        self.catch_ups = cast(CatchUps, MemoryCatchUps())
        self._folder = folder
        self._rounds = self._failed = self._requests = 0

    def first_received_at(self, provider: str) -> datetime | None:
        return BEGIN

    def list_again(self) -> None:
        """Nothing was accepted as lost."""

    async def fetch(self, wanted: Wanted) -> Fetched:
        """Asks over HTTP; meanwhile time passes and webhooks come."""
        self._requests += 1
        self.clock.advance(ANSWER_S)
        await self._deliver(seconds(self.clock.now()))
        return await self._fetch.fetch(wanted)

    def run(self) -> MonthFigures:
        began_s = time.monotonic()
        asyncio.run(self._run())
        wanted = [number for number in range(self.account.count) if self.account.moves_money[number]]
        gaps = {False: 0.0, True: 0.0}
        for number in wanted:
            is_late = self.account.visible[number] - self.account.created[number] > 600
            gaps[is_late] = max(gaps[is_late], self._gap_s(number))
        return MonthFigures(
            events=self.account.count,
            never_delivered=self.account.never_delivered,
            by_list=self.kafka.by_list,
            missing=sum(not self.kafka.times[number] for number in wanted),
            twice=sum(times > 1 for times in self.kafka.times),
            gap_s_max=gaps[False],
            late_gap_s_max=gaps[True],
            rounds=self._rounds,
            failed_rounds=self._failed,
            requests=self._requests,
            refused=self.lists.refused,
            asked_within_pause=self.lists.asked_within_pause,
            seconds=time.monotonic() - began_s,
            memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        )

    def _gap_s(self, number: int) -> float:
        """From being listed to Kafka; of what came to be in an outage, from its end."""
        listed_s, came_s = self.account.visible[number], self.kafka.came_s[number]
        period_s = OUTAGE_EVERY_DAYS * DAY_S
        for end_s in range(period_s, int(came_s) + 1, period_s):
            if end_s - OUTAGE_S - EVERY_S - 60 <= listed_s < end_s:
                listed_s = end_s
        return max(0.0, came_s - listed_s)

    async def _run(self) -> None:
        contexts = EndpointContexts(IngestSettings())
        adapters = build_adapters(ProvidersSettings())
        adapter, metrics = adapters["stripe"], IngestMetrics()
        assert isinstance(adapter, ListingAdapter)
        claims = MemoryClaims(self.clock, LIMITS.lease_s, LIMITS.confirmed_s)
        protocol = ClaimProtocol(claims, SetGenerations(), self.kafka, metrics, self.clock, 0.2)  # type: ignore[arg-type]
        secrets = SecretFiles(self._folder, self.clock, contexts)
        self._take, self._context, self._adapter = protocol.take_events, contexts.find_context("stripe", None), adapter
        async with serve_on_loop(self.lists), open_client() as client:
            # A breaker's rest is on the wall's clock; here it has none.
            limits, sleep = replace(LISTS, reset_s=0.0), passing(self.clock)
            self._fetch = HttpFetch(client, self.clock, limits, loopback=True, instead=self.lists.api_urls, sleep=sleep)
            verifier = Verifier(adapters, secrets, self, protocol, RateLimits({}, self.clock), metrics)
            self._reader = RememberingReader(verifier, contexts, CardMasker(IngestSettings().pan, MASKING_KEY))
            reports = RequestReports(self.kafka, metrics, self.clock, "live")  # type: ignore[arg-type]
            engine = ProviderCatchUp(
                self, self._reader, protocol.take_events, reports, self.kafka.known_keys, self.clock, sleep
            )
            source = ListingSource(adapter, None, self._context, secrets.find_credentials("stripe", None))
            end_s = (self.account.days + 2.5) * DAY_S
            due = ScheduledRound("catch-up", self._folder / "report", EVERY_S, EVERY_S, EVERY_S)
            began_s = 0.0
            while (now_s := seconds(self.clock.now())) < end_s:
                is_over = now_s > (self.account.days + 0.5) * DAY_S
                due_s = now_s + IDLE_EVERY_S if is_over else begin_next_s(due, began_s, now_s)
                began_s, due_s = due_s, due_s + START_S
                await self._deliver(due_s)
                self.clock.advance(due_s - now_s)
                outcome = await catch_up_source(engine, self, source, self.clock)
                self._rounds += 1
                self._failed += outcome.problem is not None
            reports.flush()
            await self._fetch.close()

    async def _deliver(self, until_s: float) -> None:
        """Takes the webhooks that come by then."""
        deliveries = self.account.deliveries
        while deliveries and deliveries[0][0] <= until_s:
            _, number = deliveries.popleft()
            body = self.account.body(number)
            events = await self._reader.read_listed(self._adapter, body, None, self._context)
            await self._take([replace(event, source=None) for event in events], self.clock.now(), None)
