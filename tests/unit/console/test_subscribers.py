"""Subscribers are shown with what the settings, their journal and the processor say of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from console.subscribers import SubscriberReport, SubscriberSettings, report_subscribers
from core.clock import to_rfc3339
from ledger.queries.answers import SubscriberAnswers

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
FAILING = SubscriberAnswers(taken=3, waiting=2, next_try=AT, failing_since=AT, last_at=AT, last_answer="answered 500")


def settings(name: str, state: str = "active") -> SubscriberSettings:
    return SubscriberSettings(name, "https://hooks.example", "live", None, ("*",), state)


def report(answers: SubscriberAnswers, status: dict[str, Any] | None = None) -> SubscriberReport:
    said = (
        [] if status is None else [{"downstreams": {"subscriber:shop": status, "subscriber:other": {"state": "open"}}}]
    )
    [found] = report_subscribers([settings("shop")], {"live": {"shop": answers}}, {"live": said})
    return found


def test_those_that_get_nothing_come_first() -> None:
    names = [settings("b"), settings("a"), settings("z", "disabled"), settings("y")]
    found = report_subscribers(names, {"live": {"y": FAILING}}, {})
    assert [(one.settings.name, one.state) for one in found] == [
        *(("y", "failing"), ("z", "disabled"), ("a", "active"), ("b", "active")),
    ]


def test_a_disabled_one_is_not_called_failing_and_another_modes_answers_are_not_its_own() -> None:
    [found] = report_subscribers([settings("shop", "off")], {"live": {"shop": FAILING}}, {})
    assert found.state == "off"
    [found] = report_subscribers([settings("shop")], {"test": {"shop": FAILING}}, {})
    assert (found.state, found.answers) == ("active", SubscriberAnswers())


def test_the_processor_says_whether_its_breaker_is_open() -> None:
    found = report(FAILING, {"state": "open", "text": "5 of 5 calls failed"})
    assert (found.breaker, found.breaker_text, found.answers) == ("open", "5 of 5 calls failed", FAILING)
    assert report(FAILING, {"state": "closed", "text": "fine"}).breaker == ""


def test_the_processor_knows_of_tries_that_left_no_row() -> None:
    earlier, later = AT - timedelta(hours=1), AT + timedelta(hours=1)
    status = {
        "state": "open",
        "text": "",
        "why": "NotTaken: answered 503",
        "failing_since": to_rfc3339(earlier),
        "next_try_at": to_rfc3339(later),
    }
    for known in (SubscriberAnswers(), FAILING):
        answers = report(known, status).answers
        assert (answers.failing_since, answers.next_try) == (earlier, later)
        assert answers.last_answer == "NotTaken: answered 503"
