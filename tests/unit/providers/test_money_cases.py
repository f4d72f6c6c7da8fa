"""Which test shows each of the money cases that finance teams know by name (S1 to X2)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.ledger.test_holders import CASES as OF_HOLDERS
from tests.unit.providers.test_sample_tables import COMPARISONS, SEQUENCES

TESTS = Path(__file__).parents[2]
LEDGER = "holders"
SHOWN_BY: Mapping[str, tuple[str, str]] = {
    "S1": ("stripe", "a charge of which a part was captured, with more to come"),
    "S2": ("stripe", "a charge that is captured twice; its end is told by itself"),
    "S3": ("unit/ledger/test_pointed.py", "test_a_thin_event_books_what_the_fat_one_does_and_is_unknown_without_a_key"),
    "S4": ("stripe", "a dispute that was prevented"),
    "S5": ("stripe", "a refund that is first told of by its failure"),
    "S6": (
        "unit/ingest/test_app.py",
        "test_without_test_traffic_a_test_event_at_a_live_endpoint_is_answered_2xx_and_listed",
    ),
    "S7": ("e2e/test_money.py", "test_what_is_unknown_is_kept_listed_and_no_dead_letter"),
    "M1": (LEDGER, "a payout that the bank returned"),
    "M2": (LEDGER, "a payment by Klarna and its capture"),
    "M3": (LEDGER, "a payment that its order told and that is told with its captures"),
    "M4": (LEDGER, "a payment by PayPal that mollie told"),
    "M5": (LEDGER, "a payment of which a gift card paid a part, that mollie told"),
    "M6": (
        "unit/providers/test_mollieclassic.py",
        "test_an_oauth_token_says_at_a_test_endpoint_that_it_asks_for_a_test_payment",
    ),
    "M7": ("unit/providers/test_mollieclassic.py", "test_ids_are_opaque_and_stay_one_segment_of_the_address"),
    "M8": (LEDGER, "payments by the classic webhooks, a refund by both, and the payout by the next-gen ones"),
    "A1": ("adyen", "a dispute: won by arbitration after a second chargeback"),
    "A2": ("adyenplatform", "a payout that failed after it was booked"),
    "A3": ("adyenplatform", "a payout that was returned, and whose booking was never told"),
    "A4": ("adyen", "what a copy may tell otherwise: {'paymentMethod': 'visa_applepay'}"),
    "A5": (
        "unit/ledger/test_account_names.py",
        "test_a_booking_of_an_account_of_any_name_is_what_a_verification_derives",
    ),
    "P1": ("paypal", "a reversal, and a dispute that gives all back"),
    "P2": (LEDGER, "a sale by PayPal's v1 and a capture by its v2 of one account"),
    "D1": ("paddle", "a sale and a credit of a part of it"),
    "D2": ("paddle", "a sale and a prorated downgrade, a transaction of its own"),
    "B1": ("braintree", "a refund that failed, whatever its transaction's status is by then"),
    "B2": ("braintree", "a charge that was voided by the time of the next one"),
    "R1": ("razorpay", "a dispute whose amount isn't deducted"),
    "GC1": (
        "unit/ledger/test_pointed.py",
        "test_an_event_of_gocardless_books_once_it_was_followed_and_is_unknown_without_a_token",
    ),
    "X1": (
        "unit/ledger/test_undos.py",
        "test_an_undo_is_booked_where_what_it_takes_back_is_and_verify_finds_one_that_stands_alone",
    ),
    "X2": (
        LEDGER,
        "a payment of 100, whose fee of 3.20 is told later, an application's of 10, and a payout of 86.80",
    ),
}
"""By name: a provider and a case of its sample file, `LEDGER` and a case of ``test_holders``, or a file and a test."""


def names_at(place: str) -> set[str]:
    """What a place of `SHOWN_BY` has."""
    if place == LEDGER:
        return {case.name for case in OF_HOLDERS}
    if place.endswith(".py"):
        found = ast.walk(ast.parse((TESTS / place).read_text(encoding="utf-8")))
        return {node.name for node in found if isinstance(node, ast.FunctionDef)}
    return {row.values[1].case for row in (*SEQUENCES, *COMPARISONS) if row.values[0] == place}


@pytest.mark.parametrize("case", SHOWN_BY)
def test_the_test_that_shows_a_case_is_there(case: str) -> None:
    place, name = SHOWN_BY[case]
    assert name in names_at(place)
