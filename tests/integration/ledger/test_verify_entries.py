"""Entries by hand: what is right about one, and each way in which one can be wrong."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from core.decision import Decision
from journal.schema import JournalRow
from ledger.verify import Finding
from ledger.verify.engine import SqlEngine
from ledger.verify.journal_checks import ItemsCloseOnce, OneEffectPerFactKey, OrderKept
from ledger.verify.payment_checks import Balanced, EntriesHaveTwoPeople
from ledger.verify.report import Invariant
from tests.integration.ledger.conftest import CONTROL, World, booking, new_row

LINES = booking(capture=False) or ""


def look(engine: SqlEngine, world: World, *invariants: type[Invariant]) -> tuple[Finding, ...]:
    world.rewrite()
    return tuple(world.verify(engine, *(one.name for one in invariants)).findings)


def entry(**changes: Any) -> JournalRow:
    row = new_row(16, CONTROL, 0, 2, Decision.APPLIED, "cmd_3", event_type="book_entry", handler_version=None)
    row.provider, row.entity_key, row.actor, row.postings = "payhook", "e1", "bob", LINES
    row.fact_key, row.fact_sha256 = "payhook:cmd_2:propose_entry", hashlib.sha256(LINES.encode()).hexdigest()
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def plant(world: World, booked: JournalRow, **changes: Any) -> None:
    wanted = new_row(15, CONTROL, 0, 1, Decision.RESOLVED, "cmd_2", event_type="propose_entry", handler_version=None)
    wanted.provider, wanted.event_key, wanted.actor = "payhook", "payhook:cmd_2:propose_entry", "ada"
    for name, value in changes.items():
        setattr(wanted, name, value)
    world.add_commit(wanted, booked)


def test_an_entry_by_two_people_is_right(engine: SqlEngine, world: World) -> None:
    plant(world, entry())
    checks = EntriesHaveTwoPeople, ItemsCloseOnce, Balanced, OneEffectPerFactKey, OrderKept
    assert [found.offenders for found in look(engine, world, *checks)] == [()] * len(checks)


@pytest.mark.parametrize(
    ("entry_changes", "proposal_changes", "problem"),
    [
        ({}, {"decision": Decision.IGNORED}, "it was not proposed before"),
        ({}, {"event_type": "propose_reversal"}, "it was not proposed before"),
        ({"fact_key": "payhook:cmd_9:propose_entry"}, {}, "it was not proposed before"),
        ({"fact_key": None}, {}, "it was not proposed before"),
        ({"actor": " Ada"}, {}, "one person proposed and approved it"),
        ({"postings": booking(capture=False, amount_minor=999)}, {}, "its lines are not those that were approved"),
        ({"fact_sha256": None}, {}, "its lines are not those that were approved"),
        ({"postings": None}, {}, "it is no entry"),
        ({"event_type": "replay"}, {}, "it is no entry"),
    ],
)
def test_an_entry_that_two_people_didnt_make_is_found(
    engine: SqlEngine, world: World, entry_changes: dict[str, Any], proposal_changes: dict[str, Any], problem: str
) -> None:
    plant(world, entry(**entry_changes), **proposal_changes)
    (found,) = look(engine, world, EntriesHaveTwoPeople)
    assert [offender["problem"] for offender in found.offenders] == [problem]
