"""What is published again is acknowledged, or it is said why not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from core.event import Dedupe, poison_event, to_headers
from processor.source.sources import Republisher

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
EVENTS = [poison_event("stripe", body, "live", "no JSON") for body in (b"{", b"[")]
OUTGOING = [(event, to_headers(event, NOW, Dedupe.DEFERRED)) for event in EVENTS]


class FlushedProducer:
    """Answers each record at the flush: with None, an error, or not at all."""

    def __init__(self, answers: list[object], fails: Exception | None = None) -> None:
        self.answers = answers
        self.fails = fails
        self.sent: list[tuple[str, bytes, bytes, Any]] = []
        self._waiting: list[Callable[[object, object], None]] = []

    def produce(self, topic: str, value: bytes, key: bytes, headers: Any, on_delivery: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.sent.append((topic, value, key, headers))
        self._waiting.append(on_delivery)

    def poll(self, timeout: float) -> int:
        raise AssertionError("acknowledgements come with the flush")

    def flush(self, timeout: float) -> int:
        assert 0 < timeout <= 5
        for on_delivery, answer in zip(self._waiting, self.answers, strict=False):
            on_delivery(answer, None)
        return len(self._waiting) - len(self.answers)


def test_each_event_goes_out_by_its_entity_with_its_headers() -> None:
    producer = FlushedProducer([None, None])
    assert Republisher(lambda: producer, "payments.events")(OUTGOING) is None
    assert producer.sent == [
        ("payments.events", event.body, event.entity_key.encode(), headers) for event, headers in OUTGOING
    ]


@pytest.mark.parametrize(
    ("answers", "problem"),
    [([None, "broker down"], "broker down"), ([None], "no answer within 5 s"), ([], "no answer within 5 s")],
)
def test_one_that_is_not_acknowledged_is_reported_of(answers: list[object], problem: str) -> None:
    assert Republisher(lambda: FlushedProducer(answers), "payments.events")(OUTGOING) == problem


def test_after_a_failure_a_new_producer_is_made() -> None:
    made = [FlushedProducer([], BufferError("queue full")), FlushedProducer([None, None])]
    republish = Republisher(lambda: made.pop(0), "payments.events")
    assert republish(OUTGOING) == "queue full"
    assert republish(OUTGOING) is None


def test_one_producer_does_for_all() -> None:
    made = []

    def make() -> FlushedProducer:
        made.append(FlushedProducer([None, None]))
        return made[-1]

    republish = Republisher(make, "payments.events")
    assert made == []
    assert republish(OUTGOING) is None
    assert [republish([]), len(made)] == [None, 1]
