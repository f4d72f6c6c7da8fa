"""The publisher on a real broker: what it says was published is there, also after the broker was away."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from core.clock import SystemClock
from core.decision import Decision
from core.settings import KafkaSettings
from dlq.publisher import DlqPublisher
from dlq.record import DeadLetterTopic
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import REPLAY, Command
from operations.commands import decode, send
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import run_server
from stack.topics import Topic, make_topics
from tests.plain_kafka import kafka_server
from tests.unit.journal.rows import bare_row

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
WAIT_S_MAX = 60.0


def body_of(seq: int, size: int = 20) -> bytes:
    return (f"body {seq} ".encode() * size)[:size]


def dead_row(seq: int, body: bytes) -> JournalRow:
    return bare_row(
        seq,
        Decision.DEAD,
        partition=seq % 2,
        offset=seq,
        decided_at=AT,
        entity_key=f"stripe:acct_1:pi_{seq}",
        body_sha256=hashlib.sha256(body).hexdigest(),
        error_class="ValueError",
    )


def publish(dlq: DlqPublisher, *seqs: int, size: int = 20) -> None:
    dlq.publish([(dead_row(seq, body_of(seq, size)), body_of(seq, size)) for seq in seqs])
    dlq.on_passed(seqs[-1])


def producer(bootstrap: str, **more: object) -> Callable[[], Producer]:
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0, **more}
    return lambda: Producer(settings)


def publisher(producer: Callable[[], Producer], topic: str) -> DlqPublisher:
    return DlqPublisher(producer, DeadLetterTopic(topic, "payhook-ledger"), 0, SystemClock())


def wait_until_published(dlq: DlqPublisher, seq: int) -> None:
    until = time.monotonic() + WAIT_S_MAX
    while dlq.published_upto < seq and time.monotonic() < until:
        dlq.poll()
        time.sleep(0.02)
    assert dlq.published_upto == seq


def read(bootstrap: str, topic: str, partitions: int = 2) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": False})
    ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number)) for number in range(partitions)}
    consumer.assign([TopicPartition(topic, number, low) for number, (low, _) in ends.items()])
    found: list[Message] = []
    while len(found) < sum(high - low for low, high in ends.values()):
        message = consumer.poll(WAIT_S_MAX)
        assert message is not None and message.error() is None
        found.append(message)
    consumer.close()
    return found


def seq_of(message: Message) -> int:
    return int(dict(message.headers() or [])["payhook.seq"] or b"")


def test_dead_letters_land_with_their_bytes_key_partition_and_headers(
    kafka_broker: str, make_topic: Callable[[str, int], str]
) -> None:
    topic = make_topic("dlq.ledger", 2)
    dlq = publisher(producer(kafka_broker), topic)
    publish(dlq, 1, 2, 3)
    assert dlq.published_upto == 0
    wait_until_published(dlq, 3)
    messages = {seq_of(message): message for message in read(kafka_broker, topic)}
    assert sorted(messages) == [1, 2, 3]
    for seq, message in messages.items():
        assert message.value() == body_of(seq)
        assert message.key() == f"stripe:acct_1:pi_{seq}".encode()
        assert message.partition() == seq % 2
        assert dict(message.headers() or [])["__dlq.errors.offset"] == str(seq).encode()


def test_a_letter_that_the_topic_cannot_take_goes_by_reference(
    kafka_broker: str, make_topic: Callable[[str, int], str]
) -> None:
    """1 MiB is the receiver's limit for a body; with its headers it is more than Kafka's for a record."""
    topic = make_topic("dlq.ledger", 2)
    dlq = publisher(producer(kafka_broker), topic)
    publish(dlq, 1, size=1 << 20)
    publish(dlq, 2)
    wait_until_published(dlq, 2)
    values = {seq_of(message): message.value() for message in read(kafka_broker, topic)}
    assert values == {1: None, 2: body_of(2)}


@pytest.mark.more(reason="a broker that is away in real time; tests/unit/dlq has it")
@pytest.mark.row("C5")
@pytest.mark.row("E8")
def test_dead_letters_wait_for_a_broker_that_is_down(tmp_path: Path) -> None:
    """Nobody waits for Kafka; once it is there, everything lands and only then counts as published."""
    port, controller = free_ports(2)
    bootstrap = f"{LOOPBACK}:{port}"
    dlq = publisher(producer(bootstrap, **{"message.timeout.ms": 8_000}), "dlq.ledger")
    publish(dlq, 1, 2)
    dlq.poll()
    assert dlq.tally.failed == 0, "it was waited for"
    until = time.monotonic() + WAIT_S_MAX
    while dlq.tally.failed == 0 and time.monotonic() < until:
        dlq.poll()
        time.sleep(0.02)
    assert dlq.tally.failed > 0
    publish(dlq, 3)
    assert dlq.published_upto == 0
    with run_server(kafka_server(tmp_path, port, controller, tmp_path / "kafka.log")):
        make_topics(
            KafkaSettings(bootstrap_servers=bootstrap),
            [Topic("dlq.ledger", 2, -1, is_dead_letters=True)],
            replication=1,
        )
        wait_until_published(dlq, 3)
        assert {seq_of(message) for message in read(bootstrap, "dlq.ledger")} == {1, 2, 3}
        dlq.close(1)


def test_a_command_is_on_the_control_topic_when_send_returns(
    kafka_broker: str, make_topic: Callable[[str, int], str]
) -> None:
    topic = make_topic("payments.control", 1)
    command = Command.with_new_id(
        "ledger", "1" * 32, REPLAY, [ItemTarget(7, 9, "0" * 16)], "ada", "directory mended", AT
    )
    send(producer(kafka_broker)(), command, topic)
    (message,) = read(kafka_broker, topic, partitions=1)
    assert decode(message.value() or b"") == command
