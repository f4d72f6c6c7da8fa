"""Types of a provider's that end as those do which payhook makes of its notifications: no table has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from core.money import MovementUnknown
from providers import ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples import adyen, adyenplatform, braintree, checkout, mollie, paddle, paypal, square
from tests.unit.providers.shapes import changed

ADAPTERS = build_adapters(ProvidersSettings())
MADE_UP: Mapping[str, Sequence[bytes | Request]] = {
    "adyen": [adyen.told(f"{code}{end}") for code in ("CAPTURE", "CHARGEBACK") for end in (".lost", ".withheld")],
    "adyenplatform": [changed(adyenplatform.payout(), "type", to="balancePlatform.transfer.updated.withheld")],
    "braintree": [
        braintree.posted(braintree.charged(("charged_successfully", f"charged_successfully{end}")))
        for end in (".listed-x", ".listed-", ".withheld")
    ],
    "checkout": [changed(checkout.payment(), "type", to="payment_captured.withheld")],
    "mollie": [changed(mollie.PAID, "type", to="payment.paid.withheld")],
    "paddle": [changed(paddle.transaction(), "event_type", to="transaction.completed.withheld")],
    "paypal": [changed(paypal.capture(), "event_type", to="PAYMENT.CAPTURE.COMPLETED.withheld")],
    "square": [changed(square.payment(), "type", to="payment.updated.withheld")],
}


@pytest.mark.parametrize(
    ("provider", "told"), [(provider, told) for provider, bodies in MADE_UP.items() for told in bodies]
)
def test_a_providers_type_that_ends_as_payhooks_do_is_unknown(provider: str, told: bytes | Request) -> None:
    adapter = ADAPTERS[provider]
    (event,) = adapter.events(told if isinstance(told, Request) else Request(told, []), "live")
    assert (event.poison, event.fact_key) == (None, None)
    with pytest.raises(MovementUnknown, match="the type"):
        adapter.money(event.body, event.event_type)
