"""What Stripe's platforms take: where it can't be known, and how its thin event is asked for."""

from __future__ import annotations

import pytest

from core.money import MovementUnknown
from providers.port import Request
from tests.unit.providers.samples.stripe import PAYOUT, charge, event
from tests.unit.providers.test_stripe_thin import ADAPTER, asked


def test_what_a_platform_took_of_a_charge_that_was_captured_in_part_is_unknown_and_the_part_is_booked() -> None:
    told = charge(amount_captured=700, application_fee="fee_1", application_fee_amount=123)
    of_charge, of_fee = ADAPTER.events(Request(event("charge.captured", told), []), "live")
    assert of_charge.fact_key == "stripe:ch_1:capture"
    with pytest.raises(MovementUnknown, match="the application_fee_amount 'of a part'"):
        ADAPTER.money(of_fee.body, of_fee.event_type)


@pytest.mark.parametrize("event_type", ["payout.paid", "payout.failed"])
def test_what_a_platform_takes_for_a_payout_is_unknown_and_the_payout_is_booked(event_type: str) -> None:
    told = {**PAYOUT, "application_fee": "fee_1", "application_fee_amount": 123}
    of_payout, of_fee = ADAPTER.events(Request(event(event_type, told), []), "live")
    assert of_payout.fact_key == f"stripe:po_1:{event_type.replace('.', '_')}"
    with pytest.raises(MovementUnknown, match="the application_fee_amount 'of a payout'"):
        ADAPTER.money(of_fee.body, of_fee.event_type)


def test_an_applications_fee_that_a_thin_event_names_is_asked_for() -> None:
    [wanted] = asked("v1.application_fee.created", "application_fee", "fee_1")
    assert wanted.url == "https://api.stripe.com/v1/application_fees/fee_1"


@pytest.mark.parametrize("event_type", ["payout.paid.fee", "charge.succeeded.fee2", "charge.succeeded.withheld"])
def test_a_type_of_stripes_that_ends_as_payhooks_own_do_is_unknown(event_type: str) -> None:
    told = PAYOUT if event_type.startswith("payout") else charge()
    (of_type,) = ADAPTER.events(Request(event(event_type, told), []), "live")
    with pytest.raises(MovementUnknown, match=f"the type '{event_type}'"):
        ADAPTER.money(of_type.body, of_type.event_type)
