"""Holds what the streams of one Spark application share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from core.clock import Clock
from core.record_keys import RecordKeys
from core.settings import KafkaSettings, TopicsSettings
from journal.anchors import AnchorKeys
from processor.backlog.sizing import Executors
from processor.claims import ReceiverClaims
from providers.port import Adapter


@dataclass(frozen=True, slots=True)
class SharedResources:
    """The things that the streams of one Spark application share. ``executors`` run its tasks.

    ``record_keys``: sign and check events and commands. ``claims``: of the receivers that publish their events.
    """

    session: SparkSession
    kafka: KafkaSettings
    topics: TopicsSettings
    adapters: Mapping[str, Adapter]
    clock: Clock
    executors: Executors
    anchor_keys: AnchorKeys
    record_keys: RecordKeys | None
    claims: ReceiverClaims | None = None

    def task_counter(self, tasks_max: int) -> Callable[[], int]:
        """Makes a function that says how many tasks of a stream's handlers run at a time now.

        :param tasks_max: what the stream's settings allow; 0: as many as the executors have
        """
        return lambda: tasks_max or self.executors.tasks
