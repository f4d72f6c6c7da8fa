"""The whole of payhook on three secured brokers, each service with a user of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.layout import Layout
from load.embedded import SAMPLE_CONFIG, payhook
from load.secured_kafka import Cluster, secured_cluster
from providers.registry import build_adapters
from stack.children import build_endpoints as endpoints_of
from stack.children import choose_ports, list_servers
from stack.data_folder import make_key, make_merchants, make_secrets
from stack.endpoints import write_endpoints
from stack.servers.server import RunningServer, Server
from stack.settings import Settings, load_settings

USERS = {"processor": "processor", "ingest": "receiver", "ops": "console"}
"""The user of each process."""
START_S = 240.0


@dataclass
class SecuredStack:
    """``processes`` by name, as they run."""

    data_dir: Path
    cluster: Cluster
    servers: dict[str, Server]
    processes: dict[str, RunningServer] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name] = RunningServer(self.servers[name])
        for name in names:
            self.processes[name].wait_until_it_answers()

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.stop()

    def as_operator(self, *words: str) -> str:
        """Runs `payhook` with the operator's user; returns what it says.

        :raises RuntimeError: it ended with another code than 0
        """
        said = payhook(*words, "--data", str(self.data_dir), env=self.cluster.environment("operator"))
        if said.returncode != 0:
            raise RuntimeError(said.stdout + said.stderr)
        return said.stdout


@contextlib.contextmanager
def secured_stack(folder: Path) -> Iterator[SecuredStack]:
    """Everything on free ports under ``folder``; stopped at the end."""
    data_dir = folder / "stack"
    with contextlib.ExitStack() as undo:
        data_dir.mkdir(parents=True)
        cluster = undo.enter_context(secured_cluster(folder / "kafka"))
        cluster.make_services()
        layout = Layout(data_dir)
        adapters = build_adapters(load_settings().providers)
        make_secrets(layout.secrets, adapters)
        make_key(layout.anchor_keys)
        make_key(layout.record_keys)
        make_merchants(layout.merchants_file, adapters)
        settings = Settings(data_dir=data_dir)
        ports = replace(choose_ports(settings), outside_kafka=cluster.bootstrap)
        servers = {one.name: one for one in list_servers(settings, ports, SAMPLE_CONFIG)}
        for name, user in USERS.items():
            env = {**servers[name].env, **cluster.environment(user)}
            servers[name] = replace(servers[name], env=env, start_s=START_S)
        stack = SecuredStack(data_dir, cluster, servers)
        undo.callback(stack.stop)
        stack.start("redis", *USERS)
        pids = {name: process.process_id for name, process in stack.processes.items()}
        write_endpoints(data_dir, endpoints_of(layout, ports, pids, ("live",)))
        yield stack
