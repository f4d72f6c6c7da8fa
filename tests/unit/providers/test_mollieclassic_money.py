"""Mollie's classic webhooks: what a fetched payment books."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from providers import Adapter
from tests.unit.providers.mollieclassic_answers import capture, events, payment, refund, row


def test_a_payment_books_what_was_captured_of_it_where_that_is_said(adapter: Adapter) -> None:
    (event,) = events(adapter, payment(captured_minor=600))
    assert row(adapter, event)[2:6] == ("mollieclassic:tr_1:capture", "capture", 600, "EUR")


def test_with_manual_capture_the_captures_book_and_the_payment_does_not(adapter: Adapter) -> None:
    reported = events(
        adapter,
        payment(manual=True, captured_minor=500),
        captures=[capture("cpt_1"), capture("cpt_2"), capture("cpt_3", "pending"), capture("cpt_4", "failed")],
    )
    assert [(row(adapter, event)[0], row(adapter, event)[2]) for event in reported] == [
        ("mollieclassic:tr_1:payment.paid", None),
        ("mollieclassic:cpt_1:capture.succeeded", "mollieclassic:cpt_1:capture"),
        ("mollieclassic:cpt_2:capture.succeeded", "mollieclassic:cpt_2:capture"),
        ("mollieclassic:cpt_3:capture.pending", None),
        ("mollieclassic:cpt_4:capture.failed", None),
    ]


def test_a_payment_whose_captures_are_listed_is_booked_by_them_alone(adapter: Adapter) -> None:
    reported = events(adapter, payment(), captures=[capture("cpt_1"), capture("cpt_2")])
    facts = [event.fact_key for event in reported]
    assert facts == [None, "mollieclassic:cpt_1:capture", "mollieclassic:cpt_2:capture"]
    paid, failed = events(adapter, payment(), captures=[capture("cpt_1", "failed")])
    assert (paid.fact_key, failed.fact_key) == ("mollieclassic:tr_1:capture", None)


def test_two_partial_refunds_of_a_payment_are_two_facts(adapter: Adapter) -> None:
    reported = events(adapter, payment(), refunds=[refund("re_1"), refund("re_2")])[1:]
    assert [event.fact_key for event in reported] == ["mollieclassic:re_1:refund", "mollieclassic:re_2:refund"]


def test_a_failed_refund_names_the_refund_that_it_gives_back(adapter: Adapter) -> None:
    sent, failed = events(adapter, payment(), refunds=[refund("re_1", status="failed")])[1:]
    facts = [adapter.money(event.body, event.event_type) for event in (sent, failed)]
    assert [fact and (fact.fact_key, fact.pair) for fact in facts] == [
        ("mollieclassic:re_1:refund", "mollieclassic:re_1:refund_failed"),
        ("mollieclassic:re_1:refund_failed", "mollieclassic:re_1:refund"),
    ]


@pytest.mark.parametrize("stage", ["refund.failed", "payment.paid", "chargeback.reversed"])
def test_a_stage_that_the_body_does_not_show_books_nothing(adapter: Adapter, stage: str) -> None:
    with pytest.raises(Unparseable, match="stage"):
        adapter.money(json.dumps(refund(status="refunded")).encode(), stage)


@pytest.mark.parametrize(
    "amount",
    [
        None,
        {},
        "4.00",
        {"value": 4, "currency": "EUR"},
        {"value": "4,00", "currency": "EUR"},
        {"value": "4.001", "currency": "EUR"},
        {"value": "4.00", "currency": "EU"},
    ],
)
def test_an_amount_that_cannot_be_trusted_loses_no_event_and_books_nothing(adapter: Adapter, amount: Any) -> None:
    reported = events(adapter, payment(), refunds=[refund() | {"amount": amount}])[1]
    assert (reported.event_key, reported.fact_key) == ("mollieclassic:re_1:refund.sent", None)
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(reported.body, reported.event_type)
