"""An entity's events in Kafka's order, and the balances that they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from core.money import Movement
from ledger.queries import balances, entity_story
from tests.small_ledger import SmallLedger

ENTITY = "stripe:acct:pi_1"


@pytest.fixture
def reported(ledger: SmallLedger) -> SmallLedger:
    """A payment: captured, refunded (which waits for long), disputed; another payment in between."""
    ledger.add(Movement.CAPTURE, 5_000, payment="pi_1")
    ledger.add(Movement.CAPTURE, 9_999, payment="pi_2")
    refund = ledger.add(Movement.REFUND, 700, payment="pi_1")
    booked, refund.postings, refund.decision = refund.postings, None, Decision.RETRY
    ledger.commit()
    ledger.add(Movement.DISPUTE_OPENED, 4_300, payment="pi_1")
    ledger.later(refund, Decision.APPLIED, postings=booked, out_of_order=True)
    ledger.commit()
    return ledger


def test_events_stand_in_kafkas_order_with_all_their_decisions(reported: SmallLedger) -> None:
    story = entity_story(reported.journal, ENTITY)
    assert (story.entity_key, story.total) == (ENTITY, 3)
    assert [[(row.seq, row.decision.value) for row in event.rows] for event in story.events] == [
        [(1, "applied")],
        [(3, "retry"), (5, "applied")],
        [(4, "applied")],
    ]
    assert [event.first.offset for event in story.events] == [0, 2, 3]


def test_each_line_carries_the_balance_that_it_leaves_on_its_account(reported: SmallLedger) -> None:
    clearing = [
        (line.seq, line.side, line.amount_minor, line.balance_minor)
        for event in entity_story(reported.journal, ENTITY).events
        for line in event.lines
        if line.account == "provider:stripe:clearing"
    ]
    assert clearing == [(1, "debit", 5_000, 5_000), (5, "credit", 700, 4_300), (4, "credit", 4_300, 0)]


def test_the_last_balances_are_those_of_the_ledger(reported: SmallLedger) -> None:
    story = entity_story(reported.journal, ENTITY)
    other = entity_story(reported.journal, "stripe:acct:pi_2")
    whole = {(one.account, one.currency): one.balance_minor for one in balances(reported.postings)}
    keys = {*story.balances(), *other.balances()}
    assert whole == {key: story.balances().get(key, 0) + other.balances().get(key, 0) for key in keys}


def test_no_more_events_than_the_limit_and_the_number_of_all(reported: SmallLedger) -> None:
    story = entity_story(reported.journal, ENTITY, limit=2)
    assert (story.total, [event.first.seq for event in story.events]) == (3, [1, 3])


@pytest.mark.parametrize("key", ["stripe:acct:pi_9", "", "x' OR '1'='1"])
def test_an_entity_that_nothing_is_known_of_has_no_events(key: str, reported: SmallLedger) -> None:
    assert (entity_story(reported.journal, key).total, entity_story(reported.journal, key).events) == (0, ())


def test_before_the_first_start_nothing_is_known(tmp_path: Path) -> None:
    assert entity_story(str(tmp_path / "journal"), ENTITY).total == 0
