"""Notices wait for a receiver that is down, the newest of each alert only, and other receivers don't wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dlq.alerts.engine import Kind, Notice
from dlq.alerts.rules import Severity
from dlq.alerts.watch import QUEUE_MAX, RETRY_S_MAX, Outbox

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
FIRST = Notice("a", 1, Kind.FIRING, "dlq_depth", "ledger", Severity.WARNING, "t", 101.0, 100.0, AT, AT, "r")


def test_a_newer_word_replaces_the_older_one_and_goes_behind_what_was_said_meanwhile() -> None:
    outbox = Outbox({"all": False})
    other = replace(FIRST, subject="notify")
    over = replace(FIRST, number=2, kind=Kind.RECOVERED)
    outbox.add([FIRST, other, over])
    assert outbox.queues["all"].due(0.0) == [other, over]


def test_whoever_wants_critical_ones_only_gets_no_others() -> None:
    outbox = Outbox({"all": False, "boss": True})
    escalation = replace(FIRST, rule="dlq_escalation", severity=Severity.CRITICAL)
    outbox.add([FIRST, escalation])
    assert outbox.queues["all"].due(0.0) == [FIRST, escalation]
    assert outbox.queues["boss"].due(0.0) == [escalation]


def test_after_a_refusal_the_receiver_is_left_alone_for_longer_each_time_up_to_a_bound() -> None:
    queue = Outbox({"all": False}).queues["all"]
    queue.add(FIRST)
    now, waits = 1_000.0, []
    for _ in range(12):
        queue.refused("down", now)
        waits.append(queue.next_at - now)
        assert queue.due(queue.next_at - 0.1) == []
        now = queue.next_at
        assert queue.due(now) == [FIRST]
    assert waits[:4] == [5, 10, 20, 40] and waits[-1] == RETRY_S_MAX
    queue.taken(FIRST)
    assert (queue.due(now), queue.failures, queue.problem) == ([], 0, None)


def test_a_word_that_came_while_an_older_one_was_reported_stays() -> None:
    queue = Outbox({"all": False}).queues["all"]
    queue.add(FIRST)
    (telling,) = queue.due(0.0)
    over = replace(FIRST, number=2, kind=Kind.RECOVERED)
    queue.add(over)
    queue.taken(telling)
    assert queue.due(0.0) == [over]


def test_a_queue_is_bounded() -> None:
    queue = Outbox({"all": False}).queues["all"]
    for number in range(QUEUE_MAX + 50):
        queue.add(replace(FIRST, subject=f"stream-{number}"))
    assert len(queue.waiting) == QUEUE_MAX
    assert queue.due(0.0)[-1].subject == f"stream-{QUEUE_MAX + 49}"


def test_what_a_file_remembers_of_a_receiver_that_is_gone_is_dropped() -> None:
    outbox = Outbox({"all": False}, {"all": [FIRST], "gone": [FIRST]})
    assert outbox.queues.keys() == {"all"} and outbox.queues["all"].due(0.0) == [FIRST]
