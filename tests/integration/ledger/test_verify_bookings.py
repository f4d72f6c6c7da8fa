"""Bookings balance, and only what took effect is booked: others are named."""

from __future__ import annotations

import pytest

from tests.integration.ledger.conftest import Verify, World, booking
from tests.integration.ledger.findings import only


@pytest.mark.parametrize(
    "postings",
    [
        '[{"account":"a:b:c","side":"debit","amount_minor":1,"currency":"EUR"}]',
        '[{"account":"a:b:c","side":"debit","amount_minor":2,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":1,"currency":"EUR"}]',
        '[{"account":"a:b:c","side":"debit","amount_minor":1,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":1,"currency":"USD"}]',
        '[{"account":"a:b:c","side":"debit","amount_minor":-1,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":-1,"currency":"EUR"}]',
        '[{"account":"a:b:c","side":"left","amount_minor":1,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":1,"currency":"EUR"}]',
        "[]",
        "not json",
    ],
)
def test_a_booking_that_does_not_balance_is_named(report: Verify, world: World, postings: str) -> None:
    world.row(9).postings = postings
    world.rewrite()
    assert only(report("balanced"), "balanced").offenders[0]["seq"] == 9


def test_a_booking_of_what_took_no_effect_is_named(report: Verify, world: World) -> None:
    world.row(8).postings = booking(capture=True)
    world.rewrite()
    assert only(report(), "balanced").offenders[0]["seq"] == 8
