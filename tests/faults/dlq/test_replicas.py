"""Two real brokers, of which one is killed and comes back: what the alerts see of their replicas."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from alerts.looking import ReplicaWatch
from alerts.observation import Replicas
from core.settings import KafkaSettings
from load.client import wait_for
from stack.servers import kafka
from stack.servers.kafka import broker_answers
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import Server, run_server
from tests.plain_kafka import kafka_server, plain_properties

TOPICS = ("payments.events", "dlq.ledger")
WAIT_S = 60.0


def second_broker(folder: Path, first: Path, port: int, controller_port: int) -> Server:
    """A broker without a vote, of the cluster that the first one made."""
    config, logging, log = folder / "server.properties", folder / "log4j2.yaml", folder / "kafka.log"

    def prepare() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        alone = plain_properties(folder, port, controller_port)
        alone = alone.replace("node.id=1\n", "node.id=2\n").replace("broker,controller\n", "broker\n")
        config.write_text(re.sub(r"(?m)^listeners=.*$", f"listeners=CLIENT://{LOOPBACK}:{port}", alone))
        logging.write_text(kafka._LOG4J2)
        if not (folder / "logs" / "meta.properties").exists():
            named = re.search(r"cluster.id=(\S+)", (first / "logs" / "meta.properties").read_text())
            assert named is not None
            command = (
                *kafka.java_command(logging),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                named[1],
                "-c",
                str(config),
            )
            subprocess.run(command, check=True, capture_output=True)

    here = KafkaSettings(bootstrap_servers=f"{LOOPBACK}:{port}")
    command = (*kafka.java_command(logging), "kafka.Kafka", str(config))
    return Server(name="kafka-2", command=command, log=log, prepare=prepare, answers=lambda: broker_answers(here))


def test_a_broker_that_is_away_and_comes_back(tmp_path: Path) -> None:
    port, controller, other = free_ports(3)
    first = kafka_server(tmp_path / "one", port, controller, tmp_path / "one.log")
    with run_server(first):
        client = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{port}", "log_level": 0})
        watch = ReplicaWatch(client, [*TOPICS, "not.there"])
        with run_server(second_broker(tmp_path / "two", tmp_path / "one", other, controller)):
            made = [
                NewTopic(TOPICS[0], 3, 2, config={"min.insync.replicas": "2"}),
                NewTopic(TOPICS[1], 1, 2, config={"min.insync.replicas": "1"}),
            ]
            for future in client.create_topics(made).values():
                future.result(WAIT_S)
            assert wait_for(lambda: watch.check_replicas() == Replicas(0, 0), WAIT_S)
        assert wait_for(lambda: watch.check_replicas() == Replicas(out_of_sync=4, under_min=3), WAIT_S)
        with run_server(second_broker(tmp_path / "two", tmp_path / "one", other, controller)):
            assert wait_for(lambda: watch.check_replicas() == Replicas(0, 0), WAIT_S)
    assert watch.check_replicas() is None, "no broker answers"
