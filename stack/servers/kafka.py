"""The embedded broker: one Kafka node in KRaft mode, from its published jars, on loopback.

Nobody is anonymous there: other users of the machine reach loopback too (docs/decisions/0098).
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import KafkaException

from core.files import create_once, write_whole
from core.kafka import open_admin
from core.settings import RECORD_BYTES_MAX, KafkaSecurity, KafkaSettings
from stack.errors import ServerNotUp
from stack.jars import kafka_jars
from stack.machine import find_java
from stack.servers.kafka_users import (
    ADMIN,
    ITERATIONS,
    credentials_file,
    embedded_kafka,
    new_password,
    password_of,
    set_passwords,
    write_credentials,
)
from stack.servers.ports import LOOPBACK, is_listening
from stack.servers.server import Server, run_server

HEAP_MIB = 384
FORMAT_TIMEOUT_S = 60.0
ASK_TIMEOUT_S = 1.0
LOGGING = "log4j2.yaml"
NODE = "node"
"""The name by which the node knows itself at its controller; no user of the broker's."""
_LOGIN = "org.apache.kafka.common.security"


def kafka_server(folder: Path, port: int, controller_port: int, log: Path) -> Server:
    """Describes a broker that keeps all under ``folder`` and believes its users by SCRAM (`stack.servers.kafka_users`).

    It acknowledges before a record is on disk (docs/decisions/0040): a power cut loses what wasn't written yet.
    """
    config = folder / "server.properties"
    command = (*java_command(folder / LOGGING), "kafka.Kafka", str(config))
    kafka = embedded_kafka(folder, f"{LOOPBACK}:{port}")

    def configure() -> None:
        security = _build_security(password_of(folder, ADMIN), new_password())
        write_whole(config, as_text(node_properties(folder, port, controller_port) | security))

    def prepare() -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_logging_file(folder)
        if not (folder / "logs" / "meta.properties").exists():
            write_credentials(folder, ADMIN, new_password())
            configure()
            scram = f"SCRAM-SHA-512=[name={ADMIN},iterations={ITERATIONS},password={password_of(folder, ADMIN)}]"
            format_storage(config, new_cluster_id(), log, "--add-scram", scram)
        elif not credentials_file(folder, ADMIN).exists():
            _introduce_admin(folder, port, controller_port, log)
        configure()

    return Server(
        name="kafka",
        command=command,
        log=log,
        prepare=prepare,
        answers=lambda: broker_answers(kafka),
        start_s=90.0,
    )


def _introduce_admin(folder: Path, port: int, controller_port: int, log: Path) -> None:
    """Starts the broker once with a password of this moment, to give it `ADMIN`, whom it doesn't know.

    A folder is so that was made by a payhook whose broker had no users, or whose administrator's file was removed.
    """
    once, password, config = new_password(), new_password(), folder / "once.properties"
    once_file = folder / "once.credentials"
    once_file.unlink(missing_ok=True)
    create_once(once_file, f"{ADMIN}\n{once}\n", 0o600)
    security = KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN", credentials_file=str(once_file))
    kafka = KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}", security=security)
    properties = node_properties(folder, port, controller_port) | _build_security(password, new_password(), once)
    write_whole(config, as_text(properties))
    command = (*java_command(folder / LOGGING), "kafka.Kafka", str(config))
    try:
        with run_server(Server("kafka", command, log, partial(broker_answers, kafka), start_s=90.0)):
            set_passwords(open_admin(kafka), {ADMIN: password})
    finally:
        config.unlink()
        once_file.unlink()
    write_credentials(folder, ADMIN, password)


def broker_answers(kafka: KafkaSettings) -> bool:
    if not is_listening(int(kafka.bootstrap_servers.rpartition(":")[2])):
        return False
    try:
        return bool(open_admin(kafka).list_topics(timeout=ASK_TIMEOUT_S).brokers)
    except KafkaException:
        return False


def write_logging_file(folder: Path) -> Path:
    file = folder / LOGGING
    file.write_text(_LOG4J2, "utf-8")
    return file


def java_command(logging: Path) -> tuple[str, ...]:
    class_path = os.pathsep.join(str(jar) for jar in kafka_jars())
    return (
        str(find_java().executable),
        f"-Xms{HEAP_MIB // 3}m",
        f"-Xmx{HEAP_MIB}m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Xshare:auto",
        "-XX:TieredStopAtLevel=1",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        class_path,
    )


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


def format_storage(config: Path, cluster_id: str, log: Path, *more: str) -> None:
    """Prepares the folder that a node's properties name.

    :param more: arguments of Kafka's own tool
    :raises ServerNotUp: it didn't work
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    tool = (*java_command(write_logging_file(config.parent)), "kafka.tools.StorageTool")
    arguments = config.with_name("format.arguments")
    # A command line is everybody's to read.
    write_whole(arguments, "\n".join(("format", "-t", cluster_id, "-c", str(config), *more)))
    with log.open("ab") as sink:
        done = subprocess.run(
            (*tool, f"@{arguments}"),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
    arguments.unlink()
    if done.returncode != 0:
        raise ServerNotUp("kafka", f"couldn't format {config.parent} (code {done.returncode})", log)


SMALL_NODE: Mapping[str, object] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "message.max.bytes": RECORD_BYTES_MAX,
        "replica.fetch.max.bytes": RECORD_BYTES_MAX,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "num.network.threads": 2,
        "background.threads": 2,
        "log.cleaner.threads": 1,
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        "broker.heartbeat.interval.ms": 500,
    }
)
"""Small thread pools and buffers: two cores, a handful of clients."""


def node_properties(folder: Path, port: int, controller_port: int) -> dict[str, object]:
    return {
        **SMALL_NODE,
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"CLIENT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"CLIENT://{LOOPBACK}:{port}",
        "inter.broker.listener.name": "CLIENT",
        "log.dirs": folder / "logs",
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "num.io.threads": 4,
        "broker.session.timeout.ms": 3_000,
        "initial.broker.registration.timeout.ms": 60_000,
    }


def _build_security(password: str, of_controller: str, once: str = "") -> dict[str, object]:
    """Says who may talk to the node: users by SCRAM, the node to its controller by a password of this start alone.

    :param password: `ADMIN`'s
    :param once: its password for `PLAIN`, where the node doesn't know it yet; else empty
    """
    plain = f'{_LOGIN}.plain.PlainLoginModule required username="{NODE}" password="{of_controller}"'
    return {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{plain} user_{NODE}="{of_controller}";',
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512" + (",PLAIN" if once else ""),
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            f'{_LOGIN}.scram.ScramLoginModule required username="{ADMIN}" password="{password}";'
        ),
        **(
            {
                "listener.name.client.plain.sasl.jaas.config": (
                    f'{_LOGIN}.plain.PlainLoginModule required user_{ADMIN}="{once}";'
                )
            }
            if once
            else {}
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{ADMIN};User:{NODE}",
    }


def as_text(properties: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


_LOG4J2 = """\
Configuration:
  status: WARN
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC} %p %c{1} %m%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: STDOUT
    Logger:
      - name: kafka.server.KafkaRaftServer
        level: INFO
"""
