"""Balances and an event's story, as finance and the command line ask for them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from core.work import postings_to_json
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.accounts import book
from ledger.postings import PostingsWriter
from ledger.queries import Balance, balances, event_story

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
TOPIC = "payments.events"


def row(seq: int, movement: Movement, amount_minor: int, currency: str, merchant: str) -> JournalRow:
    fact = MoneyFact(f"stripe:f_{seq}", movement, "acct", "pi", Money(amount_minor, currency))
    return JournalRow(
        seq=seq,
        item_seq=seq,
        first=True,
        topic=TOPIC,
        partition=0,
        offset=seq - 1,
        decision=Decision.APPLIED,
        decided_at=AT,
        event_key=f"stripe:evt_{seq}:charge",
        fact_key=fact.fact_key,
        provider="stripe",
        postings=postings_to_json(book(fact, "stripe", merchant)),
    )


@pytest.fixture
def lake(tmp_path: Path) -> tuple[str, str]:
    """Paths of a journal and its postings: two captures and a refund, two merchants, two currencies."""
    journal, postings = str(tmp_path / "journal"), str(tmp_path / "postings")
    rows = [
        row(1, Movement.CAPTURE, 1_000, "EUR", "m-1"),
        row(2, Movement.CAPTURE, 700, "USD", "m-2"),
        row(3, Movement.REFUND, 400, "EUR", "m-1"),
    ]
    copy = row(4, Movement.CAPTURE, 1_000, "EUR", "m-1")
    copy.event_key, copy.fact_key, copy.decision, copy.postings = rows[0].event_key, None, Decision.DUPLICATE, None
    writer = JournalWriter.create_or_open(journal, "ledger")
    writer.begin_epoch({TOPIC: {0: 0}})
    writer.commit([*rows, copy], {TOPIC: {0: 4}}, 0)
    PostingsWriter.open(postings).follow([*rows, copy])
    return journal, postings


def test_balances_are_debits_minus_credits_by_account_and_currency(lake: tuple[str, str]) -> None:
    found = {(one.account, one.currency): one.balance_minor for one in balances(lake[1])}
    assert found == {
        ("provider:stripe:clearing", "EUR"): 600,
        ("provider:stripe:clearing", "USD"): 700,
        ("merchant:m-1:payable", "EUR"): -1_000,
        ("merchant:m-1:refunds", "EUR"): 400,
        ("merchant:m-2:payable", "USD"): -700,
    }
    assert Balance("provider:stripe:clearing", "EUR", 1_000, 400) in balances(lake[1])


def test_balances_of_one_merchant_or_one_currency(lake: tuple[str, str]) -> None:
    """A merchant's booking is shown whole, with the other side of it."""
    assert sum(one.balance_minor for one in balances(lake[1], merchant="m-1")) == 0
    assert {one.account for one in balances(lake[1], merchant="m-2")} == {
        "provider:stripe:clearing",
        "merchant:m-2:payable",
    }
    assert {one.currency for one in balances(lake[1], currency="USD")} == {"USD"}


def test_there_are_no_balances_before_the_first_start(tmp_path: Path) -> None:
    assert balances(str(tmp_path / "postings")) == []


def test_an_events_story_is_found_by_its_event_key_or_its_fact(lake: tuple[str, str]) -> None:
    story = event_story(*lake, "stripe:evt_1:charge")
    assert [one.decision for one in story.rows] == [Decision.APPLIED, Decision.DUPLICATE]
    assert [(line["account"], line["side"]) for line in story.postings] == [
        ("provider:stripe:clearing", "debit"),
        ("merchant:m-1:payable", "credit"),
    ]
    assert [one.seq for one in event_story(*lake, "stripe:f_3").rows] == [3]
    assert event_story(*lake, "stripe:evt_9:charge").rows == []
