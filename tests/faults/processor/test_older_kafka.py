"""An older copy of Kafka's data is put back: nothing is passed over in silence, and a person decides how to go on."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from load.client import wait_for
from load.embedded import UP_S_MAX, payhook
from tests.e2e.conftest import Stack

WAIT_S = 120.0
BATCH = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data_dir = tmp_path_factory.mktemp("stack")
    try:
        yield data_dir
    finally:
        payhook("down", "--data", str(data_dir))


def up(folder: Path) -> subprocess.CompletedProcess[str]:
    return payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX)


def recover(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return payhook("recover", "--data", str(folder), *words)


def is_refused(stack: Stack) -> bool:
    return stack.processor_status().get("state") == "refused"


@pytest.mark.row("F1")
def test_an_older_kafka_is_refused_until_a_person_decides(folder: Path, tmp_path: Path) -> None:
    """300 events that Kafka forgot were never decided, while everything said ready: now it is refused."""
    assert up(folder).returncode == 0
    stack = Stack(folder)
    kept = stack.captures(BATCH, "kept")
    stack.post(*kept)
    stack.decide(kept)
    assert recover(folder).returncode == 0
    assert payhook("down", "--data", str(folder)).returncode == 0
    shutil.copytree(folder / "kafka", tmp_path / "older")
    assert up(folder).returncode == 0
    forgotten = stack.captures(BATCH, "forgotten")
    stack.post(*forgotten)
    stack.decide(forgotten)
    assert payhook("down", "--data", str(folder)).returncode == 0
    shutil.rmtree(folder / "kafka")
    shutil.copytree(tmp_path / "older", folder / "kafka")

    looked = recover(folder)
    assert looked.returncode == 3, looked.stdout + looked.stderr
    started = up(folder)
    assert started.returncode == 3, started.stdout + started.stderr
    assert "payhook recover" in started.stderr
    fresh = stack.captures(3 * BATCH, "fresh")
    assert {answer.status for answer in stack.post(*fresh)} == {200}, "the receiver takes"
    assert is_refused(stack)

    looked = recover(folder, "--json")
    assert looked.returncode == 3
    [ledger] = [one for one in json.loads(looked.stdout) if one["stream"] == "ledger"]
    assert {one["kind"] for one in ledger["disagreements"]} >= {"other_record"}
    assert sum(one["decided_beyond"] for one in ledger["partitions"]) == BATCH
    assert sum(one["to_decide"] for one in ledger["partitions"]) == 3 * BATCH
    assert is_refused(stack), "looking changes nothing"

    accepted = recover(folder, "--accept-loss", "--reason", "disk restored from 02:00")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    stack.decide(fresh)
    assert recover(folder).returncode == 0
    again = stack.post(*forgotten[:5])
    assert {answer.status for answer in again} == {200}
    assert wait_for(lambda: stack.processor_status().get("state") == "running", WAIT_S)
    applied = [row["event_key"] for row in stack.rows(["event_key", "decision"]) if row["decision"] == "applied"]
    assert len(applied) == len(set(applied)) == 5 * BATCH
    verified = payhook("verify", "--data", str(folder))
    assert verified.returncode == 0, verified.stdout + verified.stderr
