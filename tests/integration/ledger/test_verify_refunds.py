"""Refunds before their captures are listed; those that wait too long, or exceed what was captured, are offences."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import ManualClock
from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from ledger.postings import PostingsWriter
from ledger.verify import Finding, verify
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.payment_checks import RefundsHaveCaptures
from tests.integration.ledger.conftest import AT, EVENTS, KEYS, new_row, world_in

CLEARING, PAYABLE, REFUNDS = "provider:stripe:clearing", "merchant:m-1:payable", "merchant:m-1:refunds"
EARLY, LATE = timedelta(days=29), timedelta(days=31)
Look = Callable[[timedelta], Finding]


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


ROWS = [
    refunded(15, "turned-round"),
    captured(16, "turned-round"),
    captured(17, "in-order"),
    refunded(18, "in-order", 1_000),
    refunded(19, "waiting"),
    captured(20, "too-much"),
    refunded(21, "too-much", 700),
    refunded(22, "too-much", 301),
    captured(23, "currencies"),
    refunded(24, "currencies", 5, "JPY"),
    captured(25, "failed"),
    refunded(26, "failed", 1_001),
    refund_failed(27, "failed", 1_001),
    captured(28, "order"),
    refunded(29, "ch_28", 1_000),
    refunded(30, "ch_99"),
]
"""PayPal's refunds name no order: their entity is the capture, whose own entity is the order."""


@pytest.fixture(scope="module", params=["postings", "journal"])
def look(
    request: pytest.FixtureRequest, engine: SqlEngine, clean_lake: Path, tmp_path_factory: pytest.TempPathFactory
) -> Look:
    """What is found so long after the rows; with the postings, or where they are gone, by the journal's own lines."""
    world = world_in(tmp_path_factory.mktemp("refunds") / "data", clean_lake)
    world.rows += ROWS
    world.state = replace(world.state, next_seq=15 + len(ROWS))
    world.rewrite()
    shutil.rmtree(world.lake.postings)
    if request.param == "postings":
        PostingsWriter.open(str(world.lake.postings)).follow(world.rows)

    @functools.cache
    def found(after: timedelta) -> Finding:
        clock = ManualClock(AT + after)
        report = verify(engine, world.lake, world.kafka, KEYS, VerifyLimits(), clock, names=[RefundsHaveCaptures.name])
        return report.findings[0]

    return found


def payment(entity: str) -> str:
    return f"stripe:acct_1:{entity}"


def offenders(found: Finding) -> dict[tuple[str, str], dict[str, Any]]:
    """By payment and currency."""
    return {(one["entity_key"], one["currency"]): one for one in found.offenders}


def test_what_waits_for_its_capture_is_listed(look: Look) -> None:
    found = look(EARLY)
    assert found.figures["awaiting"] == 3
    assert found.figures["payments"] == [payment(one) for one in ("waiting", "currencies", "ch_99")]


def test_only_more_given_back_than_captured_is_an_offence_at_once(look: Look) -> None:
    found = offenders(look(EARLY))
    assert set(found) == {(payment("too-much"), "EUR")}
    offender = found[payment("too-much"), "EUR"]
    assert (offender["problem"], offender["refunded"], offender["captured"]) == (
        "more was given back than captured",
        1_001,
        1_000,
    )


def test_after_thirty_days_what_still_waits_is_an_offence(look: Look) -> None:
    found = look(LATE)
    waited = {(payment("waiting"), "EUR"), (payment("currencies"), "JPY"), (payment("ch_99"), "EUR")}
    assert set(offenders(found)) == {*waited, (payment("too-much"), "EUR")}
    assert found.figures["awaiting"] == 0
    offender = offenders(found)[payment("waiting"), "EUR"]
    assert (offender["problem"], offender["seq"]) == ("a refund waits too long for its capture", 19)


@pytest.mark.parametrize("entity", ["turned-round", "in-order", "failed", "order", "ch_28"])
def test_refunds_of_what_was_captured_are_right_in_any_order(look: Look, entity: str) -> None:
    """One that failed gave nothing back."""
    assert payment(entity) not in {one for one, _ in offenders(look(LATE))} | set(look(EARLY).figures["payments"])
