"""A whole site is lost: its lake on an object store, Kafka, Redis and disk. Another one goes on from the backup alone.

What is kept elsewhere: the backup, in another bucket; and the secrets, where secrets are kept. The commands are those
of docs/recovery.md.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from journal.reader import JournalReader
from journal.storage import open_storage
from load.client import wait_for
from load.embedded import UP_S_MAX, payhook
from load.traffic import Webhook
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from stack.jars import STORE_LIST, is_installed
from tests.e2e.conftest import DECIDED_S, Stack, assert_once
from tests.object_store import ObjectStore, client_of, with_bucket
from tests.object_store.fixtures import reach
from tests.object_store.fixtures import versity as object_store
from tests.processes import all_end
from tests.settlement_reports import stripe_csv, stripe_line

__all__ = ["object_store"]

pytestmark = pytest.mark.skipif(
    not is_installed(*STORE_LIST), reason="no jars for an object store: make setup OBJECT_STORE=1"
)

LOST, BACKUPS, NEW = "payhook-lost", "payhook-backups", "payhook-new"
"""Buckets."""


class StackSite:
    """A data folder, its bucket, and the variables that tell a process of both."""

    def __init__(self, data_dir: Path, bucket: str, store: ObjectStore) -> None:
        self.data_dir = data_dir
        self.bucket = bucket
        self.store = store
        with_bucket(store, bucket)

    def settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "PAYHOOK_STORAGE__URL": f"s3://{self.bucket}/lake",
            "PAYHOOK_STORAGE__ENDPOINT": self.store.endpoint,
            "PAYHOOK_STORAGE__ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)

    def run(self, *words: str, code: int = 0) -> str:
        """What a command says; fails the test where it ends otherwise."""
        done = payhook(*words, "--data", str(self.data_dir), timeout_s=UP_S_MAX)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def destroy(self) -> None:
        """Every process at once, the disk, and the bucket."""
        recorded = json.loads((self.data_dir / "run" / "supervisor.json").read_text())["processes"]
        processes = [psutil.Process(one["pid"]) for one in recorded if psutil.pid_exists(one["pid"])]
        processes += [child for one in processes for child in one.children(recursive=True)]
        for process in processes:
            process.kill()
        assert all_end(processes)
        shutil.rmtree(self.data_dir)
        client = client_of(self.store)
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            for one in page.get("Contents", ()):
                client.delete_object(Bucket=self.bucket, Key=one["Key"])
        client.delete_bucket(Bucket=self.bucket)


@pytest.fixture
def sites(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[StackSite, StackSite]]:
    reach(object_store, monkeypatch)
    with_bucket(object_store, BACKUPS)
    lost, new = StackSite(tmp_path / "lost", LOST, object_store), StackSite(tmp_path / "new", NEW, object_store)
    try:
        yield lost, new
    finally:
        for site in (lost, new):
            payhook("down", "--data", str(site.data_dir))


def decisions(stack: Stack, webhooks: list[Webhook]) -> Counter[str]:
    keys = {key for one in webhooks for key in one.event_keys}
    rows = stack.rows(["event_key", "decision"])
    return Counter(row["decision"] for row in rows if row["event_key"] in keys)


def test_a_new_site_goes_on_from_the_backup_alone(
    sites: tuple[StackSite, StackSite],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost, new = sites
    backups = f"s3://{BACKUPS}/payhook"
    lost.settings(monkeypatch)
    lost.run("up", "--detach")
    stack = Stack(lost.data_dir)
    before = stack.captures(40, "before")
    stack.post(*before)
    stack.decide(before)
    made = json.loads(lost.run("backup", "--to", backups, "--json"))
    backed_up_at = time.time()
    after = stack.captures(20, "after")
    assert {answer.status for answer in stack.post(*after)} == {200}
    stack.decide(after)
    vault = tmp_path / "vault"
    shutil.copytree(lost.data_dir / "secrets", vault)
    lost.destroy()
    lost_at = time.time()

    new.settings(monkeypatch)
    new.data_dir.mkdir(mode=0o700)
    shutil.copytree(vault, new.data_dir / "secrets")
    restored = json.loads(new.run("restore", backups, "--reason", "the site was lost", "--json"))
    restored_s = time.time() - lost_at
    assert restored["journals"]["ledger"] == made["journals"]["ledger"]
    new.run("up", "--detach", code=3)
    takes_s = time.time() - lost_at
    stack = Stack(new.data_dir)
    fresh = stack.captures(10, "fresh")
    assert {answer.status for answer in stack.post(*fresh)} == {200}, "taken while the stream is refused"
    new.run("recover", code=3)
    new.run("recover", "--accept-loss", "--reason", "another Kafka: the site was lost")
    stack.decide(fresh)
    decides_s = time.time() - lost_at

    # Providers send again what they are asked for; one event is forgotten.
    forgotten = after[-1]
    again = [stack.traffic.signed(one.provider, one.body) for one in (*before, *after[:-1])]
    assert {answer.status for answer in stack.post(*again)} == {200}
    assert_once(stack, [*again, *fresh])
    duplicates = wait_for(lambda: decisions(stack, before)["duplicate"] == len(before), DECIDED_S)
    assert duplicates, decisions(stack, before)
    assert decisions(stack, [forgotten]) == {}
    report = tmp_path / "balance.csv"
    adapter = StripeAdapter(ProvidersSettings())
    facts = [adapter.money(one.body, "charge.succeeded") for one in (before[0], forgotten)]
    report.write_bytes(stripe_csv(*(stripe_line(one) for one in facts if one is not None)))
    words = ("--provider", "stripe", "--account", "acct_main", "--report", str(report))
    assert "missing_here (1)" in new.run("ledger", "reconcile", *words, code=1)
    assert "reports_agree" in new.run("verify", code=1)
    assert {answer.status for answer in stack.post(stack.traffic.signed(forgotten.provider, forgotten.body))} == {200}
    assert_once(stack, [forgotten])
    new.run("ledger", "reconcile", *words)
    assert "all of it holds" in stack.verify()
    assert [one.name for one in open_storage(f"s3://{NEW}/lake/bodies").files() if one.name.endswith(".parquet")]
    assert JournalReader(str(stack.journal)).last_seq > made["journals"]["ledger"]
    assert new.run("backup", "--to", backups)
    with capsys.disabled():
        figures: dict[str, Any] = {
            "rpo: seconds between backup and loss": round(lost_at - backed_up_at, 1),
            "rpo: events acknowledged after the backup": len(after),
            "of them sent again by the provider": len(after) - 1,
            "of them named by reconciliation": 1,
            "backup: bytes, files, s": (made["bytes"], made["files"], made["seconds"]),
            "rto: restored, s": round(restored_s, 1),
            "rto: webhooks are taken, s": round(takes_s, 1),
            "rto: events are decided, s": round(decides_s, 1),
            "cores": os.cpu_count(),
        }
        sys.stdout.write(f"\nsite lost: {json.dumps(figures, indent=1)}\n")
