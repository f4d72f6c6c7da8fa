"""An environment of the packages that a page names and of what they need, and nothing else of this one's."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

RUN_S_MAX = 300.0


def environment(folder: Path, *packages: str) -> Path:
    """A folder of links to the packages' files, as ``pip install PACKAGES`` would fill it."""
    wanted, known = list(packages), set[str]()
    while wanted:
        needed = Requirement(wanted.pop())
        name = canonicalize_name(needed.name)
        if name in known:
            continue
        known.add(name)
        extras = needed.extras or {""}
        package = distribution(needed.name)
        for file in package.files or ():
            if not str(file).startswith("..") and "__pycache__" not in file.parts:
                _link(folder / file, Path(str(package.locate_file(file))).resolve())
        for text in package.requires or ():
            more = Requirement(text)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in extras):
                wanted.append(_with_extras(more))
    return folder


def _link(link: Path, file: Path) -> None:
    """Bytecode comes along: to compile it again would take most of a run."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(file)
    compiled = Path(cache_from_source(str(file)))
    if file.suffix == ".py" and compiled.is_file():
        _link(link.parent / "__pycache__" / compiled.name, compiled)


def _with_extras(needed: Requirement) -> str:
    """
    :raises PackageNotFoundError: this environment hasn't the package
    """
    try:
        distribution(needed.name)
    except PackageNotFoundError as missing:
        raise PackageNotFoundError(f"{needed.name}, which a page's packages need") from missing
    return f"{needed.name}[{','.join(needed.extras)}]" if needed.extras else needed.name


def run_with(*path: Path, words: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with the standard library and these folders on its path, and no more of this process's environment than
    any shell has.
    """
    usual = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-S", *words],
        cwd=cwd,
        env={**usual, "PYTHONPATH": os.pathsep.join(map(str, path)), **variables},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
