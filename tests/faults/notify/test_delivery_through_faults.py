"""The whole stack with a subscriber that is down for a while, and a killed processor: each fact arrives, once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from load.client import wait_for
from load.embedded import embedded_stack, payhook
from load.subscriber import Reply
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once
from tests.shop import Shop

PAYMENTS = 40
OUTAGE_S = 8.0
READY_S, TOLD_S = 120.0, 120.0


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    with shop.server:
        yield shop


@pytest.fixture
def stack(shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    shop.subscribe(folder, monkeypatch)
    with embedded_stack(folder) as data_dir:
        assert wait_for(lambda: is_ready(data_dir), READY_S), "the notify stream must be ready"
        yield Stack(data_dir)


def is_ready(data_dir: Path) -> bool:
    try:
        reported: dict[str, object] = json.loads((data_dir / "run" / "processor-notify.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return reported["ready"] is True


def keys(webhooks: list[Webhook]) -> set[str]:
    return {key for webhook in webhooks for key in webhook.event_keys}


def test_each_fact_is_taken_once_and_in_order_through_an_outage_and_a_kill(stack: Stack, shop: Shop) -> None:
    captures = stack.captures(PAYMENTS, "told")
    stack.post(*captures)
    assert_once(stack, captures)
    assert wait_for(lambda: shop.reported == keys(captures), TOLD_S), len(shop.reported)
    shop.reply = Reply(503, (("retry-after", "2"),))
    refunds = [
        stack.traffic.stripe(f"back-{n}", "charge.refunded", 1_000 + n, "EUR", payment=f"told-{n}")
        for n in range(PAYMENTS)
    ]
    stack.post(*refunds)
    assert_once(stack, refunds)
    assert wait_for(lambda: shop.server.counts.refused > 0, TOLD_S)
    stack.kill("processor")
    time.sleep(OUTAGE_S / 2)
    shop.reply = None
    wanted = keys(captures) | keys(refunds)
    assert wait_for(lambda: shop.reported == wanted, TOLD_S), (
        f"{len(shop.reported)} of {len(wanted)}; {shop.server.counts}"
    )
    counts = shop.server.counts
    assert (counts.taken, counts.forged, counts.out_of_order) == (2 * PAYMENTS, 0, 0)
    assert decisions(stack, "dead") == set()
    assert "all of it holds" in stack.verify()


def test_410_ends_it_until_a_person_enables_it_again(stack: Stack, shop: Shop) -> None:
    data = ("--data", str(stack.data_dir))
    shop.reply = Reply(410)
    first = stack.captures(3, "gone")
    stack.post(*first)
    assert wait_for(lambda: len(decisions(stack, "ignored")) == 3, TOLD_S)
    said = payhook("notify", "subscribers", *data)
    assert said.returncode == 1
    assert "shop is disabled since" in said.stdout
    shop.reply = None
    assert payhook("notify", "test", "shop", *data).returncode == 0
    assert payhook("notify", "enable", "shop", *data).returncode == 0
    shop.server.envelopes.clear()
    second = stack.captures(3, "again")
    stack.post(*second)
    assert wait_for(lambda: shop.reported == keys(second), TOLD_S), shop.reported


def decisions(stack: Stack, decision: str) -> set[str]:
    """Keys of the notify stream's journal that were decided so; none while it takes its time to begin."""
    journal = stack.data_dir / "lake" / "journal" / "notify"
    if not DeltaTable.is_deltatable(str(journal)):
        return set()
    rows = DeltaTable(journal).to_pyarrow_dataset().to_table(columns=["event_key", "decision"]).to_pylist()
    return {row["event_key"] for row in rows if row["decision"] == decision}
