"""What was answered with a 2xx and never decided is found; what is on its way isn't an offence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta

import orjson
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from core.clock import to_rfc3339
from core.routing import TEST_TRAFFIC_OFF
from core.settings import KafkaSettings
from journal.kafka_log import KafkaLog, KafkaSilent
from ledger.receipts import CollectionResult, ReceiptsTable, collect_new_receipts
from ledger.verify import Finding
from ledger.verify.engine import SqlEngine
from ledger.verify.kafka_checks import ReceiptsHaveDecisions
from stack.servers.ports import LOOPBACK, free_ports
from tests.answers import OneRecord
from tests.integration.ledger.conftest import AT, EVENTS, World

KNOWN, LOST = "stripe:evt_1:charge", "stripe:evt_lost:charge"


def receipt(key: str | None, at: datetime, status: int = 200, outcome: str = "claimed") -> bytes:
    reported = {"provider": "stripe", "outcome": outcome, "status": status, "at": to_rfc3339(at)}
    return orjson.dumps(reported if key is None else {**reported, "event_key": key})


Look = Callable[..., Finding]


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Look:
    """The answer about these receipts, five minutes after the world was made."""

    def answer(*receipts: bytes) -> Finding:
        if receipts:
            collect_new_receipts(OneRecord(b"\n".join(receipts)), "receipts", ReceiptsTable(str(world.lake.receipts)))
        return world.verify(engine, ReceiptsHaveDecisions.name, after=timedelta(minutes=5)).findings[0]

    return answer


def test_what_was_answered_and_decided_is_right(look: Look) -> None:
    found = look(receipt(KNOWN, AT), receipt(KNOWN, AT), receipt(None, AT, 401), receipt(LOST, AT, 503))
    assert found.ok, found
    assert found.figures["receipts"] == 4


def test_a_2xx_without_a_decision_is_found(look: Look) -> None:
    found = look(receipt(KNOWN, AT), receipt(LOST, AT))
    assert [offender["event_key"] for offender in found.offenders] == [LOST]


def test_a_test_event_that_was_left_out_needs_no_decision(look: Look) -> None:
    assert look(receipt(LOST, AT, outcome=TEST_TRAFFIC_OFF)).ok


def test_what_is_still_on_its_way_is_no_offence(look: Look, world: World) -> None:
    low, high = world.kafka.held[EVENTS][0]
    world.kafka.held[EVENTS][0] = (low, high + 1)
    world.kafka.written_at = AT
    assert look(receipt(LOST, AT + timedelta(seconds=30))).ok


def test_what_was_answered_this_moment_is_no_offence(look: Look) -> None:
    assert look(receipt(LOST, AT + timedelta(minutes=5))).ok


def test_without_receipts_nothing_is_claimed(look: Look, world: World) -> None:
    world.kafka.receipts = []
    found = look()
    assert found.figures == {"receipts": None}
    assert "no receipts were collected" in (found.not_checked or "")


def test_receipts_that_are_still_on_their_topic_are_compared(look: Look, world: World) -> None:
    world.kafka.receipts = [receipt(KNOWN, AT) + b"\n" + receipt(LOST, AT), b"unreadable"]
    assert [offender["event_key"] for offender in look().offenders] == [LOST]


def test_receipts_are_collected_from_a_real_topic(
    kafka_broker: str, make_topic: Callable[[str, int], str], world: World
) -> None:
    topic = make_topic("receipts", 2)
    producer = Producer({"bootstrap.servers": kafka_broker, "acks": "all"})
    for number in range(1_000):
        producer.produce(topic, value=receipt(f"key-{number}", AT), partition=number % 2)
    assert producer.flush(60) == 0
    table = ReceiptsTable(str(world.lake.receipts))
    with contextlib.closing(KafkaLog(KafkaSettings(bootstrap_servers=kafka_broker))) as kafka:
        assert collect_new_receipts(kafka, topic, table, rows_per_commit=300).rows == 1_000
        producer.produce(topic, value=receipt("late", AT), partition=1)
        producer.flush(60)
        assert collect_new_receipts(kafka, topic, table).rows == 1
        assert collect_new_receipts(kafka, "no-such-topic", table) == CollectionResult()
    keys = DeltaTable(table.path).to_pyarrow_dataset().to_table(columns=["event_key"])["event_key"].to_pylist()
    assert len(keys) == len(set(keys)) == 1_001


def test_a_kafka_that_does_not_answer_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.kafka_log.ANSWER_S_MAX", 0.5)
    (port,) = free_ports(1)
    with (
        contextlib.closing(KafkaLog(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}"))) as kafka,
        pytest.raises(KafkaSilent, match="payhook asks again"),
    ):
        collect_new_receipts(kafka, "receipts", ReceiptsTable(str(world.lake.receipts)))
