"""The processor is killed in the middle of a run, over and over: the run goes on, and each item ends once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.layout import Layout
from core.record_keys import RecordKeys
from core.routing import topics_of
from load.bench.drain import fill
from load.client import wait_for
from load.embedded import embedded_stack, payhook
from tests.e2e.conftest import Stack

ITEMS = 3_000
PER_S = 60.0
POINTS = ("processor.before_commit", "processor.after_commit", "processor.after_index")
BACK_S = 180.0
CLOSED = '"acct_load" = {account = "merchant-closed", closed = true}'


@pytest.fixture
def fired(tmp_path: Path) -> Path:
    """Where a point is named once it killed somebody; none does before its file is taken away."""
    folder = tmp_path / "fired"
    folder.mkdir()
    for point in POINTS:
        (folder / point).touch()
    return folder


@pytest.fixture
def stack(tmp_path: Path, fired: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    for name, value in (
        ("PAYHOOK_TESTING", "1"),
        ("PAYHOOK_CRASH_AT", ",".join(POINTS)),
        ("PAYHOOK_CRASH_ONCE", str(fired)),
    ):
        monkeypatch.setenv(name, value)
    merchants(tmp_path / "stack", closed=True)
    with embedded_stack(tmp_path / "stack") as data_dir:
        yield Stack(data_dir)


def merchants(data_dir: Path, *, closed: bool) -> None:
    data_dir.mkdir(exist_ok=True)
    fresh = data_dir / ".merchants.toml"
    fresh.write_text(f'[stripe]\n"*" = "merchant-main"\n{CLOSED if closed else ""}\n', "utf-8")
    fresh.replace(data_dir / "merchants.toml")


def reported(stack: Stack, *words: str) -> Any:
    said = payhook("dlq", *words, "--json", "--data", str(stack.data_dir))
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


def items(stack: Stack, decision: str) -> Counter[int]:
    """How often each item has a row with this decision."""
    rows = stack.rows(["item_seq", "decision"])
    return Counter(row["item_seq"] for row in rows if row["decision"] == decision)


def goes_on(stack: Stack) -> None:
    """More items take effect than until now."""
    before = len(items(stack, "applied"))
    assert wait_for(lambda: len(items(stack, "applied")) > before, BACK_S), f"it doesn't go on after {before}"


def test_every_item_takes_effect_once_and_is_shown_however_often_the_processor_is_killed(
    stack: Stack, fired: Path
) -> None:
    keys = RecordKeys(Layout(stack.data_dir).record_keys)
    fill(stack.kafka, topics_of("live").events, ITEMS, "killed", keys)
    assert wait_for(lambda: bool(stack.processor_status().get("dead") == ITEMS), BACK_S)
    assert reported(stack, "select")["count"] == ITEMS
    merchants(stack.data_dir, closed=False)
    reported(stack, "replay", "s1", "--rate", str(PER_S), "--reason", "account opened", "--no-wait")
    goes_on(stack)
    for point in POINTS:
        (fired / point).unlink()
        assert wait_for((fired / point).exists, BACK_S), f"{point} never fired"
        goes_on(stack)
    stack.kill("processor")
    goes_on(stack)
    assert reported(stack, "pause", "s1")["state"] == "paused"
    stack.kill("processor")
    assert wait_for(lambda: reported(stack, "selections", "s1")["states"].keys() == {"applied", "unsent"}, BACK_S)
    assert reported(stack, "selections", "s1")["run"]["state"] == "paused"
    assert len(items(stack, "applied")) < ITEMS, "it was over before it was paused"
    assert wait_for(lambda: bool(stack.processor_status().get("ready")), BACK_S)
    reported(stack, "resume", "s1")

    assert wait_for(lambda: reported(stack, "selections", "s1")["finished"], BACK_S)
    assert wait_for(lambda: reported(stack, "selections", "s1")["run"]["finished_at"] is not None, BACK_S)
    run = reported(stack, "selections", "s1")
    assert (run["states"], run["run"]["state"]) == ({"applied": ITEMS}, "sent")
    for decision in ("replayed", "applied"):
        counted = items(stack, decision)
        assert (len(counted), set(counted.values())) == (ITEMS, {1}), decision
    # Verify wants receipts, and what died went past the receiver.
    stack.decided_captures(1, "after")
    stack.verify()
