"""Reversing entries: what is right about one, and each way in which one can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from core.decision import Decision
from journal import index_layout as layout
from journal.schema import JournalRow
from ledger.verify.derived_checks import IndexEqualsJournal
from ledger.verify.journal_checks import ItemsCloseOnce
from ledger.verify.payment_checks import Balanced, ReversalsMirrorBookings
from tests.integration.ledger.conftest import CONTROL, Look, World, booking, later_row, new_row


def reversal(world: World, seq: int = 16, **more: Any) -> JournalRow:
    """The entry that takes row 1's booking back, as the approval in row 15 caused it."""
    row = later_row(world.row(1), seq, Decision.REVERSED, postings=booking(capture=False), cause_seq=15)
    for name, value in more.items():
        setattr(row, name, value)
    return row


def plant(world: World, *entries: JournalRow) -> None:
    approval = new_row(15, CONTROL, 0, 1, Decision.REVERSED, "cmd_2", event_type="reverse", handler_version=None)
    world.add_commit(approval, *entries)


def test_a_booking_taken_back_whole_is_right(look: Look, world: World) -> None:
    plant(world, reversal(world))
    for invariant in (ReversalsMirrorBookings, ItemsCloseOnce, Balanced):
        found = look(invariant)
        assert found.ok, found


def test_a_booking_taken_back_twice_is_found(look: Look, world: World) -> None:
    plant(world, reversal(world), reversal(world, 17))
    (offender,) = look(ReversalsMirrorBookings).offenders
    assert (offender["item_seq"], offender["reversals"]) == (1, 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"postings": booking(capture=True)},
        {"postings": booking(capture=False, amount_minor=999)},
        {"postings": None},
        {"cause_seq": 7},
        {"cause_seq": None},
        {"item_seq": 8},
    ],
)
def test_an_entry_that_mirrors_nothing_or_that_nobody_approved_is_found(
    look: Look, world: World, changed: dict[str, Any]
) -> None:
    plant(world, reversal(world, **changed))
    assert len(look(ReversalsMirrorBookings).offenders) == 1


@pytest.mark.parametrize("forgets", [False, True])
def test_an_index_that_forgot_a_reversal_is_found(look: Look, world: World, forgets: bool) -> None:
    """By it a second reversal would be booked."""
    plant(world, reversal(world))
    world.index_commit(*([layout.REVERSED + layout.SEQ.pack(1)] if forgets else []))
    reported = [offender["problem"] for offender in look(IndexEqualsJournal).offenders]
    assert reported == (["the index doesn't know that a booking was reversed"] if forgets else [])
