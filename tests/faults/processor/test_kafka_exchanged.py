"""Kafka's data is exchanged under a running stack, and a stack is moved to another Kafka."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from load.client import wait_for
from load.embedded import UP_S_MAX, payhook
from load.traffic import Webhook
from tests.e2e.conftest import Stack

WAIT_S = 180.0
COUNT = 60


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    data_dir = tmp_path_factory.mktemp("stack")
    try:
        assert payhook("up", "--detach", "--data", str(data_dir), timeout_s=UP_S_MAX).returncode == 0
        yield Stack(data_dir)
    finally:
        payhook("down", "--data", str(data_dir))


def posted(stack: Stack, prefix: str) -> list[Webhook]:
    webhooks = stack.captures(COUNT, prefix)
    assert wait_for(lambda: {answer.status for answer in stack.post(*webhooks)} == {200}, WAIT_S)
    return webhooks


def state(stack: Stack) -> object:
    return stack.processor_status().get("state")


def accept(stack: Stack) -> None:
    words = ("--accept-loss", "--reason", "it was exchanged")
    accepted = payhook("recover", "--data", str(stack.data_dir), *words)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr


def assert_each_applied_once(stack: Stack, webhooks: list[Webhook]) -> None:
    stack.decide(webhooks, WAIT_S)
    rows = stack.rows(["event_key", "decision"])
    applied = [row["event_key"] for row in rows if row["decision"] == "applied"]
    assert len(applied) == len(set(applied))
    assert {key for one in webhooks for key in one.event_keys} <= set(applied)


def test_a_log_that_is_exchanged_while_the_processor_runs_is_refused(stack: Stack, tmp_path: Path) -> None:
    """The broker is back before the processor noticed, with an older copy that grows past the marks."""
    kept = posted(stack, "kept")
    stack.decide(kept, WAIT_S)
    broker = psutil.Process(int(stack.endpoints["pids"]["kafka"]))
    broker.suspend()
    shutil.copytree(stack.data_dir / "kafka", tmp_path / "older")
    broker.resume()
    forgotten = posted(stack, "forgotten")
    stack.decide(forgotten, WAIT_S)

    supervisor = broker.parent()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGSTOP)
    try:
        broker.kill()
        assert wait_for(lambda: broker.status() == psutil.STATUS_ZOMBIE, WAIT_S), "nobody reaps it meanwhile"
        shutil.rmtree(stack.data_dir / "kafka")
        shutil.copytree(tmp_path / "older", stack.data_dir / "kafka")
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)
    fresh = posted(stack, "fresh")
    assert wait_for(lambda: state(stack) == "refused", WAIT_S)
    assert payhook("recover", "--data", str(stack.data_dir)).returncode == 3
    accept(stack)
    assert_each_applied_once(stack, [*kept, *forgotten, *fresh])
    assert wait_for(lambda: state(stack) == "running", WAIT_S)
    assert payhook("recover", "--data", str(stack.data_dir)).returncode == 0


def test_a_move_to_another_kafka_loses_nothing(stack: Stack) -> None:
    before = posted(stack, "before")
    stack.decide(before, WAIT_S)
    assert payhook("down", "--data", str(stack.data_dir)).returncode == 0
    shutil.rmtree(stack.data_dir / "kafka")
    up = payhook("up", "--detach", "--data", str(stack.data_dir), timeout_s=UP_S_MAX)
    assert up.returncode == 3, up.stdout + up.stderr
    after = posted(stack, "after")
    accept(stack)
    assert_each_applied_once(stack, [*before, *after])
