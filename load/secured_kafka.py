"""Kafka as an operator secures it, on loopback: several brokers, TLS, SCRAM users and access control lists.

Brokers prove themselves to each other by certificates, users to brokers by SCRAM. A topic that isn't allowed isn't even
known to exist.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from core.kafka import open_admin
from core.settings import Durability, KafkaSecurity, KafkaSettings
from load.certificates import Issuer
from stack.servers.kafka import SMALL_NODE, format_storage, java_command, new_cluster_id, write_logging_file
from stack.servers.kafka_users import ADMIN, ITERATIONS, make_services, new_password, set_passwords
from stack.servers.ports import LOOPBACK, free_ports, is_listening
from stack.servers.server import RunningServer, Server
from stack.settings import Settings
from stack.topics import make_topics, plan_topics

BROKER = "broker"
"""The name in the certificates of brokers."""


@dataclass
class Node:
    """One broker, which is a controller too."""

    number: int
    port: int
    server: Server
    running: RunningServer | None = None

    def start(self) -> None:
        self.running = RunningServer(self.server)

    def kill(self) -> None:
        """SIGKILL: nothing is said to the others."""
        assert self.running is not None
        self.running.kill_session()
        self.running = None

    def restart(self) -> None:
        """SIGKILL, and it answers again."""
        self.kill()
        self.start()
        assert self.running is not None
        self.running.wait_until_it_answers()


@dataclass
class Cluster:
    """Nodes and their users. ``settings(name)`` is how a service with that user reaches them."""

    folder: Path
    issuer: Issuer
    nodes: list[Node] = field(default_factory=list)
    passwords: dict[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)

    def credentials(self, name: str) -> Path:
        return self.folder / f"{name}.credentials"

    def security(self, name: str) -> KafkaSecurity:
        return KafkaSecurity(
            protocol="SASL_SSL", credentials_file=str(self.credentials(name)), ca_file=str(self.issuer.ca)
        )

    def settings(self, name: str, durability: Durability = "replicated") -> KafkaSettings:
        return KafkaSettings(bootstrap_servers=self.bootstrap, durability=durability, security=self.security(name))

    def environment(self, name: str) -> dict[str, str]:
        """The same as variables of a service's process."""
        return {
            "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap,
            "PAYHOOK_KAFKA__DURABILITY": "replicated",
            "PAYHOOK_KAFKA__SECURITY__PROTOCOL": "SASL_SSL",
            "PAYHOOK_KAFKA__SECURITY__CREDENTIALS_FILE": str(self.credentials(name)),
            "PAYHOOK_KAFKA__SECURITY__CA_FILE": str(self.issuer.ca),
        }

    def admin(self) -> AdminClient:
        return open_admin(self.settings(ADMIN))

    def write_credentials(self, name: str, password: str) -> None:
        self.passwords[name] = password
        self.credentials(name).write_text(f"{name}\n{password}\n", "utf-8")

    def set_password(self, name: str) -> str:
        """Makes the user, or gives it another password; its file isn't touched."""
        password = new_password()
        set_passwords(self.admin(), {name: password})
        return password

    def make_user(self, name: str) -> None:
        self.write_credentials(name, self.set_password(name))

    def make_services(self) -> None:
        """A user for each of payhook's services, with its rights, and payhook's topics."""
        make_services(self.admin(), self.folder)
        make_topics(self.settings("topics"), plan_topics(Settings()), replication=len(self.nodes))

    def allow(self, name: str, rights: Iterable[tuple[str, str, AclOperation]]) -> None:
        """``rights``: kind of resource (topic, group, cluster), its name, or how it begins and ``*``, operation."""
        kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER}
        wanted = []
        for kind, resource, operation in rights:
            begins = resource.endswith("*") and resource != "*"
            pattern = ResourcePatternType.PREFIXED if begins else ResourcePatternType.LITERAL
            named = resource.removesuffix("*") if begins else resource
            wanted.append(
                AclBinding(kinds[kind], named, pattern, f"User:{name}", "*", operation, AclPermissionType.ALLOW)
            )
        admin = self.admin()
        for done in admin.create_acls(wanted).values():
            done.result(30)


@contextlib.contextmanager
def secured_cluster(folder: Path, nodes: int = 3) -> Iterator[Cluster]:
    """Brokers that answer; they are gone after the ``with``."""
    cluster = Cluster(folder, Issuer.make(folder / "issued"))
    cluster.write_credentials(ADMIN, secrets.token_hex(16))
    certificate = cluster.issuer.issue(BROKER)
    ports = free_ports(3 * nodes)
    voters = ",".join(f"{number}@{LOOPBACK}:{ports[3 * number - 1]}" for number in range(1, nodes + 1))
    cluster_id = new_cluster_id()
    for number in range(1, nodes + 1):
        port, broker, controller = ports[3 * number - 3 : 3 * number]
        own = folder / f"node-{number}"
        config = own / "server.properties"
        own.mkdir()
        properties = _properties(own, number, nodes, (port, broker, controller), voters, certificate, cluster.issuer.ca)
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8")
        scram = f"SCRAM-SHA-512=[name={ADMIN},iterations={ITERATIONS},password={cluster.passwords[ADMIN]}]"
        format_storage(config, cluster_id, own / "format.log", "--add-scram", scram)
        command = (*java_command(write_logging_file(own)), "kafka.Kafka", str(config))
        server = Server(f"kafka-{number}", command, own / "kafka.log", partial(is_listening, port), start_s=120)
        cluster.nodes.append(Node(number, port, server))
    try:
        for node in cluster.nodes:
            node.start()
        for node in cluster.nodes:
            assert node.running is not None
            node.running.wait_until_it_answers()
        _await_brokers(cluster)
        yield cluster
    finally:
        for node in cluster.nodes:
            if node.running is not None:
                node.running.kill_session()


def _await_brokers(cluster: Cluster) -> None:
    client = cluster.admin()
    for _ in range(120):
        with contextlib.suppress(Exception):
            if len(client.list_topics(timeout=5).brokers) == len(cluster.nodes):
                return
    raise AssertionError("not all brokers are in the cluster")


def _properties(
    folder: Path, number: int, nodes: int, ports: tuple[int, ...], voters: str, certificate: Path, ca: Path
) -> dict[str, object]:
    port, broker, controller = ports
    return {
        **SMALL_NODE,
        "node.id": number,
        "controller.quorum.voters": voters,
        "listeners": ",".join(
            (f"CLIENT://{LOOPBACK}:{port}", f"BROKER://{LOOPBACK}:{broker}", f"CONTROLLER://{LOOPBACK}:{controller}")
        ),
        "advertised.listeners": f"CLIENT://{LOOPBACK}:{port},BROKER://{LOOPBACK}:{broker}",
        "listener.security.protocol.map": "CLIENT:SASL_SSL,BROKER:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "BROKER",
        "listener.name.broker.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.client.ssl.client.auth": "none",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{ADMIN};User:CN={BROKER}",
        "log.dirs": folder / "logs",
        "default.replication.factor": nodes,
        "min.insync.replicas": min(2, nodes),
        "offsets.topic.replication.factor": nodes,
        "num.io.threads": 2,
        "broker.session.timeout.ms": 6_000,
        "replica.lag.time.max.ms": 10_000,
    }
