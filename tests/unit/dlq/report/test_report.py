"""A week's report, from a journal whose every number can be counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decision import Decision, ErrorKind
from dlq.report import Week, WeekInvalid, WeeklyReport, weekly
from dlq.report.markdown import markdown, plain
from dlq.report.model import advice
from ledger.provider_bugs import bugs_of
from tests.unit.dlq.report.weeks import WEEK, Journal

LATER = WEEK.end + timedelta(days=30)
HOUR = timedelta(hours=1)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def report(journal: Journal, now: datetime = LATER) -> WeeklyReport:
    return weekly("ledger", {"ledger": str(journal.path)}, WEEK, now, bugs_of("ledger", [str(journal.path)]))


def test_a_week_is_monday_to_monday_in_utc() -> None:
    assert WEEK.start == datetime(2026, 1, 26, tzinfo=UTC) and WEEK.end == datetime(2026, 2, 2, tzinfo=UTC)
    assert WEEK.name == "2026-W05" and Week.named("2026W05") == WEEK
    assert WEEK.before().name == "2026-W04"
    assert Week.named("2026-W53").start == datetime(2026, 12, 28, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-W54", "2025-W53", "2026-W00", "2026-5", "last", "0000-W01", "2026-W05 "])
def test_what_is_no_week_is_refused(text: str) -> None:
    with pytest.raises(WeekInvalid, match="write 2026-W47"):
        Week.named(text)


@pytest.mark.parametrize("text", ["0001-W01", "9999-W52"])
def test_a_week_has_one_before_it_and_one_after_it(text: str) -> None:
    """Those of the calendar's first and last days can't be paged through, nor compared with."""
    with pytest.raises(WeekInvalid, match="is no week: the first is 0001-W02, the last 9999-W51"):
        Week.named(text)
    first, last = Week.named("0001-W02"), Week.named("9999-W51")
    assert (first.name, first.before().name, last.after().name) == ("0001-W02", "0001-W01", "9999-W52")


@given(st.integers(4 * 86_400, 7_258_118_400))
def test_every_moment_is_in_its_week_and_a_weeks_name_is_its_own(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    week = Week.of(moment)
    assert week.holds(moment) and Week.named(week.name) == week
    assert week.before().end == week.start


def test_nothing_has_happened_before_there_is_a_journal(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    made = weekly("ledger", {"ledger": none}, WEEK, LATER, bugs_of("ledger", [none]))
    assert (made.died, made.causes, made.resolution.closed, made.replays.given) == (0, [], 0, 0)
    assert {depth.items for depth in made.depths} == {0} and len(made.depths) == 8
    assert "there is nothing to do" in markdown(made)
    assert made.bugs == [] and "No provider reported anything twice" in markdown(made)
    elsewhere = weekly("notify", {"notify": none}, WEEK, LATER, bugs_of("notify", [none]))
    assert elsewhere.bugs is None and "Providers" not in markdown(elsewhere), "a stream that books nothing"


def test_what_died_in_the_week_counts_and_what_died_before_or_after_does_not(journal: Journal) -> None:
    journal.dies(-1)
    journal.dies(0)
    journal.dies(167.9)
    journal.dies(168)
    made = report(journal)
    assert made.died == 2
    assert sum(cause.items for cause in made.causes) == 2


def test_deaths_of_one_cause_are_one_line_with_what_is_left_of_them(journal: Journal) -> None:
    items = [journal.dies(hour, f"no merchant for 'acct_{hour}'") for hour in range(1, 6)]
    journal.dies(
        3, "the clock stands still", error_class="ZeroDivisionError", error_kind=ErrorKind.NRE, provider="adyen"
    )
    journal.then(items[0], 8, Decision.REPLAYED)
    journal.then(items[0], 8, Decision.APPLIED)
    journal.then(items[1], 9, Decision.REPLAYED)
    journal.dies_again(items[1], 10)
    many, one = report(journal).causes
    assert (many.error_class, many.items, many.deaths, many.open, many.again) == ("MerchantUnknown", 5, 6, 4, 1)
    assert (many.kind, many.providers, many.example) == (ErrorKind.SNBE, ["stripe"], items[1])
    assert (one.error_class, one.items, one.open, one.providers) == ("ZeroDivisionError", 1, 1, ["adyen"])
    assert "merchant directory" in many.advice and "mend the handler" in one.advice


def test_depth_goes_up_and_down_with_what_is_dead(journal: Journal) -> None:
    old = journal.dies(-30)
    first, second = journal.dies(1), journal.dies(2)
    journal.then(first, 30, Decision.REPLAYED)
    journal.dies_again(first, 31)
    journal.then(old, 40, Decision.RESOLVED)
    journal.then(second, 100, Decision.PURGED)
    made = report(journal)
    assert [depth.items for depth in made.depths] == [1, 3, 2, 2, 2, 1, 1, 1]
    assert (made.deepest.items, made.deepest.at) == (3, WEEK.start + 2 * HOUR)


def test_time_to_resolution_counts_from_the_first_death(journal: Journal) -> None:
    for number in range(8):
        item = journal.dies(1)
        journal.then(item, 2 + number, Decision.RESOLVED)
    purged = journal.dies(-9)
    journal.then(purged, 11, Decision.PURGED)
    replayed = journal.dies(0)
    journal.then(replayed, 5, Decision.REPLAYED)
    journal.dies_again(replayed, 6)
    journal.then(replayed, 90, Decision.REPLAYED)
    journal.then(replayed, 100, Decision.APPLIED)
    late = journal.dies(160)
    journal.then(late, 170, Decision.RESOLVED)
    reported = report(journal).resolution
    assert (reported.closed, reported.by_resolve, reported.by_purge, reported.by_replay) == (10, 8, 1, 1)
    assert (reported.median, reported.p90, reported.longest) == (5 * HOUR, 20 * HOUR, 100 * HOUR)


def test_a_reversal_of_a_closed_item_does_not_close_it_once_more(journal: Journal) -> None:
    item = journal.dies(1)
    journal.then(item, 2, Decision.REPLAYED)
    journal.then(item, 3, Decision.APPLIED)
    journal.then(item, 90, Decision.REVERSED)
    reported = report(journal)
    assert (reported.resolution.closed, reported.resolution.longest) == (1, 2 * HOUR)
    assert reported.breaches.over_24h == []


def test_replays_are_counted_by_what_they_came_to(journal: Journal) -> None:
    good, bad, twice, waiting = (journal.dies(1) for _ in range(4))
    for item in (good, bad, twice, waiting):
        journal.then(item, 2, Decision.REPLAYED)
    journal.then(good, 3, Decision.DUPLICATE)
    journal.then(bad, 3, Decision.RETRY)
    journal.dies_again(bad, 4)
    journal.dies_again(twice, 4)
    journal.then(twice, 5, Decision.REPLAYED)
    journal.then(twice, 6, Decision.APPLIED)
    reported = report(journal).replays
    assert (reported.given, reported.succeeded, reported.failed_again, reported.under_way) == (5, 2, 2, 1)


def test_items_that_passed_their_time_within_the_week_are_named(journal: Journal) -> None:
    before = journal.dies(-40)
    over = journal.dies(10)
    in_time = journal.dies(20)
    journal.then(in_time, 43, Decision.RESOLVED)
    journal.dies(150)
    journal.then(over, 50, Decision.RESOLVED)
    reported = report(journal).breaches
    assert (reported.over_24h, reported.over_48h) == ([over], [before])
    ancient = journal.dies(-400)
    assert ancient not in report(journal).breaches.over_48h
    assert report(journal).breaches.waiting == [ancient, before]


def test_a_week_that_is_not_over_is_reported_as_far_as_it_is(journal: Journal) -> None:
    journal.dies(1)
    journal.dies(60)
    made = report(journal, now=WEEK.start + 30 * HOUR)
    assert made.died == 1 and len(made.depths) == 3 and made.depths[-1].at == WEEK.start + 30 * HOUR
    assert "as far as 2026-01-27 06:00" in markdown(made)


def test_the_report_says_what_to_do_next_the_most_urgent_first(journal: Journal) -> None:
    items = [journal.dies(1, f"no merchant for 'acct_{number}'") for number in range(3)]
    journal.then(items[0], 2, Decision.REPLAYED)
    journal.dies_again(items[0], 3)
    text = markdown(report(journal))
    section = text.split("## What to do next")[1].split("##")[0]
    assert section.split("\n")[2:5] == [
        "1. Decide about what is older than 48 hours and still open: 1, 2, 3 (`payhook dlq show ID`).",
        f"2. 3 × **MerchantUnknown**: {advice('MerchantUnknown', None)}.",
        "3. Don't replay **MerchantUnknown** again before its cause is mended: 1 replay died of it again.",
    ]
    assert "| replays that failed again | 1 of 1 |" in text


def reported_again(journal: Journal, at_h: float, fact: str, number: int, provider: str = "stripe") -> None:
    """One fact, booked and reported again an hour later under another event id."""
    for decision, later_h in ((Decision.APPLIED, 0), (Decision.DUPLICATE_FACT, 1)):
        received = WEEK.start + (at_h + later_h) * HOUR
        event = f"{provider}:evt_{number}_{later_h}:x"
        journal.new(at_h + later_h, decision, fact_key=fact, event_key=event, received_at=received, provider=provider)


def test_providers_bugs_of_the_week_are_counted_by_provider_and_kind_the_most_frequent_first(journal: Journal) -> None:
    reported_again(journal, -2, "stripe:before", 0)
    reported_again(journal, 1, "adyen:psp_1", 1, provider="adyen")
    for number in (2, 3, 4):
        reported_again(journal, number * 10, f"stripe:ch_{number}", number)
    journal.dies(
        60, "two amounts", error_class="FactConflict", event_key="stripe:evt_9:x", received_at=WEEK.start + 60 * HOUR
    )
    reported_again(journal, 168, "stripe:after", 5)
    bugs = report(journal).bugs
    assert bugs is not None
    assert [(bug.provider, bug.kind, bug.cases, bug.example) for bug in bugs] == [
        ("stripe", "fact_repeated", 3, "stripe:evt_4_1:x"),
        ("adyen", "fact_repeated", 1, "adyen:evt_1_1:x"),
        ("stripe", "fact_conflict", 1, "stripe:evt_9:x"),
    ]
    text = markdown(report(journal))
    assert "| adyen | 1 | one movement of money under several event ids | adyen:evt\\_1\\_1:x |" in text
    assert (
        "Send **stripe** the evidence of 3 cases of one movement of money under several event ids: "
        "`payhook ledger provider-bugs --provider stripe --csv`." in text
    )


def test_words_of_strangers_stay_words(journal: Journal) -> None:
    journal.dies(
        1,
        "[click](http://evil) | <script>alert(1)</script>\n# Heading\x1b[31m",
        error_class="A|B\n# C",
        provider="`rm`",
    )
    text = markdown(report(journal))
    assert "<script>" not in text and "\x1b" not in text and "](http" not in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# Dead letters of ledger, 2026-W05"]
    rows = [line for line in text.splitlines() if "alert" in line]
    assert rows and all(line.replace("\\|", "").count("|") == 7 for line in rows if line.startswith("|"))
    assert plain("a|b") == "a\\|b"


@pytest.mark.parametrize("kind", [None, *ErrorKind])
def test_every_cause_has_advice(kind: ErrorKind | None) -> None:
    assert advice("core.errors.SomethingNew", kind)
    assert advice("ledger.errors.MerchantUnknown", kind) == advice("MerchantUnknown", None)
