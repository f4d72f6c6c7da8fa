"""A day of a provider's events on the whole stack: most are delivered, the others come in by its list."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.clock import to_rfc3339
from load.client import wait_for
from load.embedded import FREE_PORTS, SAMPLE_CONFIG, embedded_stack
from load.open_loop import post_at_rate
from load.samples.stripe import stripe_event
from tests.e2e.conftest import Stack
from tests.provider_lists import ListedEvent, Lists, serve_lists

COUNT = 20_000
SHARE_LOST = 100
"""The provider never delivers one event in so many."""
RATE_PER_S = 300.0
KEY = "sk_live_" + "A1b2C3d4E5" * 2


def test_a_day_on_the_stack_is_whole(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with serve_lists(Lists()) as lists, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PAYHOOK_PROVIDERS__API_URLS", json.dumps(lists.api_urls))
        patched.setenv("PAYHOOK_INGEST__CATCH_UP_EVERY_S", "0")
        tmp_path.joinpath("merchants.toml").write_text('[stripe]\n"acct_day" = "m-1"\n', "utf-8")
        with embedded_stack(tmp_path) as data_dir:
            stack = Stack(data_dir)
            (data_dir / "secrets" / "stripe-api").write_text(KEY + "\n", "utf-8")
            _one_day(stack, lists, record_property)


def _one_day(stack: Stack, lists: Lists, record_property: Callable[[str, object], None]) -> None:
    since = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    webhooks = []
    for number in range(COUNT):
        created = since + timedelta(seconds=number * 86_000 / COUNT)
        about = {"payment": f"pi_{number}", "account": "acct_day", "amount_minor": 100, "currency": "EUR"}
        body = stripe_event(f"evt_{number}", "charge.succeeded", created=created, **about)  # type: ignore[arg-type]
        lists.add("stripe", ListedEvent(f"evt_{number}", created.replace(microsecond=0), body))
        webhooks.append(stack.traffic.signed("stripe", body))
    delivered = [webhook for number, webhook in enumerate(webhooks) if number % SHARE_LOST]
    answers = asyncio.run(
        post_at_rate(stack.endpoints["ingest"], delivered.__getitem__, RATE_PER_S, len(delivered) / RATE_PER_S)
    )
    sent = {key for answer in answers if answer.status == 200 for key in answer.webhook.event_keys}
    stack.wait_until_decided(sent, 300.0)
    began_s = time.monotonic()
    outcome, memory_mb = _catch_up(stack, since)
    took_s, requests = time.monotonic() - began_s, len(lists.asked)
    stack.decide(webhooks, 300.0)
    decided_s = time.monotonic() - began_s
    again, _ = _catch_up(stack, since)
    rows = stack.rows(["event_key", "decision"])
    applied = [row["event_key"] for row in rows if row["decision"] == "applied"]
    figures = (
        f"{COUNT:,} events, {COUNT - len(sent):,} never delivered: {outcome['fetched']} came in, "
        f"missing {COUNT - len(set(applied))}, twice {len(applied) - len(set(applied))}; {requests} requests, "
        f"{took_s:.0f} s, decided after {decided_s:.0f} s, {memory_mb} MB"
    )
    record_property("figures", figures)
    assert (outcome["fetched"], again["fetched"]) == (COUNT - len(sent), 0), figures
    assert wait_for(lambda: len(set(applied)) == len(applied) == COUNT, 1.0), figures
    stack.verify()


def _catch_up(stack: Stack, since: datetime) -> tuple[dict[str, object], int]:
    """Returns what the command says, and the most memory that it took, in MB."""
    words = ["catch-up", "stripe", "--since", to_rfc3339(since), "--json", "--data", str(stack.data_dir)]
    env = {**FREE_PORTS, **os.environ, "PAYHOOK_CONFIG": str(SAMPLE_CONFIG)}
    with subprocess.Popen([sys.executable, "-m", "cli.main", *words], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    [outcome] = json.loads(said)
    return outcome, usage.ru_maxrss // 1024
