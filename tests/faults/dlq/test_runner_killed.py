"""Whoever runs a selection is killed in the midst of it, over and over: the run goes on, and each item ends once."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from load.client import wait_for
from load.embedded import embedded_stack, payhook
from load.traffic import Webhook
from tests.e2e.conftest import Stack

ITEMS = 300
PER_S = 5.0
COMMAND_ITEMS = 10
POINTS = ("selection.after_writing_down", "selection.after_sending")
BACK_S = 120.0
ACCOUNT = "acct_closed"
CLOSED = f'"{ACCOUNT}" = {{account = "merchant-closed", closed = true}}'


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
    """Its runs hold 10 items a command at most; a run whose process is gone is taken over after 2 s."""
    for name, value in (
        ("PAYHOOK_TESTING", "1"),
        ("PAYHOOK_CRASH_AT", ",".join(POINTS)),
        ("PAYHOOK_CRASH_ONCE", str(fired)),
        ("PAYHOOK_SELECTIONS__COMMAND_ITEMS_MAX", str(COMMAND_ITEMS)),
        ("PAYHOOK_SELECTIONS__LEASE_S", "2"),
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


def told(stack: Stack, *words: str) -> Any:
    said = payhook("dlq", *words, "--json", "--data", str(stack.data_dir))
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


def kill_runner(stack: Stack) -> int:
    """kill -9 to the process that runs the selection just now."""
    run: dict[str, Any] = {}

    def is_held_or_over() -> bool:
        run.update(told(stack, "selections", "s1"))
        return bool(run["held_by"] or run["finished"])

    assert wait_for(is_held_or_over, BACK_S), f"nobody runs it: {run['states']}"
    assert not run["finished"], "it was over before anybody was killed"
    pid = int(run["held_by"].rpartition(":")[2])
    os.kill(pid, signal.SIGKILL)
    return pid


def applied(stack: Stack, webhooks: list[Webhook]) -> Counter[str]:
    """How often each event took effect."""
    keys = {key for one in webhooks for key in one.event_keys}
    rows = stack.rows(["event_key", "decision"])
    return Counter(row["event_key"] for row in rows if row["event_key"] in keys and row["decision"] == "applied")


def test_every_item_takes_effect_once_and_is_shown_whoever_is_killed(stack: Stack, fired: Path) -> None:
    dead = [stack.traffic.stripe(f"dead-{n}", "charge.succeeded", 1_000 + n, "EUR", ACCOUNT) for n in range(ITEMS)]
    stack.post(*dead)
    stack.decide(dead)
    assert applied(stack, dead) == {}
    assert told(stack, "select")["count"] == ITEMS
    merchants(stack.data_dir, closed=False)
    told(stack, "replay", "s1", "--rate", str(PER_S), "--reason", "account opened", "--no-wait")

    assert wait_for(lambda: applied(stack, dead).total() > 0, BACK_S), "the run never began"
    killed = [kill_runner(stack)]
    for point in POINTS:
        before = applied(stack, dead).total()
        (fired / point).unlink()
        assert wait_for((fired / point).exists, BACK_S), f"{point} never fired"
        assert wait_for(lambda before=before: applied(stack, dead).total() > before, BACK_S), "it doesn't go on"  # type: ignore[misc]
    killed.append(kill_runner(stack))
    assert len(set(killed)) == 2, "another process took the run over"

    assert wait_for(lambda: told(stack, "selections", "s1")["finished"], BACK_S)
    run = told(stack, "selections", "s1")
    assert Counter(item["state"] for item in run["items"]) == {"applied": ITEMS}
    assert applied(stack, dead) == {key: 1 for one in dead for key in one.event_keys}
    # What was sent before a kill is sent again only where nothing is known of its items yet.
    assert set(stack.command_decided("replay", ITEMS // COMMAND_ITEMS)) <= {"replayed", "duplicate"}
    stack.verify()
