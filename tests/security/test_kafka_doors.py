"""Another user of the machine, or a service that isn't the one, reads, writes and deletes nothing at the embedded
broker."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from core.kafka import open_admin, open_consumer, open_producer
from core.settings import KafkaSettings
from stack.kafka_rights import EVENTS, RIGHTS
from stack.servers.kafka import kafka_server
from stack.servers.kafka_users import ADMIN, credentials_file, embedded_kafka, make_services, password_of
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import RunningServer, run_server
from stack.topics import Topic, make_topics
from tests import plain_kafka
from tests.local_attacker import listeners

pytestmark = pytest.mark.more(reason="a broker with users, and strangers who try each of its doors")

WAIT_S = 20.0
KEPT = b"a webhook that was answered 2xx"

ATTACK = """
import os, sys
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
address, what, config = sys.argv[1], sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[3:])
config |= {"bootstrap.servers": address, "log_level": 0}
admin = AdminClient(config)
place = TopicPartition("payments.events", 0, 0)

def admin_does(answers):
    for answer in answers.values():
        answer.result(3)

def lists():
    admin.list_topics(timeout=3)

def reads():
    consumer = Consumer(config | {"group.id": "payhook-x", "auto.offset.reset": "earliest"})
    consumer.assign([place])
    message = consumer.poll(3)
    if message is None or message.error():
        raise KafkaException(message.error() if message else KafkaError(KafkaError._TIMED_OUT))

def writes():
    failed = []
    producer = Producer(config | {"message.timeout.ms": 3000})
    producer.produce("payments.events", b"x", on_delivery=lambda error, _: failed.append(error))
    producer.flush(5)
    if failed != [None]:
        raise KafkaException(failed[0])

def deletes():
    admin_does(admin.delete_records([TopicPartition("payments.events", 0, 1)]))

def deletes_the_topic():
    admin_does(admin.delete_topics(["payments.events"]))

def alters():
    change = ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, "payments.events", incremental_configs=[change])
    admin_does(admin.incremental_alter_configs([wanted]))

def creates():
    admin_does(admin.create_topics([NewTopic("theirs", 1, 1)]))

def looks_for_users():
    admin.describe_user_scram_credentials().result(3)

try:
    globals()[what]()
except Exception as refused:
    sys.exit(f"refused: {refused}")
print("done")
"""

ATTACKS = ("lists", "reads", "writes", "deletes", "deletes_the_topic", "alters", "creates", "looks_for_users")
ANONYMOUS = ("security.protocol=PLAINTEXT",)
GUESSED = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512", f"sasl.username={ADMIN}")


@dataclass(frozen=True, slots=True)
class GuardedBroker:
    """The embedded broker with a record that was acknowledged."""

    folder: Path
    address: str
    controller: str
    running: RunningServer

    def settings(self, user: str) -> KafkaSettings:
        return embedded_kafka(self.folder, self.address, user)

    def attacked(self, what: str, *config: str, at: str = "") -> str:
        """What another user's program says who tries it."""
        ended = subprocess.run(
            [sys.executable, "-c", ATTACK, at or self.address, what, *config],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return str(ended.stdout or ended.stderr).strip()

    def kept(self) -> bytes | None:
        consumer = open_consumer(self.settings("operator"), {"group.id": "payhook-test", "log_level": 0})
        try:
            return read_first(consumer)
        finally:
            consumer.close()


def read_first(consumer: Any) -> bytes | None:
    consumer.assign([TopicPartition(EVENTS, 0, 0)])
    message = consumer.poll(WAIT_S)
    assert message is not None and message.error() is None
    value: bytes | None = message.value()
    return value


def publish(kafka: KafkaSettings) -> None:
    refused: list[object] = []
    producer = open_producer(kafka, {"message.timeout.ms": 20_000, "log_level": 0})
    producer.produce(EVENTS, KEPT, on_delivery=lambda error, _: refused.append(error))
    producer.flush(WAIT_S)
    assert refused == [None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    folder = tmp_path_factory.mktemp("data") / "kafka"
    port, controller = free_ports(2)
    address, before = f"{LOOPBACK}:{port}", os.umask(0o022)
    with run_server(kafka_server(folder, port, controller, folder.parent / "kafka.log")) as started:
        kafka = embedded_kafka(folder, address)
        make_services(open_admin(kafka), folder)
        make_topics(kafka, [Topic(EVENTS, 1, -1)], replication=1)
        made = GuardedBroker(folder, address, f"{LOOPBACK}:{controller}", started)
        publish(made.settings("receiver"))
        yield made
    os.umask(before)


@pytest.mark.row("G11")
@pytest.mark.parametrize("what", ATTACKS)
def test_nobody_does_anything_without_a_password(broker: GuardedBroker, what: str) -> None:
    assert broker.attacked(what, *ANONYMOUS).startswith("refused"), what
    assert broker.kept() == KEPT


def test_a_guessed_password_opens_nothing(broker: GuardedBroker) -> None:
    assert broker.attacked("lists", *GUESSED, "sasl.password=guessed").startswith("refused")


@pytest.mark.parametrize("config", [ANONYMOUS, (*GUESSED, "sasl.password=guessed")])
def test_the_controller_answers_nobody(broker: GuardedBroker, config: tuple[str, ...]) -> None:
    assert broker.attacked("lists", *config, at=broker.controller).startswith("refused")


def test_with_the_administrators_password_the_same_program_does_it(broker: GuardedBroker) -> None:
    """So that the refusals above are of the password, not of the program."""
    password = password_of(broker.folder, ADMIN)
    for what in ("lists", "reads", "writes", "alters", "creates", "looks_for_users"):
        assert broker.attacked(what, *GUESSED, f"sasl.password={password}") == "done", what


@pytest.mark.parametrize("user", ["receiver", "alerts", "console"])
def test_a_service_deletes_nothing(broker: GuardedBroker, user: str) -> None:
    config = (*GUESSED[:2], f"sasl.username={user}", f"sasl.password={password_of(broker.folder, user)}")
    assert broker.attacked("lists", *config) == "done"
    for what in ("deletes", "deletes_the_topic", "alters"):
        assert broker.attacked(what, *config).startswith("refused"), what
    assert broker.kept() == KEPT


def test_every_port_is_on_loopback(broker: GuardedBroker) -> None:
    found = listeners(broker.running.process_id)
    assert len(found) == 2
    assert {address.removeprefix("::ffff:") for address in found.values()} == {LOOPBACK}


def test_passwords_are_the_owners_alone_and_on_no_command_line(broker: GuardedBroker) -> None:
    for name in (*RIGHTS, ADMIN):
        assert stat.S_IMODE(credentials_file(broker.folder, name).stat().st_mode) == 0o600
    assert stat.S_IMODE((broker.folder / "server.properties").stat().st_mode) == 0o600
    command = " ".join(psutil.Process(broker.running.process_id).cmdline())
    assert not [name for name in (*RIGHTS, ADMIN) if password_of(broker.folder, name) in command]
    assert not list(broker.folder.glob("*.arguments")), "what the storage was formatted with"


def test_a_folder_of_before_gets_its_users_and_keeps_its_records(tmp_path: Path) -> None:
    folder, log = tmp_path / "kafka", tmp_path / "kafka.log"
    port, controller = free_ports(2)
    address = f"{LOOPBACK}:{port}"
    with run_server(plain_kafka.kafka_server(folder, port, controller, log)):
        plain = KafkaSettings(bootstrap_servers=address)
        make_topics(plain, [Topic(EVENTS, 1, -1)], replication=1)
        publish(plain)
    for removed in (False, True):
        if removed:
            credentials_file(folder, ADMIN).unlink()
            credentials_file(folder, "operator").unlink()
        with run_server(kafka_server(folder, port, controller, log)) as started:
            make_services(open_admin(embedded_kafka(folder, address)), folder)
            broker = GuardedBroker(folder, address, "", started)
            assert broker.kept() == KEPT
            assert broker.attacked("reads", *ANONYMOUS).startswith("refused")
            assert not list(folder.glob("once.*"))


def test_a_right_that_is_not_on_the_page_any_more_is_taken_away(broker: GuardedBroker) -> None:
    more = AclBinding(
        ResourceType.TOPIC,
        EVENTS,
        ResourcePatternType.LITERAL,
        "User:alerts",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = open_admin(broker.settings(ADMIN))
    for answer in admin.create_acls([more]).values():
        answer.result(WAIT_S)
    make_services(admin, broker.folder)
    alerts = open_consumer(broker.settings("alerts"), {"group.id": "payhook-x", "log_level": 0})
    try:
        with pytest.raises((KafkaException, AssertionError)):
            read_first(alerts)
    finally:
        alerts.close()
