"""Refunds before their captures are listed; those that wait too long, or exceed what was captured, are offences."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from ledger.postings import PostingsWriter
from ledger.settings import VerifySettings
from ledger.verify import Finding, verify
from ledger.verify.refund_check import RefundsHaveCaptures
from tests.integration.ledger.conftest import AT, EVENTS, KEYS, World, new_row

CLEARING, PAYABLE, REFUNDS = "provider:stripe:clearing", "merchant:m-1:payable", "merchant:m-1:refunds"
DAY = timedelta(days=1)
Look = Callable[..., Finding]


def captured(seq: int, entity: str, minor: int = 1_000, currency: str = "EUR", **more: Any) -> Any:
    return _booked(seq, entity, (CLEARING, PAYABLE), Money(minor, currency), more)


def refunded(seq: int, entity: str, minor: int = 400, currency: str = "EUR", **more: Any) -> Any:
    return _booked(seq, entity, (REFUNDS, CLEARING), Money(minor, currency), more)


def refund_failed(seq: int, entity: str, minor: int) -> Any:
    return _booked(seq, entity, (CLEARING, REFUNDS), Money(minor, "EUR"), {})


def _booked(seq: int, entity: str, accounts: tuple[str, str], money: Money, more: dict[str, Any]) -> Any:
    debit, credit = accounts
    postings = postings_to_json([Posting(debit, "debit", money), Posting(credit, "credit", money)])
    named = {"entity_key": f"stripe:acct_1:{entity}", "postings": postings, "fact_key": f"stripe:ch_{seq}:capture"}
    return new_row(seq, EVENTS, 2, seq, Decision.APPLIED, f"evt_{seq}", **{**named, **more})


@pytest.fixture(params=["postings", "journal"])
def look(request: pytest.FixtureRequest, spark: SparkSession, world: World) -> Look:
    """With the postings, or where they are gone, by the journal's own lines."""

    def answer(*rows: Any, after: timedelta = DAY) -> Finding:
        world.rows += rows
        object.__setattr__(world.state, "next_seq", 15 + len(rows))
        world.rewrite()
        shutil.rmtree(world.lake.postings, ignore_errors=True)
        if request.param == "postings":
            PostingsWriter.open(str(world.lake.postings)).follow(world.rows)
        clock = ManualClock(AT + after)
        return verify(spark, world.lake, world.kafka, KEYS, VerifySettings(), clock, [RefundsHaveCaptures()]).findings[
            0
        ]

    return answer


def test_refunds_of_what_was_captured_are_right_in_any_order(look: Look) -> None:
    found = look(refunded(15, "a"), captured(16, "a"), captured(17, "b"), refunded(18, "b", 1_000))
    assert (found.offenders, found.figures["awaiting"]) == ((), 0)


def test_a_refund_before_its_capture_is_listed_and_an_offence_after_thirty_days(look: Look) -> None:
    waits = refunded(15, "a")
    found = look(waits, after=29 * DAY)
    assert (found.offenders, found.figures["awaiting"]) == ((), 1)
    assert found.figures["payments"] == ["stripe:acct_1:a"]
    (offender,) = look(after=31 * DAY).offenders
    assert (offender["problem"], offender["seq"]) == ("a refund waits too long for its capture", 15)


def test_more_given_back_than_captured_is_an_offence_at_once(look: Look) -> None:
    found = look(captured(15, "a"), refunded(16, "a", 700), refunded(17, "a", 301))
    (offender,) = found.offenders
    assert (offender["problem"], offender["refunded"], offender["captured"]) == (
        "more was given back than captured",
        1_001,
        1_000,
    )


def test_each_currency_has_captures_of_its_own(look: Look) -> None:
    (offender,) = look(captured(15, "a"), refunded(16, "a", 5, "JPY"), after=31 * DAY).offenders
    assert offender["currency"] == "JPY"


def test_a_refund_that_failed_gave_nothing_back(look: Look) -> None:
    found = look(captured(15, "a"), refunded(16, "a", 1_001), refund_failed(17, "a", 1_001))
    assert (found.offenders, found.figures["awaiting"]) == ((), 0)


def test_a_refund_that_names_only_its_capture_finds_it(look: Look) -> None:
    """PayPal's name no order: their entity is the capture, whose own entity is the order."""
    found = look(captured(15, "order"), refunded(16, "ch_15", 1_000), refunded(17, "ch_99"))
    assert found.offenders == ()
    assert found.figures["payments"] == ["stripe:acct_1:ch_99"]
