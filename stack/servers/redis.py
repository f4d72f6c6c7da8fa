"""The embedded Redis: a Unix socket in a folder that is its owner's alone, no port, and users with passwords."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlparse

from core.files import create_once, write_whole
from core.redis import FAILURES, sync_redis
from core.settings import RedisSettings
from core.sockets import make_socket_folder, socket_folder
from stack.machine import find_redis
from stack.servers.server import Server

ASK_TIMEOUT_S = 1.0
USERS = "users.acl"
SOCKET = "redis.sock"

PAYHOOK, ADMIN = "payhook", "admin"
"""The user that payhook is, and a person's who looks into it; each with its password in a file of its name."""

COMMANDS = ("ping", "get", "set", "del", "getrange", "time", "scan", "eval", "evalsha")
"""What payhook calls, its scripts included."""
CLUSTER_COMMANDS = ("cluster|slots", "command", "asking")
"""Beside `COMMANDS`, on each node of a cluster."""
SENTINEL_COMMANDS = ("sentinel|masters",)
"""All that Sentinels are asked."""


def redis_server(folder: Path, log: Path) -> Server:
    """Describes a server that keeps its append-only file and its users under ``folder`` and never evicts a key."""
    socket = socket_of(folder)
    return Server(
        name="redis",
        command=(
            str(find_redis()),
            *("--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "600", "--dir", str(folder)),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--daemonize", "no", "--loglevel", "warning"),
            *("--aclfile", str(folder / USERS)),
        ),
        log=log,
        prepare=lambda: _prepare(folder, socket),
        answers=lambda: redis_answers(redis_url(folder)),
        clean=lambda: _remove_socket(folder, socket),
        start_s=30.0,
    )


def socket_of(folder: Path) -> Path:
    """Returns the server's socket: in ``folder``, or in a folder with a short path where that one's is too long."""
    return socket_folder(folder, len(SOCKET)) / SOCKET


def redis_url(folder: Path, user: str = PAYHOOK) -> str:
    return _build_url(folder, socket_of(folder), user)


def admin_url(folder: Path, url: str) -> str:
    return _build_url(folder, Path(unquote(urlparse(url).path)), ADMIN)


def _build_url(folder: Path, socket: Path, user: str) -> str:
    return f"unix://{user}:{_read_password(folder, user)}@{quote(str(socket))}?db=0"


def _prepare(folder: Path, socket: Path) -> None:
    make_socket_folder(socket.parent, folder)
    _write_users(folder)


def _remove_socket(folder: Path, socket: Path) -> None:
    if socket.parent != folder.absolute():
        socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            socket.parent.rmdir()


def _write_users(folder: Path) -> None:
    passwords = {user: _read_password(folder, user) for user in (PAYHOOK, ADMIN)}
    write_whole(folder / USERS, "user default off\n" + build_acl(passwords, COMMANDS))


def build_acl(passwords: Mapping[str, str], commands: Sequence[str]) -> str:
    rules = {PAYHOOK: "-@all " + " ".join(f"+{command}" for command in commands), ADMIN: "+@all"}
    digests = {user: hashlib.sha256(password.encode()).hexdigest() for user, password in passwords.items()}
    return "".join(f"user {user} on #{digests[user]} ~* &* {may}\n" for user, may in rules.items())


def _read_password(folder: Path, user: str) -> str:
    path = folder / f"{user}.password"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_once(path, secrets.token_urlsafe(24))
    return path.read_text("utf-8")


def redis_answers(url: str) -> bool:
    """Returns whether the server takes commands; while it loads its file it doesn't."""
    client = sync_redis(RedisSettings(url=url), ASK_TIMEOUT_S)
    try:
        return bool(client.ping())
    except FAILURES:
        return False
    finally:
        client.close()
