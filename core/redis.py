"""Clients of Redis: one server, the primary that Sentinel names, or a Cluster. All are made here, from `RedisSettings`.

A client fails at once where Redis can't be reached: the caller has a deadline of its own, and asks again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeAlias, cast

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.retry
from redis._parsers.commands import AsyncCommandsParser
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import ConnectionPool, SSLConnection, parse_url
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelManagedSSLConnection
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, NoScriptError, RedisClusterException, RedisError
from redis.sentinel import Sentinel as SyncSentinel

from core.errors import SettingError
from core.files import read_credentials
from core.settings import RedisSettings

Client: TypeAlias = redis.Redis
"""A `RedisCluster` takes the same commands, and isn't distinguished by its type."""
AsyncClient: TypeAlias = redis.asyncio.Redis

FAILURES = (RedisError, RedisClusterException, OSError)
"""Redis couldn't be asked, or refused. `RedisClusterException` is no `RedisError`."""

RETRIES = 1
"""At once: of a connection that the server closed while it was idle."""


class FileCredentials(CredentialProvider):
    """Reads user and password as their file has them when a connection is made: they change without a restart."""

    def __init__(self, file: Path, setting: str) -> None:
        self._file = file
        self._setting = setting

    def get_credentials(self) -> tuple[str, str]:
        try:
            return read_credentials(self._file, self._setting)
        except SettingError as wrong:
            raise AuthenticationError(str(wrong)) from wrong

    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()


class Tls:
    """The TLS context of all connections, made again when one of its files has changed.

    redis-py makes one for each connection, which blocks the event loop for 50 ms.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._files = [Path(file) for file in (settings.ca_file, settings.certificate_file) if file]
        self._changed_at: list[int] = []
        self._context: ssl.SSLContext | None = None

    def get(self) -> ssl.SSLContext:
        """
        :raises OSError: a file can't be read, or isn't what it should be
        """
        changed_at = [file.stat().st_mtime_ns for file in self._files]
        if self._context is None or changed_at != self._changed_at:
            context = ssl.create_default_context(cafile=self._settings.ca_file or None)
            if self._settings.certificate_file:
                context.load_cert_chain(self._settings.certificate_file, password="")
            self._context, self._changed_at = context, changed_at
        return self._context


class TlsConnection(SSLConnection):
    def __init__(self, *, tls: Tls, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ssl_context = cast(Any, tls)


class SentinelTlsConnection(SentinelManagedSSLConnection):
    def __init__(self, *, tls: Tls, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]  # redis-py's
        self.ssl_context = cast(Any, tls)


class Sentinels(Sentinel):
    """Asks all Sentinels at once: one whose host is gone holds up no answer of another."""

    def __init__(self, settings: RedisSettings, options: dict[str, Any]) -> None:
        super().__init__([])  # type: ignore[no-untyped-call]  # redis-py's
        self.sentinels = [
            redis.asyncio.Redis.from_pool(ConnectionPool(host=host, port=port, **options))
            for host, port in settings.sentinel_addresses
        ]

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """
        :raises MasterNotFoundError: no sentinel answered, or none knows a primary that is up
        """
        tasks = [asyncio.create_task(self._find_primary(sentinel, service_name)) for sentinel in self.sentinels]
        problems: list[str] = []
        try:
            for answer in asyncio.as_completed(tasks):
                try:
                    return await answer
                except FAILURES as failed:
                    problems.append(str(failed))
        finally:
            for task in tasks:
                task.cancel()
        raise MasterNotFoundError(f"no sentinel names a primary for {service_name!r}: {'; '.join(sorted(problems))}")

    async def _find_primary(self, sentinel: AsyncClient, service_name: str) -> tuple[str, int]:
        watched: Any = await sentinel.sentinel_masters()
        state = watched.get(service_name)
        if state is None:
            raise MasterNotFoundError("it isn't watched")
        if not self.check_master_state(state, service_name):
            raise MasterNotFoundError(f"{state['ip']}:{state['port']} is down")
        return state["ip"], state["port"]


class CommandsOfAnyMaster(AsyncCommandsParser):
    """Asks any master that answers which commands there are. redis-py asks one, and while that is down it begins with
    none.
    """

    __slots__ = ("_cluster",)

    def __init__(self, cluster: redis.asyncio.RedisCluster) -> None:
        super().__init__()
        self._cluster = cluster

    async def initialize(self, node: ClusterNode | None = None) -> None:
        """
        :raises RedisError, OSError: no master answers
        """
        others = [master for master in self._cluster.get_primaries() if master is not node]
        for number, master in enumerate([node, *others]):
            try:
                await super().initialize(master)
            except FAILURES:
                if number == len(others):
                    raise
            else:
                return


def check_redis(settings: RedisSettings) -> None:
    """Reads the files that the settings name, once.

    :raises SettingError: one can't be read, or isn't what it should be
    """
    for name in ("credentials_file", "sentinel_credentials_file"):
        if file := getattr(settings, name):
            read_credentials(Path(file), f"redis.{name}")
    if not settings.is_tls:
        return
    try:
        ssl.create_default_context(cafile=settings.ca_file or None)
    except OSError as wrong:
        raise SettingError("redis.ca_file", f"{settings.ca_file} is no file of certificates: {wrong}") from None
    try:
        Tls(settings).get()
    except OSError as wrong:
        problem = f"{settings.certificate_file} holds no certificate and its key: {wrong}"
        raise SettingError("redis.certificate_file", problem) from None


@contextlib.asynccontextmanager
async def async_redis(settings: RedisSettings, connect_s: float, answer_s: float) -> AsyncIterator[AsyncClient]:
    """Opens a client, closed at the end; no server is asked for anything yet.

    :param connect_s: how long a connection may take
    :param answer_s: a connection that is silent for so long is given up
    :raises SettingError: a file of the settings can't be read
    """
    check_redis(settings)
    options = _make_options(connect_s, answer_s, redis.asyncio.retry.Retry(NoBackoff(), RETRIES))
    of_tls: dict[str, Any] = {"connection_class": TlsConnection, "tls": Tls(settings)} if settings.is_tls else {}
    credentials = _read_credentials(settings.credentials_file, "redis.credentials_file")
    async with contextlib.AsyncExitStack() as closing:
        if settings.sentinels:
            of_sentinels = _read_credentials(settings.sentinel_credentials_file, "redis.sentinel_credentials_file")
            sentinels = Sentinels(settings, options | of_tls | of_sentinels)
            closing.push_async_callback(sentinels.aclose)
            of_tls = of_tls and of_tls | {"connection_class": SentinelTlsConnection}
            client = sentinels.master_for(
                settings.sentinel_service, db=settings.database_number, **options, **of_tls, **credentials
            )
        elif settings.cluster:
            from_url = {
                name: value for name, value in parse_url(settings.url).items() if name not in ("connection_class", "db")
            }
            cluster = cast(Any, redis.asyncio.RedisCluster)(
                require_full_coverage=False, reinitialize_steps=0, **from_url, **options, **credentials
            )
            cluster.commands_parser = CommandsOfAnyMaster(cluster)
            # It takes no connection class; its nodes do.
            cluster.connection_kwargs.update(of_tls)
            for node in cluster.startup_nodes if of_tls else ():
                node.connection_class = TlsConnection
                node.connection_kwargs["tls"] = of_tls["tls"]
            client = cast(AsyncClient, cluster)
            # After a failure its own ``aclose`` closes nothing.
            closing.push_async_callback(cluster.nodes_manager.aclose, "startup_nodes")
            closing.push_async_callback(cluster.nodes_manager.aclose)
        else:
            pool = ConnectionPool(**{**parse_url(settings.url), **options, **of_tls, **credentials})
            client = redis.asyncio.Redis.from_pool(pool)
        closing.push_async_callback(client.aclose)
        yield client


def sync_redis(settings: RedisSettings, timeout_s: float) -> Client:
    """Makes a client for one thread, which closes it. Only a cluster is asked at once: for its slots.

    :raises SettingError: a file of the settings can't be read
    :raises RedisClusterException: none of the cluster can be reached
    """
    check_redis(settings)
    options = _make_options(timeout_s, timeout_s, redis.retry.Retry(NoBackoff(), RETRIES))
    if settings.is_tls:
        files = {"ssl_ca_certs": settings.ca_file, "ssl_certfile": settings.certificate_file}
        options |= {name: file for name, file in files.items() if file}
    credentials = _read_credentials(settings.credentials_file, "redis.credentials_file")
    if settings.sentinels:
        options["ssl"] = settings.is_tls
        of_sentinels = _read_credentials(settings.sentinel_credentials_file, "redis.sentinel_credentials_file")
        sentinels = cast(Any, SyncSentinel)(settings.sentinel_addresses, sentinel_kwargs=options | of_sentinels)
        return cast(
            Client,
            sentinels.master_for(settings.sentinel_service, db=settings.database_number, **options, **credentials),
        )
    if settings.cluster:
        cluster = redis.RedisCluster.from_url(settings.url, require_full_coverage=False, **options, **credentials)
        return cast(Client, cluster)
    return redis.Redis.from_url(settings.url, **options, **credentials)


def is_cluster(client: Client | AsyncClient) -> bool:
    return isinstance(client, (redis.RedisCluster, redis.asyncio.RedisCluster))


class Script:
    """Runs a Lua script, and sends it to a server that doesn't know it yet, such as a new primary."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, client: AsyncClient, key: bytes, *arguments: bytes | int) -> Any:
        try:
            return await client.evalsha(self.digest, 1, key, *arguments)
        except NoScriptError:
            return await client.eval(self.text, 1, key, *arguments)


def _make_options(connect_s: float, answer_s: float, retry: Any) -> dict[str, Any]:
    # A server before 7.2 doesn't know what the driver would say of itself, nor an ACL that allows it.
    return {"socket_connect_timeout": connect_s, "socket_timeout": answer_s, "retry": retry, "driver_info": None}


def _read_credentials(file: str, setting: str) -> dict[str, Any]:
    return {"credential_provider": FileCredentials(Path(file), setting)} if file else {}
