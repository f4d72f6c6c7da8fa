"""A booking by hand takes two people, and is booked once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_from_json, reversed_postings
from dlq.command import PROPOSE_REVERSAL, Command, Target, approve, propose_entry
from dlq.commands import encode
from dlq.entry import Entry
from journal.schema import JournalRow
from tests.unit.processor.harness import CONTROL, LINEAGE, NOW, Engine

LOST = (
    Posting("merchant:m1:dispute_losses", "debit", Money(1250, "EUR")),
    Posting("merchant:m1:disputes", "credit", Money(1250, "EUR")),
)
EVIDENCE = "ab" * 32


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def entry(entity: str = "e1", postings: tuple[Posting, ...] = LOST) -> Entry:
    return Entry(entity, NOW - timedelta(days=3), EVIDENCE, postings)


def proposal(actor: str = "ada", **fields: object) -> Command:
    return propose_entry("ledger", LINEAGE, entry(**fields), actor, "the bank's letter of the 3rd", NOW)  # type: ignore[arg-type]


def give(engine: Engine, *commands: Command) -> list[JournalRow]:
    for command in commands:
        engine.send(CONTROL, encode(command), [])
    return engine.batch()


def test_a_proposal_books_nothing(engine: Engine) -> None:
    (row,) = give(engine, proposal())
    assert (row.decision, row.event_type, row.actor, row.postings) == (Decision.RESOLVED, "propose_entry", "ada", None)
    assert row.reason == "an entry is proposed, nothing is booked yet: the bank's letter of the 3rd"


def test_an_approved_entry_is_an_event_of_its_payment(engine: Engine) -> None:
    wanted = proposal()
    give(engine, wanted)
    approval = approve(wanted, "bob", "read the letter", NOW)
    (row,) = give(engine, approval)
    assert (row.decision, row.first, row.event_type, row.entity_key) == (Decision.APPLIED, True, "book_entry", "e1")
    assert postings_from_json(row.postings) == LOST
    assert (row.actor, row.occurred_at, row.provider) == ("bob", NOW - timedelta(days=3), "payhook")
    assert row.event_key == f"payhook:{approval.command_id}:book_entry"
    assert row.fact_key == f"payhook:{wanted.command_id}:propose_entry"
    assert row.fact_sha256 == entry().postings_sha256
    assert row.reason == (
        f"the bank's letter of the 3rd (proposed by ada, {wanted.command_id}); approved: read the letter; "
        f"evidence {EVIDENCE}"
    )


@pytest.mark.parametrize("approver", ["ada", "Ada", " ADA"])
def test_nobody_approves_what_they_proposed(engine: Engine, approver: str) -> None:
    wanted = proposal()
    give(engine, wanted)
    (row,) = give(engine, approve(wanted, approver, "it is fine", NOW))
    assert (row.decision, row.postings) == (Decision.IGNORED, None)
    assert "another person must approve it" in str(row.reason)
    (row,) = give(engine, approve(wanted, "bob", "read it", NOW))
    assert row.decision is Decision.APPLIED, "a refused approval leaves the proposal as it was"


def test_nobody_approves_what_they_could_have_proposed(engine: Engine) -> None:
    wanted = replace(propose_entry("ledger", LINEAGE, entry(), "zoe", "why", NOW), hands=("ada", "yan"))
    give(engine, wanted)
    for who in ("ada", "Yan", "zoe"):
        (row,) = give(engine, approve(wanted, who, "fine", NOW))
        assert row.decision is Decision.IGNORED and "another person must approve it" in str(row.reason)
    (row,) = give(engine, approve(replace(wanted, hands=()), "ada", "fine", NOW))
    assert row.decision is Decision.IGNORED and "no proposal" in str(row.reason)
    (row,) = give(engine, approve(wanted, "bob", "fine", NOW))
    assert row.decision is Decision.APPLIED


@pytest.mark.parametrize(
    "forged",
    [
        {"entry": entry("e2")},
        {"entry": replace(entry(), postings=reversed_postings(LOST))},
        {"entry": replace(entry(), evidence_sha256="cd" * 32)},
        {"entry": replace(entry(), occurred_at=NOW)},
        {"actor": "eve"},
        {"reason": "another one"},
    ],
)
def test_an_approval_of_anything_but_what_was_proposed_is_refused(engine: Engine, forged: dict[str, object]) -> None:
    wanted = proposal()
    give(engine, wanted)
    (row,) = give(engine, approve(replace(wanted, **forged), "bob", "checked", NOW))  # type: ignore[arg-type]
    assert (row.decision, row.postings) == (Decision.IGNORED, None)
    assert "no proposal" in str(row.reason)


def test_an_approval_without_its_proposal_in_the_journal_is_refused(engine: Engine) -> None:
    wanted = proposal()
    (_, row) = give(engine, wanted, approve(wanted, "bob", "checked", NOW))
    assert row.decision is Decision.IGNORED, "an approval is of what the journal holds, not of what came beside it"


@pytest.mark.parametrize("keeps_index", [True, False])
def test_an_entry_is_booked_once_however_often_it_is_approved(engine: Engine, keeps_index: bool) -> None:
    wanted = proposal()
    give(engine, wanted)
    first, second = (approve(wanted, who, "checked", NOW) for who in ("bob", "cleo"))
    rows = give(engine, first, second, first)
    assert [row.decision for row in rows] == [Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE]
    engine.start(keeps_index=keeps_index)
    (row,) = give(engine, approve(wanted, "dora", "checked", NOW))
    assert (row.decision, row.reason) == (Decision.IGNORED, "refused: the entry was booked before")


def test_an_entry_is_reversed_like_any_booking(engine: Engine) -> None:
    wanted = proposal()
    give(engine, wanted)
    (booked,) = give(engine, approve(wanted, "bob", "checked", NOW))
    taken_back = Command.new(
        "ledger", LINEAGE, PROPOSE_REVERSAL, [Target.of(booked)], "ada", "the letter was another's", NOW
    )
    give(engine, taken_back)
    _, row = give(engine, approve(taken_back, "bob", "so it is", NOW))
    assert (row.decision, row.entity_key) == (Decision.REVERSED, "e1")
    assert postings_from_json(row.postings) == reversed_postings(LOST)
