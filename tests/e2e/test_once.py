"""One effect an event, on the whole stack: storms, dead servers, killed processes, lost state, bookings taken back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid
from pathlib import Path

import httpx2
import pytest
import redis

from load.client import wait_for
from load.embedded import payhook
from tests.e2e.conftest import Stack, as_admin, assert_once
from tests.e2e.killing import MortalStack
from tests.processes import pause

BACK_S = 120.0
AFTER_WHAT_IS_DURABLE = ("ingest.between_publish_and_confirm", "processor.after_commit")
"""After Kafka's acknowledgement, and after the commit; `make test-faults` has every point."""
MORE = pytest.mark.more(reason="half a minute of a whole stack; a storm and kills are shown by two others")


@pytest.fixture(scope="module")
def stack(one_stack: MortalStack) -> MortalStack:
    """One stack for all of these; two of them verify what was left."""
    return one_stack


def back(stack: Stack, epoch: int) -> None:
    """Waits until a processor of a later epoch is ready."""
    assert wait_for(lambda: stack.processor_status().get("epoch", 0) > epoch, BACK_S), "the processor didn't come back"


def stop(stack: Stack, name: str) -> int:
    pid = int(stack.endpoints["pids"][name])
    pause(pid)
    return pid


@pytest.mark.row("A2")
def test_a_storm_of_one_id_from_50_connections_has_one_effect(stack: Stack) -> None:
    [webhook] = stack.captures(1, "storm")
    answers = stack.post(*[webhook] * 50)
    assert {answer.status for answer in answers} <= {200, 409}
    assert any(answer.status == 200 for answer in answers)
    assert_once(stack, [webhook])


@MORE
def test_every_provider_gets_the_answer_it_wants_and_its_events_are_booked(stack: Stack) -> None:
    webhooks = [
        stack.traffic.stripe("each", "charge.succeeded", 1_200, "EUR"),
        stack.traffic.adyen([("each-1", "CAPTURE", 500, "EUR"), ("each-2", "CAPTURE", 700, "EUR")]),
        stack.traffic.standard("each", "payment.captured", 900, "EUR"),
    ]
    assert [answer.status for answer in stack.post(*webhooks)] == [200, 200, 200]
    assert_once(stack, webhooks)


@pytest.mark.row("A6")
@MORE
def test_redis_stopped_the_2xx_go_on_as_deferred_with_one_effect(stack: Stack) -> None:
    webhooks = stack.captures(5, "no-redis")
    pid = stop(stack, "redis")
    try:
        answers = stack.post(*webhooks, *webhooks)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert {answer.status for answer in answers} == {200}
    assert_once(stack, webhooks)
    keys = {key for webhook in webhooks for key in webhook.event_keys}
    said = {row["dedupe"] for row in stack.rows(["event_key", "dedupe"]) if row["event_key"] in keys}
    assert said == {"deferred"}


@MORE
def test_kafka_stopped_the_answer_is_503_and_nothing_is_confirmed(stack: Stack) -> None:
    [webhook] = stack.captures(1, "no-kafka")
    pid = stop(stack, "kafka")
    try:
        [answer] = stack.post(webhook)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert answer.status == 503

    def accepted() -> bool:
        [again] = stack.post(webhook)
        return again.status == 200 and not again.replayed

    assert wait_for(accepted, BACK_S), "a released claim is taken again"
    assert_once(stack, [webhook])


@pytest.mark.row("A6")
@MORE
def test_redis_emptied_old_webhooks_come_again_and_only_the_journal_knows_them(stack: Stack) -> None:
    webhooks = stack.captures(5, "emptied")
    stack.post(*webhooks)
    assert_once(stack, webhooks)
    redis.Redis.from_url(as_admin(stack.data_dir, stack.endpoints["redis"])).flushall()
    assert {answer.replayed for answer in stack.post(*webhooks)} == {False}
    assert wait_for(lambda: all(stack.decisions(one) == ["applied", "duplicate"] for one in webhooks), BACK_S)


@pytest.mark.row("A2")
def test_kill_9_after_what_is_durable_leaves_one_effect(stack: MortalStack) -> None:
    stack.killed_at(AFTER_WHAT_IS_DURABLE)
    said = stack.verify()
    assert "postings" in said and "anchors_hold" in said


class StackPeople:
    """The stack's people: they propose and approve by the API."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._url = f"{stack.endpoints['ops']}/api"
        people = {"fay": "finance", "amy": "admin"}
        self._tokens = {name: self._token(f"{name}-{uuid.uuid4().hex[:6]}", role) for name, role in people.items()}

    def says(self, *words: str, reported: str = "") -> str:
        """`payhook` over the stack's data folder."""
        said = payhook(*words, "--data", str(self._stack.data_dir), stdin=reported)
        assert said.returncode == 0, said.stdout + said.stderr
        return str(said.stdout)

    def _token(self, name: str, role: str) -> str:
        self.says("users", "add", name, "--role", role, "--password-stdin", reported=f"{uuid.uuid4()}\n")
        return self.says("users", "token", name).strip().splitlines()[-1]

    def _ask(self, method: str, who: str, path: str, **body: object) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self._tokens[who]}", "idempotency-key": f'"{uuid.uuid4()}"'}
        url = f"{self._url}/{path}"
        return httpx2.request(method, url, json=body or None, headers=headers, trust_env=False, timeout=BACK_S)

    def approved(self, who: str, proposal: str) -> int:
        """The status, once the proposal is known."""

        def known() -> bool:
            return proposal in self._ask("GET", "fay", "ledger/proposals").text

        assert wait_for(known, BACK_S)
        return self.approves(who, f"ledger/proposals/{proposal}/approve")

    def approves(self, who: str, path: str) -> int:
        """The status."""
        return self._ask("POST", who, path, reason="checked").status_code


@MORE
def test_what_is_taken_back_and_booked_by_hand_takes_two_people(stack: Stack, tmp_path: Path) -> None:
    [webhook] = stack.captures(1, "taken-back")
    stack.post(webhook)
    assert_once(stack, [webhook])
    [key] = webhook.event_keys
    office = StackPeople(stack)
    taken_back = office.says("ledger", "reverse", key, "--reason", "captured twice").split("proposed as ")[1].split()[0]
    assert office.approved("fay", taken_back) == 403
    assert office.approved("amy", taken_back) == 202
    assert stack.command_decided("reverse", 1) == ["reversed"]
    assert stack.decisions(webhook) == ["applied", "reversed"]

    letter = tmp_path / "letter.pdf"
    letter.write_bytes(b"from the bank")
    lines = ("--debit", "merchant:m-1:refunds", "7.00", "EUR", "--credit", "merchant:m-1:payable", "7.00", "EUR")
    said = office.says("ledger", "enter", "stripe:by-hand", *lines, "--evidence", str(letter), "--reason", "fee")
    assert office.approved("amy", said.split("proposed as ")[1].split()[0]) == 202
    assert stack.command_decided("book_entry", 1) == ["applied"]
    assert "no proposals wait" in office.says("ledger", "proposals")
    assert "book_entry" in office.says("ledger", "entity", "stripe:by-hand")
    assert "entries_have_two_people" in stack.verify()


@MORE
def test_what_was_discarded_comes_again_as_a_duplicate_and_what_was_released_is_booked(stack: Stack) -> None:
    merchants = stack.data_dir / "merchants.toml"
    before = merchants.read_text("utf-8")
    closed = '"acct_closed" = {account = "m-closed", closed = true}'
    merchants.write_text(before.replace("[stripe]", f"[stripe]\n{closed}"), "utf-8")
    gone, again = (stack.traffic.stripe(f"dead-{n}", "charge.succeeded", 9_900, "EUR", "acct_closed") for n in (1, 2))
    stack.post(gone, again)
    stack.decide([gone, again])
    assert [stack.decisions(one) for one in (gone, again)] == [["dead"], ["dead"]]
    office = StackPeople(stack)
    ids = {key: str(stack.item_of(key)) for one in (gone, again) for key in one.event_keys}
    office.says("dlq", "discard", ids[gone.event_keys[0]], "--reason", "a test payment")
    said = office.says("dlq", "release", ids[again.event_keys[0]], "--no-wait", "--reason", "the merchant was closed")
    assert "Needs approval: every release does" in said
    number = said.split("/dlq/selections/")[1].split()[0].split("?")[0]
    assert office.approves("fay", f"dlq/selections/{number}/approve") == 403
    assert office.approves("amy", f"dlq/selections/{number}/approve") == 200
    assert wait_for(lambda: stack.decisions(again) == ["dead", "released"], BACK_S), stack.decisions(again)
    assert stack.decisions(gone) == ["dead", "purged"]

    merchants.write_text(before.replace("[stripe]", '[stripe]\n"acct_closed" = "m-closed"'), "utf-8")
    assert [answer.status for answer in stack.post(gone, again)] == [200, 200]
    assert wait_for(lambda: stack.decisions(again) == ["dead", "released", "applied"], BACK_S), stack.decisions(again)
    stack.post(gone, again)
    assert stack.decisions(gone) == ["dead", "purged"], "the discarded one is answered as a duplicate"
    held = json.loads(office.says("ledger", "balances", "--json"))
    assert [one["balance_minor"] for one in held if one["account"] == "merchant:m-closed:payable"] == [-9_900]
    assert "released" in office.says("dlq", "audit") or "release" in office.says("dlq", "audit")
    stack.verify()


@MORE
def test_checkpoint_index_and_postings_deleted_nothing_is_lost_or_twice(stack: Stack) -> None:
    before = stack.captures(5, "before-loss")
    stack.post(*before)
    assert_once(stack, before)
    epoch = stack.epoch(BACK_S)
    stack.kill("processor")
    for folder in ("checkpoints", "index", "lake/postings"):
        shutil.rmtree(stack.data_dir / folder)
    after = stack.captures(5, "after-loss")
    redis.Redis.from_url(as_admin(stack.data_dir, stack.endpoints["redis"])).flushall()
    stack.post(*before, *after)
    back(stack, epoch)
    assert_once(stack, [*before, *after])
    said = stack.verify()
    assert "postings" in said and "anchors_hold" in said
