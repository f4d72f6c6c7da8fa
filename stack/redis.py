"""The embedded Redis, on loopback, with a user of its own: any local user can reach the port."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from urllib.parse import urlparse

import redis

from core.files import create_once
from notify.files import write_new
from stack.ports import LOOPBACK
from stack.redis_binary import find_redis
from stack.server import Server

ASK_TIMEOUT_S = 1.0
USERS = "users.acl"
PAYHOOK, ADMIN = "payhook", "admin"
"""The user that payhook is, and a person's who looks into it; each with its password in a file of its name."""

COMMANDS = ("ping", "get", "set", "del", "getrange", "time", "scan", "eval", "evalsha", "script|load", "client|setinfo")
"""What payhook calls, its scripts included."""


def redis_server(folder: Path, port: int, log: Path) -> Server:
    """A server that keeps its append-only file and its users under ``folder`` and never evicts a key."""
    return Server(
        name="redis",
        command=(
            str(find_redis()),
            *("--bind", LOOPBACK, "--port", str(port), "--dir", str(folder)),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--daemonize", "no", "--loglevel", "warning"),
            *("--aclfile", str(folder / USERS)),
        ),
        log=log,
        prepare=lambda: _write_users(folder),
        answers=lambda: redis_answers(redis_url(folder, port)),
        start_s=30.0,
    )


def redis_url(folder: Path, port: int, user: str = PAYHOOK) -> str:
    """With the user's password, which is made if it isn't there yet."""
    return f"redis://{user}:{_password(folder, user)}@{LOOPBACK}:{port}/0"


def admin_url(folder: Path, url: str) -> str:
    """The same server's URL for somebody who may do more than payhook; ``folder`` as `redis_server` had it."""
    port = urlparse(url).port
    assert port is not None
    return redis_url(folder, port, ADMIN)


def _write_users(folder: Path) -> None:
    """As Redis' ACL file has them; passwords as their hashes."""
    rules = {PAYHOOK: "-@all " + " ".join(f"+{command}" for command in COMMANDS), ADMIN: "+@all"}
    lines = ["user default off"]
    for user, may in rules.items():
        digest = hashlib.sha256(_password(folder, user).encode()).hexdigest()
        lines.append(f"user {user} on #{digest} ~* &* {may}")
    write_new(folder / USERS, "\n".join(lines) + "\n")


def _password(folder: Path, user: str) -> str:
    path = folder / f"{user}.password"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_once(path, secrets.token_urlsafe(24))
    return path.read_text("utf-8")


def redis_answers(url: str) -> bool:
    """Whether the server takes commands; while it loads its file it doesn't."""
    client = redis.Redis.from_url(url, socket_timeout=ASK_TIMEOUT_S, socket_connect_timeout=ASK_TIMEOUT_S)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
