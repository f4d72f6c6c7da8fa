"""Real object stores that are built once below the checkout's ``.payhook``, each at a pinned version.

Go checks each module against its public checksum database.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from stack.paths import STATE

TOOLS = STATE / "tools"
BUILD_S = 900.0


class NotBuilt(Exception):
    """A program can't be had here."""


def go_program(module: str, version: str) -> Path:
    """A Go program, built if it isn't there yet.

    :raises NotBuilt: there is no Go, or it couldn't be built
    """
    name = module.rpartition("/")[2]
    folder = TOOLS / f"{name}-{version}"
    with _one_at_a_time():
        if not (folder / name).is_file():
            if shutil.which("go") is None:
                raise NotBuilt(f"there is no {name}, and no Go to build it (Debian: apt-get install golang)")
            _run(["nice", "go", "install", f"{module}@{version}"], folder)
    return folder / name


def _run(command: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    with log.open("wb") as sink:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "GOBIN": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            timeout=BUILD_S,
            check=False,
        )
    if done.returncode:
        raise NotBuilt(f"`{' '.join(command)}` failed, see {log}")


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    TOOLS.mkdir(parents=True, exist_ok=True)
    with (TOOLS / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
