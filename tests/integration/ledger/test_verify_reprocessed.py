"""Ignored events that were taken up again: what is right about one, and each way in which one can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from core.decision import Decision
from journal import index_layout as layout
from journal.schema import JournalRow
from ledger.verify.derived_checks import IndexEqualsJournal
from ledger.verify.journal_checks import ItemsCloseOnce, OneEffectPerEventKey, OneEffectPerFactKey
from ledger.verify.payment_checks import ReprocessedWereIgnored
from tests.integration.ledger.conftest import CONTROL, Look, World, booking, fact, later_row, new_row

IGNORED = 8
"""The row of the clean lake that ignored its event."""

APPLIED: dict[str, Any] = {"postings": booking(capture=True), "handler_version": "ledger-2", **fact("ch_5")}


def plant(world: World, *entries: JournalRow) -> None:
    """A command's row 15, and rows that follow it."""
    command = new_row(15, CONTROL, 0, 1, Decision.REPLAYED, "cmd_2", event_type="replay", handler_version=None)
    world.add_commit(command, *entries)


def opened(world: World, of: int = IGNORED, seq: int = 16, **more: Any) -> JournalRow:
    return later_row(
        world.row(of), seq, Decision.REPLAYED, **{"cause_seq": 15, "actor": "ada", "blocking": True} | more
    )


def booked(world: World, of: int = IGNORED, seq: int = 17) -> JournalRow:
    return later_row(world.row(of), seq, Decision.APPLIED, **APPLIED)


def test_what_was_ignored_and_then_booked_is_right(look: Look, world: World) -> None:
    plant(world, opened(world), booked(world))
    for invariant in (ItemsCloseOnce, OneEffectPerEventKey, OneEffectPerFactKey):
        found = look(invariant)
        assert found.ok, found
    found = look(ReprocessedWereIgnored)
    assert (found.ok, found.figures) == (True, {"reprocessed": 1})


@pytest.mark.parametrize("decision", [Decision.IGNORED, Decision.UNKNOWN])
def test_taken_up_another_time_is_right(look: Look, world: World, decision: Decision) -> None:
    again = later_row(world.row(IGNORED), 17, decision)
    plant(world, opened(world), again, opened(world, seq=18), booked(world, seq=19))
    for invariant in (ItemsCloseOnce, ReprocessedWereIgnored):
        found = look(invariant)
        assert found.ok, found


def test_the_portion_of_a_run_is_a_cause_too(look: Look, world: World) -> None:
    portion = later_row(world.row(7), 16, Decision.PORTION)
    plant(world, portion, opened(world, seq=17, cause_seq=16), booked(world, seq=18))
    found = look(ReprocessedWereIgnored)
    assert (found.offenders, found.figures) == ((), {"reprocessed": 1})


def test_a_ledger_without_any_says_so(look: Look, world: World) -> None:
    assert look(ReprocessedWereIgnored).figures == {"reprocessed": 0}


@pytest.mark.parametrize("of", [1, 9, 3])
def test_what_was_not_ignored_and_is_taken_up_is_found(look: Look, world: World, of: int) -> None:
    plant(world, opened(world, of))
    [offender] = look(ReprocessedWereIgnored).offenders
    assert (offender["item_seq"], offender["seq"]) == (of, 16)
    assert offender["was"] == world.row(of).decision.value


@pytest.mark.parametrize("cause_seq", [None, 1, IGNORED])
def test_one_that_no_command_for_it_caused_is_found(look: Look, world: World, cause_seq: int | None) -> None:
    plant(world, opened(world, cause_seq=cause_seq))
    [offender] = look(ReprocessedWereIgnored).offenders
    assert (offender["item_seq"], offender["cause_seq"]) == (IGNORED, cause_seq)


def test_one_that_is_applied_without_having_been_taken_up_is_found(look: Look, world: World) -> None:
    plant(world, booked(world, seq=16))
    [offender] = look(ItemsCloseOnce).offenders
    assert offender["item_seq"] == IGNORED


def test_one_that_goes_on_after_it_was_booked_is_found(look: Look, world: World) -> None:
    plant(world, opened(world), booked(world), opened(world, seq=18), booked(world, seq=19))
    assert [one["item_seq"] for one in look(ItemsCloseOnce).offenders] == [IGNORED]
    assert [one["was"] for one in look(ReprocessedWereIgnored).offenders] == ["applied"]


@pytest.mark.parametrize("forgets", [False, True])
def test_an_index_that_forgot_it_is_found(look: Look, world: World, forgets: bool) -> None:
    """By it the event would be taken up a second time."""
    plant(world, opened(world), booked(world))
    world.index_commit(*([layout.REOPENED + layout.SEQ.pack(IGNORED)] if forgets else []))
    reported = [offender["problem"] for offender in look(IndexEqualsJournal).offenders]
    problem = "the index doesn't know that an ignored event was replayed, or an unknown one closed"
    assert reported == ([problem] if forgets else [])
