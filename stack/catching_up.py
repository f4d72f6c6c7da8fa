"""Catches up with providers' own lists of events: by schedule (``python -m stack.catching_up``), or when asked to.

It runs beside the receiver, publishes as the receiver does, and needs its rights at Kafka, its Redis and its secrets.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow.compute as pc

from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import PayhookError, SettingError
from core.event import Mode
from core.files import write_whole
from core.layout import Layout
from core.status_file import moment_of, read_said
from ingest.catch_up import (
    OVERLAP,
    CaughtUpSpan,
    ListingSource,
    ListUnavailable,
    ProviderCatchUp,
    is_switched_off,
    split_into_spans,
)
from ingest.endpoints import API, EndpointContexts, SecretFiles
from ingest.fetch import FetchLimits
from ingest.limits import LIMITS
from ingest.metrics import IngestMetrics
from journal.lake import has_table, open_table
from journal.reader import read_rows
from ledger.catch_ups import LISTED, LOST, TABLE, CatchUps, FetchedEvent, ListedSpan
from providers.port import Adapter, ListingAdapter, Span
from providers.registry import build_adapters
from stack.rounds import ScheduledRound, run_schedule
from stack.services.receiver import ReceiverParts, open_parts, secret_files
from stack.settings import Settings


@dataclass(frozen=True, slots=True)
class ListAgain:
    """From where lists are asked again for what a person accepted as lost: only from then on are its claims void.

    ``since``: where the loss begins. ``accepted_at``: lists that were read before don't count for it.
    """

    since: datetime
    accepted_at: datetime


def list_again(layout: Layout, mode: Mode, since: datetime, accepted_at: datetime) -> None:
    """Has every list of a mode's providers read again from then on, and from where an earlier loss began."""
    before = read_list_again(layout, mode)
    wanted = since if before is None else min(since, before.since)
    content = {**_read_file(layout), mode: {"since": to_rfc3339(wanted), "accepted_at": to_rfc3339(accepted_at)}}
    write_whole(layout.list_again, json.dumps(content, indent=1) + "\n")


def read_list_again(layout: Layout, mode: Mode) -> ListAgain | None:
    content = _read_file(layout).get(mode)
    since, accepted_at = moment_of(content, "since"), moment_of(content, "accepted_at")
    return None if since is None or accepted_at is None else ListAgain(since, accepted_at)


def _read_file(layout: Layout) -> Mapping[str, Any]:
    return read_said(layout.list_again) or {}


log = logging.getLogger("catch-up")

PAGE_BYTES_MAX = 32 << 20
"""A page has 500 events at most, of a few KB each."""
PAGE_S = 30.0
LISTS = FetchLimits(timeout_s=PAGE_S, answer_bytes_max=PAGE_BYTES_MAX)
FIRST_S = 30.0
"""After its start the stack takes what waited at providers first."""
LOOK_BACK = timedelta(days=1)
"""Each event is looked for again when it is so old: a provider's list may have it hours after it came to be."""
SLACK = timedelta(seconds=1)
"""Some providers give times in seconds."""


def sources_of(settings: Settings, clock: Clock, provider: str | None = None) -> list[ListingSource]:
    """Lists every endpoint whose provider lists its events and that has credentials for it.

    :raises SettingError: there is no such provider
    :raises SecretsMissing: a file of credentials holds something else
    """
    adapters, secrets, contexts = (
        build_adapters(settings.providers),
        secret_files(settings, clock),
        EndpointContexts(settings.ingest),
    )
    if provider is not None and provider not in adapters:
        raise SettingError("PROVIDER", f"there is no {provider!r}; known are {', '.join(sorted(adapters))}")
    wanted = adapters if provider is None else {provider: adapters[provider]}
    return [source for adapter in wanted.values() for source in _find_sources(adapter, secrets, contexts)]


def _find_sources(adapter: Adapter, secrets: SecretFiles, contexts: EndpointContexts) -> Iterator[ListingSource]:
    if not isinstance(adapter, ListingAdapter):
        return
    for name in secrets.endpoints_with_credentials(adapter.name):
        credentials = secrets.find_credentials(adapter.name, name)
        yield ListingSource(adapter, name, contexts.find_context(adapter.name, name), credentials)


def why_nothing(settings: Settings, provider: str | None) -> str:
    if provider is None:
        return f"there are no credentials of a provider's API: write them to secrets/PROVIDER{API} (docs/catch-up.md)"
    adapter = build_adapters(settings.providers)[provider]
    if not isinstance(adapter, ListingAdapter):
        return f"{provider} has no list of events that payhook can ask for (docs/catch-up.md says what to do instead)"
    return f"there are no credentials of {provider}'s API: write them to secrets/{provider}{API}"


class CatchUpStore(Protocol):
    @property
    def catch_ups(self) -> CatchUps: ...

    def first_received_at(self, provider: str) -> datetime | None: ...

    def list_again(self) -> ListAgain | None: ...


@dataclass(frozen=True, slots=True)
class LedgerCatchUpStore:
    settings: Settings
    mode: Mode

    @property
    def catch_ups(self) -> CatchUps:
        return CatchUps(self.settings.layout.ledger(self.mode).shared_table(TABLE))

    def list_again(self) -> ListAgain | None:
        return read_list_again(self.settings.layout, self.mode)

    def known_keys(self, provider: str, span: Span) -> Collection[str]:
        came = (pc.field("occurred_at") >= span.since - SLACK) & (pc.field("occurred_at") <= span.until + SLACK)
        wanted = came & (pc.field("provider") == provider)
        return set(self._read(wanted, "event_key"))

    def first_received_at(self, provider: str) -> datetime | None:
        return min(self._read(pc.field("provider") == provider, "received_at"), default=None)

    def _read(self, wanted: pc.Expression, column: str) -> Iterator[Any]:
        for places in self.settings.layout.all_ledgers(self.mode):
            if has_table(str(places.journal)):
                yield from read_rows(open_table(str(places.journal)), wanted, [column])[column].drop_null().to_pylist()


def find_unlisted_providers(settings: Settings) -> dict[str, str]:
    secrets = secret_files(settings, SystemClock())
    return {
        name: why_nothing(settings, name)
        for name, adapter in sorted(build_adapters(settings.providers).items())
        if secrets.takes_from(name)
        and not (isinstance(adapter, ListingAdapter) and secrets.endpoints_with_credentials(name))
    }


@dataclass(frozen=True, slots=True)
class CatchUpOutcome:
    """The result of one source's catch-up.

    ``until``: up to when it is listed now, None where it never was. ``fetched_day``: how many events came in so within
    the last day. ``missing``: how many of the list's events aren't with Kafka; None where the list couldn't be read to
    its end. ``switched_off``: whether the provider says that it sends no webhooks to this endpoint, None where that
    isn't known.
    """

    source: str
    until: datetime | None
    fetched: int
    lost: Span | None = None
    problem: str | None = None
    fetched_day: int = 0
    missing: int | None = 0
    switched_off: bool | None = None


async def catch_up(
    settings: Settings, sources: Sequence[ListingSource], clock: Clock, since: datetime | None = None
) -> list[CatchUpOutcome]:
    """Lists what each source generated, and takes what is missing; one source's problem keeps no other from it.

    :param since: None: where the last catch-up ended, or the ledger's first event of the provider
    """
    async with open_parts(settings, LIMITS, IngestMetrics(), clock, LISTS) as parts:
        return [await _catch_up_one(settings, parts, source, clock, since) for source in sources]


async def _catch_up_one(
    settings: Settings, parts: ReceiverParts, source: ListingSource, clock: Clock, since: datetime | None
) -> CatchUpOutcome:
    places = LedgerCatchUpStore(settings, source.context.mode)
    engine = ProviderCatchUp(parts.fetch, parts.reader, parts.take, parts.reports, places.known_keys, clock)
    outcome = await catch_up_source(engine, places, source, clock, since)
    return replace(outcome, switched_off=await is_switched_off(parts.fetch, source))


async def catch_up_source(
    engine: ProviderCatchUp, places: CatchUpStore, source: ListingSource, clock: Clock, since: datetime | None = None
) -> CatchUpOutcome:
    """Lists one source span by span up to now, and writes each span down once all of it is with Kafka."""
    fetched, lost, relisting = 0, None, places.list_again()
    part = () if relisting is None else (relisting.accepted_at, relisting.since)
    until = places.catch_ups.listed_until(source.name, *part)
    try:
        spans_of_round = list(_plan_look_back(places, source, until, clock.now())) if since is None else []
        since = since or _find_start(places, source, until, clock.now())
        if since < (oldest := clock.now() - source.adapter.listed_for):
            lost = None if until is None or until >= oldest else Span(until, oldest)
            since = oldest
        if lost is not None:
            _record_lost(places, source, lost, clock.now())
        for span in [*spans_of_round, *split_into_spans(since, clock.now())]:
            caught = await engine.catch_up(source, span)
            _record_span(places, source, caught, clock.now())
            fetched += len(caught.fetched)
            until = span.until if until is None else max(until, span.until)
    except PayhookError as failed:
        log.warning("%s", failed)
        missing = failed.missing if isinstance(failed, ListUnavailable) else None
        fetched_day = _fetched_day(places, source, clock.now())
        return CatchUpOutcome(source.name, until, fetched, lost, str(failed), fetched_day, missing)
    return CatchUpOutcome(source.name, until, fetched, lost, fetched_day=_fetched_day(places, source, clock.now()))


def _fetched_day(places: CatchUpStore, source: ListingSource, now: datetime) -> int:
    spans_of_day = places.catch_ups.spans(now - timedelta(days=1))
    return sum(span.fetched for span in spans_of_day if span.source == source.name)


def _find_start(places: CatchUpStore, source: ListingSource, until: datetime | None, now: datetime) -> datetime:
    if until is None:
        return (places.first_received_at(source.adapter.name) or now) - OVERLAP
    return until - OVERLAP


def _plan_look_back(
    places: CatchUpStore, source: ListingSource, until: datetime | None, now: datetime
) -> Iterator[Span]:
    """Lists what became a day old since the last round. It comes first: a round that is killed leaves out none."""
    first = min((span.since for span in places.catch_ups.spans() if span.source == source.name), default=None)
    if until is None or first is None:
        return iter(())
    oldest = now - source.adapter.listed_for
    return split_into_spans(max(until - LOOK_BACK, first, oldest), min(now - LOOK_BACK, until - OVERLAP))


def _record_span(places: CatchUpStore, source: ListingSource, caught: CaughtUpSpan, now: datetime) -> None:
    if caught.fetched:
        log.warning("%s: %d events came in from the provider's list, not by webhook", source.name, len(caught.fetched))
    span = ListedSpan(
        at=now,
        source=source.name,
        provider=source.adapter.name,
        outcome=LISTED,
        since=caught.span.since,
        until=caught.span.until,
        listed=caught.listed,
        known=caught.known,
        passed_over=caught.passed_over,
        fetched=len(caught.fetched),
    )
    events = [FetchedEvent(event.event_key, event.event_type, event.occurred_at) for event in caught.fetched]
    places.catch_ups.append(span, events)


def _record_lost(places: CatchUpStore, source: ListingSource, lost: Span, now: datetime) -> None:
    days = source.adapter.listed_for.days
    reason = f"nothing was listed for longer than the {days} days that the provider lists"
    log.error("%s: the provider no longer lists events from %s to %s: %s", source.name, lost.since, lost.until, reason)
    provider = source.adapter.name
    places.catch_ups.append(
        ListedSpan(
            at=now,
            source=source.name,
            provider=provider,
            outcome=LOST,
            since=lost.since,
            until=lost.until,
            reason=reason,
        )
    )


def run_round(settings: Settings) -> bool:
    """Catches up as `stack.rounds` runs it: true if every source was caught up with; writes `Layout.caught_up`.

    A source without credentials is forgotten: nothing would ever say that its last problem is over.
    """
    clock = SystemClock()
    began_at, sources = clock.now(), sources_of(settings, clock)
    if not sources and not _read_outcomes(settings):
        return True
    outcomes = asyncio.run(catch_up(settings, sources, clock)) if sources else []
    write_outcomes(settings, outcomes, began_at, clock.now(), forget_others=True)
    return all(outcome.problem is None for outcome in outcomes)


def schedule_catch_up(settings: Settings) -> list[ScheduledRound]:
    """Returns the round that these settings schedule.

    It is made while there are credentials of any provider's API, and once more after that.
    """
    every_s, secrets = settings.ingest.catch_up_every_s, Path(settings.ingest.secrets_dir)
    if not every_s:
        return []

    def is_wanted() -> bool:
        return any(secrets.glob(f"*{API}*")) or bool(_read_outcomes(settings))

    return [ScheduledRound("catch-up", settings.layout.caught_up, every_s, FIRST_S, every_s, is_wanted=is_wanted)]


def main() -> int:
    return run_schedule(schedule_catch_up, "ingest.catch_up_every_s is 0: no catch-up runs by schedule")


def write_outcomes(
    settings: Settings,
    outcomes: Sequence[CatchUpOutcome],
    began_at: datetime,
    ended_at: datetime,
    *,
    forget_others: bool = False,
) -> None:
    """Writes what each source came to, beside what others came to before, unless those are to be forgotten."""
    remembered = _read_outcomes(settings)
    sources = {} if forget_others else dict(remembered)
    for outcome in outcomes:
        before = remembered.get(outcome.source, {})
        sources[outcome.source] = {
            "until": None if outcome.until is None else to_rfc3339(outcome.until),
            "at": to_rfc3339(ended_at),
            "problem": outcome.problem,
            "since": (before.get("since") or to_rfc3339(began_at)) if outcome.problem else None,
            "fetched": outcome.fetched,
            "fetched_day": outcome.fetched_day,
            "missing": outcome.missing,
            "switched_off": outcome.switched_off,
        }
    is_ok = all(known["problem"] is None for known in sources.values())
    report = {
        "ok": is_ok,
        "ended_at": to_rfc3339(ended_at),
        "sources": sources,
        "unlisted": find_unlisted_providers(settings),
    }
    write_whole(settings.layout.caught_up, json.dumps(report, indent=1) + "\n")


def _read_outcomes(settings: Settings) -> dict[str, dict[str, Any]]:
    report = read_said(settings.layout.caught_up)
    sources = None if report is None else report.get("sources")
    return dict(sources) if isinstance(sources, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
