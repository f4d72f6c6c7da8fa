"""More partitions: no event is lost or booked twice, and no entity's events change their order."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.kafka import open_admin
from core.routing import partition_of, topics_of
from load.embedded import DOWN_S_MAX, UP_S_MAX, payhook
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once

EVENTS = topics_of("live").events
FEW, MANY = "2", "6"
PAYMENTS = 40
WAIT_S = 60.0
IN_ORDER = (["charge.succeeded"], ["charge.succeeded", "charge.refunded"])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    try:
        yield tmp_path
    finally:
        down(tmp_path)


def up(folder: Path, partitions: str) -> subprocess.CompletedProcess[str]:
    env = {"PAYHOOK_KAFKA__EVENTS_PARTITIONS": partitions}
    return payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX, env=env)


def down(folder: Path) -> None:
    payhook("down", "--data", str(folder), timeout_s=2 * DOWN_S_MAX)


def statuses(stack: Stack, webhooks: list[Webhook]) -> set[int]:
    return {answer.status for answer in stack.post(*webhooks)}


def refunds(stack: Stack, prefix: str) -> list[Webhook]:
    return [
        stack.traffic.stripe(f"{prefix}-back-{n}", "charge.refunded", 1_000 + n, "EUR", payment=f"{prefix}-{n}")
        for n in range(PAYMENTS)
    ]


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """It decides nothing meanwhile, and is killed at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_partitions_are_raised_when_all_is_decided_and_refused_before(folder: Path) -> None:
    assert up(folder, FEW).returncode == 0
    stack = Stack(folder)
    captures = stack.captures(PAYMENTS, "a")
    assert statuses(stack, captures) == {200}
    assert_once(stack, captures)
    late = refunds(stack, "a")[: PAYMENTS // 2]
    with frozen(stack.processor_status()["pid"]):
        assert statuses(stack, late) == {200}
        down(folder)

    started = up(folder, MANY)
    assert started.returncode == 3, started.stdout + started.stderr
    assert f"kafka.events_partitions is {MANY}" in started.stderr
    assert f"published by {FEW}" in started.stderr
    listed = open_admin(stack.kafka).list_topics(timeout=WAIT_S).topics
    assert len(listed[EVENTS].partitions) == int(MANY)
    fresh = stack.captures(PAYMENTS, "b")
    assert statuses(stack, fresh) == {503}, "they would go elsewhere than what is undecided of their entities"
    down(folder)

    assert up(folder, FEW).returncode == 0
    assert_once(stack, late)
    down(folder)

    assert up(folder, MANY).returncode == 0
    rest = refunds(stack, "a")[PAYMENTS // 2 :]
    assert statuses(stack, [*rest, *fresh]) == {200}
    assert statuses(stack, [*captures, *late]) == {200}
    assert_once(stack, [*captures, *late, *rest, *fresh])
    rows = stack.rows(["entity_key", "event_key", "event_type", "partition", "decision", "seq"])
    since = {key for webhook in [*rest, *fresh] for key in webhook.event_keys}
    moved = 0
    for payment in {row["entity_key"] for row in rows}:
        own = sorted((row for row in rows if row["entity_key"] == payment), key=lambda row: row["seq"])
        applied = [row for row in own if row["decision"] == "applied"]
        assert [row["event_type"] for row in applied] in IN_ORDER
        wanted = partition_of(EVENTS, payment.encode(), int(MANY))
        assert {row["partition"] for row in own if row["event_key"] in since} <= {wanted}
        moved += len({row["partition"] for row in applied}) == 2
    assert moved, "no payment moved: the test shows nothing"
    stack.verify()
