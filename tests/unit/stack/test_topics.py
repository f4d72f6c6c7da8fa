"""Topics are made once the broker lists them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from core.settings import KafkaSettings
from stack import topics
from stack.topics import Topic, TopicRefused, make_topics


class SlowBroker:
    """Lists a topic some looks after it answered that it was made."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def list_topics(self, timeout: float) -> SimpleNamespace:
        self.looks -= 1
        return SimpleNamespace(topics={"events": SimpleNamespace(partitions=[0])} if self.looks <= 0 else {})

    def create_topics(self, wanted: list[object]) -> dict[str, Future[None]]:
        made: Future[None] = Future()
        made.set_result(None)
        return {"events": made}


def make(monkeypatch: pytest.MonkeyPatch, broker: SlowBroker) -> None:
    monkeypatch.setattr(topics, "open_admin", lambda _: broker)
    make_topics(KafkaSettings(bootstrap_servers="broker"), [Topic("events", 1, -1)], replication=1)


def test_it_returns_when_the_broker_lists_what_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SlowBroker(looks=4)
    make(monkeypatch, broker)
    assert broker.looks == 0


def test_a_topic_that_is_never_listed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAKE_TIMEOUT_S", 0.0)
    with pytest.raises(TopicRefused, match="events: was made, and isn't listed"):
        make(monkeypatch, SlowBroker(looks=1_000))
