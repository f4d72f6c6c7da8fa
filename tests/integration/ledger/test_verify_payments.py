"""No more is given back, or undone, than there was, and a payment has one merchant: by planted corruptions. Refunds
before their captures are listed; those that wait too long are offences."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from core.work import postings_from_json, postings_to_json, reversed_postings
from journal.schema import JournalRow
from ledger.accounts import book_fact
from ledger.postings import PostingsWriter
from ledger.verify import Finding
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.payment_checks import OneMerchantAPayment, RefundsHaveCaptures, UndosHaveMovements
from tests.integration.ledger.conftest import EVENTS, later_row, new_row, world_in

M = Movement
EARLY, LATE = timedelta(days=29), timedelta(days=31)
Look = Callable[[str, timedelta], Finding]


class Rows:
    """Booking rows, numbered as they are added."""

    def __init__(self) -> None:
        self.all: list[JournalRow] = []

    def add(
        self, payment: str, *moved: tuple[Movement, int], merchant: str = "m-1", currency: str = "EUR", **more: Any
    ) -> None:
        for movement, minor in moved:
            seq = 15 + len(self.all)
            fact = MoneyFact(f"stripe:f_{seq}:{movement}", movement, "acct_1", payment, Money(minor, currency))
            about = {
                "postings": postings_to_json(book_fact(fact, "stripe/acct_1", merchant)),
                "fact_key": fact.fact_key,
                "fact_sha256": fact.sha256,
                "entity_key": f"stripe:acct_1:{payment}",
            }
            self.all.append(new_row(seq, EVENTS, 2, seq, Decision.APPLIED, f"evt_{seq}", **{**about, **more}))

    def take_back(self) -> None:
        """Reverses the newest booking."""
        last = self.all[-1]
        assert last.postings is not None
        entry = postings_to_json(reversed_postings(postings_from_json(last.postings)))
        self.all.append(later_row(last, 15 + len(self.all), Decision.REVERSED, postings=entry))


def planted() -> list[JournalRow]:
    rows = Rows()
    rows.add("turned-round-refund", (M.REFUND, 400), (M.CAPTURE, 1_000))
    rows.add("in-order-refund", (M.CAPTURE, 1_000), (M.REFUND, 1_000))
    rows.add("waiting-refund", (M.REFUND, 400))
    rows.add("too-much", (M.CAPTURE, 1_000), (M.REFUND, 700), (M.REFUND, 301))
    rows.add("currencies", (M.CAPTURE, 1_000))
    rows.add("currencies", (M.REFUND, 5), currency="JPY")
    rows.add("refund-undone", (M.CAPTURE, 1_000), (M.REFUND, 1_001), (M.REFUND_FAILED, 1_001))
    # PayPal's refunds name no order: their entity is the capture, whose own entity is the order.
    rows.add("order", (M.CAPTURE, 1_000), fact_key="stripe:ch_28:capture")
    rows.add("ch_28", (M.REFUND, 1_000))
    rows.add("ch_99", (M.REFUND, 400))
    rows.add("right", (M.CAPTURE, 1_000), (M.REFUND, 300), (M.DISPUTE_OPENED, 1_000), (M.DISPUTE_WON, 300))
    rows.add("right", (M.DISPUTE_LOST, 700), (M.REFUND, 300), (M.REFUND_FAILED, 300))
    rows.add("turned-round", (M.DISPUTE_LOST, 400), (M.REFUND_FAILED, 100), (M.CAPTURE, 1_000))
    rows.add("turned-round", (M.DISPUTE_OPENED, 400), (M.REFUND, 100))
    rows.add("both", (M.CAPTURE, 1_000), (M.REFUND, 301), (M.DISPUTE_OPENED, 700))
    rows.add("lost", (M.CAPTURE, 1_000), (M.DISPUTE_OPENED, 1_001), (M.DISPUTE_LOST, 1_001))
    rows.add("disputed", (M.DISPUTE_OPENED, 500))
    rows.add("won-and-lost", (M.CAPTURE, 900), (M.DISPUTE_OPENED, 400), (M.DISPUTE_WON, 400), (M.DISPUTE_LOST, 1))
    rows.add("lost-alone", (M.CAPTURE, 900), (M.DISPUTE_LOST, 400))
    rows.add("failed-refund", (M.CAPTURE, 900), (M.REFUND, 200), (M.REFUND_FAILED, 201))
    rows.add("failed-capture", (M.CAPTURE_FAILED, 200))
    rows.add("po_right", (M.PAYOUT_PAID, 900), (M.PAYOUT_FAILED, 900))
    rows.add("po_below", (M.PAYOUT_PAID, -900))
    rows.add("po_failed", (M.PAYOUT_FAILED, 900))
    rows.add("po_more", (M.PAYOUT_PAID, -900), (M.PAYOUT_FAILED, -901))
    rows.add("po_corrected", (M.PAYOUT_FAILED, 900))
    rows.take_back()
    rows.add("merchants", (M.CAPTURE, 900))
    rows.add("merchants", (M.REFUND, 100), merchant="m-2")
    rows.add("dispute-of-another", (M.CAPTURE, 900))
    rows.add("dispute-of-another", (M.DISPUTE_OPENED, 100), (M.DISPUTE_WON, 100), merchant="m-2")
    rows.add("merchant-corrected", (M.CAPTURE, 900), merchant="m-2")
    rows.take_back()
    by_hand: dict[str, Any] = {"provider": "payhook", "fact_key": None, "fact_sha256": None, "handler_version": None}
    rows.add("merchant-corrected", (M.CAPTURE, 900), **by_hand)
    rows.add("corrected", (M.CAPTURE, 900), (M.DISPUTE_LOST, 400))
    rows.add("corrected", (M.DISPUTE_OPENED, 400), **by_hand)
    rows.add("x", (M.REFUND, 400), **{**by_hand, "entity_key": None})
    account: dict[str, Any] = {"entity_key": "stripe:acct_1"}
    rows.add("a", (M.CAPTURE, 900), **account)
    rows.add("b", (M.REFUND, 900), merchant="m-2", **account)
    return rows.all


@pytest.fixture(scope="module", params=["postings", "journal"])
def look(
    request: pytest.FixtureRequest, engine: SqlEngine, clean_lake: Path, tmp_path_factory: pytest.TempPathFactory
) -> Look:
    """What an invariant finds so long after the rows; with the postings, or by the journal's own lines."""
    world = world_in(tmp_path_factory.mktemp("payments") / "data", clean_lake)
    world.rows += planted()
    world.state = replace(world.state, next_seq=world.rows[-1].seq + 1)
    world.rewrite()
    shutil.rmtree(world.lake.postings)
    if request.param == "postings":
        PostingsWriter.open(str(world.lake.postings)).follow(world.rows)
    names = [RefundsHaveCaptures.name, UndosHaveMovements.name, OneMerchantAPayment.name]

    @functools.cache
    def findings(after: timedelta) -> dict[str, Finding]:
        report = world.verify(engine, *names, after=after, limits=VerifyLimits(sample_max=50))
        return {one.name: one for one in report.findings}

    return lambda name, after: findings(after)[name]


def offenders(found: Finding) -> dict[str, str]:
    """The problem by payment."""
    return {one["entity_key"].removeprefix("stripe:acct_1:"): one["problem"] for one in found.offenders}


MORE, REFUNDED = "more was given back and withheld than captured", "more was given back than captured"
DISPUTE_WAITS, REFUND_WAITS = (f"a {what} waits too long for its capture" for what in ("dispute", "refund"))
NEVER = "a {} was undone that was never done"
OF_MORE = "more of a {} was undone than was done"


def test_more_given_back_and_withheld_than_captured_may_yet_be_given_back(look: Look) -> None:
    """Only what was refunded alone is an offence at once."""
    found = look(RefundsHaveCaptures.name, EARLY)
    assert offenders(found) == {"too-much": REFUNDED}
    assert (found.offenders[0]["refunded"], found.offenders[0]["captured"]) == (1_001, 1_000)
    waiting = {one.removeprefix("stripe:acct_1:") for one in found.figures["payments"]}
    assert waiting == {"both", "lost", "disputed", "waiting-refund", "currencies", "ch_99"}
    assert found.figures["awaiting"] == 6


def test_what_still_waits_for_its_capture_is_an_offence_after_thirty_days(look: Look) -> None:
    found = look(RefundsHaveCaptures.name, LATE)
    waited = dict.fromkeys(("waiting-refund", "currencies", "ch_99"), REFUND_WAITS)
    assert offenders(found) == {"both": MORE, "lost": MORE, "disputed": DISPUTE_WAITS, "too-much": REFUNDED, **waited}
    [both] = [one for one in found.offenders if one["problem"] == MORE and one["refunded"]]
    assert (both["refunded"], both["disputed"], both["captured"]) == (301, 700, 1_000)
    assert {one["currency"] for one in found.offenders if one["problem"] == REFUND_WAITS} == {"EUR", "JPY"}
    assert found.figures["awaiting"] == 0


def test_more_undone_than_done_is_an_offence_at_once_and_an_undo_alone_may_wait(look: Look) -> None:
    at_once = {
        "won-and-lost": OF_MORE.format("dispute"),
        "failed-refund": OF_MORE.format("refund"),
        "po_more": OF_MORE.format("payout"),
    }
    alone = {
        "lost-alone": NEVER.format("dispute"),
        "failed-capture": NEVER.format("capture"),
        "po_failed": NEVER.format("payout"),
    }
    early = look(UndosHaveMovements.name, EARLY)
    assert offenders(early) == at_once
    assert early.figures["awaiting"] == len(alone)
    assert offenders(look(UndosHaveMovements.name, LATE)) == at_once | alone


def test_a_payments_bookings_are_one_merchants_but_for_what_was_reversed(look: Look) -> None:
    found = look(OneMerchantAPayment.name, EARLY)
    assert offenders(found).keys() == {"merchants", "dispute-of-another"}
    assert all(one["merchants"] == ["m-1", "m-2"] for one in found.offenders)


@pytest.mark.parametrize("invariant", [RefundsHaveCaptures, UndosHaveMovements, OneMerchantAPayment])
def test_that_bookings_name_no_payment_is_said(look: Look, invariant: Any) -> None:
    assert "2 bookings name a merchant account as a whole; --deep" in str(look(invariant.name, LATE).unknown)
