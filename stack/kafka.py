"""The embedded broker: one Kafka node in KRaft mode, from its published jars, on loopback."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import KafkaException

from core.durability import RECORD_BYTES_MAX
from core.kafka import open_admin
from core.settings import KafkaSettings
from stack.errors import ServerNotUp
from stack.jars import kafka_jars
from stack.machine import find_java
from stack.ports import LOOPBACK, is_listening
from stack.server import Server

HEAP_MIB = 384
FORMAT_TIMEOUT_S = 60.0
ASK_TIMEOUT_S = 1.0
LOGGING = "log4j2.yaml"


def kafka_server(folder: Path, port: int, controller_port: int, log: Path) -> Server:
    """A broker that keeps everything under ``folder``.

    It acknowledges before a record is on disk (docs/decisions/0040): a power cut loses what wasn't written yet.
    """
    config = folder / "server.properties"

    def prepare() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config.write_text(_properties(folder, port, controller_port), "utf-8")
        logging_file(folder)
        if not (folder / "logs" / "meta.properties").exists():
            format_storage(config, new_cluster_id(), log)

    return Server(
        name="kafka",
        command=(*java_command(folder / LOGGING), "kafka.Kafka", str(config)),
        log=log,
        prepare=prepare,
        answers=lambda: broker_answers(port),
        start_s=90.0,
    )


def broker_answers(port: int) -> bool:
    """Whether the broker tells its metadata, itself among its brokers."""
    if not is_listening(port):
        return False
    try:
        client = open_admin(KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}"))
        return bool(client.list_topics(timeout=ASK_TIMEOUT_S).brokers)
    except KafkaException:
        return False


def logging_file(folder: Path) -> Path:
    """What a node of Kafka in this folder says, and how."""
    file = folder / LOGGING
    file.write_text(_LOG4J2, "utf-8")
    return file


def java_command(logging: Path) -> tuple[str, ...]:
    """Java with Kafka's jars; the class to run comes next."""
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
    tool = (*java_command(logging_file(config.parent)), "kafka.tools.StorageTool", "format")
    with log.open("ab") as sink:
        done = subprocess.run(
            (*tool, "-t", cluster_id, "-c", str(config), *more),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
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


def _properties(folder: Path, port: int, controller_port: int) -> str:
    settings = {
        **SMALL_NODE,
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
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
    return "".join(f"{name}={value}\n" for name, value in settings.items())


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
