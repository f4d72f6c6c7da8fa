"""Kafka's replicas, as its brokers tell them: which partitions of payhook's topics have some that aren't in sync."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from core.durability import IN_SYNC
from core.topics import described
from dlq.alerts.readings import Replicas

log = logging.getLogger(__name__)

ASK_S_MAX = 2.0


class ReplicaWatch:
    """Asks with each look. A topic's ``min.insync.replicas`` is asked for once: it changes by a person's hand."""

    def __init__(self, client: AdminClient, topics: Collection[str]) -> None:
        self._client = client
        self._topics = topics
        self._min: dict[str, int] = {}

    def look(self) -> Replicas | None:
        """None where Kafka doesn't say."""
        try:
            known = self._client.list_topics(timeout=ASK_S_MAX).topics
            there = {topic: known[topic].partitions for topic in self._topics if topic in known}
            for topic in there.keys() - self._min.keys():
                self._min[topic] = int(described(self._client, topic)[IN_SYNC].value)
        except KafkaException as silent:
            log.debug("Kafka doesn't tell its replicas: %s", silent)
            return None
        return count(there, self._min)


def count(partitions: Mapping[str, Mapping[int, Any]], least: Mapping[str, int]) -> Replicas:
    """
    :param partitions: by topic, each with ``replicas`` and those in sync, ``isrs``
    :param least: ``min.insync.replicas`` by topic
    """
    every = [(topic, one) for topic, of_it in partitions.items() for one in of_it.values()]
    out_of_sync = sum(len(one.isrs) < len(one.replicas) for _, one in every)
    return Replicas(out_of_sync, sum(len(one.isrs) < least[topic] for topic, one in every))
