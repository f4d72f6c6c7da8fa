"""What a real broker says of its topics, and a receiver that asks it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from core.clock import SystemClock
from core.settings import RECORD_BYTES_MAX, Durability, KafkaSettings, TopicsSettings
from core.topics import TopicsUnfit, check_topics
from journal.anchors import AnchorKeys
from processor.backlog.sizing import FixedExecutors
from processor.topics import SharedResources, check_own_topics
from stack.data_folder import make_key
from stack.servers.ports import free_ports
from stack.settings import Settings
from stack.topics import Topic, TopicRefused, make_topics, plan_topics
from tests.integration.conftest import Topics

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def made(kafka_broker: str) -> str:
    name = f"t{uuid.uuid4().hex[:12]}.events"
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), [Topic(name, 2, -1)], replication=1)
    return name


def check(bootstrap: str, *names: str, durability: Durability = "single") -> None:
    kafka = KafkaSettings(bootstrap_servers=bootstrap, durability=durability)
    wanted = dict.fromkeys(names, RECORD_BYTES_MAX)
    check_topics(AdminClient({"bootstrap.servers": bootstrap}), kafka, wanted)


def configure(bootstrap: str, topic: str, name: str, value: str) -> None:
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client = AdminClient({"bootstrap.servers": bootstrap})
    (changed,) = client.incremental_alter_configs([wanted]).values()
    changed.result(10)


def test_topics_are_made_fit_for_one_broker(kafka_broker: str, topics: Topics, made: str) -> None:
    check(kafka_broker, made, topics.events, topics.control, topics.receipts, topics.dlq)


def test_one_broker_is_refused_unless_it_is_said_to_be_all_there_is(kafka_broker: str, made: str) -> None:
    with pytest.raises(TopicsUnfit) as refused:
        check(kafka_broker, made, durability="replicated")
    problems = [fault.problem for fault in refused.value.faults]
    assert problems == ["a partition has 1 replicas, 3 are the least", "min.insync.replicas is 1"]
    assert 'set kafka.durability to "single"' in str(refused.value)


def test_more_replicas_than_brokers_are_refused_when_topics_are_made(kafka_broker: str) -> None:
    with pytest.raises(TopicRefused, match='only 1 broker.* set kafka.durability to "single"'):
        make_topics(
            KafkaSettings(bootstrap_servers=kafka_broker),
            [Topic("unmade", 1, -1)],
            TopicsSettings().count_replicas("replicated"),
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [("cleanup.policy", "compact"), ("max.message.bytes", "1048588"), ("unclean.leader.election.enable", "true")],
)
def test_a_topic_that_was_configured_otherwise_is_refused(kafka_broker: str, made: str, name: str, value: str) -> None:
    configure(kafka_broker, made, name, value)
    with pytest.raises(TopicsUnfit, match=f"{made}: {name} is {value}"):
        check(kafka_broker, made)


def test_a_receiver_ends_before_it_listens_where_records_could_be_lost(kafka_broker: str, tmp_path: Path) -> None:
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), plan_topics(Settings()), replication=1)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "stripe").write_text("whsec_of_this_test_alone\n", "utf-8")
    make_key(secrets / "records")
    (port,) = free_ports(1)
    ended = subprocess.run(
        [sys.executable, "-m", "stack.services.receiver"],
        cwd=CHECKOUT,
        env={
            **os.environ,
            "PAYHOOK_DATA_DIR": str(tmp_path),
            "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": kafka_broker,
            "PAYHOOK_INGEST__PORT": str(port),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2
    said = ended.stdout + ended.stderr
    assert "topic payments.events: a partition has 1 replicas, 3 are the least" in said
    assert "topic payments.receipts" in said


def test_a_stream_looks_at_what_it_reads_and_writes_before_it_begins(kafka_broker: str) -> None:
    make_topics(KafkaSettings(bootstrap_servers=kafka_broker), plan_topics(Settings()), replication=1)
    wired: Any = SimpleNamespace(dlq_topic="dlq.ledger", mode="live", events_topic="payments.events")
    single = KafkaSettings(bootstrap_servers=kafka_broker, durability="single")
    one = FixedExecutors(1, 1)
    shared = SharedResources(None, single, TopicsSettings(), {}, SystemClock(), one, AnchorKeys(["k" * 32]), None)  # type: ignore[arg-type]
    check_own_topics(wired, shared)
    shared = replace(shared, kafka=single.model_copy(update={"durability": "replicated"}))
    with pytest.raises(TopicsUnfit) as refused:
        check_own_topics(wired, shared)
    assert {fault.topic for fault in refused.value.faults} == {"payments.events", "payments.control", "dlq.ledger"}
