"""What can be reversed, and which proposals wait: read from a journal on Delta."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from journal.bodies import BodyStore
from journal.reader import lineage_of
from journal.schema import JournalRow
from journal.target import ItemTarget
from journal.writer import JournalWriter
from ledger.reversals import (
    NotReversible,
    ProposalUnknown,
    build_reversal,
    find_bookings,
    find_proposal,
    read_proposals,
)
from operations.command import PROPOSE_REVERSAL, Command, approve, propose_entry
from operations.commands import encode
from operations.entry import ManualEntry
from tests.unit.journal.rows import bare_row

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
EVENTS, CONTROL = "payments.events", "payments.control"
BOOKED = postings_to_json([Posting("a", "debit", Money(5, "EUR")), Posting("b", "credit", Money(5, "EUR"))])


class GrownJournal:
    """A journal and its bodies, grown row by row."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.bodies = str(folder / "journal"), str(folder / "bodies")
        self._writer = JournalWriter.create_or_open(self.journal, "ledger")
        self._marks = {EVENTS: {0: 0}, CONTROL: {0: 0}}
        self._writer.begin_epoch(self._marks)
        self._bodies = BodyStore(self.bodies)
        self._seq = 0

    def row(self, topic: str, decision: Decision, **more: Any) -> JournalRow:
        self._seq += 1
        first = "item_seq" not in more
        offset = self._marks[topic][0]
        row = bare_row(self._seq, decision, first=first, topic=topic, offset=offset, decided_at=AT, **more)
        if first:
            self._marks[topic][0] += 1
        self._writer.commit([row], {name: dict(held) for name, held in self._marks.items()}, 0)
        return row

    def booked(self, name: str) -> JournalRow:
        return self.row(
            EVENTS, Decision.APPLIED, event_key=f"stripe:{name}:charge", fact_key=f"stripe:{name}", postings=BOOKED
        )

    def given(self, command: Command, decision: Decision, **more: Any) -> JournalRow:
        raw = encode(command)
        digest = hashlib.sha256(raw).hexdigest()
        self._bodies.append([(digest, raw)])
        return self.row(
            CONTROL,
            decision,
            event_key=f"payhook:{command.command_id}:{command.action}",
            entity_key=f"payhook:{command.command_id}",
            event_type=command.action,
            actor=command.actor,
            body_sha256=digest,
            **more,
        )

    def all(self) -> list[tuple[str, bool]]:
        return [(one.command.command_id, one.approved) for one in read_proposals(self.journal, self.bodies, CONTROL)]

    def one(self, command_id: str) -> Command:
        return find_proposal(self.journal, self.bodies, CONTROL, command_id).command


@pytest.fixture
def books(tmp_path: Path) -> GrownJournal:
    return GrownJournal(tmp_path)


def wanted(books: GrownJournal, row: JournalRow) -> Command:
    return Command.with_new_id(
        "ledger", lineage_of(books.journal), PROPOSE_REVERSAL, [ItemTarget.of_row(row)], "ada", "twice", AT
    )


@pytest.mark.parametrize("key", ["stripe:evt:charge", "stripe:evt"])
def test_a_booking_is_found_by_its_event_and_by_its_fact(books: GrownJournal, key: str) -> None:
    row = books.booked("evt")
    (found,) = find_bookings(books.journal, [key])
    assert ItemTarget.of_row(found) == ItemTarget.of_row(row)
    assert [(line.account, line.side) for line in build_reversal(found)] == [("a", "credit"), ("b", "debit")]


def test_a_key_that_is_named_twice_is_one_booking(books: GrownJournal) -> None:
    books.booked("evt")
    assert len(find_bookings(books.journal, ["stripe:evt:charge", "stripe:evt:charge"])) == 1


def test_what_is_not_there_cannot_be_reversed(books: GrownJournal) -> None:
    books.booked("evt")
    with pytest.raises(NotReversible, match="there is no such event"):
        find_bookings(books.journal, ["stripe:other"])


def test_what_booked_nothing_cannot_be_reversed(books: GrownJournal) -> None:
    books.row(EVENTS, Decision.IGNORED, event_key="stripe:evt:customer")
    with pytest.raises(NotReversible, match="it booked nothing: ignored"):
        find_bookings(books.journal, ["stripe:evt:customer"])


def test_what_was_reversed_cannot_be_reversed_again(books: GrownJournal) -> None:
    row = books.booked("evt")
    books.row(EVENTS, Decision.REVERSED, item_seq=row.seq, event_key=row.event_key, fact_key=row.fact_key)
    with pytest.raises(NotReversible, match="it was reversed before"):
        find_bookings(books.journal, ["stripe:evt"])


def test_proposals_are_listed_newest_first_with_what_became_of_them(books: GrownJournal) -> None:
    first, second, refused = (wanted(books, books.booked(name)) for name in ("one", "two", "three"))
    books.given(first, Decision.RESOLVED)
    books.given(second, Decision.RESOLVED)
    books.given(refused, Decision.IGNORED)
    books.given(approve(first, "bob", "checked", AT), Decision.REVERSED)
    books.given(approve(second, "ada", "mine", AT), Decision.IGNORED)
    assert books.all() == [(second.command_id, False), (first.command_id, True)]


def test_an_entry_is_proposed_approved_and_reversed_like_them(books: GrownJournal) -> None:
    lines = Posting("a", "debit", Money(5, "EUR")), Posting("b", "credit", Money(5, "EUR"))
    command = propose_entry(
        "ledger", lineage_of(books.journal), ManualEntry("e1", AT, "ab" * 32, lines), "ada", "why", AT
    )
    books.given(command, Decision.RESOLVED)
    assert books.one(command.command_id) == command
    approval = approve(command, "bob", "checked", AT)
    row = books.given(approval, Decision.APPLIED, postings=BOOKED)
    assert books.all() == [(command.command_id, True)]
    (found,) = find_bookings(books.journal, [f"payhook:{approval.command_id}:book_entry"])
    assert ItemTarget.of_row(found) == ItemTarget.of_row(row)


def test_a_proposal_that_waits_is_found_as_it_was_given(books: GrownJournal) -> None:
    command = wanted(books, books.booked("evt"))
    books.given(command, Decision.RESOLVED)
    assert books.one(command.command_id) == command


def test_what_cannot_be_approved_says_why(books: GrownJournal) -> None:
    approved, refused, bodiless = (wanted(books, books.booked(name)) for name in ("one", "two", "three"))
    books.given(approved, Decision.RESOLVED)
    books.given(approve(approved, "bob", "checked", AT), Decision.REVERSED)
    books.given(refused, Decision.IGNORED)
    books.row(
        CONTROL,
        Decision.RESOLVED,
        entity_key=f"payhook:{bodiless.command_id}",
        event_type="propose_reversal",
        body_sha256="ab" * 32,
    )
    for command, why in (
        (approved, "it was approved before"),
        (refused, "it was refused"),
        (bodiless, "its bytes are kept no more"),
        (wanted(books, books.booked("four")), "there is none"),
    ):
        with pytest.raises(ProposalUnknown, match=why):
            books.one(command.command_id)


def test_a_proposal_of_before_a_restore_is_listed_as_such_and_cannot_be_approved(books: GrownJournal) -> None:
    row = books.booked("evt")
    older = Command.with_new_id("ledger", "0" * 32, PROPOSE_REVERSAL, [ItemTarget.of_row(row)], "ada", "twice", AT)
    books.given(older, Decision.RESOLVED)
    (found,) = read_proposals(books.journal, books.bodies, CONTROL)
    assert (found.approved, found.outdated, found.waits, found.state) == (False, True, False, "older than a restore")
    with pytest.raises(ProposalUnknown, match="the journal was restored since: propose it again"):
        books.one(older.command_id)


def test_a_ledger_that_has_not_begun_has_no_proposals(tmp_path: Path) -> None:
    assert read_proposals(str(tmp_path / "journal"), str(tmp_path / "bodies"), CONTROL) == []
