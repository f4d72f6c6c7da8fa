"""`payhook ledger reprocess`: what people see before anything is sent, and how much goes into one command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.acting import this_account
from cli.main import main
from cli.place import Place
from cli.reprocess_command import SPAN_SEQS_MAX, commands_of
from core.decision import Decision
from core.layout import Layout
from core.settings import KafkaSettings
from dlq.audit_log import AuditLog
from dlq.command import REPROCESS, REPROCESS_MAX, Command, Target
from dlq.commands import decode, encode
from stack.data_folder import make_key
from tests.small_ledger import START
from tests.unit.console.places import SentTo
from tests.unit.ledger.ignored_events import IgnoredEvents


@pytest.fixture
def ledger(tmp_path: Path) -> IgnoredEvents:
    reported = IgnoredEvents(tmp_path / "data")
    reported.applied(reported.ignored("evt_1"))
    reported.ignored("evt_2", "customer.updated")
    reported.reopened(reported.ignored("evt_3", payment="pi_3"), Decision.APPLIED)
    reported.write()
    return reported


def payhook(ledger: IgnoredEvents, *words: str) -> Result:
    command = ["ledger", "reprocess", *words, "--data", str(ledger.data)]
    return CliRunner(env={"COLUMNS": "140"}).invoke(main, command)


def test_a_dry_run_says_of_each_event_what_would_happen_or_why_not(ledger: IgnoredEvents) -> None:
    said = payhook(ledger, "--dry-run")
    assert said.exit_code == 0, said.output
    for words in (
        "1  would be booked",
        "1  would be ignored again",
        "stripe:evt_1:refund.created",
        "debit merchant:m-1:refunds 7.00 EUR",
        "behind later events",
        "customer.updated moves no money",
        "nothing was sent",
    ):
        assert words in said.output, said.output
    assert "evt_3" not in said.output


def test_the_json_of_a_dry_run_has_amounts_in_minor_units(ledger: IgnoredEvents) -> None:
    reported = json.loads(payhook(ledger, "--dry-run", "--json", "--type", "refund.created").output)
    assert (reported["ignored"], reported["counts"], reported["sent"]) == (1, {"books": 1}, False)
    [event] = reported["events"]
    assert event["behind_later_events"] is True
    assert {(line["amount_minor"], line["decimals"]) for line in event["postings"]} == {(700, 2)}


def test_an_event_that_was_reprocessed_is_reported_as_such_and_is_exit_1(ledger: IgnoredEvents) -> None:
    said = payhook(ledger, "--event-key", "stripe:evt_3:refund.created", "--reason", "once more")
    assert said.exit_code == 1
    assert "it was reprocessed before, and that has no second effect" in said.output
    assert "nothing was sent" in said.output


def test_an_event_that_the_handler_still_ignores_is_exit_1_if_it_was_named(ledger: IgnoredEvents) -> None:
    said = payhook(ledger, "--event-key", "stripe:evt_2:customer.updated", "--reason", "please")
    assert (said.exit_code, "would be ignored again" in said.output) == (1, True)
    assert payhook(ledger, "--type", "customer.updated", "--reason", "please").exit_code == 0


def test_a_limit_says_what_is_left(ledger: IgnoredEvents) -> None:
    for number in range(5, 8):
        ledger.ignored(f"evt_{number}", payment=f"pi_{number}")
    ledger.write()
    said = payhook(ledger, "--dry-run", "--limit", "2")
    assert "2  would be booked" in said.output
    assert "2 more are ignored and weren't looked at" in said.output


def test_nothing_like_that_is_exit_0(ledger: IgnoredEvents) -> None:
    said = payhook(ledger, "--dry-run", "--provider", "adyen")
    assert (said.exit_code, "no event is ignored that is like that" in said.output) == (0, True)


def test_a_reason_is_wanted_for_the_record(ledger: IgnoredEvents) -> None:
    said = payhook(ledger)
    assert said.exit_code == 2
    assert "--reason is wanted" in said.output


def test_without_a_stack_nothing_is_sent(ledger: IgnoredEvents) -> None:
    said = payhook(ledger, "--reason", "known now")
    assert said.exit_code == 1
    assert "payhook: " in said.output


def test_it_is_proposed_where_another_person_is_to_approve_it(
    ledger: IgnoredEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = SentTo()
    monkeypatch.setattr("cli.acting.open_producer", lambda *_: kafka)
    monkeypatch.setattr(Place, "kafka", lambda _place: KafkaSettings())
    make_key(Layout(ledger.data).record_keys)
    said = payhook(ledger, "--reason", "known now", "--propose", "--no-wait")
    assert (said.exit_code, "an administrator who isn't you approves it" in said.output) == (0, True), said.output
    [command] = [decode(value) for value in kafka.values]
    assert (command.action, command.actor, command.reason) == ("propose_reprocess", this_account(), "known now")
    [act] = AuditLog(Layout(ledger.data).audit_log).read(10)
    assert (act.action, act.outcome.value) == ("propose_reprocess", "done")


def test_commands_are_of_neighbours_and_of_what_is_due_within_their_time() -> None:
    near = [Target(seq, seq, "0" * 16) for seq in range(1, REPROCESS_MAX + 51)]
    far = Target(SPAN_SEQS_MAX + 200, SPAN_SEQS_MAX + 200, "0" * 16)
    found = list(commands_of([far, *reversed(near)], 0))
    assert [len(targets) for targets in found] == [REPROCESS_MAX, 50, 1]
    assert [target for targets in found for target in targets] == [*near, far]
    slow = list(commands_of(near, 2_000_000))
    assert {len(targets) for targets in slow[:-1]} == {31}
    for targets in slow:
        plain = Command.new("ledger", "1" * 32, REPROCESS, targets, "ada", "known now", START)
        command = replace(plain, interval_us=2_000_000)
        assert decode(encode(command)) == command
