"""Real object stores that are built once below the checkout's ``.payhook``, each at a pinned version.

Go checks each module against its public checksum database, npm each package against ``azurite/package-lock.json``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from stack.machine import STATE

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
            folder.mkdir(parents=True, exist_ok=True)
            _run(["nice", "go", "install", f"{module}@{version}"], folder)
    return folder / name


def azurite() -> tuple[str, str]:
    """The command of Azurite's blob service, installed if it isn't there yet.

    :raises NotBuilt: there is no Node.js, or it couldn't be installed
    """
    lock = Path(__file__).parent / "azurite"
    folder = TOOLS / f"azurite-{hashlib.sha256((lock / 'package-lock.json').read_bytes()).hexdigest()[:12]}"
    program = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    with _one_at_a_time():
        if not program.is_file():
            if shutil.which("npm") is None:
                raise NotBuilt("there is no Azurite, and no npm to install it (Debian: apt-get install npm)")
            shutil.copytree(lock, folder, dirs_exist_ok=True)
            _run(["nice", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return "node", str(program)


def _run(command: list[str], folder: Path) -> None:
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
