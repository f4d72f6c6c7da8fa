"""What takes two people is done by one: each way that was thought of, refused."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from cli.acting import this_account
from console.access import accounts
from console.access.roles import NotSignedIn, Role
from console.api import mount_api
from console.bookings import Bookings, EntryAsked
from console.dead_letters import Streams
from core.decision import Decision
from core.work import postings_from_json
from journal.schema import JournalRow
from journal.target import ItemTarget
from ledger.queries.story import read_entity_story
from operations.audit_log import AuditEntry, AuditLog, AuditLogUnwritable
from operations.command import PROPOSE_REVERSAL, Command
from operations.commands import send as send_command
from tests.dead_letters import DeadLetters, ToTheEngine
from tests.unit.console.listening import ADA, BOB, EVE, FAY, PASSWORD, Browser, Listener, csrf_of
from tests.unit.console.places import bookings_at
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers
from tests.unit.processor.harness import CONTROL

LOST, OPEN = "merchant:m-1:dispute_losses", "merchant:m-1:disputes"
PAYMENT = "stripe:acct_1:pi_evt_1"
AMY = "amy"


class TwoPeopleLedger:
    """A ledger with a booking of 1,250 cents, and the people of `listening`, with a second administrator, amy."""

    def __init__(self, data: Path) -> None:
        self.letters = DeadLetters(data)
        self.key = self.letters.receive("evt_1", fact="f_1")
        self.letters.books(self.key, 1_250, "EUR")
        self.letters.batch()
        clock, self.kafka = self.letters.clock, ToTheEngine(self.letters)
        app = FastAPI(openapi_url=None)
        self.listener = Listener(app, data, clock, producer=self.kafka)
        acts, users = self.listener.audit_log, self.listener.users
        bookings: Bookings = {"live": bookings_at(data, acts, clock, "api", self.kafka)}
        mount_api(app, {}, bookings, BreakableAnswers(clock), Streams({}))
        accounts.add_user(users, AMY, frozenset({Role.ADMIN}), PASSWORD, lambda *_: None)
        self.listener.tokens = {**self.listener.tokens, AMY: self.token(AMY)}

    def token(self, name: str) -> str:
        return accounts.make_token(self.listener.users, name, "more", self.letters.clock.now(), lambda *_: None)

    def post(self, path: str, user: str, key: str | None = None, **body: Any) -> httpx2.Response:
        """To the API; what it sent is decided."""
        headers = {"idempotency-key": f'"{key or uuid.uuid4()}"'}
        answer = self.listener.request("POST", f"/api/ledger/{path}", user, json=body, headers=headers)
        self.letters.batch()
        return answer

    def proposes(self, user: str, **changes: Any) -> str:
        """An entry that books a loss; the proposal's id."""
        answer = self.post("entries", user, **{**entry(), **changes})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["command_id"])

    def approves(self, user: str, command_id: str) -> tuple[int, str]:
        answer = self.post(f"proposals/{command_id}/approve", user, reason="read it")
        return answer.status_code, str(answer.json().get("detail", ""))

    def states(self) -> list[tuple[str, str]]:
        answer = self.listener.request("GET", "/api/ledger/proposals", FAY)
        return [(one["action"], one["state"]) for one in answer.json()["proposals"]]

    def booked(self) -> list[JournalRow]:
        """What was booked by hand."""
        rows = self.letters.journal.rows
        return [row for row in rows if row.decision is Decision.APPLIED and row.provider == "payhook"]


def entry() -> dict[str, Any]:
    line = {"amount_minor": 1_250, "currency": "EUR"}
    return {
        "entity": PAYMENT,
        "occurred_at": "2026-01-30T12:00:00Z",
        "evidence_sha256": "ab" * 32,
        "lines": [{"account": LOST, "side": "debit", **line}, {"account": OPEN, "side": "credit", **line}],
        "reason": "lost, says the bank",
    }


TYPED = {
    "entity": PAYMENT,
    "occurred": "2026-01-30",
    "lines": f"debit {LOST} 12.50 EUR\ncredit {OPEN} 12.50 EUR",
    "evidence": "ab" * 32,
    "reason": "lost, says the bank",
}
"""The same entry as a person types it into the page."""


class LateAcknowledgement:
    """Kafka takes the first command and doesn't say so in time. ``sent``: the ids of all commands that it has."""

    def __init__(self, office: TwoPeopleLedger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self._produce = office.kafka.produce
        monkeypatch.setattr(office.kafka, "produce", self.produce)

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        is_late = not self.sent
        self.sent.append(key.decode())
        self._produce(topic, value=value, key=key, on_delivery=(lambda *_: None) if is_late else on_delivery)
        if is_late:
            on_delivery("timed out", None)


@pytest.fixture
def office(tmp_path: Path) -> TwoPeopleLedger:
    return TwoPeopleLedger(tmp_path / "data")


def test_an_entry_is_booked_by_two_people_once(office: TwoPeopleLedger) -> None:
    proposed = office.proposes(FAY)
    assert (office.states(), office.booked()) == ([("propose_entry", "waits")], [])
    assert office.approves(ADA, proposed)[0] == 202
    (row,) = office.booked()
    assert [(line.account, line.side) for line in postings_from_json(row.postings)] == [
        (LOST, "debit"),
        (OPEN, "credit"),
    ]
    assert office.states() == [("propose_entry", "approved")]
    status, reported = office.approves(AMY, proposed)
    assert (status, "it was approved before" in reported, len(office.booked())) == (404, True, 1)
    story = read_entity_story(str(office.letters.layout.journal), PAYMENT)
    assert [event.first.event_type for event in story.events] == ["charge.captured", "book_entry"]


def test_an_entry_whose_answer_was_lost_is_proposed_once(
    office: TwoPeopleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka has the proposal, the client reads 503 and repeats its request with the same key."""
    kafka = LateAcknowledgement(office, monkeypatch)
    answers = [office.post("entries", FAY, "k", **entry()) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [503, 202]
    assert {*kafka.sent} == {answers[1].json()["command_id"]}
    assert office.states() == [("propose_entry", "waits")]


def test_an_entry_that_is_posted_again_before_it_is_decided_is_booked_once(
    office: TwoPeopleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is in Kafka too, and the processor knows it."""
    kafka = LateAcknowledgement(office, monkeypatch)
    with monkeypatch.context() as waiting:
        waiting.setattr(office.letters, "batch", lambda: None)
        answers = [office.post("entries", FAY, "k", **entry()) for _ in range(2)]
    office.letters.batch()
    assert ([answer.status_code for answer in answers], len(kafka.sent), len({*kafka.sent})) == ([503, 202], 2, 1)
    assert office.states() == [("propose_entry", "waits")]
    assert office.approves(ADA, kafka.sent[0])[0] == 202
    assert (len(office.booked()), office.states()) == (1, [("propose_entry", "approved")])


def test_an_entry_that_could_not_be_put_on_record_is_proposed_once(
    office: TwoPeopleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = LateAcknowledgement(office, monkeypatch)
    kafka.sent.append("none is late")
    record = AuditLog.record

    def unwritable_once(_log: AuditLog, _entry: AuditEntry) -> None:
        monkeypatch.setattr(AuditLog, "record", record)
        raise AuditLogUnwritable("acts", "disk full")

    monkeypatch.setattr(AuditLog, "record", unwritable_once)
    answers = [office.post("entries", FAY, "k", **entry()) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [503, 202]
    assert {*kafka.sent[1:]} == {answers[1].json()["command_id"]}
    assert office.states() == [("propose_entry", "waits")]


def test_the_same_key_for_another_entry_is_refused(office: TwoPeopleLedger) -> None:
    assert office.post("entries", FAY, "k", **entry()).status_code == 202
    assert office.post("entries", FAY, "k", **{**entry(), "reason": "another"}).status_code == 422
    assert len(office.states()) == 1


def test_an_approval_whose_answer_was_lost_is_given_once(
    office: TwoPeopleLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeated request is answered that it was carried out, and not that somebody approved it before."""
    where = f"proposals/{office.proposes(FAY)}/approve"
    kafka = LateAcknowledgement(office, monkeypatch)
    answers = [office.post(where, ADA, "k", reason="read it") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [503, 202]
    assert answers[1].json() == {"command_id": kafka.sent[0], "action": "book_entry"}
    assert ({*kafka.sent}, len(office.booked())) == ({kafka.sent[0]}, 1)


def test_a_reversal_that_the_command_line_proposed_is_approved_by_an_administrator(office: TwoPeopleLedger) -> None:
    letters = office.letters
    target = ItemTarget.of_row(next(row for row in letters.journal.rows if row.event_key == office.key))
    command = Command.with_new_id(
        "ledger", letters.lineage, PROPOSE_REVERSAL, [target], this_account(), "twice", letters.clock.now()
    )
    send_command(office.kafka, command)
    letters.batch()
    assert office.approves(ADA, command.command_id)[0] == 202
    assert letters.decisions(office.key) == ["applied", "reversed"]


@pytest.mark.parametrize("user", [EVE, BOB, FAY])
def test_only_administrators_approve(office: TwoPeopleLedger, user: str) -> None:
    proposed = office.proposes(ADA)
    status, _ = office.approves(user, proposed)
    assert (status, office.booked()) == (403, [])


@pytest.mark.parametrize("user", [EVE, BOB])
def test_only_finance_proposes(office: TwoPeopleLedger, user: str) -> None:
    assert office.post("entries", user, **entry()).status_code == 403
    assert office.states() == []


@pytest.mark.row("F7")
def test_nobody_approves_their_own(office: TwoPeopleLedger) -> None:
    status, reported = office.approves(ADA, office.proposes(ADA))
    assert (status, "ada proposed it: ask another admin to approve it" in reported, office.booked()) == (409, True, [])
    assert office.listener.audit_log.read(1)[0].outcome.value == "refused"


def test_the_engine_refuses_what_the_listener_did_not_see(office: TwoPeopleLedger) -> None:
    """Who may write to the control topic still can't approve in the name of the proposer, however it is typed."""
    from ledger.reversals import find_proposal
    from operations.command import approve

    layout = office.letters.layout
    proposed = find_proposal(str(layout.journal), str(layout.bodies_table), CONTROL, office.proposes(FAY)).command
    for name in (FAY, "FAY", " Fay "):
        send_command(office.kafka, approve(proposed, name, "mine", office.letters.clock.now()))
    office.letters.batch()
    assert office.booked() == []


def test_a_page_proposes_and_another_one_approves(office: TwoPeopleLedger) -> None:
    fay, ada = Browser(office.listener), Browser(office.listener)
    assert fay.sign_in(FAY).status_code == 303 and ada.sign_in(ADA).status_code == 303
    page = fay.get("/ledger/entries")
    unequal = TYPED["lines"].replace("12.50 EUR\n", "12.00 EUR\n")
    wrong = fay.post("/ledger/entries", {**TYPED, "lines": unequal}, csrf_of(page))
    assert wrong.status_code == 422 and "they must be equal" in wrong.text
    assert fay.post("/ledger/entries", TYPED, csrf_of(page)).status_code == 303
    office.letters.batch()
    assert "/approve" not in fay.get("/ledger/reversals").text, "finance approves nothing"
    listed = ada.get("/ledger/reversals")
    for text in (LOST, OPEN, "lost, says the bank", "ab" * 32, "12.50"):
        assert text in listed.text
    (row,) = [row for row in office.letters.journal.rows if row.event_type == "propose_entry"]
    where = f"/ledger/reversals/{str(row.entity_key).split(':')[1]}/approve"
    assert ada.post(where, {"reason": ""}, csrf_of(listed)).status_code == 422
    assert ada.post(where, {"reason": "read it"}, csrf_of(listed)).status_code == 303
    office.letters.batch()
    assert len(office.booked()) == 1
    again = ada.post(where, {"reason": "read it"}, csrf_of(listed))
    assert again.status_code == 404 and "it was approved before" in again.text


def test_a_form_that_is_sent_twice_proposes_once(office: TwoPeopleLedger) -> None:
    fay = Browser(office.listener)
    assert fay.sign_in(FAY).status_code == 303
    page = fay.get("/ledger/entries")
    fields = {**TYPED, "form": form_of(page)}
    assert [fay.post("/ledger/entries", fields, csrf_of(page)).status_code for _ in range(2)] == [303, 303]
    office.letters.batch()
    assert fay.post("/ledger/entries", fields, csrf_of(page)).status_code == 303
    office.letters.batch()
    assert office.states() == [("propose_entry", "waits")]
    changed = {**fields, "lines": TYPED["lines"].replace("12.50", "13.00")}
    assert form_of(fay.post("/ledger/entries", {**fields, "reason": ""}, csrf_of(page))) == fields["form"]
    assert fay.post("/ledger/entries", changed, csrf_of(page)).status_code == 303
    office.letters.batch()
    assert office.states() == [("propose_entry", "waits")] * 2, "another entry is another proposal"
    assert form_of(fay.get("/ledger/entries")) != fields["form"]


def form_of(page: httpx2.Response) -> str:
    found = re.search(r'name="form" value="([0-9a-f]{32})"', page.text)
    assert found is not None, page.text
    return found[1]


def test_no_variable_says_who_runs_a_command() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from cli.acting import this_account; print(this_account())"],
        env={**os.environ, **dict.fromkeys(["LOGNAME", "USER", "LNAME", "USERNAME"], "bob")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == pwd.getpwuid(os.getuid()).pw_name != "bob"


@pytest.mark.parametrize("group", ["ledger", "dlq"])
def test_the_command_line_approves_nothing(group: str) -> None:
    from cli import main

    assert "approve" not in getattr(main, group).list_commands(None)


@pytest.mark.parametrize("does", ["proposes", "approves"])
def test_who_was_removed_since_they_signed_in_orders_nothing(office: TwoPeopleLedger, does: str) -> None:
    letters, users = office.letters, office.listener.users
    bookings = bookings_at(office.listener.folder, office.listener.audit_log, letters.clock, "page", office.kafka)
    accounts.add_user(users, "zoe", frozenset({Role.ADMIN}), PASSWORD, lambda *_: None)
    proposed = office.proposes(ADA)
    accounts.remove_user(users, "zoe", lambda *_: None)
    with pytest.raises(NotSignedIn):
        if does == "proposes":
            bookings.propose_entry(EntryAsked(**entry()).entry(), "zoe", "lost", uuid.uuid4().hex)
        else:
            bookings.approve(proposed, "zoe", "read it", uuid.uuid4().hex)
    letters.batch()
    assert (office.states(), office.booked()) == ([("propose_entry", "waits")], [])
    assert [(one.actor, one.outcome.value) for one in office.listener.audit_log.read(1)] == [("zoe", "refused")]
