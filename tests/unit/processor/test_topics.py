"""What a stream does at its start while Kafka tells only a part."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

import processor.topics as topics
from core.decision import ErrorKind
from core.settings import KafkaSettings, TopicsSettings
from journal.kafka_log import KafkaSilent

TOPICS = ("payments.events", "payments.control", "dlq.ledger")


class SilentAdmin:
    """It lists its topics, and says nothing of their configuration."""

    def list_topics(self, timeout: float) -> Any:
        partitions = dict.fromkeys(range(4), SimpleNamespace(replicas=[1]))
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=partitions) for name in TOPICS})

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        answer.set_exception(TimeoutError())
        return dict.fromkeys(resources, answer)


def test_topics_that_are_not_described_in_time_are_looked_at_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "open_admin", lambda _: SilentAdmin())
    dlq = SimpleNamespace(create_topic=False, prefix="dlq.")
    wired: Any = SimpleNamespace(
        config=SimpleNamespace(name="ledger", dlq=dlq),
        dlq_topic="dlq.ledger",
        mode="live",
        events_topic="payments.events",
    )
    shared: Any = SimpleNamespace(kafka=KafkaSettings(durability="single"), topics=TopicsSettings())
    assert KafkaSilent.kind is ErrorKind.SBE, "the stream pauses and begins again"
    with pytest.raises(KafkaSilent, match="no answer within 15 s"):
        topics.check_own_topics(wired, shared)
    with pytest.raises(KafkaSilent, match="no answer within 15 s"):
        topics.check_dead_letter_topic(wired, shared, {"payments.events": {0: (0, 0)}})
