"""The embedded Redis, on loopback."""

from __future__ import annotations

from pathlib import Path

import redis

from stack.ports import LOOPBACK
from stack.redis_binary import find_redis
from stack.server import Server

ASK_TIMEOUT_S = 1.0


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
