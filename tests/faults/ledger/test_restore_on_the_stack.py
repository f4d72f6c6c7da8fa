"""An older journal on a real stack: what Kafka still holds after it is decided again, once, and all of it verifies."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from journal.histories import read_abandoned
from journal.reader import JournalReader
from load.client import wait_for
from load.embedded import UP_S_MAX, embedded_stack, payhook
from load.traffic import Webhook
from tests.e2e.conftest import DECIDED_S, Stack, assert_once


def test_a_journal_from_a_backup_goes_on_and_decides_again_what_kafka_holds(tmp_path: Path) -> None:
    data, backups = tmp_path / "stack", tmp_path / "backups"
    with embedded_stack(data):
        stack = Stack(data)
        before, after = stack.captures(20, "before"), stack.captures(20, "after")
        stack.post(*before)
        stack.decide(before)
        stack.post(stack.traffic.signed("stripe", b'{"id": "before'))
        during = _posted_while_backing_up(stack, backups)
        stack.post(*after, stack.traffic.signed("stripe", b'{"id": "after'))
        everything = [*before, *during, *after]
        stack.decide(everything)
        assert wait_for(lambda: _dead(stack) == 2, DECIDED_S)
        assert wait_for(lambda: _published(stack), DECIDED_S), "the dead letter of a row that will be given up is sent"
        while_up = payhook("restore", str(backups), "--reason", "drill", "--data", str(data))
        assert while_up.returncode == 2 and "payhook down" in while_up.stderr, while_up.stderr
        assert payhook("down", "--data", str(data)).returncode == 0
        lost = JournalReader(str(data / "lake" / "journal" / "ledger")).state()

        words = ("restore", str(backups), "--reason", "drill", "--replace-newer", "--json", "--data", str(data))
        done = payhook(*words)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["journals"]["ledger"] + report["set_aside"]["ledger"] == lost.next_seq - 1
        assert report["set_aside"]["ledger"] >= 21

        up = payhook("up", "--detach", "--data", str(data), timeout_s=UP_S_MAX)
        assert up.returncode == 0, up.stdout + up.stderr
        stack.decide(everything)
        assert wait_for(lambda: _dead(stack) == 2, DECIDED_S)
        assert_once(stack, everything)
        state = JournalReader(str(stack.journal)).state()
        assert [one.lineage for one in read_abandoned(state.notes)] == [lost.lineage] != [state.lineage]
        assert wait_for(lambda: _published(stack), DECIDED_S)
        stack.verify()


def _posted_while_backing_up(stack: Stack, backups: Path) -> list[Webhook]:
    """Captures that were posted, some at a time, until the backup was made."""
    posted: list[Webhook] = []
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(payhook, "backup", "--to", str(backups), "--json", "--data", str(stack.data_dir))
        while not making.done():
            some = stack.captures(3, f"during-{len(posted)}")
            stack.post(*some)
            posted += some
        made = making.result()
    assert made.returncode == 0, made.stdout + made.stderr
    assert json.loads(made.stdout)["ok"] and posted
    return posted


def _dead(stack: Stack) -> int:
    return sum(row["decision"] == "dead" for row in stack.rows(["decision"]))


def _published(stack: Stack) -> bool:
    """Whether the processor knows of every row, and of no dead letter that Kafka hasn't acknowledged."""
    status = stack.processor_status()
    last = max(row["seq"] for row in stack.rows(["seq"], None))
    return bool(status.get("ready")) and status.get("seq", 0) >= last and status.get("unpublished") == 0
