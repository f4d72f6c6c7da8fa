"""Kafka as a verification sees it: the ends of partitions, and the DLQ topic as a frame."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from datetime import datetime

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from core.clock import from_micros
from core.decision import ErrorKind
from core.errors import PayhookError
from journal.kafka_log import KafkaLog, Point, TopicMissing
from journal.schema import Record
from ledger.verify.evidence import Ends

ANSWER_S_MAX = 10.0


class KafkaUnreachable(PayhookError):
    """Kafka didn't answer: nothing can be said about what is in flight."""

    kind = ErrorKind.SBE

    def __init__(self, bootstrap: str, problem: str) -> None:
        self.bootstrap = bootstrap
        self.problem = problem
        super().__init__(f"Kafka at {bootstrap} doesn't answer ({problem}); verify needs the ends of its partitions")


class RealKafka:
    """A running broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def ends(self, topics: Sequence[str]) -> Ends:
        """
        :raises KafkaUnreachable: no answer within 10 seconds
        """
        consumer = self._consumer()
        try:
            known = consumer.list_topics(timeout=ANSWER_S_MAX).topics
            return {
                topic: {
                    number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_S_MAX)
                    for number in sorted(known[topic].partitions)
                }
                for topic in topics
                if topic in known and known[topic].error is None
            }
        except KafkaException as failed:
            raise KafkaUnreachable(self._bootstrap, str(failed.args[0])) from failed
        finally:
            consumer.close()

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        """
        :raises KafkaUnreachable: no answer within 10 seconds
        """
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            message = consumer.poll(ANSWER_S_MAX)
            if message is None:
                raise KafkaUnreachable(self._bootstrap, f"no record of {topic} came within {ANSWER_S_MAX:g} s")
            if (problem := message.error()) is not None:
                if problem.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name of its own error
                    return None
                raise KafkaUnreachable(self._bootstrap, str(problem))
            kind, milliseconds = message.timestamp()
            return None if kind == TIMESTAMP_NOT_AVAILABLE else from_micros(milliseconds * 1_000)
        finally:
            consumer.close()

    def frame(self, session: SparkSession, topic: str) -> DataFrame:
        return (
            session.read.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "false")
            .load()
            .select("partition", "offset", "key", "value", "headers")
        )

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        with contextlib.closing(KafkaLog(self._bootstrap)) as log:
            for topic in topics:
                with contextlib.suppress(TopicMissing):
                    found |= log.topic_ids([topic])
        return found

    def records_at(self, points: Collection[Point]) -> dict[Point, Record]:
        with contextlib.closing(KafkaLog(self._bootstrap)) as log:
            return log.records_at(points)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "payhook-verify",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": -1,
            }
        )
