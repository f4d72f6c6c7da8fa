"""docs/streams.md, followed on a running stack: a handler of one's own, from an empty folder to a replayed letter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from load.client import wait_for
from load.embedded import embedded_stack, payhook
from load.samples.stripe import stripe_event
from tests.documented import CHECKOUT
from tests.e2e.conftest import DECIDED_S, Stack
from tests.e2e.streams_page import DownstreamServer, set_streams, write_page

pytestmark = pytest.mark.more(reason="a whole stack with one stream more")
DISPUTE = "charge.dispute.created"


class CaseSystem(DownstreamServer):
    """Answers each case with the statuses that are next for its event, then 201."""

    def __init__(self) -> None:
        self.answers: dict[str, list[int]] = {}
        self.opened: list[str] = []

    def take(self, headers: Message[str, str], body: bytes) -> int:
        key = headers["Idempotency-Key"]
        waiting = self.answers.get(key, [])
        status = waiting.pop(0) if waiting else 201
        if status == 201:
            self.opened.append(key)
        return status


@pytest.fixture(scope="module")
def cases() -> Iterator[CaseSystem]:
    with (cases := CaseSystem()).serve():
        yield cases


@pytest.fixture(scope="module")
def own(cases: CaseSystem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's folder."""
    return write_page(tmp_path_factory.mktemp("page"), "own", cases.port)


@pytest.fixture(scope="module")
def stack(own: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with pytest.MonkeyPatch.context() as patch:
        set_streams(patch, own)
        with embedded_stack(tmp_path_factory.mktemp("stack")) as data_dir:
            yield Stack(data_dir)


@pytest.fixture(autouse=True)
def settings(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a test know the streams that its stack knows: a test begins without settings."""
    set_streams(monkeypatch, own)


def send(stack: Stack, folder: Path, event: str, event_type: str = DISPUTE) -> str:
    """Sends an event as the page does; returns its key."""
    body = folder / "dispute.json"
    about: dict[str, Any] = {"payment": f"pi_{event}", "account": "acct_1", "amount_minor": 1_250, "currency": "EUR"}
    body.write_bytes(stripe_event(f"evt_{event}", event_type, **about, created=datetime.now(UTC)))
    sent = payhook("send", str(body), "--provider", "stripe", "--data", str(stack.data_dir))
    assert sent.returncode == 0, sent.stdout + sent.stderr
    return f"stripe:evt_{event}:{event_type}"


def test_the_handlers_own_test_passes(own: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "own/test_cases.py"]
    env = {**os.environ, "PYTHONPATH": f"{own}:{CHECKOUT}"}
    done = subprocess.run(words, cwd=own.parent, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.row("B6")
def test_a_case_is_opened_once_for_each_dispute_and_a_dead_one_is_replayed(
    stack: Stack, cases: CaseSystem, tmp_path: Path
) -> None:
    here = ("--data", str(stack.data_dir))
    of_cases = ("--stream", "cases", *here)
    begun = "new: begins in payments.events at latest (starting_offsets): no record waits"
    assert wait_for(lambda: begun in " ".join(payhook("status", *here).stdout.split()), DECIDED_S)
    refused, ill = "stripe:evt_refused:" + DISPUTE, "stripe:evt_ill:" + DISPUTE
    cases.answers = {refused: [422], ill: [503]}
    paid = send(stack, tmp_path, "paid", "charge.succeeded")
    opened = [send(stack, tmp_path, one) for one in ("first", "ill")]
    send(stack, tmp_path, "refused")
    assert wait_for(lambda: sorted(cases.opened) == sorted(opened), DECIDED_S), cases.opened

    def dead() -> list[dict[str, object]]:
        """None while the list can't be read: on a busy machine another process may just bring it up to date."""
        said = payhook("dlq", "list", *of_cases, "--json")
        return list(json.loads(said.stdout)["items"]) if said.returncode == 0 else []

    assert wait_for(lambda: len(dead()) == 1, DECIDED_S), payhook("dlq", "list", *of_cases)
    assert (dead()[0]["event_key"], dead()[0]["error_class"]) == (refused, "HTTPStatusError")
    selected = payhook("dlq", "select", "--class", "HTTPStatusError", *of_cases)
    assert selected.returncode == 0, selected.stdout + selected.stderr
    replayed = payhook("dlq", "replay", "s1", "--reason", "the case system takes them now", *of_cases)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert wait_for(lambda: sorted(cases.opened) == sorted([*opened, refused]), DECIDED_S), cases.opened
    assert paid not in cases.opened
    verified = payhook("verify", *of_cases)
    assert verified.returncode == 0, verified.stdout + verified.stderr
