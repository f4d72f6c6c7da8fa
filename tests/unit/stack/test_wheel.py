"""payhook's packages have common names: no wheel mixes them with others', and one that hides them is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
BUILDS = "import sys; from setuptools import build_meta; sys.stdout.write(build_meta.{hook}(sys.argv[1]))"


def build(hook: str, folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", BUILDS.format(hook=hook), str(target)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What a build needs of the tree."""
    folder = tmp_path / "copy"
    for package in ("core", "stack"):
        shutil.copytree(CHECKOUT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / file, folder)
    return folder


def test_a_wheel_is_refused_with_what_to_do(copy: Path, tmp_path: Path) -> None:
    done = build("build_wheel", copy, tmp_path)
    assert done.returncode != 0
    assert "payhook isn't installed as a wheel" in done.stderr
    assert "make setup" in done.stderr
    assert list(tmp_path.glob("*.whl")) == []


def test_an_editable_installation_is_made(copy: Path, tmp_path: Path) -> None:
    done = build("build_editable", copy, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == 1


def version(*folders: Path) -> subprocess.CompletedProcess[str]:
    """The command, as its script in an environment starts it: payhook's folder isn't first on the path."""
    starts = "import sys; sys.path.append(sys.argv.pop(1)); from cli.main import run; run()"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    words = [sys.executable, "-S", "-c", "import site; site.main(); " + starts, str(CHECKOUT), "--version"]
    return subprocess.run(words, cwd="/", env=env, capture_output=True, text=True, check=False)


def test_a_package_of_others_that_hides_payhooks_own_is_named(tmp_path: Path) -> None:
    assert version().returncode == 0
    for file in ("ledger.py", "core/__init__.py", "harmless.py"):
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.touch()
    done = version(tmp_path)
    assert done.returncode == 1
    assert f"core is {tmp_path / 'core' / '__init__.py'}, ledger is {tmp_path / 'ledger.py'}" in done.stderr
    assert "harmless" not in done.stderr
    assert "environment of its own" in done.stderr
