"""What a provider's list had and nobody decided is found; what is on its way isn't an offence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from ledger.catch_ups import TABLE, CatchUps, FetchedEvent, ListedSpan
from ledger.verify import Finding
from ledger.verify.engine import SqlEngine
from ledger.verify.report_checks import ListedAreDecided
from tests.integration.ledger.conftest import AT, EVENTS, World

KNOWN, LOST = FetchedEvent("stripe:evt_1:charge", "charge", AT), FetchedEvent("stripe:evt_lost:charge", "charge", AT)
SPAN = ListedSpan(
    at=AT,
    source="stripe",
    provider="stripe",
    outcome="listed",
    since=AT - timedelta(days=1, hours=1),
    until=AT - timedelta(days=1),
)
Span = tuple[ListedSpan, Sequence[FetchedEvent]]
Look = Callable[..., Finding]


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Look:
    """The answer about these spans, five minutes after the world was made."""

    def answer(*spans: Span) -> Finding:
        for span, events in spans:
            CatchUps(world.lake.places.shared_table(TABLE)).append(span, events)
        return world.verify(engine, ListedAreDecided.name, after=timedelta(minutes=5)).findings[0]

    return answer


def problems(found: Finding) -> list[str]:
    return [offender["problem"] for offender in found.offenders]


def test_where_no_list_was_asked_nothing_is_claimed(look: Look) -> None:
    found = look()
    assert (found.ok, found.figures) == (True, {"spans": None})


def test_what_came_in_by_the_list_and_was_decided_is_right(look: Look) -> None:
    found = look((SPAN, ()), (replace(SPAN, since=SPAN.until, until=AT, at=AT, passed_over=4, listed=4), ()))
    assert found.ok, found
    assert found.figures == {"spans": 2, "listed": 4, "fetched": 0, "lost_spans": 0}


def test_what_came_in_and_was_never_decided_is_named(look: Look) -> None:
    found = look((replace(SPAN, listed=1, fetched=1), [LOST]))
    assert "listed and never decided" in problems(found)
    assert [one["event_key"] for one in found.offenders if "event_key" in one] == [LOST.event_key]


def test_what_is_still_on_its_way_is_no_offence(look: Look, world: World) -> None:
    low, high = world.kafka.held[EVENTS][0]
    world.kafka.held[EVENTS][0] = (low, high + 1)
    world.kafka.written_at = AT
    assert look((replace(SPAN, listed=1, fetched=1, at=AT + timedelta(seconds=30)), [LOST])).ok


def test_fewer_decisions_than_the_list_had_are_found(look: Look) -> None:
    assert problems(look((replace(SPAN, listed=3, known=3), ()))) == ["fewer events are decided than were listed"]


def test_a_row_that_names_what_came_in_and_is_gone_is_found(look: Look) -> None:
    found = look((replace(SPAN, listed=2, fetched=2), [KNOWN]))
    assert "other events came in than are named" in problems(found)


def test_counts_that_contradict_each_other_are_found(look: Look) -> None:
    assert problems(look((replace(SPAN, listed=5, passed_over=4), ()))) == ["a span whose counts contradict each other"]


def test_a_span_that_was_never_listed_is_found(look: Look) -> None:
    hour = timedelta(hours=1)
    found = look((SPAN, ()), (replace(SPAN, since=SPAN.until + hour, until=AT), ()))
    assert problems(found) == ["a span that was never listed"]
    assert (found.offenders[0]["since"], found.offenders[0]["until"]) == (SPAN.until, SPAN.until + hour)


def test_spans_that_overlap_and_one_that_is_lost_are_right(look: Look) -> None:
    later = replace(SPAN, since=SPAN.until - timedelta(minutes=10), until=AT - timedelta(hours=3))
    lost = replace(later, since=later.until, until=AT, outcome="lost", reason="nothing lists it")
    found = look((SPAN, ()), (later, ()), (lost, ()))
    assert (found.ok, found.figures["lost_spans"]) == (True, 1)
