"""A movement and its undo: whichever is reported first, and if only one of them ever is, the books are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from core.decision import Decision
from core.money import Money
from core.work import Applied, Posting, postings_from_json
from journal.target import ItemTarget
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import command

PAID, FAILED = "stripe:po_1:payout_paid", "stripe:po_1:payout_failed"
PAYOUTS, CLEARING = "merchant:m-1:payouts", "provider:stripe:clearing"
HUNDRED = Money(100, "EUR")


def paid(engine: Engine) -> None:
    lines = (Posting(PAYOUTS, "debit", HUNDRED), Posting(CLEARING, "credit", HUNDRED))
    engine.handler.script[engine.post("evt_paid", "po_1", fact=PAID)] = lambda _: Applied(lines, PAID)


def failed(engine: Engine) -> None:
    lines = (Posting(CLEARING, "debit", HUNDRED), Posting(PAYOUTS, "credit", HUNDRED))
    engine.handler.script[engine.post("evt_failed", "po_1", fact=FAILED)] = lambda _: Applied(lines, PAID, undoes=True)


def clearing(engine: Engine) -> int:
    lines = [line for row in engine.journal.rows for line in postings_from_json(row.postings)]
    mine = [line for line in lines if line.account == CLEARING]
    return sum(line.money.amount_minor if line.side == "debit" else -line.money.amount_minor for line in mine)


@pytest.mark.parametrize("order", [*permutations([paid, failed])])
@pytest.mark.parametrize("apart", [False, True])
def test_both_reported_come_to_nothing_in_any_order(
    engine: Engine, order: Sequence[Callable[[Engine], None]], apart: bool
) -> None:
    for post in order:
        post(engine)
        if apart:
            engine.batch()
    engine.batch()
    assert clearing(engine) == 0
    # What is undone before it is reported is known by its undo, which nobody knew the meaning of then.
    is_undone_first = order[0] is failed
    assert [row.decision for row in engine.journal.rows] == [
        Decision.UNKNOWN if is_undone_first else Decision.APPLIED,
        Decision.APPLIED,
    ]


def test_an_undo_of_what_was_never_booked_is_unknown_and_has_its_fact(engine: Engine) -> None:
    failed(engine)
    [row] = engine.batch()
    assert (row.decision, row.postings, row.error_code, row.pair) == (Decision.UNKNOWN, None, "undo", f"-{PAID}")
    assert (
        row.reason == f"this journal has no movement of {PAID} left to undo: it isn't known whether money moved before"
    )
    engine.start()
    engine.post("evt_again", "po_1", fact=FAILED)
    [again] = engine.batch()
    assert again.decision is Decision.DUPLICATE_FACT


@pytest.mark.parametrize("later", [False, True])
def test_it_is_not_taken_up_again(engine: Engine, later: bool) -> None:
    failed(engine)
    [row] = engine.batch()
    if later:
        paid(engine)
        engine.batch()
    command(engine, "replay", ItemTarget.of_row(row), actor="ada")
    [refused] = [one for one in engine.batch() if one.event_type == "replay"]
    assert refused.decision is Decision.IGNORED
    assert "reverses what was never booked" in (refused.reason or "")
    assert clearing(engine) == 0


def test_what_was_undone_before_it_was_reported_books_nothing(engine: Engine) -> None:
    failed(engine)
    engine.batch()
    paid(engine)
    [row] = engine.batch()
    assert (row.decision, row.postings) == (Decision.APPLIED, None)
    assert row.reason == f"books nothing: the undo of {PAID} came first"


def test_a_movement_alone_is_booked(engine: Engine) -> None:
    paid(engine)
    engine.batch()
    assert clearing(engine) == -100


def test_after_a_restart_it_is_known_what_was_booked(engine: Engine) -> None:
    paid(engine)
    engine.batch()
    engine.start()
    failed(engine)
    engine.batch()
    assert clearing(engine) == 0


FIRST, SECOND = "adyen:D1:dispute_opened", "adyen:D1:second_dispute_opened"
ROUNDS = {FIRST: False, "adyen:D1:dispute_won.1": True, SECOND: False, "adyen:D1:dispute_won.2": True}
"""Of one dispute, whose reversals don't say which of the chargebacks they undo."""


def happens(engine: Engine, fact: str) -> None:
    undoes = ROUNDS[fact]
    sides = ("debit", "credit") if undoes else ("credit", "debit")
    lines = (Posting(CLEARING, sides[0], HUNDRED), Posting(PAYOUTS, sides[1], HUNDRED))  # type: ignore[arg-type]
    engine.handler.script[engine.post(f"evt_{fact}", "D1", fact=fact)] = lambda _: Applied(lines, FIRST, undoes=undoes)


@pytest.mark.parametrize("order", [*permutations(ROUNDS)])
@pytest.mark.parametrize("apart", [False, True])
def test_rounds_of_one_dispute_come_to_nothing_in_any_order(engine: Engine, order: Sequence[str], apart: bool) -> None:
    for fact in order:
        happens(engine, fact)
        if apart:
            engine.batch()
            engine.start()
    engine.batch()
    assert clearing(engine) == 0


def test_no_more_is_given_back_than_was_taken(engine: Engine) -> None:
    """As by a copy of a reversal with another date: the date isn't signed."""
    happens(engine, FIRST)
    engine.batch()
    happens(engine, "adyen:D1:dispute_won.1")
    happens(engine, "adyen:D1:dispute_won.2")
    assert [row.decision for row in engine.batch()] == [Decision.APPLIED, Decision.UNKNOWN]
    assert clearing(engine) == 0
