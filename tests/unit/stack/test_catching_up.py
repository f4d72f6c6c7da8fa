"""From when on a provider's list is read: after the last time, once a day from further back, and after a loss."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from core.clock import ManualClock
from core.layout import Layout
from core.status_file import read_said
from ingest.catch_up import OVERLAP, CaughtUpSpan, ListingSource, ListUnavailable, ProviderCatchUp
from ingest.settings import IngestSettings
from ledger.catch_ups import LISTED, LOST, CatchUps, FetchedEvent, ListedSpan
from providers.port import Span
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.catching_up import (
    LOOK_BACK,
    CatchUpOutcome,
    ListAgain,
    catch_up_source,
    list_again,
    read_list_again,
    run_round,
    schedule_catch_up,
    write_outcomes,
)
from stack.settings import Settings

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
ADAPTER = build_adapters(ProvidersSettings())["stripe"]
SOURCE = ListingSource(cast("Any", ADAPTER), None, cast("Any", None), ("sk_live_x",))


@dataclass
class Listing:
    """An engine that lists nothing: it remembers the spans that it was asked for, and fails where a test wants it."""

    spans: list[Span] = field(default_factory=list)
    fails_after: int | None = None

    async def catch_up(self, source: ListingSource, span: Span) -> CaughtUpSpan:
        if self.fails_after is not None and len(self.spans) >= self.fails_after:
            raise ListUnavailable(source.name, "no answer")
        self.spans.append(span)
        return CaughtUpSpan(span, 0, 0, 0, ())


@dataclass
class Spans:
    rows: list[ListedSpan] = field(default_factory=list)

    def append(self, span: ListedSpan, events: tuple[FetchedEvent, ...] = ()) -> None:
        self.rows.append(span)

    def spans(self, since: datetime | None = None) -> list[ListedSpan]:
        return [row for row in self.rows if since is None or row.at >= since]

    listed_until = CatchUps.listed_until


class CatchUpBench:
    def __init__(self, until: datetime | None) -> None:
        self.clock, self.engine, self.table = ManualClock(NOW), Listing(), Spans()
        self.again: ListAgain | None = None
        if until is not None:
            self.table.append(
                ListedSpan(
                    at=until, source="stripe", provider="stripe", outcome=LISTED, since=until - HOUR, until=until
                )
            )

    @property
    def catch_ups(self) -> CatchUps:
        return cast("CatchUps", self.table)

    def list_again(self) -> ListAgain | None:
        return self.again

    def first_received_at(self, provider: str) -> datetime | None:
        assert provider == "stripe"
        return NOW - timedelta(days=3)

    def run(self, since: datetime | None = None) -> CatchUpOutcome:
        self.engine.spans.clear()
        return asyncio.run(catch_up_source(cast("ProviderCatchUp", self.engine), self, SOURCE, self.clock, since))

    @property
    def since(self) -> datetime:
        return self.engine.spans[0].since


def test_the_first_list_begins_with_the_first_event_of_the_ledger() -> None:
    bench = CatchUpBench(None)
    bench.run()
    assert bench.since == NOW - timedelta(days=3) - OVERLAP


def test_a_list_begins_a_little_before_the_end_of_the_last_one() -> None:
    bench = CatchUpBench(NOW - timedelta(minutes=4))
    bench.run()
    assert bench.since == NOW - timedelta(minutes=4) - OVERLAP


def test_each_event_is_looked_for_again_when_it_is_a_day_old_though_a_round_is_killed() -> None:
    bench = CatchUpBench(None)
    bench.run()
    bench.clock.advance(240.0)
    bench.engine.fails_after = 1
    bench.run()
    bench.clock.advance(240.0)
    bench.engine.fails_after = None
    bench.run()
    old, new = bench.engine.spans
    assert old == Span(NOW - LOOK_BACK, NOW - LOOK_BACK + timedelta(minutes=8))
    assert new == Span(NOW - OVERLAP, NOW + timedelta(minutes=8))


def test_nothing_is_looked_for_from_before_the_first_list() -> None:
    """What came to be before payhook was set up isn't missing."""
    bench = CatchUpBench(NOW - timedelta(minutes=4))
    bench.run()
    assert [span.since for span in bench.engine.spans] == [NOW - timedelta(minutes=4) - OVERLAP]


def test_what_was_accepted_as_lost_is_listed_again_from_where_the_loss_begins() -> None:
    """Killed in between, it goes on where it was; listed once, it isn't again."""
    bench = CatchUpBench(NOW - timedelta(minutes=4))
    bench.again = ListAgain(NOW - timedelta(hours=9), NOW)
    bench.engine.fails_after = 3
    bench.run()
    assert bench.since == NOW - timedelta(hours=9) - OVERLAP
    bench.engine.fails_after = None
    bench.run()
    assert bench.since == NOW - timedelta(hours=6) - 2 * OVERLAP
    bench.run()
    assert bench.since == NOW - OVERLAP


@pytest.mark.parametrize("is_loss", [False, True])
def test_what_a_person_lists_leaves_out_nothing_before_it(is_loss: bool) -> None:
    """``--since`` begins later than the next round would have."""
    bench = CatchUpBench(NOW - timedelta(hours=5))
    if is_loss:
        bench.again = ListAgain(NOW - timedelta(hours=9), NOW)
    bench.run(NOW - HOUR)
    bench.run()
    assert bench.since == NOW - timedelta(hours=9 if is_loss else 5) - OVERLAP
    bench.run()
    assert bench.since == NOW - OVERLAP


def test_what_no_list_has_any_more_is_lost_with_its_reason() -> None:
    bench = CatchUpBench(NOW - timedelta(minutes=4))
    bench.again = ListAgain(NOW - timedelta(days=40), NOW)
    outcome = bench.run()
    oldest = NOW - timedelta(days=30)
    assert outcome.lost == Span(NOW - timedelta(days=40), oldest)
    [lost] = [row for row in bench.table.rows if row.outcome == LOST]
    assert (lost.since, lost.until, "30 days" in str(lost.reason)) == (NOW - timedelta(days=40), oldest, True)
    assert bench.since == oldest


@pytest.mark.parametrize("mode", ["live", "test"])
def test_an_earlier_loss_is_not_forgotten_by_a_later_one(tmp_path: Path, mode: Any) -> None:
    layout = Layout(tmp_path)
    layout.run.mkdir()
    assert read_list_again(layout, mode) is None
    list_again(layout, mode, NOW - HOUR, NOW)
    list_again(layout, mode, NOW, NOW + HOUR)
    assert read_list_again(layout, mode) == ListAgain(NOW - HOUR, NOW + HOUR)
    assert read_list_again(layout, "test" if mode == "live" else "live") is None


def test_what_has_no_credentials_any_more_is_forgotten_by_the_next_round(tmp_path: Path) -> None:
    """Else its last problem is an alert for ever, since no catch-up gets through."""
    secrets = tmp_path / "secrets"
    settings = Settings(data_dir=tmp_path, ingest=IngestSettings(secrets_dir=str(secrets)))
    secrets.mkdir()
    write_outcomes(settings, [CatchUpOutcome("stripe", None, 0, None, "the key was revoked")], NOW, NOW)
    write_outcomes(settings, [CatchUpOutcome("paypal", None, 3, None, fetched_day=3)], NOW, NOW)
    [due] = schedule_catch_up(settings)
    assert due.is_wanted() and set(read_said(due.report)["sources"]) == {"paypal", "stripe"}  # type: ignore[index]
    assert run_round(settings)
    assert read_said(due.report)["sources"] == {}  # type: ignore[index]
    assert not due.is_wanted()
