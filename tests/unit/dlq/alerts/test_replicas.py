"""What the alerts see of Kafka's replicas where its brokers tell only a part."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka.admin import AdminClient

from core.durability import IN_SYNC
from dlq.alerts.looking import ReplicaWatch
from dlq.alerts.readings import Replicas


class Kafka:
    """One topic with two replicas, of which one is in sync."""

    def __init__(self) -> None:
        self.is_silent = True
        """Of the topic's configuration."""

    def list_topics(self, timeout: float) -> Any:
        partition = SimpleNamespace(replicas=[1, 2], isrs=[1])
        return SimpleNamespace(topics={"payments.events": SimpleNamespace(partitions={0: partition})})

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if self.is_silent:
            answer.set_exception(TimeoutError())
        else:
            answer.set_result({IN_SYNC: SimpleNamespace(value="2")})
        return dict.fromkeys(resources, answer)


def test_a_configuration_that_is_not_told_in_time_is_asked_for_with_the_next_look() -> None:
    kafka = Kafka()
    watch = ReplicaWatch(cast(AdminClient, kafka), ["payments.events"])
    assert watch.look() is None
    kafka.is_silent = False
    assert watch.look() == Replicas(out_of_sync=1, under_min=1)
