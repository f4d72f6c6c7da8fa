"""The pipeline with its lake on Azure's emulator: what works without Spark's reader, and what needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.location import LakeUrl
from load.embedded import embedded_stack, payhook
from tests.e2e.conftest import Stack, assert_once
from tests.object_store import ObjectStore
from tests.object_store.fixtures import azure as object_store
from tests.object_store.fixtures import reach

__all__ = ["object_store"]


@pytest.fixture
def stack(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stack]:
    monkeypatch.setenv("PAYHOOK_STORAGE__URL", reach(object_store, monkeypatch))
    monkeypatch.setenv("PAYHOOK_STORAGE__ENDPOINT", object_store.endpoint)
    monkeypatch.setenv("PAYHOOK_STORAGE__ALLOW_HTTP", "true")
    with embedded_stack(tmp_path / "stack") as data_dir:
        yield Stack(data_dir)


def test_events_are_decided_asked_for_and_backed_up_there(stack: Stack, tmp_path: Path) -> None:
    sent = stack.captures(10, "azure")
    stack.post(*sent)
    assert_once(stack, sent)
    assert isinstance(stack.journal, LakeUrl) and str(stack.journal).startswith("az://")
    data = ("--data", str(stack.data_dir))
    assert "EUR" in payhook("ledger", "balances", *data).stdout
    assert "went to one of four writers" in payhook("storage", *data).stdout
    made = payhook("backup", "--to", f"{stack.journal.parent.parent}-backups", *data)
    assert made.returncode == 0, made.stdout + made.stderr
    stack.kill("processor")
    more = stack.captures(5, "after-the-kill")
    stack.post(*more)
    assert_once(stack, [*sent, *more])
    for words in (("verify",), ("ledger", "rebuild-postings")):
        refused = payhook(*words, *data)
        assert refused.returncode == 2 and "Spark can't read here" in refused.stderr, refused.stdout + refused.stderr
