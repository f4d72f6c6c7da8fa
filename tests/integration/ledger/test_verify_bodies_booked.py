"""Under ``--deep`` every booking is held against what its adapter reads in the kept body."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from core.decision import Decision
from core.work import postings_to_json
from journal.bodies import BodyStore
from journal.schema import JournalRow, pair_of
from ledger.accounts import book_fact, holder_of
from ledger.postings import PostingsWriter
from ledger.verify import Finding, Options
from ledger.verify.body_checks import BookingsAreInBodies
from ledger.verify.engine import SqlEngine
from ledger.verify.payment_checks import (
    OneMerchantAPayment,
    RefundsHaveCaptures,
    UndosFollowMovements,
    UndosHaveMovements,
)
from providers import ProvidersSettings, build_adapters
from tests.integration.ledger.conftest import EVENTS, World, new_row

STRIPE = build_adapters(ProvidersSettings())["stripe"]
Findings = dict[str, Finding]


def stripe_body(number: int, event_type: str, reported: dict[str, Any]) -> bytes:
    document = {"id": f"evt_{number}", "type": event_type, "account": "acct_1", "data": {"object": reported}}
    return json.dumps(document).encode()


def charge(payment: str, minor: int = 1_000) -> tuple[str, dict[str, Any]]:
    money = {"captured": True, "amount": minor, "amount_captured": minor, "currency": "eur"}
    return "charge.succeeded", {"id": f"ch_{payment}", "payment_intent": payment, **money}


def refund(payment: str, minor: int) -> tuple[str, dict[str, Any]]:
    money = {"amount": minor, "currency": "eur", "status": "succeeded"}
    return "refund.created", {"id": f"re_{payment}_{minor}", "payment_intent": payment, **money}


class BookedRows:
    """Rows that the ledger's handler would have written, and their bodies."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.bodies: dict[str, bytes] = {}

    def add(self, event: tuple[str, dict[str, Any]], merchant: str = "m-1", **more: Any) -> JournalRow:
        seq, (event_type, reported) = 15 + len(self.rows), event
        body = stripe_body(seq, event_type, reported)
        fact = STRIPE.money(body, event_type)
        assert fact is not None
        row = new_row(seq, EVENTS, 2, seq, Decision.APPLIED, f"evt_{seq}")
        booking = book_fact(fact, holder_of("stripe", fact.account), merchant)
        pair = None if fact.pair_key is None else pair_of(fact.pair_key, undoes=fact.is_pair_end)
        row = replace(
            row,
            **{
                "event_type": event_type,
                "entity_key": f"stripe:acct_1:{fact.payment or reported['id']}",
                "fact_key": fact.fact_key,
                "fact_sha256": fact.sha256,
                "handler_version": "ledger-2.0123abcd",
                "postings": postings_to_json(booking),
                "pair": pair,
                "body_sha256": hashlib.sha256(body).hexdigest(),
                **more,
            },
        )
        self.rows.append(row)
        self.bodies[row.body_sha256 or ""] = body
        return row


OF_BODIES = [
    one.name
    for one in (BookingsAreInBodies, RefundsHaveCaptures, UndosHaveMovements, UndosFollowMovements, OneMerchantAPayment)
]


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Callable[[BookedRows], Findings]:
    def found(booked: BookedRows) -> Findings:
        BodyStore(str(world.lake.bodies_table)).append(list(booked.bodies.items()))
        world.rows += booked.rows
        world.state = replace(world.state, next_seq=world.rows[-1].seq + 1)
        world.kafka.decided = world.rows
        world.kafka.bodies.update(booked.bodies)
        world.rewrite()
        PostingsWriter.open(str(world.lake.postings)).follow(world.rows)
        report = world.verify(engine, *OF_BODIES, after=timedelta(minutes=5), options=Options(deep=True))
        return {one.name: one for one in report.findings}

    return found


def test_bookings_are_held_against_their_bodies(look: Callable[[BookedRows], Findings], world: World) -> None:
    booked = BookedRows()
    booked.add(charge("pi_1"))
    right = booked.add(refund("pi_1", 400))
    gone = booked.add(charge("pi_2"))
    amount = booked.add(charge("pi_3"))
    amount.postings = (amount.postings or "").replace(":1000,", ":1001,")
    renamed = booked.add(charge("pi_4"), event_type="payout.created")
    left = booked.add(charge("pi_5"), event_type="transfer.created")
    del booked.bodies[gone.body_sha256 or ""]
    findings = look(booked)
    found = findings["bookings_are_in_bodies"]
    assert {one["seq"]: one["problem"] for one in found.offenders} == {
        amount.seq: "the booking isn't what the body reports",
        renamed.seq: "its adapter reads no money in the body that was booked",
        left.seq: "its adapter can't read the body that was booked",
    }
    [offender] = [one for one in found.offenders if one["seq"] == amount.seq]
    assert (offender["event_key"], offender["handler_version"]) == (amount.event_key, "ledger-2.0123abcd")
    assert "capture of 1000 EUR" in offender["reads"]
    assert {name: found.figures[name] for name in ("compared", "without_body", "wrong")} == {
        "compared": 5,
        "without_body": 1,
        "wrong": 3,
    }
    assert found.unknown == "1 bookings whose bodies were redacted or dropped"
    assert right.seq not in {one["seq"] for one in found.offenders}


def test_only_a_movement_that_was_undone_before_books_nothing(look: Callable[[BookedRows], Findings]) -> None:
    def payout(end: str, name: str) -> tuple[str, dict[str, Any]]:
        return f"payout.{end}", {"id": name, "amount": 1_000, "currency": "eur"}

    booked = BookedRows()
    booked.add(payout("paid", "po_1"))
    booked.add(payout("failed", "po_1"))
    booked.add(payout("failed", "po_2"), postings=None, decision=Decision.UNKNOWN)
    booked.add(payout("paid", "po_2"), postings=None)
    left_out = booked.add(payout("paid", "po_3"), postings=None)
    booked.add(payout("paid", "po_4"))
    not_given_back = booked.add(payout("failed", "po_4"), postings=None, decision=Decision.UNKNOWN)
    booked.add(payout("failed", "po_5"), postings=None, decision=Decision.UNKNOWN)
    booked_after_all = booked.add(payout("paid", "po_5"))
    of_nothing = booked.add(payout("failed", "po_6"))
    findings = look(booked)
    assert findings["bookings_are_in_bodies"].ok
    assert {one["seq"]: one["problem"] for one in findings["undos_follow_movements"].offenders} == {
        left_out.seq: "it wasn't undone before, and isn't booked",
        not_given_back.seq: "what it undoes is booked, and the undo isn't",
        booked_after_all.seq: "it was undone before it was reported, and is booked",
        of_nothing.seq: "an undo is booked of what isn't",
    }


def test_where_order_is_kept_for_a_merchant_the_bodies_name_the_payments(
    look: Callable[[BookedRows], Findings], world: World
) -> None:
    """As a whole the account gave back no more than it captured, and its two payments are two merchants'."""
    of_merchant = {"entity_key": "stripe:acct_1"}
    booked = BookedRows()
    booked.add(charge("pi_1"), **of_merchant)
    booked.add(charge("pi_2"), **of_merchant, merchant="m-2")
    booked.add(refund("pi_1", 600), **of_merchant)
    booked.add(refund("pi_1", 401), **of_merchant)
    booked.add(refund("pi_2", 100), **of_merchant)
    unread = {"entity_key": "stripe:acct_2"}
    half = booked.add(charge("pi_3"), **unread)
    booked.add(refund("pi_3", 100), **unread)
    del booked.bodies[half.body_sha256 or ""]
    unreadable = {"entity_key": "stripe:acct_3"}
    booked.add(charge("pi_4"), **unreadable, event_type="transfer.created")
    booked.add(refund("pi_4", 100), **unreadable)
    findings = look(booked)
    assert findings[RefundsHaveCaptures.name].figures["awaiting"] == 0
    [more] = findings[RefundsHaveCaptures.name].offenders
    assert (more["entity_key"], more["refunded"], more["captured"]) == ("stripe:acct_1:pi_1", 1_001, 1_000)
    [several] = findings[OneMerchantAPayment.name].offenders
    assert (several["entity_key"], several["merchants"]) == ("stripe:acct_1:pi_2", ["m-1", "m-2"])
    assert findings[UndosHaveMovements.name].ok
    assert "bodies that are kept name it" in str(findings[RefundsHaveCaptures.name].unknown)


def test_bodies_that_are_gone_as_a_whole_are_not_passed(look: Callable[[BookedRows], Findings], world: World) -> None:
    booked = BookedRows()
    booked.add(charge("pi_1"))
    DeltaTable(str(world.lake.bodies_table)).delete()
    booked.bodies = {"0" * 64: b"another"}
    found = look(booked)["bookings_are_in_bodies"]
    assert (found.figures["compared"], found.figures["without_body"]) == (0, 1)
    assert found.unknown is not None
