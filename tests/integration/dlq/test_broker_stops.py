"""A broker that goes away between a commit and its dead letter: the ledger goes on, and nothing is lost."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from core.decision import Decision
from core.settings import KafkaSettings
from processor.topics import make_dead_letter_producer
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import RunningServer, Server
from stack.topics import Topic, make_topics
from tests.integration.dlq.test_publisher_on_kafka import read, seq_of
from tests.integration.processor.stored import Stored
from tests.plain_kafka import kafka_server

pytestmark = pytest.mark.more(reason="a broker of its own that stops")

WAIT_S_MAX = 60.0


class StoppableBroker:
    """A broker that is stopped and started again on the same port and disk. It makes topics that it is asked for, as
    Kafka does by default.
    """

    def __init__(self, folder: Path) -> None:
        port, controller = free_ports(2)
        self.bootstrap = f"{LOOPBACK}:{port}"
        made = kafka_server(folder, port, controller, folder / "kafka.log")

        def prepare() -> None:
            made.prepare()
            with (folder / "server.properties").open("a") as properties:
                properties.write("auto.create.topics.enable=true\n")

        self._server: Server = dataclasses.replace(made, prepare=prepare)
        self.start()

    def start(self) -> None:
        self._running = RunningServer(self._server)
        self._running.wait_until_it_answers()

    def stop(self) -> None:
        self._running.stop()

    def topics(self) -> set[str]:
        return set(AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=WAIT_S_MAX).topics)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoppableBroker]:
    made = StoppableBroker(tmp_path_factory.mktemp("kafka"))
    yield made
    made.stop()


class StopsBroker:
    """Derived from the journal after its commit and before the dead letters, as postings are."""

    def __init__(self, broker: StoppableBroker) -> None:
        self._broker = broker

    def follow(self, rows: Any) -> None:
        self._broker.stop()


def polled(batches: Any, until: Any) -> None:
    ends = time.monotonic() + WAIT_S_MAX
    while not until() and time.monotonic() < ends:
        batches._derived.poll()
        time.sleep(0.02)
    assert until()


def test_a_topic_that_is_gone_is_not_made_by_publishing_to_it(broker: StoppableBroker) -> None:
    """It would have the broker's own number of partitions, and nobody's mark."""
    ours: Any = make_dead_letter_producer(KafkaSettings(bootstrap_servers=broker.bootstrap))
    quick = {"topic.metadata.propagation.max.ms": 500}
    anybodys = {"bootstrap.servers": broker.bootstrap}
    assert publish_one({**anybodys, **ours.args[1], **quick}, "dlq.gone") in UNKNOWN
    assert "dlq.gone" not in broker.topics()
    assert publish_one(anybodys, "dlq.made") is None, "this broker makes what it is asked for"
    assert "dlq.made" in broker.topics()


UNKNOWN = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


def publish_one(settings: dict[str, Any], topic: str) -> int | None:
    """The code of Kafka's refusal; None where it was taken."""
    refused: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce(topic, value=b"x", on_delivery=lambda error, _: refused.append(error))
    producer.flush(WAIT_S_MAX)
    return None if refused[0] is None else refused[0].code()


def test_a_broker_that_stops_between_commit_and_dead_letter_costs_nothing(
    broker: StoppableBroker, tmp_path: Path
) -> None:
    make_topics(
        KafkaSettings(bootstrap_servers=broker.bootstrap),
        [Topic("dlq.ledger", 1, -1, is_dead_letters=True)],
        replication=1,
    )
    settings = {"bootstrap.servers": broker.bootstrap, "acks": "all", "message.timeout.ms": 5_000, "log_level": 0}
    stored = Stored(tmp_path)
    stored.producer = partial(Producer, settings)

    batches: Any = stored.open()
    stored.kafka.post("dead-early")
    stored.decide(batches)
    polled(batches, lambda: batches.status()["published_upto"] == 1)

    followers = batches._derived._followers
    batches._derived._followers = [*followers, StopsBroker(broker)]
    stored.kafka.post("dead-late")
    stored.decide(batches)
    batches._derived._followers = followers
    assert [row.decision for row in stored.rows()] == [Decision.DEAD, Decision.DEAD], "the decision is in the journal"

    for event in ("a", "b", "dead-later"):
        stored.kafka.post(event)
        stored.decide(batches)
    applied = [row.seq for row in stored.rows() if row.decision is Decision.APPLIED]
    assert applied == [3, 4], "the ledger goes on"
    polled(batches, lambda: batches._derived.dead_letters.tally.failed > 0)
    assert (batches.status()["published_upto"], batches.status()["unpublished"]) == (1, 2)
    batches.release()

    broker.start()
    after = stored.open()
    polled(after, lambda: after.status()["published_upto"] == 5)
    letters = read(broker.bootstrap, "dlq.ledger", partitions=1)
    assert {seq_of(letter): letter.value() for letter in letters} == {
        1: b"dead-early",
        2: b"dead-late",
        5: b"dead-later",
    }
    after.close()
