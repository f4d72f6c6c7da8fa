"""One shard becomes two, and two become four: no event is lost or booked twice, and every entity's order holds."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.routing import Shard
from journal.journals import own_rows_after
from journal.reader import JournalReader
from load.client import wait_for
from load.embedded import DOWN_S_MAX, UP_S_MAX, payhook
from load.traffic import Webhook
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.e2e.conftest import DECIDED_S, Stack, assert_once
from tests.processes import pause
from tests.shop import Shop

PAYMENTS = 40
CLOSED = 8
MERCHANTS = '[stripe]\n"acct_main" = "merchant-main"\n"acct_closed" = {account = "merchant-closed", closed = true}\n'
OPEN = MERCHANTS.replace("closed = true", "closed = false")


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    with shop.server:
        yield shop


@pytest.fixture
def folder(tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shop.subscribe(tmp_path, monkeypatch)
    (tmp_path / "merchants.toml").write_text(MERCHANTS, "utf-8")
    try:
        yield tmp_path
    finally:
        down(tmp_path)


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many shards there are, for what is started after that."""
    return lambda shards: monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", str(shards))


def up(folder: Path) -> subprocess.CompletedProcess[str]:
    return payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX)


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


def refunds(stack: Stack, prefix: str, part: str, event_type: str = "charge.refunded") -> list[Webhook]:
    """One of each payment. By this type it is the payment's one refund, by ``refund.created`` one of its own."""
    return [
        stack.traffic.stripe(f"{prefix}-{part}-{n}", event_type, 100 + n, "EUR", payment=f"{prefix}-{n}")
        for n in range(PAYMENTS)
    ]


def assert_reported(shop: Shop, webhooks: list[Webhook]) -> None:
    """The subscriber got each event once, and each payment's in their order."""
    wanted = {key for webhook in webhooks for key in webhook.event_keys}
    assert wait_for(lambda: shop.reported == wanted, DECIDED_S), f"{len(shop.reported)} of {len(wanted)}"
    counts = shop.server.counts
    assert (counts.taken, counts.out_of_order) == (len(wanted), 0)


def entity_of(webhook: Webhook) -> str:
    (event,) = build_adapters(ProvidersSettings())["stripe"].events(Request(webhook.body, []), "live")
    return event.entity_key


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    pause(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def dead_items(folder: Path) -> list[str]:
    said = payhook("dlq", "list", "--json", "--data", str(folder))
    assert said.returncode == 0, said.stderr
    return [f"{one['stream']}:{one['item_seq']}" for one in json.loads(said.stdout)["items"]]


@pytest.mark.row("F5")
def test_one_becomes_two_and_two_become_four(folder: Path, shop: Shop, configure: Callable[[int], None]) -> None:
    assert up(folder).returncode == 0
    stack = Stack(folder)
    first = post(stack, stack.captures(PAYMENTS, "a"))
    assert_once(stack, first)
    assert_reported(shop, first)
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

    configure(2)
    started = up(folder)
    assert started.returncode == 3, started.stdout + started.stderr
    assert "`payhook split` divides" in started.stderr
    down(folder)
    divided = split(folder, 2)
    assert divided.returncode == 0, divided.stderr
    assert "ledger: 1 → 2 shards" in divided.stdout
    configure(1)
    started = up(folder)
    assert started.returncode == 3, started.stdout + started.stderr
    down(folder)

    configure(2)
    assert up(folder).returncode == 0
    post(stack, again(stack, first))
    second = post(stack, [*stack.captures(PAYMENTS, "b"), *refunds(stack, "a", "back")])
    assert_once(stack, [*first, *second])
    assert_reported(shop, [*first, *second])
    with paused(stack.endpoints["pids"]["processor.1"]):
        while_one_stands = post(stack, stack.captures(PAYMENTS, "c"))
        stack.decide([one for one in while_one_stands if Shard(0, 2).has_entity(entity_of(one))])
    second += while_one_stands
    assert_once(stack, second)

    items = dead_items(folder)
    assert len(items) == CLOSED
    assert {item.partition(":")[0] for item in items} == {"ledger", "ledger.1"}
    (folder / "merchants.toml").write_text(OPEN, "utf-8")
    replayed = payhook("dlq", "replay", *items, "--data", str(folder))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    second += [*dead, *behind]
    assert_once(stack, second)
    assert_reported(shop, [*first, *second])
    stack.verify()
    down(folder)

    assert split(folder, 4).returncode == 0
    configure(4)
    assert up(folder).returncode == 0
    post(stack, again(stack, [*first, *second]))
    third = post(stack, [*refunds(stack, "b", "back"), *refunds(stack, "a", "more", "refund.created")])
    known = post(stack, refunds(stack, "a", "back-again"))
    assert_once(stack, [*first, *second, *third])
    stack.decide(known)
    assert {stack.decisions(one)[-1] for one in known} == {"duplicate_fact"}, "booked before the split"
    assert_reported(shop, [*first, *second, *third])
    stack.verify()
    for journal in stack.journals():
        own = JournalReader(str(journal))
        assert own.last_seq > own_rows_after(journal), f"{journal} decided nothing: the test shows nothing"
