"""Two people take a booking back, once and whole, or book one by hand, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_from_json, reversed_postings
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import PROPOSE_REVERSAL, Command, approve, propose_entry
from operations.commands import encode
from operations.entry import ManualEntry
from tests.unit.processor.harness import CONTROL, LINEAGE, NOW, Engine


def booked(engine: Engine, event_id: str = "evt_1", entity: str = "e1") -> ItemTarget:
    """An applied event's booking."""
    key = engine.post(event_id, entity, fact=f"stripe:{event_id}")
    engine.batch()
    row = next(row for row in engine.journal.rows if row.event_key == key and row.decision is Decision.APPLIED)
    return ItemTarget.of_row(row)


def proposal(*targets: ItemTarget, actor: str = "ada") -> Command:
    return Command.with_new_id("ledger", LINEAGE, PROPOSE_REVERSAL, targets, actor, "captured twice by hand", NOW)


def give(engine: Engine, *commands: Command) -> list[JournalRow]:
    for command in commands:
        engine.send(CONTROL, encode(command), [])
    return engine.batch()


def reversals(rows: list[JournalRow]) -> list[JournalRow]:
    return [row for row in rows if row.decision is Decision.REVERSED and not row.first]


def test_a_proposal_books_nothing(engine: Engine) -> None:
    (row,) = give(engine, proposal(booked(engine)))
    assert (row.decision, row.event_type, row.actor, row.postings) == (
        Decision.RESOLVED,
        "propose_reversal",
        "ada",
        None,
    )
    assert row.reason == "1 proposed, nothing is booked yet: captured twice by hand"


def test_an_approved_proposal_books_the_mirror_of_what_was_booked(engine: Engine) -> None:
    target = booked(engine)
    wanted = proposal(target)
    give(engine, wanted)
    command, entry = give(engine, approve(wanted, "bob", "checked with the bank", NOW))
    original = engine.journal.rows[target.seen_seq - 1]
    assert (command.decision, command.first) == (Decision.REVERSED, True)
    assert command.reason == f"1 reversed as ada proposed ({wanted.command_id}): checked with the bank"
    assert (entry.decision, entry.first, entry.item_seq) == (Decision.REVERSED, False, target.item_seq)
    assert postings_from_json(entry.postings) == reversed_postings(postings_from_json(original.postings))
    assert (entry.actor, entry.cause_seq, entry.reason) == (
        "bob",
        command.seq,
        "captured twice by hand (proposed by ada)",
    )
    assert (entry.event_key, entry.fact_key, entry.handler_version) == (
        original.event_key,
        original.fact_key,
        original.handler_version,
    )


def test_proposal_and_approval_in_one_batch_are_decided_in_their_order(engine: Engine) -> None:
    wanted = proposal(booked(engine))
    rows = give(engine, wanted, approve(wanted, "bob", "checked", NOW))
    assert len(reversals(rows)) == 0, "an approval is of what the journal holds, not of what came beside it"
    assert len(reversals(give(engine, approve(wanted, "bob", "checked", NOW)))) == 1


@pytest.mark.parametrize("approver", ["ada", "Ada", " ADA"])
def test_nobody_approves_what_they_proposed(engine: Engine, approver: str) -> None:
    wanted = proposal(booked(engine))
    give(engine, wanted)
    (row,) = give(engine, approve(wanted, approver, "it is fine", NOW))
    assert row.decision is Decision.IGNORED
    assert "another person must approve it" in str(row.reason)


def test_an_approval_of_what_nobody_proposed_is_refused(engine: Engine) -> None:
    (row,) = give(engine, approve(proposal(booked(engine)), "bob", "checked", NOW))
    assert row.decision is Decision.IGNORED
    assert "no proposal" in str(row.reason)


def test_an_approval_of_other_bookings_than_were_proposed_is_refused(engine: Engine) -> None:
    first, second = booked(engine, "evt_1"), booked(engine, "evt_2")
    wanted = proposal(first)
    give(engine, wanted)
    forged = Command(
        wanted.command_id, "ledger", LINEAGE, wanted.action, (second,), wanted.actor, wanted.reason, wanted.at
    )
    (row,) = give(engine, approve(forged, "bob", "checked", NOW))
    assert row.decision is Decision.IGNORED
    assert "with these items" in str(row.reason)


def test_an_approval_that_names_another_proposer_is_refused(engine: Engine) -> None:
    """Else whoever proposed could approve by saying that somebody else had proposed."""
    wanted = proposal(booked(engine))
    give(engine, wanted)
    forged = Command(
        wanted.command_id, "ledger", LINEAGE, wanted.action, wanted.targets, "eve", wanted.reason, wanted.at
    )
    assert not reversals(give(engine, approve(forged, "ada", "checked", NOW)))


def test_a_booking_is_reversed_once_whatever_is_approved(engine: Engine) -> None:
    target = booked(engine)
    first, second = proposal(target), proposal(target, actor="eve")
    give(engine, first, second)
    rows = give(engine, approve(first, "bob", "checked", NOW), approve(second, "bob", "checked", NOW))
    assert len(reversals(rows)) == 1
    again = give(engine, approve(first, "cleo", "once more", NOW), proposal(target))
    assert not reversals(again)
    assert all("was reversed before" in str(row.reason) for row in again)


@pytest.mark.parametrize("keeps_index", [True, False])
def test_that_it_was_reversed_outlasts_a_restart_and_the_index(engine: Engine, keeps_index: bool) -> None:
    target = booked(engine)
    wanted = proposal(target)
    give(engine, wanted)
    give(engine, approve(wanted, "bob", "checked", NOW))
    engine.start(keeps_index=keeps_index)
    assert not reversals(give(engine, approve(wanted, "cleo", "checked", NOW)))


def test_copies_of_one_approval_have_one_effect(engine: Engine) -> None:
    wanted = proposal(booked(engine))
    give(engine, wanted)
    approval = approve(wanted, "bob", "checked", NOW)
    rows = give(engine, approval, approval) + give(engine, approval)
    assert len(reversals(rows)) == 1
    assert [row.decision for row in rows if row.first] == [
        Decision.REVERSED,
        Decision.DUPLICATE,
        Decision.DUPLICATE,
    ]


def test_all_bookings_of_a_proposal_are_reversed_or_none(engine: Engine) -> None:
    first, second = booked(engine, "evt_1"), booked(engine, "evt_2", "e2")
    both, one = proposal(first, second), proposal(second, actor="eve")
    give(engine, both, one)
    give(engine, approve(one, "bob", "checked", NOW))
    (row,) = give(engine, approve(both, "bob", "checked", NOW))
    assert row.decision is Decision.IGNORED
    assert row.reason == f"refused: item {second.item_seq} was reversed before"


def test_what_booked_nothing_cannot_be_proposed(engine: Engine) -> None:
    target = booked(engine)
    engine.post("evt_1")
    (copy,) = engine.batch()
    wanted = [
        ItemTarget.of_row(copy),
        engine.target(target.item_seq, 4_000),
        engine.target(copy.item_seq, target.seen_seq),
    ]
    rows = [row for one in wanted[:1] for row in give(engine, proposal(one))]
    assert [row.decision for row in rows] == [Decision.IGNORED]
    assert "booked nothing: it is duplicate" in str(rows[0].reason)
    (missing,) = give(engine, proposal(wanted[1]))
    assert f"there is no row 4000 of item {target.item_seq}" in str(missing.reason)


def test_a_redelivery_of_a_reversed_event_books_nothing(engine: Engine) -> None:
    target = booked(engine)
    wanted = proposal(target)
    give(engine, wanted)
    give(engine, approve(wanted, "bob", "checked", NOW))
    engine.post("evt_1", "e1", fact="stripe:evt_1")
    engine.post("evt_9", "e1", fact="stripe:evt_1")
    rows = engine.batch()
    assert [row.decision for row in rows] == [Decision.DUPLICATE, Decision.DUPLICATE_FACT]


def test_a_reversal_leaves_its_entity_free(engine: Engine) -> None:
    wanted = proposal(booked(engine))
    give(engine, wanted)
    give(engine, approve(wanted, "bob", "checked", NOW))
    engine.post("evt_2", "e1", fact="stripe:evt_2")
    assert [row.decision for row in engine.batch()] == [Decision.APPLIED]
    assert engine.index.open_count() == 0


def test_the_body_of_a_reversed_event_is_not_written_again(engine: Engine) -> None:
    target = booked(engine)
    before = dict(engine.bodies.by_hash)
    wanted = proposal(target)
    give(engine, wanted)
    give(engine, approve(wanted, "bob", "checked", NOW))
    assert {name: engine.bodies.by_hash[name] for name in before} == before
    assert b"" not in engine.bodies.by_hash.values()


LOST = (
    Posting("merchant:m1:dispute_losses", "debit", Money(1250, "EUR")),
    Posting("merchant:m1:disputes", "credit", Money(1250, "EUR")),
)
EVIDENCE = "ab" * 32


def entry(entity: str = "e1", postings: tuple[Posting, ...] = LOST) -> ManualEntry:
    return ManualEntry(entity, NOW - timedelta(days=3), EVIDENCE, postings)


def entry_proposal(actor: str = "ada", **fields: object) -> Command:
    return propose_entry("ledger", LINEAGE, entry(**fields), actor, "the bank's letter of the 3rd", NOW)  # type: ignore[arg-type]


def test_a_proposed_entry_books_nothing(engine: Engine) -> None:
    (row,) = give(engine, entry_proposal())
    assert (row.decision, row.event_type, row.actor, row.postings) == (Decision.RESOLVED, "propose_entry", "ada", None)
    assert row.reason == "an entry is proposed, nothing is booked yet: the bank's letter of the 3rd"


def test_an_approved_entry_is_an_event_of_its_payment(engine: Engine) -> None:
    wanted = entry_proposal()
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
def test_nobody_approves_an_entry_that_they_proposed(engine: Engine, approver: str) -> None:
    wanted = entry_proposal()
    give(engine, wanted)
    (row,) = give(engine, approve(wanted, approver, "it is fine", NOW))
    assert (row.decision, row.postings) == (Decision.IGNORED, None)
    assert "another person must approve it" in str(row.reason)
    (row,) = give(engine, approve(wanted, "bob", "read it", NOW))
    assert row.decision is Decision.APPLIED, "a refused approval leaves the proposal as it was"


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
    wanted = entry_proposal()
    give(engine, wanted)
    (row,) = give(engine, approve(replace(wanted, **forged), "bob", "checked", NOW))  # type: ignore[arg-type]
    assert (row.decision, row.postings) == (Decision.IGNORED, None)
    assert "no proposal" in str(row.reason)


def test_an_approval_without_its_proposal_in_the_journal_is_refused(engine: Engine) -> None:
    wanted = entry_proposal()
    (_, row) = give(engine, wanted, approve(wanted, "bob", "checked", NOW))
    assert row.decision is Decision.IGNORED, "an approval is of what the journal holds, not of what came beside it"


@pytest.mark.parametrize("keeps_index", [True, False])
def test_an_entry_is_booked_once_however_often_it_is_approved(engine: Engine, keeps_index: bool) -> None:
    wanted = entry_proposal()
    give(engine, wanted)
    first, second = (approve(wanted, who, "checked", NOW) for who in ("bob", "cleo"))
    rows = give(engine, first, second, first)
    assert [row.decision for row in rows] == [Decision.APPLIED, Decision.IGNORED, Decision.DUPLICATE]
    engine.start(keeps_index=keeps_index)
    (row,) = give(engine, approve(wanted, "dora", "checked", NOW))
    assert (row.decision, row.reason) == (Decision.IGNORED, "refused: the entry was booked before")


def test_an_entry_is_reversed_like_any_booking(engine: Engine) -> None:
    wanted = entry_proposal()
    give(engine, wanted)
    (booked,) = give(engine, approve(wanted, "bob", "checked", NOW))
    taken_back = Command.with_new_id(
        "ledger", LINEAGE, PROPOSE_REVERSAL, [ItemTarget.of_row(booked)], "ada", "the letter was another's", NOW
    )
    give(engine, taken_back)
    _, row = give(engine, approve(taken_back, "bob", "so it is", NOW))
    assert (row.decision, row.entity_key) == (Decision.REVERSED, "e1")
    assert postings_from_json(row.postings) == reversed_postings(LOST)
