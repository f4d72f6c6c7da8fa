"""Redis as it runs outside of one machine: with TLS, behind Sentinel, as a Cluster; everywhere with ACL users."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.redis import FAILURES, AsyncClient, Client, async_redis, sync_redis
from core.settings import RedisSettings
from load.certificates import Issuer
from load.client import wait_for
from stack.machine import find_redis
from stack.servers.ports import FREE, LOOPBACK, free_ports, is_free
from stack.servers.redis import ADMIN, CLUSTER_COMMANDS, COMMANDS, PAYHOOK, SENTINEL_COMMANDS, build_acl
from stack.servers.server import RunningServer, Server

SERVICE = "claims"
DOWN_MS = 1_000
"""Until a primary or master that is silent is taken for dead."""
SLOTS = 16_384
BUS = 10_000
"""A cluster's nodes talk to each other on the port that is so much higher."""
ADMIN_S, WAIT_S = 5.0, 60.0


@functools.cache
def has_tls() -> bool:
    """Whether the Redis on this machine was built with it."""
    asked = (str(find_redis()), "--port", "0", "--tls-replication", "no", "--dir", "/nonexistent")
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    return "tls-replication" not in said.stdout + said.stderr


FORMS = ("redis_tls", "redis_sentinel", "redis_cluster")
"""Fixtures of `tests/contract/conftest.py`."""

MORE_FORMS = [pytest.param(form, marks=pytest.mark.more(reason="several servers each")) for form in FORMS]
"""As parameters: a suite passes on one plain server in `make test`, and on these in `make test-more`."""


class RedisNode:
    """One server, which a test may kill and start again."""

    def __init__(self, site: RedisSite, port: int, server: Server) -> None:
        self._site = site
        self.port = port
        self.server = server
        self.process = RunningServer(server)

    @property
    def name(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """With what its disk has."""
        self.process = RunningServer(self.server)
        self.process.wait_until_it_answers()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill_session()

    def admin(self) -> contextlib.closing[Client]:
        """A client that may do everything."""
        return contextlib.closing(sync_redis(self._site.settings(ADMIN, url=self._site.url(self.port)), ADMIN_S))

    @property
    def role(self) -> str:
        """``master`` or ``slave``; empty where it doesn't answer."""
        with contextlib.suppress(*FAILURES), self.admin() as client:
            info: Any = client.info("replication")
            return str(info["role"])
        return ""


class RedisSite:
    """Servers in one folder with the same users and certificates.

    :param asks: whether they want a client's certificate
    """

    def __init__(self, folder: Path, *, tls: bool, asks: bool = False) -> None:
        if tls and not has_tls():
            pytest.skip("the Redis on this machine is built without TLS: install Debian's redis-server")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tls = tls
        self.nodes: list[RedisNode] = []
        self.sentinels: list[RedisNode] = []
        self.passwords = {user: secrets.token_hex(16) for user in (PAYHOOK, ADMIN)}
        for user in self.passwords:
            self.write_credentials(user)
        self._asks = asks
        self._where: dict[str, Any] = {}
        if tls:
            self.issuer = Issuer.make(folder)
            self.certificate = self.issuer.issue("server")
            self.client_certificate = self.issuer.issue("client")

    def credentials(self, user: str = PAYHOOK) -> Path:
        return self.folder / f"{user}.credentials"

    def write_credentials(self, user: str = PAYHOOK) -> None:
        self.credentials(user).write_text(f"{user}\n{self.passwords[user]}\n")

    def url(self, port: int) -> str:
        return f"{'rediss' if self.tls else 'redis'}://{LOOPBACK}:{port}"

    def settings(self, user: str = PAYHOOK, **changes: Any) -> RedisSettings:
        """How the site is reached; with other settings for what ``changes`` names."""
        given: dict[str, Any] = {"credentials_file": str(self.credentials(user))}
        if self.tls:
            given["ca_file"] = str(self.issuer.ca)
        if self._asks:
            given["certificate_file"] = str(self.client_certificate)
        return RedisSettings.model_validate(given | (changes if "url" in changes else self._where | changes))

    def variables(self, **changes: Any) -> dict[str, str]:
        """The same as a process' environment."""
        set_ones = self.settings(**changes).model_dump(mode="json", exclude_unset=True)
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in set_ones.items()}
        return {f"PAYHOOK_REDIS__{name.upper()}": text for name, text in texts.items()}

    @contextlib.asynccontextmanager
    async def open(self, timeout_s: float = ADMIN_S) -> AsyncIterator[AsyncClient]:
        """A client as payhook's."""
        async with async_redis(self.settings(), timeout_s, timeout_s) as client:
            yield client

    def on_masters(self, do: Callable[[Client], object]) -> None:
        """As somebody who may do everything."""
        for node in self.nodes:
            if node.role == "master":
                with node.admin() as client:
                    do(client)

    @property
    def primary(self) -> RedisNode:
        """Of those that Sentinel watches."""
        assert wait_for(lambda: any(node.role == "master" for node in self.nodes), WAIT_S)
        return next(node for node in self.nodes if node.role == "master")

    def primary_client(self) -> contextlib.closing[Client]:
        """As payhook's processors."""
        return contextlib.closing(sync_redis(self.settings(), ADMIN_S))

    def part(self, replica: RedisNode, *, parted: bool = True) -> None:
        """From now on it gets none of what is written to its primary; or again."""
        with replica.admin() as client:
            client.config_set("masterauth", "wrong" if parted else self.passwords[ADMIN])
            client.execute_command("CLIENT KILL", "TYPE", "master")
            if not parted:
                # Sentinel wrote the other one into its file when it was promoted.
                client.config_rewrite()
        assert not parted or wait_for(lambda: not self._replicates(replica), WAIT_S)

    # how they are started

    @contextlib.contextmanager
    def alone(self) -> Iterator[RedisSite]:
        """One server."""
        (port,) = free_ports(1)
        self._where = {"url": self.url(port)}
        with self._running():
            self._start(self.nodes, port, COMMANDS)
            yield self

    @contextlib.contextmanager
    def watched(self) -> Iterator[RedisSite]:
        """A primary, a replica, and three Sentinels that have users of their own."""
        primary, replica, *sentinels = free_ports(5)
        self._where = {
            "url": "rediss:///0" if self.tls else "redis:///0",
            "sentinels": [f"{LOOPBACK}:{port}" for port in sentinels],
            "sentinel_service": SERVICE,
            "sentinel_credentials_file": str(self.credentials()),
        }
        with self._running():
            self._start(self.nodes, primary, COMMANDS)
            self._start(self.nodes, replica, COMMANDS, f"replicaof {LOOPBACK} {primary}", "repl-diskless-sync-delay 0")
            assert wait_for(lambda: self._replicates(self.nodes[1]), WAIT_S)
            for port in sentinels:
                self._start(self.sentinels, port, SENTINEL_COMMANDS, *self._watching(primary), sentinel=True)
            assert wait_for(lambda: all(map(self._sees_all, self.sentinels)), WAIT_S)
            yield self

    @contextlib.contextmanager
    def cluster(self, *, replicas: int = 0, full_coverage: bool = False) -> Iterator[RedisSite]:
        """Three masters with a third of the slots each, in ``nodes``, and then each one's replicas."""
        ports = [port for port in free_ports(60) if port + BUS in FREE and is_free(port + BUS)][: 3 * (1 + replicas)]
        self._where = {"url": self.url(ports[0]), "cluster": True}
        options = (
            "cluster-enabled yes",
            f"cluster-node-timeout {DOWN_MS}",
            f"cluster-require-full-coverage {'yes' if full_coverage else 'no'}",
            "repl-diskless-sync-delay 0",
        )
        with self._running():
            for port in ports:
                self._start(self.nodes, port, (*COMMANDS, *CLUSTER_COMMANDS), *options)
            self._join()
            yield self

    def _join(self) -> None:
        with self.nodes[0].admin() as first:
            for number, node in enumerate(self.nodes):
                with node.admin() as client:
                    client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                    if number < 3:
                        third = range(number * SLOTS // 3, (number + 1) * SLOTS // 3)
                        client.execute_command("CLUSTER ADDSLOTS", *third)
                first.execute_command("CLUSTER MEET", LOOPBACK, node.port)
            assert wait_for(lambda: all(map(self._knows_all, self.nodes)), WAIT_S)
        for number, node in enumerate(self.nodes[3:]):
            with self.nodes[number % 3].admin() as master, node.admin() as client:
                client.execute_command("CLUSTER REPLICATE", master.execute_command("CLUSTER MYID"))
        assert wait_for(lambda: all(map(self._replicates, self.nodes[3:])), WAIT_S)
        assert wait_for(self.is_whole, WAIT_S)

    def is_whole(self) -> bool:
        """Whether each of the cluster's nodes takes all of them for alive, and answers for its slots."""
        return all(self._knows_all(node) and self._is_covered(node) for node in self.nodes)

    def _knows_all(self, node: RedisNode) -> bool:
        with node.admin() as client:
            nodes: Any = client.execute_command("CLUSTER NODES")
        alive = [one for one in nodes.values() if {"handshake", "fail", "fail?"}.isdisjoint(one["flags"].split(","))]
        return len(alive) == len(self.nodes)

    def _is_covered(self, node: RedisNode) -> bool:
        with node.admin() as client:
            info: Any = client.execute_command("CLUSTER INFO")
            return str(info["cluster_state"]) == "ok"

    def _replicates(self, node: RedisNode) -> bool:
        with node.admin() as client:
            info: Any = client.info("replication")
            return str(info.get("master_link_status")) == "up"

    def _sees_all(self, sentinel: RedisNode) -> bool:
        with sentinel.admin() as client:
            masters: Any = client.sentinel_masters()
            state = masters[SERVICE]
            return bool(state["num-slaves"] == 1 and state["num-other-sentinels"] == 2)

    def _watching(self, primary: int) -> Sequence[str]:
        return (
            f"sentinel monitor {SERVICE} {LOOPBACK} {primary} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS}",
            f"sentinel failover-timeout {SERVICE} 10000",
            f"sentinel auth-user {SERVICE} {ADMIN}",
            f"sentinel auth-pass {SERVICE} {self.passwords[ADMIN]}",
            f"sentinel sentinel-user {ADMIN}",
            f"sentinel sentinel-pass {self.passwords[ADMIN]}",
        )

    # one server

    def _start(
        self, among: list[RedisNode], port: int, commands: Sequence[str], *options: str, sentinel: bool = False
    ) -> None:
        folder = self.folder / str(port)
        config = folder / ("sentinel.conf" if sentinel else "redis.conf")
        lines = [*self._listening(port), f'dir "{folder}"', f'aclfile "{folder}/users.acl"', *options]
        if not sentinel:
            lines += [
                'save ""',
                "appendonly yes",
                "appendfsync always",
                f"masteruser {ADMIN}",
                f"masterauth {self.passwords[ADMIN]}",
            ]

        def prepare() -> None:
            if not config.exists():
                folder.mkdir()
                config.write_text("\n".join(lines) + "\n")
            (folder / "users.acl").write_text("user default off\n" + build_acl(self.passwords, commands))

        command = (str(find_redis()), str(config), *(["--sentinel"] if sentinel else []))
        log = self.folder / f"{port}.log"
        node: RedisNode
        server = Server(f"redis-{port}", command, log, lambda: _answers(lambda: node.admin()), prepare)
        node = RedisNode(self, port, server)
        among.append(node)
        node.process.wait_until_it_answers()

    def _listening(self, port: int) -> list[str]:
        if not self.tls:
            return [f"bind {LOOPBACK}", f"port {port}"]
        return [
            f"bind {LOOPBACK}",
            "port 0",
            f"tls-port {port}",
            f'tls-cert-file "{self.certificate}"',
            f'tls-key-file "{self.certificate}"',
            f'tls-ca-cert-file "{self.issuer.ca}"',
            f"tls-auth-clients {'yes' if self._asks else 'no'}",
            "tls-replication yes",
            "tls-cluster yes",
        ]

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        try:
            yield
        finally:
            for node in [*self.sentinels, *self.nodes]:
                node.process.stop()


def _answers(open_admin: Callable[[], contextlib.closing[Client]]) -> bool:
    with contextlib.suppress(*FAILURES), open_admin() as client:
        return bool(client.ping())
    return False
