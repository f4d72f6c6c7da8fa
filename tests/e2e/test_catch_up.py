"""What a provider generated and no webhook brought, on the whole stack: its list is asked on the loopback address."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from core.clock import to_rfc3339
from core.layout import Layout
from load.client import wait_for
from load.embedded import embedded_stack, payhook
from load.samples.stripe import stripe_event
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once
from tests.provider_lists import ListedEvent, Lists, serve_lists

pytestmark = pytest.mark.more(reason="a stack of its own; the list's parts are tried in memory too")

KEY = "sk_live_" + "A1b2C3d4E5" * 2
KILLED = ("ingest", "catch-up", "processor")
ACCOUNTS = ("acct_catch", "acct_kill", "acct_timer", "acct_thin", *(f"acct_{name}" for name in KILLED))
MERCHANTS = "[stripe]\n" + "".join(f'"{account}" = "m-1"\n' for account in ACCOUNTS)
EVERY_S = 5
SHARE_LOST = 20
"""One in so many events is never delivered."""


@pytest.fixture(scope="module")
def lists() -> Iterator[Lists]:
    with serve_lists(Lists(page_max=50)) as served:
        yield served


@pytest.fixture(scope="module")
def env(lists: Lists) -> dict[str, str]:
    """What the stack and every command are run with."""
    return {
        "PAYHOOK_PROVIDERS__API_URLS": json.dumps(lists.api_urls),
        "PAYHOOK_INGEST__CATCH_UP_EVERY_S": str(EVERY_S),
    }


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, env: dict[str, str]) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("catch")
    folder.joinpath("merchants.toml").write_text(MERCHANTS, "utf-8")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in env.items():
            patched.setenv(name, value)
        with embedded_stack(folder) as data_dir:
            yield Stack(data_dir)


def generate(stack: Stack, lists: Lists, account: str, count: int, since: datetime) -> list[Webhook]:
    """Charges that the provider generates, one a second, and lists; as the webhooks that would tell of them."""
    webhooks = []
    for number in range(count):
        event_id, created = f"evt_{account}_{number}", since + timedelta(seconds=number)
        body = stripe_event(
            event_id,
            "charge.succeeded",
            payment=f"pi_{account}_{number}",
            account=account,
            amount_minor=100,
            currency="EUR",
            created=created,
        )
        lists.add("stripe", ListedEvent(event_id, created, body))
        webhooks.append(stack.traffic.signed("stripe", body))
    return webhooks


def give_key(stack: Stack) -> None:
    (stack.data_dir / "secrets" / "stripe-api").write_text(KEY + "\n", "utf-8")


def catch_up(stack: Stack, env: dict[str, str], since: datetime) -> dict[str, object]:
    words = ["catch-up", "stripe", "--since", to_rfc3339(since), "--json", "--data", str(stack.data_dir)]
    give_key(stack)
    said = payhook(*words, env=env)
    assert said.returncode == 0, said.stdout + said.stderr
    [outcome] = json.loads(said.stdout)
    return outcome  # type: ignore[no-any-return]


def balance(stack: Stack, account: str) -> int:
    said = payhook("ledger", "balances", "--json", "--data", str(stack.data_dir))
    held = {one["account"]: one["balance_minor"] for one in json.loads(said.stdout)}
    return int(held.get(f"provider:stripe/{account}:clearing", 0))


@pytest.mark.row("G4")
def test_what_was_never_delivered_comes_in_and_its_webhook_is_a_duplicate(
    stack: Stack, lists: Lists, env: dict[str, str]
) -> None:
    since = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    webhooks = generate(stack, lists, "acct_catch", 200, since)
    lost, delivered = webhooks[::SHARE_LOST], [one for n, one in enumerate(webhooks) if n % SHARE_LOST]
    assert {answer.status for answer in stack.post(*delivered)} == {200}
    stack.decide(delivered)
    catch_up(stack, env, since)
    stack.decide(webhooks)
    assert {answer.status for answer in stack.post(*lost)} == {200}
    assert catch_up(stack, env, since)["fetched"] == 0
    assert wait_for(lambda: balance(stack, "acct_catch") == 200 * 100, 60)
    by_list = [row for row in stack.rows(["event_key", "headers"]) if '"source":"catch-up"' in (row["headers"] or "")]
    assert {row["event_key"] for row in by_list} == {key for one in lost for key in one.event_keys}


def test_a_catch_up_that_is_killed_goes_on_with_the_next_one(stack: Stack, lists: Lists, env: dict[str, str]) -> None:
    since = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
    webhooks = generate(stack, lists, "acct_kill", 300, since)
    give_key(stack)
    words = ["-m", "cli.main", "catch-up", "stripe", "--since", to_rfc3339(since), "--data", str(stack.data_dir)]
    asked = len(lists.asked)
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **env}
    ) as process:
        assert wait_for(lambda: len(lists.asked) > asked + 2, 60)
        os.kill(process.pid, signal.SIGKILL)
    catch_up(stack, env, since)
    stack.decide(webhooks)
    assert wait_for(lambda: balance(stack, "acct_kill") == 300 * 100, 60)


def test_the_stack_catches_up_by_itself(stack: Stack, lists: Lists, env: dict[str, str]) -> None:
    give_key(stack)
    began_s = time.monotonic()
    [webhook] = generate(stack, lists, "acct_timer", 1, datetime.now(UTC).replace(microsecond=0))
    stack.decide([webhook])
    assert time.monotonic() - began_s < 300
    said = payhook("status", "--json", "--data", str(stack.data_dir))
    assert json.loads(said.stdout)["caught_up"]["stripe"]["problem"] is None


@pytest.mark.row("G1")
def test_a_thin_event_is_fetched_and_books(stack: Stack, lists: Lists, env: dict[str, str]) -> None:
    give_key(stack)
    charge = {"id": "ch_thin", "object": "charge", "payment_intent": "pi_thin", "amount": 700, "amount_captured": 700}
    lists.resources["/v1/charges/ch_thin"] = json.dumps({**charge, "captured": True, "currency": "eur"})
    thin = {"id": "evt_thin_1", "object": "v2.core.event", "type": "v1.charge.succeeded", "livemode": True}
    thin |= {"created": to_rfc3339(datetime.now(UTC)), "context": "acct_thin", "reason": None}
    thin |= {"related_object": {"id": "ch_thin", "type": "charge", "url": "/v1/charges/ch_thin"}}
    webhook = stack.traffic.signed("stripe", json.dumps(thin).encode())
    assert [answer.status for answer in stack.post(webhook)] == [200]
    stack.decide([webhook])
    assert wait_for(lambda: balance(stack, "acct_thin") == 700, 60)


@pytest.mark.slow(reason="two minutes: three processes are killed and begin again")
def test_what_is_listed_is_decided_once_though_each_process_is_killed(stack: Stack, lists: Lists) -> None:
    """One in three is in the list alone; the others come as webhooks, before the kill and after it."""
    give_key(stack)
    whole: list[Webhook] = []
    for name in KILLED:
        since = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=90)
        webhooks = generate(stack, lists, f"acct_{name}", 90, since)
        delivered = [webhook for number, webhook in enumerate(webhooks) if number % 3]
        assert deliver(stack, delivered[:30])
        asked = len(lists.asked)
        assert wait_for(lambda asked=asked: len(lists.asked) > asked, 120)  # type: ignore[misc]
        died = kill(stack, name)
        assert deliver(stack, delivered[30:])
        assert wait_for(lambda name=name, died=died: pid_of(stack, name) not in (None, died), 180)  # type: ignore[misc]
        whole += webhooks
    stack.decide(whole, 300.0)
    assert_once(stack, whole)
    assert {name: balance(stack, f"acct_{name}") for name in KILLED} == dict.fromkeys(KILLED, 90 * 100)


def deliver(stack: Stack, webhooks: list[Webhook]) -> bool:
    """Delivers until each is answered 200, as a provider does."""
    return wait_for(lambda: {answer.status for answer in stack.post(*webhooks)} == {200}, 180)


def pid_of(stack: Stack, name: str) -> int | None:
    """The process id of one of the stack's processes now; `endpoints.json` doesn't name the catch-up's."""
    if name != "catch-up":
        return int(stack.endpoints["pids"][name]) if name in stack.endpoints["pids"] else None
    recorded = json.loads(Layout(stack.data_dir).supervisor_file.read_text("utf-8"))["processes"]
    for pid in (process["pid"] for process in recorded):
        with suppress(psutil.NoSuchProcess):
            if "stack.catching_up" in psutil.Process(pid).cmdline():
                return int(pid)
    return None


def kill(stack: Stack, name: str) -> int:
    pid = pid_of(stack, name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_a_list_that_refuses_is_said(stack: Stack, lists: Lists, env: dict[str, str]) -> None:
    give_key(stack)
    lists.refuses = True
    try:
        said = payhook("catch-up", "stripe", "--data", str(stack.data_dir), env=env)
    finally:
        lists.refuses = False
    assert said.returncode == 1
    assert "refuses credential 1" in said.stdout.replace("\n", " ")


def test_all_of_it_is_proven(stack: Stack) -> None:
    said = payhook("verify", "--stream", "ledger", "--json", "--data", str(stack.data_dir))
    assert said.returncode == 0, said.stdout + said.stderr
    [report] = [one for one in json.loads(said.stdout)["streams"] if one["stream"] == "ledger"]
    [listed] = [one for one in report["invariants"] if one["name"] == "listed_are_decided"]
    assert listed["ok"]
    assert listed["figures"]["listed"] >= 500
    assert listed["figures"]["fetched"] >= 200 // SHARE_LOST, "a killed round's count is known to nobody"
