"""The embedded broker without users: tests of other things than who may do what start it sooner, and read it simply."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from core.files import write_whole
from core.settings import KafkaSettings
from stack.servers.kafka import (
    LOGGING,
    as_text,
    broker_answers,
    format_storage,
    java_command,
    new_cluster_id,
    node_properties,
    write_logging_file,
)
from stack.servers.ports import LOOPBACK
from stack.servers.server import Server

PLAIN = {"listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"}


def plain_properties(folder: Path, port: int, controller_port: int) -> str:
    """The node's file of properties."""
    return as_text(node_properties(folder, port, controller_port) | PLAIN)


def kafka_server(folder: Path, port: int, controller_port: int, log: Path) -> Server:
    """As `stack.servers.kafka.kafka_server`; whoever reaches its port may do everything."""
    config = folder / "server.properties"

    def prepare() -> None:
        write_whole(config, plain_properties(folder, port, controller_port))
        write_logging_file(folder)
        if not (folder / "logs" / "meta.properties").exists():
            format_storage(config, new_cluster_id(), log)

    return Server(
        name="kafka",
        command=(*java_command(folder / LOGGING), "kafka.Kafka", str(config)),
        log=log,
        prepare=prepare,
        answers=partial(broker_answers, KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}")),
        start_s=90.0,
    )
