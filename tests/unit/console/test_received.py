"""What came in within the last hour, counted from receipts."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.received import HOUR, KINDS_MAX, MORE, REFUSED_KEPT, ReceivedHour
from core.clock import to_rfc3339
from ingest.errors import REMEDIES

NOW = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC)


def receipt(ago: timedelta = timedelta(0), **more: Any) -> dict[str, Any]:
    whole = {"provider": "stripe", "outcome": "claimed", "status": 200, "at": to_rfc3339(NOW - ago)}
    return whole | more


def hour_of(*receipts: dict[str, Any]) -> ReceivedHour:
    hour = ReceivedHour()
    for each in receipts:
        hour.add(each)
    return hour


def test_answers_are_counted_by_provider_type_and_status_the_most_first() -> None:
    paid, failed = receipt(type="charge.succeeded"), receipt(type="charge.failed")
    said = hour_of(paid, failed, paid, receipt(outcome="signature_mismatch", status=401)).summary(None, NOW, None)
    assert (said.total, said.refused) == (4, 1)
    shown = [(each.type, each.outcome, each.status, each.count) for each in said.arrived]
    assert shown[0] == ("charge.succeeded", "claimed", 200, 2)
    assert set(shown[1:]) == {("charge.failed", "claimed", 200, 1), ("", "signature_mismatch", 401, 1)}


def test_a_reason_says_how_many_when_last_and_what_to_do() -> None:
    refused = receipt(timedelta(minutes=5), outcome="not_published", status=503, type="charge.succeeded")
    earlier = receipt(timedelta(minutes=6), outcome="not_published", status=503, type="charge.failed")
    [reason] = hour_of(refused, earlier).summary(None, NOW, None).reasons
    assert (reason.code, reason.provider, reason.status, reason.count) == ("not_published", "stripe", 503, 2)
    assert reason.last_at == NOW - timedelta(minutes=5)
    assert (reason.remedy, reason.runbook) == (REMEDIES["not_published"], "docs/runbook.md#503-not_published")


def test_an_event_of_a_refused_request_that_was_taken_is_no_reason() -> None:
    said = hour_of(receipt(outcome="claimed", status=503), receipt(outcome="not_published", status=503))
    assert [each.code for each in said.summary(None, NOW, None).reasons] == ["not_published"]


def test_a_receipt_of_several_requests_counts_them_all() -> None:
    said = hour_of(receipt(provider="unknown", outcome="head_too_slow", status=408, count=1_200)).summary(
        None, NOW, None
    )
    assert (said.total, said.refused, said.reasons[0].count) == (1_200, 1_200, 1_200)


def test_what_is_older_than_an_hour_is_forgotten() -> None:
    old = receipt(HOUR + timedelta(minutes=1), outcome="too_large", status=413)
    hour = hour_of(old, receipt(timedelta(minutes=59)))
    hour.drop_old(NOW)
    said = hour.summary(None, NOW, None)
    assert (said.total, said.reasons, said.newest) == (1, [], [])


@pytest.mark.parametrize("seconds", [3_569, 3_570, 3_599, 3_600, 3_601, 3_630, 3_631, 3_660])
def test_a_reason_and_its_last_moment_are_forgotten_together(seconds: int) -> None:
    hour = hour_of(receipt(timedelta(seconds=seconds), outcome="too_large", status=413))
    hour.drop_old(NOW)
    said = hour.summary(None, NOW, None)
    assert len(said.reasons) == len(said.newest) == said.total


def test_the_newest_refused_requests_are_listed_and_no_more_than_a_page_has_room_for() -> None:
    refused = [receipt(timedelta(seconds=900 - n), outcome="too_slow", status=408, type=f"t{n}") for n in range(900)]
    newest = hour_of(*refused).summary(None, NOW, None).newest
    assert [each.type for each in newest] == [f"t{n}" for n in range(899, 899 - REFUSED_KEPT, -1)]


def test_a_million_types_take_no_more_memory_than_a_few_hundred() -> None:
    """A signed sender makes up types."""
    tracemalloc.start()
    hour = ReceivedHour()
    for number in range(100_000):
        hour.add(receipt(type=f"type-{number}"))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = hour.summary(None, NOW, None)
    assert said.total == 100_000
    assert len(said.arrived) == KINDS_MAX + 1
    assert (said.arrived[0].type, said.arrived[0].count) == (MORE, 100_000 - KINDS_MAX)
    assert held < 2_000_000
