"""Orders on a real broker: the offset that is answered is the one that Kafka has; without it nothing is promised."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from core.clock import SystemClock
from journal.reader import JournalReader
from journal.target import ItemTarget
from operations.audit_log import AuditLog
from operations.commands import CommandNotSent, SentCommand, decode
from operations.orders import DeltaView, OperatorOrder, OrderedItem, OrderSender, OrderService
from operations.recorder import Recorder
from stack.servers.ports import LOOPBACK, free_ports
from tests.integration.conftest import Topics
from tests.integration.console.conftest import DEAD_ITEMS

READ_S_MAX = 60.0


def service(journal: Path, bootstrap: str, topic: str, timeout_ms: int = 8_000) -> OrderService:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "log_level": 0}
    producer: Any = Producer({**settings, "enable.idempotence": True})
    orders = OrderSender(lambda: producer, topic, Recorder(AuditLog(journal.parent / "acts"), SystemClock(), "api"))
    return OrderService("ledger", DeltaView(journal, topic), orders, SystemClock())


def order(item_seq: int) -> OperatorOrder:
    return OperatorOrder(f"{item_seq:032x}", (OrderedItem(item_seq),), "ada", "mended")


def read(bootstrap: str, at: SentCommand) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "orders", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(at.topic, at.partition, at.offset)])
        message = consumer.poll(READ_S_MAX)
        assert message is not None and message.error() is None
        value = message.value()
        assert value is not None
        return bytes(value)
    finally:
        consumer.close()


def test_commands_of_threads_that_share_a_producer_stand_where_each_was_told(
    kafka_broker: str, topics: Topics, journal: Path
) -> None:
    given: dict[int, SentCommand] = {}

    def give(item_seq: int) -> None:
        given[item_seq] = shared.place_order(order(item_seq)).control

    shared = service(journal, kafka_broker, topics.control)
    threads = [threading.Thread(target=give, args=(seq,)) for seq in range(1, DEAD_ITEMS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {sent.offset for sent in given.values()} == set(range(DEAD_ITEMS))
    for item_seq, sent in given.items():
        command = decode(read(kafka_broker, sent))
        [row] = JournalReader(str(journal)).rows_of([item_seq])
        assert (command.command_id, command.targets) == (f"{item_seq:032x}", (ItemTarget.of_row(row),))


def test_without_a_broker_the_order_is_not_given(journal: Path) -> None:
    (port,) = free_ports(1)
    with pytest.raises(CommandNotSent, match="send it again"):
        service(journal, f"{LOOPBACK}:{port}", "payments.control", timeout_ms=1_000).place_order(order(1))
