"""A stream over a topic that another program writes, on real Kafka, Spark and Delta."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from core.decision import Decision
from journal.schema import JournalRow
from tests.integration.processor.own_streams import OwnStreams, says

pytestmark = pytest.mark.more(reason="half a minute on Spark and Kafka; tests/unit/processor has it on the engine")

IDENTITY = '''
"""Somebody's records."""
import ctypes
import os

from core.source_record import NotAnEvent, RecordIdentity


def of(record):
    order = record.document()
    if "ends" in order:
        os._exit(7)
    if "freezes" in order:
        ctypes.PyDLL(None).sleep(3_600)
    if "later" in order and not os.path.exists(order["later"]):
        raise LookupError("nobody knows it yet")
    if "ping" in order:
        return NotAnEvent("a ping")
    return RecordIdentity(f"{order['id']}", record.key.decode(), order["type"], record.at)
'''

STREAMS = """
[ledger]
enabled = false
[notify]
enabled = false
[orders]
source = {{ topic = "{topic}", identity = "guests:of" }}
handler = "greeting:build"
settings = {{ greeting = "hello" }}
dead_head = "continue"
dlq = {{ create_topic = true }}
"""


@pytest.fixture
def orders(
    session: SparkSession,
    kafka_broker: str,
    make_topic: Callable[[str, int], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OwnStreams:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "guests.py").write_text(IDENTITY)
    monkeypatch.syspath_prepend(str(folder))
    paths = os.pathsep.join([session.sparkContext.environment["PYTHONPATH"], str(folder)])
    monkeypatch.setitem(session.sparkContext.environment, "PYTHONPATH", paths)
    made = OwnStreams(session, kafka_broker, make_topic("orders", 2), tmp_path, ("orders",))
    (tmp_path / "streams.toml").write_text(STREAMS.format(topic=made.topic))
    return made


def write(streams: OwnStreams, *records: dict[str, object]) -> None:
    """As another program does: no header of ours."""
    producer = Producer({"bootstrap.servers": streams.bootstrap, "log_level": 0})
    for record in records:
        producer.produce(streams.topic, json.dumps(record).encode(), key=b"order 1")
    assert producer.flush(60) == 0


def decided(streams: OwnStreams) -> list[JournalRow]:
    return [row for row in streams.rows("orders") if row.first and row.topic == streams.topic]


def placed(*numbers: int) -> list[dict[str, object]]:
    return [{"id": number, "type": "placed"} for number in numbers]


def test_its_records_are_decided_in_order_and_one_that_ends_its_worker_dies_alone(orders: OwnStreams) -> None:
    write(orders, *placed(1), {"ping": 1}, {"ping": 2}, *placed(2, 2), {"ends": 1}, *placed(3), {"id": 4})
    with orders.running() as wait_for:
        wait_for(lambda: len(decided(orders)) == 7, "the records that were there")
        write(orders, *placed(5))
        wait_for(lambda: len(decided(orders)) == 8, "what comes then")
        assert says(orders, "orders")["begun"].startswith(f"begins in {orders.topic} at earliest")
    rows = decided(orders)
    assert [(row.decision, row.offset, row.offset_until) for row in rows] == [
        (Decision.APPLIED, 0, None),
        (Decision.IGNORED, 1, 3),
        (Decision.APPLIED, 3, None),
        (Decision.DUPLICATE, 4, None),
        (Decision.DEAD, 5, None),
        (Decision.APPLIED, 6, None),
        (Decision.DEAD, 7, None),
        (Decision.APPLIED, 8, None),
    ]
    lost, unnamed = (row for row in rows if row.decision is Decision.DEAD)
    assert "it ends the Python worker" in (lost.error_message or "")
    assert "it raised KeyError: 'type'" in (unnamed.error_message or "")
    assert rows[0].received_at == rows[0].occurred_at is not None
    assert rows[0].event_key == f"kafka/{orders.topic}:1"


def test_a_function_that_freezes_its_worker_costs_its_own_record(orders: OwnStreams) -> None:
    write(orders, *placed(1), {"freezes": 1}, *placed(2))
    with orders.running() as wait_for:
        wait_for(lambda: len(decided(orders)) == 3, "all three")
    assert [row.decision for row in decided(orders)] == [Decision.APPLIED, Decision.DEAD, Decision.APPLIED]


def test_a_replay_of_one_that_was_not_named_is_decided_as_another_record(orders: OwnStreams, tmp_path: Path) -> None:
    known = tmp_path / "known"
    write(orders, {"id": 1, "type": "placed", "later": str(known)})
    with orders.running() as wait_for:
        [dead] = wait_for(lambda: decided(orders), "its death")
        assert "LookupError: nobody knows it yet" in (dead.error_message or "")
        known.touch()
        orders.order("orders", "replay", dead)
        wait_for(lambda: len(decided(orders)) == 2, "its copy")
        wait_for(lambda: last_decision(orders, dead) is Decision.RESOLVED, "its end")
    _, copy = decided(orders)
    assert (copy.decision, copy.event_key) == (Decision.APPLIED, f"kafka/{orders.topic}:1")
    assert (copy.partition, copy.offset) == (dead.partition, dead.offset + 1)
    assert json.loads(copy.headers or "") == {"reread_of": f"orders/{dead.seq}"}


def last_decision(streams: OwnStreams, item: JournalRow) -> Decision:
    return [row.decision for row in streams.rows("orders") if row.item_seq == item.seq][-1]
