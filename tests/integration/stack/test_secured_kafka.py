"""A Kafka with TLS, SCRAM users and access control lists: each service does its own job there, and no
other's."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.sql import SparkSession

import core.kafka as kafka_clients
from core.errors import SettingError
from core.kafka import open_admin, open_consumer, open_producer
from core.layout import Layout
from core.settings import RECORD_BYTES_MAX, KafkaSecurity, KafkaSettings
from core.topics import check_topics
from ingest.publisher import producer_settings
from journal.kafka_log import KafkaLog
from ledger.verify.kafka import RealKafka
from load.certificates import Issuer
from load.secured_kafka import Cluster, secured_cluster
from processor.spark import open_session
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.data_folder import make_key, make_secrets
from stack.jars import spark_jars
from stack.kafka_rights import ANCHORS, CONTROL, EVENTS, RECEIPTS, RIGHTS
from stack.servers.kafka_users import OPERATIONS

pytestmark = pytest.mark.more(reason="a broker with TLS and users of its own")

TOPICS = (EVENTS, CONTROL, RECEIPTS, ANCHORS, "dlq.ledger")
WAIT_S = 20.0
CHECKOUT = Path(__file__).parents[3]
REFUSED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_session("secured", "local[1]", "512m", spark_jars(), tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With a user for each service, its rights, and payhook's topics."""
    with secured_cluster(tmp_path_factory.mktemp("secured"), nodes=1) as made:
        made.make_services()
        yield made


def error_of(call: Callable[[], object]) -> int | None:
    """Kafka's code of refusal; None where it was done."""
    try:
        call()
    except KafkaException as refused:
        return int(refused.args[0].code())
    return None


def write(kafka: KafkaSettings, topic: str) -> None:
    refused: list[KafkaError] = []
    producer = open_producer(kafka, {"acks": "all", "log_level": 0, "message.timeout.ms": 10_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(WAIT_S) == 0
    if refused:
        raise KafkaException(refused[0])


def read(kafka: KafkaSettings, topic: str) -> None:
    consumer = open_consumer(kafka, {"group.id": "payhook-test", "enable.partition.eof": True, "log_level": 0})
    try:
        unknown = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].error
        if unknown is not None:
            raise KafkaException(unknown)
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(WAIT_S)
        assert message is not None
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
    finally:
        consumer.close()


def describe(kafka: KafkaSettings, topic: str) -> None:
    error = open_admin(kafka).list_topics(topic, timeout=WAIT_S).topics[topic].error
    if error is not None:
        raise KafkaException(error)


def describe_configs(kafka: KafkaSettings, topic: str) -> None:
    admin = open_admin(kafka)
    for answer in admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values():
        answer.result(WAIT_S)


def alter_configs(kafka: KafkaSettings, topic: str) -> None:
    admin = open_admin(kafka)
    change = ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    for answer in admin.incremental_alter_configs([wanted]).values():
        answer.result(WAIT_S)


def create(kafka: KafkaSettings, topic: str) -> None:
    admin = open_admin(kafka)
    wanted = NewTopic(f"{topic}.{time.monotonic_ns()}", num_partitions=1, replication_factor=1)
    for answer in admin.create_topics([wanted]).values():
        answer.result(WAIT_S)


PROBES = {
    "Read": read,
    "Write": write,
    "Describe": describe,
    "DescribeConfigs": describe_configs,
    "AlterConfigs": alter_configs,
    "Create": create,
}


@pytest.mark.row("F4")
@pytest.mark.parametrize("service", RIGHTS)
def test_a_service_may_do_what_its_rights_say_and_nothing_else(cluster: Cluster, service: str) -> None:
    kafka = cluster.settings(service)
    for topic, operation in itertools.product(TOPICS, OPERATIONS):
        allowed = any(topic.startswith(right.begins) and operation in right.operations for right in RIGHTS[service])
        code = error_of(lambda topic=topic, operation=operation: PROBES[operation](kafka, topic))  # type: ignore[misc]
        wanted = {None} if allowed else REFUSED
        assert code in wanted, f"{service}: {operation} on {topic}"


def test_the_receiver_looks_at_its_topics_and_publishes(cluster: Cluster) -> None:
    kafka = cluster.settings("receiver", "single")
    check_topics(open_admin(kafka), kafka, {EVENTS: RECORD_BYTES_MAX, RECEIPTS: 0})
    refused: list[object] = []
    producer = open_producer(kafka, producer_settings(10_000))
    producer.produce(EVENTS, b"{}", key=b"k", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(WAIT_S) == 0
    assert refused == [None]


def test_spark_reads_with_the_same_settings(cluster: Cluster, spark: SparkSession) -> None:
    write(cluster.settings("console"), CONTROL)
    kafka = RealKafka(cluster.settings("operator"))
    assert kafka.find_ends([CONTROL])[CONTROL][0][1] >= 1
    assert held_by(spark, cluster.settings("operator")) == len(list(kafka.records(CONTROL))) >= 1


def test_a_service_without_rights_is_told_so_by_spark_too(cluster: Cluster, spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"TopicAuthorization|Not authorized"):
        held_by(spark, cluster.settings("receiver"))


def held_by(spark: SparkSession, kafka: KafkaSettings) -> int:
    """How many records a topic holds, by Spark."""
    options = {**kafka_clients.spark_options(kafka), "subscribe": CONTROL}
    return spark.read.format("kafka").options(**options).load().count()


def test_a_password_that_is_rolled_needs_no_restart(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers know the new password alone, and every connection ends."""
    monkeypatch.setattr(kafka_clients, "LOOK_S", 0.2)
    cluster.make_user("rolls")
    cluster.allow(
        "rolls", [("topic", f"{EVENTS}*", AclOperation.WRITE), ("topic", f"{EVENTS}*", AclOperation.DESCRIBE)]
    )
    kafka = cluster.settings("rolls")
    producer = open_producer(kafka, {"acks": "all", "log_level": 0, "message.timeout.ms": 60_000})
    outcomes: list[object] = []

    def publish() -> None:
        producer.produce(EVENTS, b"x", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(60)

    publish()
    password = cluster.set_password("rolls")
    with pytest.raises(KafkaException):
        open_admin(kafka).list_topics(timeout=3)
    cluster.write_credentials("rolls", password)
    (follower,) = [one for security, one in kafka_clients._followers.items() if security == kafka.security]
    until = time.monotonic() + WAIT_S
    while follower._known.password != password and time.monotonic() < until:
        time.sleep(0.05)
    for node in cluster.nodes:
        node.restart()
    publish()
    assert outcomes == [None, None]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"credentials_file": "/nowhere"}, "can't be read"),
        ({"ca_file": "/nowhere"}, "can't be read"),
    ],
)
def test_a_file_that_is_not_there_is_named(cluster: Cluster, change: dict[str, str], problem: str) -> None:
    security = cluster.security("receiver").model_copy(update=change)
    (setting,) = change
    with pytest.raises(SettingError, match=problem) as refused:
        open_admin(KafkaSettings(bootstrap_servers=cluster.bootstrap, security=security))
    assert f"kafka.security.{setting}" in str(refused.value)


def test_brokers_of_another_issuer_are_not_talked_to(cluster: Cluster, tmp_path: Path) -> None:
    other = Issuer.make(tmp_path, "another issuer")
    security = cluster.security("receiver").model_copy(update={"ca_file": str(other.ca)})
    kafka = KafkaSettings(bootstrap_servers=cluster.bootstrap, security=security)
    with pytest.raises(KafkaException):
        open_admin(kafka).list_topics(timeout=3)


def test_a_client_certificate_goes_along(cluster: Cluster) -> None:
    """These brokers don't ask clients for one; that it can be read is all that shows here."""
    own = cluster.issuer.issue("client")
    security = cluster.security("receiver").model_copy(update={"certificate_file": str(own)})
    kafka = KafkaSettings(bootstrap_servers=cluster.bootstrap, security=security)
    assert open_admin(kafka).list_topics(timeout=WAIT_S).brokers
    assert "BEGIN PRIVATE KEY" in kafka_clients.spark_options(kafka)["kafka.ssl.keystore.key"]


@pytest.mark.parametrize(
    "settings",
    [
        {"protocol": "SASL_SSL"},
        {"credentials_file": "x"},
        {"protocol": "SSL", "credentials_file": "x"},
        {"ca_file": "x"},
        {"protocol": "SASL_PLAINTEXT", "credentials_file": "x", "certificate_file": "y"},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"kafka\.security"):
        KafkaSecurity(**settings)


def test_positions_are_read_with_the_processors_user(cluster: Cluster) -> None:
    log = KafkaLog(cluster.settings("processor"))
    try:
        assert set(log.topic_ids([EVENTS, CONTROL])) == {EVENTS, CONTROL}
        assert set(log.read_held_offsets([EVENTS])[EVENTS]) == {0, 1, 2, 3}
    finally:
        log.close()


@pytest.mark.parametrize("service", ["receiver", "listener", "processor"])
def test_a_service_without_the_keys_of_records_says_so_in_a_sentence_and_ends(service: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    make_key(layout.anchor_keys)
    make_secrets(layout.secrets, build_adapters(ProvidersSettings()))
    env = {**os.environ, "PAYHOOK_DATA_DIR": str(tmp_path), "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    command = [sys.executable, "-m", f"stack.services.{service}"]
    ended = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=120, check=False)
    said = ended.stdout + ended.stderr
    assert ended.returncode in (1, 2), said
    assert "kafka.record_keys_file" in said and "openssl rand -hex 32" in said
    assert "Traceback" not in said
