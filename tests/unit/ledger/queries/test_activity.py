"""What a stream did over time is what its journal's rows say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.money import Movement
from ledger.queries.activity import ATTEMPT_MAX, Activity, read_activity
from ledger.queries.lake import TableRows
from tests.dead_letters import DeadLetters, Rejected, UnknownMerchant
from tests.small_ledger import START, SmallLedger

STEP_S = 900


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-31T{text}Z").astimezone(UTC)


@pytest.mark.row("B8")
def test_tries_are_counted_by_their_number_and_deaths_and_events_by_step(tmp_path: Path) -> None:
    """One is applied at once, one dies at once, one dies after its retries: 3 first tries, then one of each."""
    letters = DeadLetters(tmp_path / "data")
    letters.books(letters.receive("evt_good"), 5, "EUR")
    letters.dies(letters.receive("evt_bad"), Rejected("no"), 99)
    letters.dies(letters.receive("evt_slow"), UnknownMerchant("no merchant"), 99)
    letters.batch()
    for _ in range(7):
        letters.advance(30)
    [one] = read_activity(str(letters.layout.journal), at("12:00:00"), at("13:00:00"), STEP_S)
    assert (one.at, one.events, one.dead, one.first_tries) == (at("12:00:00"), 3, 2, 3)
    failures = max(row.attempt for row in letters.journal.rows) + 1
    later = failures - ATTEMPT_MAX + 1
    assert one.retries == {**dict.fromkeys(range(2, ATTEMPT_MAX), 1), ATTEMPT_MAX: later}


@pytest.fixture
def ledger(tmp_path: Path) -> SmallLedger:
    """An event a minute, of which the tenth is 40 s late."""
    made = SmallLedger(tmp_path / "data")
    for number in range(20):
        late: Any = {"received_at": START + timedelta(minutes=number, seconds=-40)} if number == 10 else {}
        made.add(Movement.CAPTURE, at=START + timedelta(minutes=number), **late)
    made.commit()
    return made


def test_delays_are_those_from_receipt_to_the_first_decision(ledger: SmallLedger) -> None:
    first, second = read_activity(ledger.journal, START, START + timedelta(hours=1), STEP_S)
    assert (first.events, second.events) == (15, 5)
    assert first.p50_s == pytest.approx(0.3) and first.p99_s is not None and first.p99_s > 20
    assert second.p99_s == pytest.approx(0.3)


def test_only_the_span_that_is_asked_for_counts(ledger: SmallLedger) -> None:
    found = read_activity(ledger.journal, START + timedelta(minutes=18), START + timedelta(minutes=19), STEP_S)
    assert [one.events for one in found] == [1]
    assert read_activity(ledger.journal, START + timedelta(days=1), START + timedelta(days=2), STEP_S) == []


def test_several_journals_are_one_stream_and_copied_rows_count_once(ledger: SmallLedger) -> None:
    both = [TableRows(ledger.journal, "ledger"), TableRows(ledger.journal, "ledger.1", after=15)]
    first, second = read_activity(both, START, START + timedelta(hours=1), STEP_S)
    assert (first.events, second.events) == (15, 10)
    assert first.p99_s is not None and first.p99_s > 20


def test_before_anything_was_decided_there_is_nothing(tmp_path: Path) -> None:
    assert read_activity(SmallLedger(tmp_path / "none").journal, START, START + timedelta(days=1), STEP_S) == []
    assert Activity(START).retries == {}
