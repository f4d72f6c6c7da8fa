"""The whole pipeline with its lake on an object store: received, decided, proven, asked, compared, maintained there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.location import LakeUrl
from journal.storage import open_storage
from ledger.maintain.compact import CompactionLimits
from load.client import wait_for
from load.embedded import embedded_stack, payhook
from load.traffic import Webhook
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from stack.jars import STORE_LIST, is_installed
from tests.e2e.conftest import DECIDED_S, Stack, assert_once
from tests.object_store import ObjectStore
from tests.object_store.fixtures import reach
from tests.object_store.fixtures import versity as object_store
from tests.settlement_reports import stripe_csv, stripe_line

__all__ = ["object_store"]

pytestmark = [
    pytest.mark.skipif(not is_installed(*STORE_LIST), reason="no jars for an object store: make setup OBJECT_STORE=1"),
]

RECOVERY_S = 120.0


@pytest.fixture(scope="module")
def storage(object_store: ObjectStore) -> Iterator[dict[str, str]]:
    """The settings that say where the lake is; the environment has the keys."""
    with pytest.MonkeyPatch.context() as patch:
        yield {
            "PAYHOOK_STORAGE__URL": reach(object_store, patch),
            "PAYHOOK_STORAGE__ENDPOINT": object_store.endpoint,
            "PAYHOOK_STORAGE__ALLOW_HTTP": "true",
        }


@pytest.fixture(scope="module")
def stack(storage: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in storage.items():
            patch.setenv(name, value)
        with embedded_stack(tmp_path_factory.mktemp("on-a-store")) as data_dir:
            yield Stack(data_dir)


@pytest.fixture(autouse=True)
def reported(storage: dict[str, str], no_settings_from_outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands get the same settings as the stack."""
    for name, value in storage.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def decided(stack: Stack) -> list[Webhook]:
    """Some events in a few batches, each decided."""
    return stack.decided_captures(4, "on-a-store")


def said(stack: Stack, *words: str, code: int = 0) -> str:
    """What a command says; fails the test where it ends otherwise."""
    done = payhook(*words, "--data", str(stack.data_dir), timeout_s=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_every_event_takes_effect_once_and_nothing_of_the_lake_is_on_this_machine(
    stack: Stack, decided: list[Webhook]
) -> None:
    assert_once(stack, decided)
    journal = stack.journal
    assert isinstance(journal, LakeUrl)
    for table in (journal, journal.parent.parent / "bodies", journal.parent.parent / "postings"):
        assert [one for one in open_storage(table).files() if one.name.endswith(".parquet")], table
    assert not (stack.data_dir / "lake").exists()
    stack.verify()


def test_finance_asks_and_is_answered(stack: Stack, decided: list[Webhook]) -> None:
    (key,) = decided[0].event_keys
    story = json.loads(said(stack, "ledger", "event", key, "--json"))[key]
    assert [one["decision"] for one in story["rows"]] == ["applied"], story
    assert story["bodies"], "its body is on the store"
    assert "EUR" in said(stack, "ledger", "balances")
    assert key in said(stack, "ledger", "search", "--text-in-keys", key.split(":")[1], "--json")


def test_postings_are_made_again_beside_the_processor_which_goes_on(stack: Stack, decided: list[Webhook]) -> None:
    before = said(stack, "ledger", "balances", "--json")
    lines = 2 * len(decided)
    reported = said(stack, "ledger", "rebuild-postings")
    assert f": {lines} lines (version" in reported and f"; {lines} before" in reported
    assert json.loads(said(stack, "ledger", "balances", "--json")) == json.loads(before)
    more = stack.captures(2, "after-the-rebuild")
    stack.post(*more)
    stack.decide(more, RECOVERY_S)
    assert_once(stack, more)
    stack.verify()


def test_tables_are_maintained_there_and_say_what_they_said(stack: Stack, decided: list[Webhook]) -> None:
    more = stack.decided_captures(CompactionLimits().files_min, "many-files")
    before = said(stack, "ledger", "balances", "--json")
    report: dict[str, Any] = json.loads(said(stack, "ledger", "maintain", "--json"))
    files = {one["table"]: (one["files_before"], one["files_after"]) for one in report["tables"] if one["stream"]}
    assert report["ok"], report
    assert all(after < before for before, after in (files["journal"], files["bodies"])), files
    assert json.loads(said(stack, "ledger", "balances", "--json")) == json.loads(before)
    assert_once(stack, [*decided, *more])
    stack.verify()


def test_a_report_is_compared_there_and_what_was_found_is_kept(
    stack: Stack, decided: list[Webhook], tmp_path: Path
) -> None:
    (lost,) = stack.captures(1, "never-came")
    report = tmp_path / "balance.csv"
    facts = [StripeAdapter(ProvidersSettings()).money(one.body, "charge.succeeded") for one in (decided[0], lost)]
    report.write_bytes(stripe_csv(*(stripe_line(one) for one in facts if one is not None)))
    words = ("--provider", "stripe", "--account", "acct_main", "--report", str(report))
    assert "missing_here (1)" in said(stack, "ledger", "reconcile", *words, code=1)
    (run,) = json.loads(said(stack, "ledger", "reconciliations", "--json"))
    assert run["counts"]["missing_here"] == 1
    assert "missing_here (1)" in said(stack, "ledger", "reconciliations", "--run", run["run_id"])
    assert "reports_agree" in said(stack, "verify", code=1)
    stack.post(lost)
    stack.decide([lost], RECOVERY_S)
    said(stack, "ledger", "reconcile", *words)
    stack.verify()


def test_a_processor_that_is_killed_goes_on_from_what_the_store_holds(stack: Stack, decided: list[Webhook]) -> None:
    epoch = stack.epoch(DECIDED_S)
    stack.kill("processor")
    more = stack.captures(3, "after-the-kill")
    stack.post(*more)
    stack.decide(more, RECOVERY_S)
    assert wait_for(lambda: stack.processor_status().get("epoch", 0) > epoch, DECIDED_S)
    assert_once(stack, [*decided, *more])
    assert "went to one of four writers" in said(stack, "storage")
    stack.verify()
