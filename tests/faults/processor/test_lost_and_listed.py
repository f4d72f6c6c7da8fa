"""Kafka lost events that nobody decided; their provider's list still has them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from load.embedded import UP_S_MAX, payhook
from load.samples.stripe import stripe_event
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once
from tests.provider_lists import ListedEvent, Lists, serve_lists

KEY = "sk_live_" + "A1b2C3d4E5" * 2
COUNT = 40


@pytest.fixture
def lists() -> Iterator[Lists]:
    with serve_lists(Lists()) as served, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PAYHOOK_PROVIDERS__API_URLS", json.dumps(served.api_urls))
        patched.setenv("PAYHOOK_INGEST__CATCH_UP_EVERY_S", "5")
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    data_dir = tmp_path / "stack"
    data_dir.mkdir()
    data_dir.joinpath("merchants.toml").write_text('[stripe]\n"acct_1" = "m-1"\n', "utf-8")
    try:
        yield data_dir
    finally:
        payhook("down", "--data", str(data_dir))


def generate(stack: Stack, lists: Lists, name: str) -> list[Webhook]:
    webhooks = []
    for number in range(COUNT):
        created = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=COUNT - number)
        about = {"payment": f"pi_{name}_{number}", "account": "acct_1", "amount_minor": 100, "currency": "EUR"}
        event_id = f"evt_{name}_{number}"
        body = stripe_event(event_id, "charge.succeeded", created=created, **about)  # type: ignore[arg-type]
        lists.add("stripe", ListedEvent(event_id, created, body))
        webhooks.append(stack.traffic.signed("stripe", body))
    return webhooks


def test_what_was_accepted_as_lost_and_is_listed_comes_in_by_itself(folder: Path, tmp_path: Path, lists: Lists) -> None:
    """Redis has claims of them: they count only once the loss is accepted."""
    assert payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX).returncode == 0
    stack = Stack(folder)
    kept = generate(stack, lists, "kept")
    stack.post(*kept)
    stack.decide(kept)
    assert payhook("down", "--data", str(folder)).returncode == 0
    shutil.copytree(folder / "kafka", tmp_path / "older")
    assert payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX).returncode == 0
    os.kill(stack.endpoints["pids"]["processor"], signal.SIGSTOP)
    forgotten = generate(stack, lists, "forgotten")
    assert {answer.status for answer in stack.post(*forgotten)} == {200}
    payhook("down", "--data", str(folder))
    shutil.rmtree(folder / "kafka")
    shutil.copytree(tmp_path / "older", folder / "kafka")
    (folder / "secrets" / "stripe-api").write_text(KEY + "\n", "utf-8")
    payhook("up", "--detach", "--data", str(folder), timeout_s=UP_S_MAX)
    if payhook("recover", "--data", str(folder)).returncode == 0:
        # An older copy with the same offsets: only new records tell them apart.
        stack.post(*generate(stack, lists, "fresh"))
    accepted = payhook("recover", "--data", str(folder), "--accept-loss", "--reason", "restored from 02:00")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    stack.decide(forgotten, 300.0)
    assert_once(stack, [*kept, *forgotten])
    stack.verify()
