"""Two shards on real servers: what died in either is one queue; an order is carried out by its items' shard."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.layout import Layout
from core.record_keys import RecordKeys
from core.routing import Shard, topics_of
from load.bench.drain import fill
from load.client import wait_for
from load.embedded import embedded_stack, payhook
from tests.e2e.conftest import Stack
from tests.faults.operations.test_run_killed import merchants, reported

ITEMS = 60
SHARDS = ("ledger", "ledger.1")
SOON_S = 120.0


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
    merchants(tmp_path / "stack", closed=True)
    with embedded_stack(tmp_path / "stack") as data_dir:
        yield Stack(data_dir)


def by_shard(stack: Stack) -> dict[str, list[dict[str, Any]]]:
    found = reported(stack, "list", "--limit", "1000")["items"]
    return {stream: [item for item in found if item["stream"] == stream] for stream in SHARDS}


def count_dead(stack: Stack) -> int:
    return int(reported(stack, "stats")["open"])


def test_what_died_in_two_shards_is_one_queue(stack: Stack) -> None:
    keys = RecordKeys(Layout(stack.data_dir).record_keys)
    fill(stack.kafka, topics_of("live").events, ITEMS, "shards", keys)
    assert wait_for(lambda: count_dead(stack) == ITEMS, SOON_S), count_dead(stack)
    dead = by_shard(stack)
    for number, items in enumerate(dead.values()):
        assert items
        assert all(Shard(number, 2).has_entity(item["entity_key"]) for item in items)
    assert sum(group["count"] for group in reported(stack, "groups")) == ITEMS

    with urllib.request.urlopen(f"{stack.endpoints['ops']}/status", timeout=10) as answer:
        status = json.load(answer)
    assert (status["ready"], status["lag"]["payments.events"]) == (True, 0)
    assert set(SHARDS) < status["streams"].keys()
    assert [status["streams"][one]["dead"] for one in SHARDS] == [len(items) for items in dead.values()]

    merchants(stack.data_dir, closed=False)
    singles = [f"{stream}:{items[0]['item_seq']}" for stream, items in dead.items()]
    said = payhook("dlq", "replay", *singles, "--data", str(stack.data_dir))
    assert said.returncode == 0, said.stderr
    assert wait_for(lambda: count_dead(stack) == ITEMS - 2, SOON_S), singles
    for stream, items in dead.items():
        shown = reported(stack, "show", f"{stream}:{items[0]['item_seq']}")
        assert (shown["stream"], shown["item"]["state"], shown["item"]["decision"]) == (stream, "replayed", "applied")

    selected = payhook("dlq", "select", "--data", str(stack.data_dir))
    assert selected.returncode == 0, selected.stderr
    frozen = {one["stream"]: one["count"] for one in reported(stack, "selections")["selections"]}
    assert frozen == {stream: len(items) - 1 for stream, items in dead.items()}
    for stream in SHARDS:
        reported(stack, "replay", f"{stream}:s1", "--reason", "account opened")
    assert wait_for(lambda: count_dead(stack) == 0, SOON_S), count_dead(stack)
    states = Counter(item["state"] for item in reported(stack, "list", "--state", "all", "--limit", "1000")["items"])
    assert states == {"replayed": ITEMS}
