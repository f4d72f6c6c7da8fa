"""One shard becomes two, and two become four: no event is lost or booked twice, and every entity's order holds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.routing import Shard
from load.embedded import DOWN_S_MAX, UP_S_MAX, payhook
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once

PAYMENTS = 40
CLOSED = 8
MERCHANTS = '[stripe]\n"acct_main" = "merchant-main"\n"acct_closed" = {account = "merchant-closed", closed = true}\n'
OPEN = MERCHANTS.replace("closed = true", "closed = false")
WAIT_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "merchants.toml").write_text(MERCHANTS, "utf-8")
    try:
        yield tmp_path
    finally:
        down(tmp_path)


def up(folder: Path, shards: int) -> subprocess.CompletedProcess[str]:
    env = {"PAYHOOK_PROCESSOR__SHARDS": str(shards)}
    return payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX, env=env)


def down(folder: Path) -> None:
    payhook("down", "--data", str(folder), timeout_s=2 * DOWN_S_MAX)


def split(folder: Path, shards: int) -> subprocess.CompletedProcess[str]:
    return payhook("split", str(shards), "--reason", "more traffic", "--data", str(folder))


def post(stack: Stack, webhooks: list[Webhook]) -> list[Webhook]:
    assert {answer.status for answer in stack.post(*webhooks)} == {200}
    return webhooks


def again(stack: Stack, webhooks: list[Webhook]) -> list[Webhook]:
    """The same events, signed now."""
    return [stack.traffic.signed(one.provider, one.body) for one in webhooks]


def refunds(stack: Stack, prefix: str, part: str) -> list[Webhook]:
    return [
        stack.traffic.stripe(f"{prefix}-{part}-{n}", "charge.refunded", 100 + n, "EUR", payment=f"{prefix}-{n}")
        for n in range(PAYMENTS)
    ]


def test_one_becomes_two_and_two_become_four(folder: Path) -> None:
    assert up(folder, 1).returncode == 0
    stack = Stack(folder)
    first = post(stack, stack.captures(PAYMENTS, "a"))
    assert_once(stack, first)
    dead = [
        stack.traffic.stripe(f"shut-{n}", "charge.succeeded", 500 + n, "EUR", account="acct_closed")
        for n in range(CLOSED)
    ]
    behind = [
        stack.traffic.stripe(
            f"shut-back-{n}", "charge.refunded", 100, "EUR", account="acct_closed", payment=f"shut-{n}"
        )
        for n in range(CLOSED)
    ]
    post(stack, dead)
    stack.decide(dead)
    post(stack, behind)
    stack.decide(behind)
    assert {stack.decisions(one)[-1] for one in dead} == {"dead"}
    assert {stack.decisions(one)[-1] for one in behind} == {"parked"}
    refused = split(folder, 2)
    assert refused.returncode == 1
    assert "stop all processors first" in refused.stderr
    down(folder)

    started = up(folder, 2)
    assert started.returncode == 3, started.stdout + started.stderr
    assert "`payhook split` divides" in started.stderr
    down(folder)
    divided = split(folder, 2)
    assert divided.returncode == 0, divided.stderr
    assert "ledger: 1 → 2 shards" in divided.stdout
    started = up(folder, 1)
    assert started.returncode == 3, started.stdout + started.stderr
    down(folder)

    assert up(folder, 2).returncode == 0
    post(stack, again(stack, first))
    second = post(stack, [*stack.captures(PAYMENTS, "b"), *refunds(stack, "a", "back")])
    assert_once(stack, [*first, *second])
    stack.verify()
    down(folder)

    assert split(folder, 4).returncode == 0
    assert up(folder, 4).returncode == 0
    post(stack, again(stack, [*first, *second]))
    third = post(stack, [*refunds(stack, "b", "back"), *refunds(stack, "a", "more")])
    assert_once(stack, [*first, *second, *third])
    stack.verify()
    for number, journal in enumerate(stack.journals()):
        own = [row for row in stack.rows(["entity_key"]) if row["entity_key"] is not None]
        assert own, journal
        _ = Shard(number, 4)
