"""The fast path clears payments that add up, and doubts the others: each by the invariant that looks at it exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.money import Money, MoneyFact, Movement
from core.work import postings_to_json
from journal.schema import JournalRow
from ledger.accounts import book
from ledger.verify.fast_path import Doubt, FastPath
from tests.unit.ledger.verify.ledgers import Ledger, applied

M = Movement
OF_PAYMENTS = frozenset({Doubt.GIVEN_BACK, Doubt.UNDONE, Doubt.MERCHANTS})


def moved(seq: int, movement: Movement, minor: int = 1_000, **more: Any) -> JournalRow:
    currency, merchant = more.pop("currency", "EUR"), more.pop("merchant", "m-1")
    fact = MoneyFact(f"stripe:f_{seq}:{movement}", movement, "acct", None, Money(minor, currency))
    booked = postings_to_json(book(fact, "stripe/acct", merchant))
    return applied(seq, **{"postings": booked, "fact_key": fact.fact_key, "entity_key": "stripe:acct:pi_1", **more})


def fast_path(folder: Path, *rows: JournalRow, **more: Any) -> FastPath:
    return Ledger(folder, list(rows), **more).fast_path()


def doubts(folder: Path, *rows: JournalRow) -> frozenset[Doubt]:
    found = fast_path(folder, *rows)
    assert found.doubts <= OF_PAYMENTS
    return found.doubts


RIGHT = {
    "a life of a payment": [
        moved(1, M.CAPTURE),
        moved(2, M.REFUND, 300),
        moved(3, M.REFUND_FAILED, 300),
        moved(4, M.DISPUTE_OPENED),
        moved(5, M.DISPUTE_WON, 300),
        moved(6, M.DISPUTE_LOST, 700),
    ],
    "undone before it was done": [
        moved(1, M.REFUND_FAILED, 300),
        moved(2, M.REFUND, 300),
        moved(3, M.CAPTURE_FAILED),
        moved(4, M.CAPTURE),
    ],
    "payouts": [moved(1, M.PAYOUT_PAID), moved(2, M.PAYOUT_FAILED)],
    "a payout below zero": [moved(1, M.PAYOUT_PAID, -500)],
    "a payout below zero that failed": [moved(1, M.PAYOUT_FAILED, -500), moved(2, M.PAYOUT_PAID, -500)],
    "two currencies": [
        moved(1, M.CAPTURE),
        moved(2, M.CAPTURE, 90_000, currency="JPY"),
        moved(3, M.REFUND, 80_000, currency="JPY"),
    ],
    "two merchants' payments": [
        moved(1, M.CAPTURE),
        moved(2, M.CAPTURE, merchant="m-2", entity_key="stripe:acct:pi_2"),
    ],
    "two merchants under one account": [
        moved(1, M.CAPTURE, entity_key="stripe:acct"),
        moved(2, M.CAPTURE, merchant="m-2", entity_key="stripe:acct"),
    ],
    "without an entity": [moved(1, M.PAYOUT_FAILED, entity_key=None)],
}
WRONG = {
    "a refund alone": ([moved(1, M.REFUND)], {Doubt.GIVEN_BACK}),
    "a dispute alone": ([moved(1, M.DISPUTE_OPENED)], {Doubt.GIVEN_BACK}),
    "refunded and disputed": (
        [moved(1, M.CAPTURE), moved(2, M.REFUND, 300), moved(3, M.DISPUTE_OPENED, 701)],
        {Doubt.GIVEN_BACK},
    ),
    "refunded and lost": (
        [
            moved(1, M.CAPTURE),
            moved(2, M.REFUND, 300),
            moved(3, M.DISPUTE_OPENED, 701),
            moved(4, M.DISPUTE_LOST, 701),
        ],
        {Doubt.GIVEN_BACK},
    ),
    "in another currency": ([moved(1, M.CAPTURE), moved(2, M.REFUND, 1, currency="JPY")], {Doubt.GIVEN_BACK}),
    "a failed refund alone": ([moved(1, M.CAPTURE), moved(2, M.REFUND_FAILED, 1)], {Doubt.UNDONE}),
    "a failed capture alone": ([moved(1, M.CAPTURE_FAILED)], {Doubt.UNDONE}),
    "won and lost": (
        [moved(1, M.CAPTURE), moved(2, M.DISPUTE_OPENED), moved(3, M.DISPUTE_WON), moved(4, M.DISPUTE_LOST, 1)],
        {Doubt.UNDONE},
    ),
    "a failed payout alone": ([moved(1, M.PAYOUT_FAILED)], {Doubt.UNDONE}),
    "a failed payout below zero": ([moved(1, M.PAYOUT_PAID, -500), moved(2, M.PAYOUT_FAILED, -501)], {Doubt.UNDONE}),
    "a failed payout of the other direction": (
        [moved(1, M.PAYOUT_PAID, -500), moved(2, M.PAYOUT_FAILED, 500)],
        {Doubt.UNDONE},
    ),
    "two merchants": ([moved(1, M.CAPTURE), moved(2, M.REFUND, 1, merchant="m-2")], {Doubt.MERCHANTS}),
    "two merchants in two currencies": (
        [moved(1, M.CAPTURE), moved(2, M.CAPTURE, merchant="m-2", currency="JPY")],
        {Doubt.MERCHANTS},
    ),
}


@pytest.mark.parametrize("rows", RIGHT.values(), ids=RIGHT)
def test_payments_that_add_up_are_cleared(rows: list[JournalRow], tmp_path: Path) -> None:
    assert doubts(tmp_path, *rows) == frozenset()


@pytest.mark.parametrize(("rows", "expected"), WRONG.values(), ids=WRONG)
def test_payments_that_do_not_add_up_are_doubted(rows: list[JournalRow], expected: set[Doubt], tmp_path: Path) -> None:
    assert doubts(tmp_path, *rows) == expected


def test_what_is_taken_back_and_what_names_no_payment_is_counted(tmp_path: Path) -> None:
    rows = [
        moved(1, M.CAPTURE),
        moved(2, M.REFUND, 300),
        moved(3, M.DISPUTE_OPENED, 300),
        moved(4, M.DISPUTE_LOST, 300),
        moved(5, M.PAYOUT_PAID, entity_key="stripe:acct"),
        moved(6, M.PAYOUT_FAILED, entity_key="stripe:acct"),
    ]
    found = fast_path(tmp_path, *rows)
    assert (found.taken_back, found.nameless) == (5, 2)
