"""The receiver listens once Kafka has said that its topics keep what they acknowledge."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, KafkaException

import stack.services.receiver as receiver
from core.settings import RECORD_BYTES_MAX, KafkaSettings
from core.topics import TopicFault, TopicsUnfit
from ingest.settings import IngestSettings
from stack.settings import Settings


def settings(*, test_traffic: bool = False) -> Settings:
    return Settings(
        kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1", durability="single"),
        ingest=IngestSettings(test_traffic=test_traffic),
    )


def test_it_waits_for_a_kafka_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | None] = [KafkaException(KafkaError(KafkaError._TRANSPORT))] * 2 + [None]

    def answer(*_: object) -> None:
        if (failure := answers.pop(0)) is not None:
            raise failure

    monkeypatch.setattr(receiver, "check_topics", answer)
    monkeypatch.setattr(receiver, "ASK_AGAIN_S", 0.0)
    receiver.check_kafka(settings())
    assert not answers


def test_it_does_not_wait_for_topics_to_become_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: object) -> None:
        raise TopicsUnfit((TopicFault("payments.events", "it isn't there", "make it"),), "single")

    monkeypatch.setattr(receiver, "check_topics", answer)
    with pytest.raises(TopicsUnfit):
        receiver.check_kafka(settings())


def test_it_asks_of_every_topic_that_it_publishes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Mapping[str, int], str]] = []
    monkeypatch.setattr(
        receiver, "check_topics", lambda _client, kafka, wanted: asked.append((wanted, kafka.durability))
    )
    receiver.check_kafka(settings(test_traffic=True))
    assert asked == [
        (
            {
                "payments.events": RECORD_BYTES_MAX,
                "payments.receipts": 0,
                "payments.events.test": RECORD_BYTES_MAX,
                "payments.receipts.test": 0,
            },
            "single",
        )
    ]
