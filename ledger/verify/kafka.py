"""Kafka as a verification sees it: the ends of partitions, single records, and whole topics as frames."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from core.clock import from_micros
from core.decision import ErrorKind
from core.errors import PayhookError
from core.routing import mode_of, topics_of
from journal.kafka_log import KafkaLog, Point, TopicMissing
from journal.schema import Record

Ends = dict[str, dict[int, tuple[int, int]]]
"""First offset held and next offset written, by topic and partition."""

ANSWER_S_MAX = 10.0


class KafkaUnreachable(PayhookError):
    """Kafka didn't answer: what is in flight is unknown."""

    kind = ErrorKind.SBE

    def __init__(self, bootstrap: str, problem: str) -> None:
        self.bootstrap = bootstrap
        self.problem = problem
        super().__init__(f"Kafka at {bootstrap} doesn't answer ({problem}); verify needs the ends of its partitions")


class Kafka(Protocol):
    """What is asked of Kafka."""

    def ends(self, topics: Sequence[str]) -> Ends:
        """A topic that doesn't exist is left out."""

    def timestamp(self, topic: str, partition: int, offset: int) -> datetime | None:
        """When the first record at or after an offset was written; None where there is none, or it has no time.

        :raises KafkaUnreachable: it doesn't answer
        """

    def frame(self, session: SparkSession, topic: str) -> DataFrame:
        """All of a topic: ``partition, offset, key, value, headers`` as Spark's Kafka source gives them."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Kafka's own id of each topic; one that doesn't exist is left out."""

    def records_at(self, points: Collection[Point]) -> Mapping[Point, Record]:
        """The record at each offset; a point that Kafka holds no record for is left out.

        :raises KafkaSilent: it doesn't answer
        """


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


def anchor_records(
    kafka: Kafka, session: SparkSession, stream: str, ends: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of what the anchors' topic holds of a stream below ``ends``, by seq."""
    if not any(high > low for low, high in ends.values()):
        return
    until = max(high for _, high in ends.values())
    frame = kafka.frame(session, topics_of(mode_of(stream)).anchors).where(
        (fn.col("offset") < until) & (fn.col("key").cast("string") == stream)
    )
    by_seq = frame.select("offset", "value", fn.expr("get_json_object(CAST(value AS string), '$.seq')").alias("at"))
    for row in by_seq.orderBy(fn.expr("TRY_CAST(at AS bigint)"), "offset").toLocalIterator():
        yield row["offset"], bytes(row["value"])
