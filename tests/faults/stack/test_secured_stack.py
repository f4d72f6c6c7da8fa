"""The whole of payhook on three secured brokers, each service with a user of its own: what goes on when one broker is
killed, what is refused when two are, and that nothing that was acknowledged is lost or booked twice.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.layout import Layout
from load.client import wait_for
from load.embedded import SAMPLE_CONFIG, payhook
from load.traffic import Webhook
from providers.registry import build_adapters
from stack.children import children, choose_ports
from stack.children import endpoints as endpoints_of
from stack.data_folder import make_key, make_merchants, make_secrets
from stack.endpoints import write_endpoints
from stack.kafka_rights import RIGHTS
from stack.server import Running, Server
from stack.settings import Settings, load_settings
from stack.topics import make_topics, topics
from tests.e2e.conftest import Stack, assert_once
from tests.integration.stack.test_secured_kafka import OPERATIONS
from tests.kafka_cluster import Cluster, secured_cluster

log = logging.getLogger(__name__)

USERS = {"processor": "processor", "ingest": "receiver", "ops": "console"}
"""The user of each process."""
RATE_S = 20.0
LATE_S = 90.0


class Secured(Stack):
    """``processes`` by name."""

    def __init__(self, data_dir: Path, cluster: Cluster, servers: dict[str, Server]) -> None:
        super().__init__(data_dir)
        self.cluster = cluster
        self.servers = servers
        self.processes: dict[str, Running] = {}

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name] = Running(self.servers[name])
        for name in names:
            self.processes[name].wait_until_it_answers()

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.stop()

    def taken(self, webhooks: list[Webhook]) -> list[Webhook]:
        """Those that were answered 2xx."""
        return [hook for hook, answer in zip(webhooks, self.post(*webhooks), strict=True) if answer.status == 200]

    def as_operator(self, *words: str) -> str:
        said = payhook(*words, "--data", str(self.data_dir), env=self.cluster.environment("operator"))
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with contextlib.ExitStack() as undo:
        cluster = undo.enter_context(secured_cluster(tmp_path_factory.mktemp("kafka")))
        for service, rights in RIGHTS.items():
            cluster.make_user(service)
            cluster.allow(
                service,
                [(right.kind, f"{right.begins}*", OPERATIONS[one]) for right in rights for one in right.operations],
            )
        settings = load_settings()
        make_topics(cluster.settings("topics"), topics(settings.topics, ("live",)), replication=3)
        data_dir = tmp_path_factory.mktemp("stack")
        layout = Layout(data_dir)
        adapters = build_adapters(settings.providers)
        make_secrets(layout.secrets, adapters)
        make_key(layout.anchor_keys)
        make_key(layout.record_keys)
        make_merchants(layout.merchants, adapters)
        ports = replace(choose_ports(Settings()), outside_kafka=cluster.bootstrap)
        servers = {one.name: one for one in children(layout, ports, SAMPLE_CONFIG)}
        for name, user in USERS.items():
            servers[name] = replace(servers[name], env={**servers[name].env, **cluster.environment(user)}, start_s=240)
        made = Secured(data_dir, cluster, servers)
        undo.callback(made.stop)
        made.start("redis", *USERS)
        pids = {name: process.pid for name, process in made.processes.items()}
        write_endpoints(data_dir, endpoints_of(layout, ports, pids, ("live",)))
        yield made


def post_for(stack: Secured, seconds: float, prefix: str) -> tuple[list[Webhook], list[Webhook]]:
    """Webhooks that were taken, and those that weren't."""
    taken: list[Webhook] = []
    refused: list[Webhook] = []
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        some = stack.captures(5, f"{prefix}-{number}")
        good = stack.taken(some)
        taken += good
        refused += [one for one in some if one not in good]
        number += 1
        time.sleep(0.25)
    return taken, refused


def test_a_webhook_comes_to_the_ledger_and_verify_finds_nothing(stack: Secured) -> None:
    sent = stack.captures(20, "first")
    assert stack.taken(sent) == sent
    assert_once(stack, sent)
    assert "all of it holds" in stack.as_operator("verify")


def test_one_broker_less_costs_nothing(stack: Secured) -> None:
    node = stack.cluster.nodes[0]
    node.kill()
    taken, refused = post_for(stack, RATE_S, "one-less")
    assert taken, "nothing was taken with two brokers of three"
    assert_once(stack, taken)
    log.info("one broker killed: %d taken, %d refused, all decided", len(taken), len(refused))
    node.start()
    again = stack.taken(refused)
    assert_once(stack, [*taken, *again])


def test_with_two_brokers_less_nothing_is_acknowledged_and_afterwards_all_goes_on(stack: Secured) -> None:
    before = stack.captures(10, "before")
    assert stack.taken(before) == before
    for node in stack.cluster.nodes[1:]:
        node.kill()
    taken, refused = post_for(stack, RATE_S, "two-less")
    assert not taken, "a 2xx says that two brokers have the record"
    assert refused
    for node in stack.cluster.nodes[1:]:
        node.start()
    began = time.monotonic()
    probe = stack.captures(1, "after")
    assert wait_for(lambda: stack.taken(probe) == probe, LATE_S)
    log.info("two brokers killed: taken again %.1f s after both were started", time.monotonic() - began)
    again = stack.taken(refused)
    assert again == refused
    assert_once(stack, [*before, *probe, *again])


def test_in_the_end_verify_finds_nothing(stack: Secured) -> None:
    assert "all of it holds" in stack.as_operator("verify")
