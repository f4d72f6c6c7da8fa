"""The code for executors on other machines: one archive with what the driver's own interpreter imports.

It has payhook's packages, the folders of ``PYTHONPATH`` (handlers of one's own), and the installed packages without
those that only a checkout needs. Python itself and Spark are the cluster's: Spark runs the archive's ``bin/python``,
which runs the machine's Python of the driver's minor version.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from importlib.util import cache_from_source
from pathlib import Path, PurePosixPath

from stack import machine

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"

LAUNCHER = f"""\
#!/bin/sh
# Runs this machine's {PYTHON} with the packages beside this file.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit
export PYTHONPATH="$here/code:$here/packages${{PYTHONPATH:+:$PYTHONPATH}}"
exec {PYTHON} "$@"
"""

CODE, PACKAGES = "code", "packages"
"""Folders of the archive."""

NOT_CODE = frozenset({"tests", "docs"})
NOT_PACKED = frozenset({"duckdb", "payhook", "pip", "setuptools", "wheel"})
"""Installed packages that no executor needs."""
DRIVERS_OWN = re.compile(r"pyspark/(jars|bin|sbin|data|examples|licenses|python)/|(^|/)(tests|__pycache__)/")
"""Not packed of installed packages: Spark's jars, which are the cluster's, and the packages' own tests."""

COMPRESS_LEVEL = 1
"""As much smaller as time allows: a start waits for it."""


def make_package(folder: Path) -> Path:
    """Makes the archive in ``folder``; one that is there is left if it holds the same.

    :raises OSError: it can't be written
    """
    files = dict(_list_files())
    compiled = dict(_list_bytecode(files))
    archive = folder / f"payhook-{_digest_files(files)}.tar.gz"
    if archive.is_file():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    draft = archive.with_suffix(f".{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=COMPRESS_LEVEL) as tar:
            launcher = tarfile.TarInfo("bin/python")
            launcher.mode, launcher.size = 0o755, len(LAUNCHER)
            tar.addfile(launcher, io.BytesIO(LAUNCHER.encode()))
            for name, path in sorted((files | compiled).items()):
                tar.add(path, name, recursive=False, filter=_make_readable)
        for older in folder.glob("payhook-*.tar.gz"):
            older.unlink()
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    return archive


def _make_readable(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Makes a file everybody's to read: executors may run as another user."""
    info.mode |= 0o444
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _list_files() -> Iterator[tuple[str, Path]]:
    for package in sorted(machine.CHECKOUT.glob("*/__init__.py")):
        if package.parent.name not in NOT_CODE:
            yield from _list_files_below(package.parent, f"{CODE}/{package.parent.name}")
    for text in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        folder = Path(text)
        if text and folder.is_dir() and folder.resolve() != machine.CHECKOUT:
            yield from _list_files_below(folder, CODE)
    left_out = NOT_PACKED | _only_for_a_checkout()
    for package_of in distributions():
        if _normalize_name(package_of.name) not in left_out:
            yield from _list_package_files(package_of)


def _list_files_below(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and not {"__pycache__", "tests"} & set(inner.parts) and not inner.parts[0].startswith("."):
            yield f"{name}/{inner.as_posix()}", path


def _list_package_files(package: Distribution) -> Iterator[tuple[str, Path]]:
    for file in package.files or ():
        name = PurePosixPath(file).as_posix()
        path = Path(str(package.locate_file(file)))
        if not name.startswith("..") and DRIVERS_OWN.search(name) is None and path.is_file():
            yield f"{PACKAGES}/{name}", path


def _list_bytecode(files: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """Yields the bytecode that there is: each Python worker of each executor would compile all of it."""
    for name, path in files.items():
        if path.suffix == ".py":
            bytecode = Path(cache_from_source(str(path)))
            if bytecode.is_file():
                yield str(PurePosixPath(name).parent / "__pycache__" / bytecode.name), bytecode


def _only_for_a_checkout() -> frozenset[str]:
    return _read_locked_names(machine.CHECKOUT / "requirements.lock") - _read_locked_names(
        machine.CHECKOUT / "requirements-runtime.lock"
    )


def _read_locked_names(lock: Path) -> frozenset[str]:
    if not lock.is_file():
        return frozenset()
    return frozenset(map(_normalize_name, re.findall(r"^([A-Za-z0-9._-]+)==", lock.read_text("utf-8"), re.MULTILINE)))


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest_files(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256(LAUNCHER.encode())
    for name, path in sorted(files.items()):
        if name.startswith(f"{CODE}/") or name.endswith(".dist-info/RECORD"):
            digest.update(f"\x1f{name}\x1f".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
