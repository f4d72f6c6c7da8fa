"""A whole stack that maintains its lake by itself, every few seconds, while webhooks are decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.layout import Layout
from ledger.maintain.compact import CompactionLimits
from load.client import wait_for
from load.embedded import embedded_stack, payhook
from tests.e2e.conftest import DECIDED_S, Stack, assert_once

ROUND_S = 120.0
FILES_MIN = CompactionLimits().files_min


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAYHOOK_LEDGER__MAINTAIN__EVERY_S", "3")
        with embedded_stack(tmp_path_factory.mktemp("maintained")) as data_dir:
            yield Stack(data_dir)


def report(data_dir: Path) -> dict[str, Any]:
    """The last round's."""
    reported: dict[str, Any] = json.loads(Layout(data_dir).maintained_file.read_text("utf-8"))
    return reported


def journal(data_dir: Path) -> dict[str, Any]:
    return next(one for one in report(data_dir)["tables"] if (one["stream"], one["table"]) == ("ledger", "journal"))


def test_the_lake_is_maintained_beside_the_processor_and_every_event_takes_effect_once(stack: Stack) -> None:
    epoch = stack.epoch(DECIDED_S)
    webhooks = stack.decided_captures(FILES_MIN + 4, "batch")
    said = payhook("ledger", "maintain", "--json", "--data", str(stack.data_dir))
    assert said.returncode == 0 or "running already" in said.stderr, said.stderr
    assert wait_for(lambda: Layout(stack.data_dir).maintained_file.exists() and report(stack.data_dir)["ok"], ROUND_S)
    assert wait_for(lambda: journal(stack.data_dir)["files_after"] < FILES_MIN, ROUND_S), report(stack.data_dir)
    more = stack.captures(5, "afterwards")
    stack.post(*more)
    assert_once(stack, webhooks + more)
    assert stack.processor_status()["epoch"] == epoch, "the processor went on in its epoch"
    stack.verify()


def test_it_ends_with_the_stack(stack: Stack) -> None:
    states = json.loads(Layout(stack.data_dir).supervisor_file.read_text("utf-8"))["states"]
    assert states["maintenance"] == "running"
    payhook("down", "--data", str(stack.data_dir))
    left = [one for one in psutil.process_iter(["cmdline"]) if "stack.rounds" in " ".join(one.info["cmdline"] or [])]
    assert [one for one in left if one.environ().get("PAYHOOK_DATA_DIR") == str(stack.data_dir)] == []
