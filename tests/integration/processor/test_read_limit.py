"""Spark's limit of a batch, changed while its query runs: a place of Spark's own, so this holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from core.settings import KafkaSettings
from load.client import wait_for
from processor.source.sources import KafkaSource
from processor.source.stream import ReadLimit
from processor.spark import open_session
from stack.jars import spark_jars

pytestmark = pytest.mark.more(reason="a Spark of its own; it changes with Spark's version alone")

RECORDS, FIRST, LATER = 1_000, 100, 400
DONE_S_MAX = 60.0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    opened = open_session("read-limit-test", "local[2]", "512m", spark_jars(), tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()


def test_a_limit_set_between_two_batches_holds_from_the_next_one_on(
    session: SparkSession, kafka_broker: str, make_topic: Callable[[str, int], str], tmp_path: Path
) -> None:
    topic = make_topic("backlog", 1)
    producer = Producer({"bootstrap.servers": kafka_broker})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0
    taken: list[int] = []
    limits: list[ReadLimit] = []

    def on_batch(frame: DataFrame, _number: int) -> None:
        taken.append(frame.count())
        if wait_for(lambda: bool(limits), DONE_S_MAX):
            limits[0].set(LATER)

    source = KafkaSource(session, KafkaSettings(bootstrap_servers=kafka_broker), topic, "")
    writer = source.topic_frame({topic: {0: 0}}, FIRST).writeStream.foreachBatch(on_batch)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        limits.append(ReadLimit(session, query, FIRST))
        assert wait_for(lambda: sum(taken) >= RECORDS, DONE_S_MAX), taken
    finally:
        query.stop()
    assert taken == [FIRST, LATER, LATER, RECORDS - FIRST - 2 * LATER]
    assert limits[0].records == LATER
