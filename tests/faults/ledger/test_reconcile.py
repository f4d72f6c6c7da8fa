"""A webhook that never came is found in the provider's report, booked once, and stays booked once when it comes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from cli.acting import this_account
from load.client import wait_for
from load.embedded import payhook
from load.traffic import Webhook
from providers.reconciled import RECONCILED
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from tests.e2e.conftest import DECIDED_S, Stack
from tests.e2e.conftest import stack as stack
from tests.processes import pause
from tests.settlement_reports import stripe_csv, stripe_line

WHO = ("--reason", "the webhook was lost")


def fact_of(webhook: Webhook):
    found = StripeAdapter(ProvidersSettings()).money(webhook.body, "charge.succeeded")
    assert found is not None
    return found


def reconcile(stack: Stack, report: Path, *words: str) -> tuple[int, str]:
    given = ["--provider", "stripe", "--account", "acct_main", "--report", str(report), "--data", str(stack.data_dir)]
    said = payhook("ledger", "reconcile", *given, *words)
    return said.returncode, said.stdout + said.stderr


def rows_of(stack: Stack, fact_key: str) -> list[dict[str, Any]]:
    rows = stack.rows(["event_key", "fact_key", "decision", "event_type", "actor", "headers", "entity_key"])
    return [row for row in rows if row["fact_key"] == fact_key]


def decisions(stack: Stack, fact_key: str) -> list[str]:
    return [row["decision"] for row in rows_of(stack, fact_key)]


def test_what_is_missing_is_booked_once_whatever_comes_after(stack: Stack, tmp_path: Path) -> None:
    came, lost = stack.captures(2, "reconcile")
    stack.post(came)
    stack.decide([came])
    report, lost_fact = tmp_path / "balance.csv", fact_of(lost)
    report.write_bytes(stripe_csv(stripe_line(fact_of(came)), stripe_line(lost_fact)))

    code, said = reconcile(stack, report, "--repair", "--dry-run", *WHO)
    assert code == 1, said
    assert "missing_here (1)" in said
    assert "nothing was sent; to be sent: 1" in said
    assert decisions(stack, lost_fact.fact_key) == []

    pid = int(stack.endpoints["pids"]["processor"])
    pause(pid)
    try:
        for _ in range(2):
            code, said = reconcile(stack, report, "--repair", *WHO)
            assert code == 1
            assert "sent and acknowledged: 1;" in said
    finally:
        os.kill(pid, signal.SIGCONT)
    assert wait_for(lambda: len(decisions(stack, lost_fact.fact_key)) == 2, DECIDED_S)
    first, second = rows_of(stack, lost_fact.fact_key)
    assert (first["decision"], second["decision"]) == ("applied", "duplicate")
    assert first["event_key"] == second["event_key"] == f"{lost_fact.fact_key}:{RECONCILED}"
    assert (first["event_type"], first["actor"]) == (RECONCILED, this_account())
    assert json.loads(first["headers"])["reason"] == "the webhook was lost"

    code, said = reconcile(stack, report, "--repair", *WHO)
    assert code == 0, said
    assert "sent and acknowledged: 0;" in said

    stack.post(lost)
    assert wait_for(lambda: len(decisions(stack, lost_fact.fact_key)) == 3, DECIDED_S)
    late = rows_of(stack, lost_fact.fact_key)[2]
    assert (late["decision"], late["event_key"]) == ("duplicate_fact", lost.event_keys[0])
    assert late["entity_key"] == first["entity_key"]

    runs = json.loads(payhook("ledger", "reconciliations", "--data", str(stack.data_dir), "--json").stdout)
    assert [run["clean"] for run in runs] == [True, False, False, False]
    stack.verify()
