"""How a subscriber answered of late: what it took, since when it fails, what waits and when that is tried."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from journal.schema import JournalRow
from ledger.queries.answers import SubscriberAnswers, read_subscriber_answers
from ledger.queries.lake import TableRows
from tests.small_ledger import START, SmallLedger

FAILED = {"error_class": "NotTaken", "error_message": "subscriber shop answered 500"}


class Notices(SmallLedger):
    """The notify stream's journal: one event a notice."""

    def sends(self, name: str, decision: Decision, **changes: Any) -> JournalRow:
        seq = len(self.rows) + 1
        return self.add(None, event_key=f"ledger:{name}:stripe:evt_{seq}", decision=decision, **changes)


@pytest.fixture
def notices(tmp_path: Path) -> Notices:
    return Notices(tmp_path / "data")


def answers(notices: Notices, since: datetime = START) -> dict[str, SubscriberAnswers]:
    notices.commit(with_bodies=False, with_postings=False)
    return read_subscriber_answers(notices.journal, since)


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def test_one_that_takes_what_it_is_sent_fails_at_nothing(notices: Notices) -> None:
    late = notices.sends("shop", Decision.RETRY, attempt=1, due_at=minute(9), **FAILED)
    notices.sends("shop", Decision.APPLIED)
    notices.later(late, Decision.APPLIED, error_class=None, error_message=None, due_at=None)
    assert answers(notices) == {
        "shop": SubscriberAnswers(taken=2, waiting=0, last_at=minute(3), last_answer="2xx"),
    }


def test_one_that_fails_fails_since_its_first_failure_after_it_took_one_last(notices: Notices) -> None:
    notices.sends("shop", Decision.RETRY, attempt=1, due_at=minute(90), **FAILED)
    notices.sends("shop", Decision.APPLIED)
    first = notices.sends("shop", Decision.RETRY, attempt=1, due_at=minute(60), **FAILED)
    notices.later(first, Decision.RETRY, attempt=2, due_at=minute(70), **FAILED)
    notices.sends("shop", Decision.PARKED, due_at=minute(80))
    notices.sends("other", Decision.APPLIED)
    found = answers(notices)
    assert found["shop"] == SubscriberAnswers(
        taken=1,
        waiting=3,
        next_try=minute(70),
        failing_since=minute(3),
        last_at=minute(4),
        last_answer="NotTaken: subscriber shop answered 500",
    )
    assert found["other"].failing_since is None


def test_what_was_decided_before_the_span_is_not_looked_at(notices: Notices) -> None:
    notices.sends("shop", Decision.APPLIED)
    assert answers(notices, minute(2)) == {}


def test_of_several_journals_it_fails_while_it_fails_in_one(notices: Notices, tmp_path: Path) -> None:
    other = Notices(tmp_path / "other")
    notices.sends("shop", Decision.RETRY, attempt=1, due_at=minute(60), **FAILED)
    other.sends("shop", Decision.APPLIED)
    other.sends("shop", Decision.APPLIED)
    answers(notices), answers(other)
    both = [TableRows(notices.journal, "notify"), TableRows(other.journal, "notify.1")]
    found = read_subscriber_answers(both, START)["shop"]
    assert (found.taken, found.waiting, found.failing_since) == (2, 1, minute(1))
    assert (found.last_at, found.last_answer) == (minute(2), "2xx")


def test_before_anything_was_sent_there_is_nothing(notices: Notices) -> None:
    assert read_subscriber_answers(notices.journal, START) == {}
