"""The whole stack on a lake that fills up: webhooks are taken all the same, the status says why, and it goes on.

The lake is a small disk in a mount namespace of the stack's own, which is entered through its supervisor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from load.client import wait_for
from load.embedded import SAMPLE_CONFIG
from tests.e2e.conftest import Stack
from tests.processes import fill_disk

LAKE = "48m"
UP_S_MAX = 300.0
SEEN_S = 60.0
BACK_S = 120.0
UP = f"""
mount -t tmpfs -o size={LAKE} tmpfs "$1/lake" && exec "$2" -m cli.main up --data "$1"
"""
ROWS = """
import json, pathlib, sys
from load.client import RunningStack
folder, topic, *columns = sys.argv[1:]
print(json.dumps(RunningStack(pathlib.Path(folder)).rows(columns, topic or None)))
"""
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


class MountedLake(Stack):
    """A stack whose lake only its own processes see where it is mounted."""

    def __init__(self, data_dir: Path, supervisor: subprocess.Popen[bytes]) -> None:
        super().__init__(data_dir)
        self._supervisor = supervisor

    @property
    def inside(self) -> Path:
        """The root of the file system as the stack sees it."""
        return Path(f"/proc/{self._supervisor.pid}/root")

    @property
    def lake(self) -> Path:
        return self.inside / str(self.data_dir / "lake").lstrip("/")

    def blocked(self) -> str:
        return str(self.processor_status().get("blocked") or "")

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.endpoints['ops']}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A `payhook` command that sees the lake."""
        return self._inside("-m", "cli.main", *words, "--data", str(self.data_dir))

    def rows(self, columns: Sequence[str], topic: str | None = "payments.events") -> list[dict[str, Any]]:
        """Delta's library resolves a path before it opens a table, and would be outside again."""
        read = self._inside("-c", ROWS, str(self.data_dir), topic or "", *columns)
        assert read.returncode == 0, read.stderr[-3_000:]
        rows: list[dict[str, Any]] = json.loads(read.stdout)
        return rows

    def _inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        entered = ["nsenter", f"--mount=/proc/{self._supervisor.pid}/ns/mnt", f"--wd={Path.cwd()}"]
        command = [*entered, sys.executable, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=_environment())


def _environment() -> dict[str, Any]:
    return {**os.environ, "PAYHOOK_CONFIG": str(SAMPLE_CONFIG)}


@pytest.fixture
def small_lake(tmp_path: Path) -> Iterator[MountedLake]:
    (tmp_path / "lake").mkdir()
    command = [*OWN_MOUNTS, "sh", "-c", UP, "up", str(tmp_path), sys.executable]
    with (tmp_path / "up.log").open("wb") as log:
        supervisor = subprocess.Popen(command, env=_environment(), stdout=log, stderr=log)
    try:
        up = wait_for(lambda: (tmp_path / "endpoints.json").exists() or supervisor.poll() is not None, UP_S_MAX)
        assert up and supervisor.poll() is None, (tmp_path / "up.log").read_text("utf-8")
        yield MountedLake(tmp_path, supervisor)
    finally:
        supervisor.terminate()
        supervisor.wait(120)


def test_a_full_lake_stops_decisions_not_webhooks_and_ends_by_itself(small_lake: MountedLake) -> None:
    before, meanwhile = small_lake.captures(5, "before-full"), small_lake.captures(20, "while-full")
    small_lake.post(*before)
    small_lake.decide(before)
    pid, filler = small_lake.processor_status()["pid"], small_lake.lake / "filler"
    fill_disk(filler)
    assert {answer.status for answer in small_lake.post(*meanwhile)} == {200}
    assert wait_for(lambda: "No space left on device" in small_lake.blocked(), SEEN_S), small_lake.processor_status()
    metrics = small_lake.metrics()
    assert any(line.startswith("payhook_stream_blocked{") and line.endswith(" 1.0") for line in metrics.splitlines())
    assert "payhook_stream_blocked_by{" in metrics
    assert small_lake.run("status").returncode == 1
    filler.unlink()
    small_lake.decide(meanwhile, BACK_S)
    assert wait_for(lambda: not small_lake.blocked(), SEEN_S)
    assert small_lake.processor_status()["pid"] == pid, "it went on in the same process"
    decisions = [row["decision"] for row in small_lake.rows(["decision"])]
    assert decisions == ["applied"] * 25
    said = small_lake.run("verify")
    assert said.returncode == 0, said.stdout + said.stderr
