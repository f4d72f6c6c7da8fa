"""The adapters by name: the one list that a new provider is added to."""

from __future__ import annotations

from providers.adyen import AdyenAdapter
from providers.adyenplatform import AdyenPlatformAdapter
from providers.braintree import BraintreeAdapter
from providers.checkout import CheckoutAdapter
from providers.gocardless import GoCardlessAdapter
from providers.mollie import MollieAdapter
from providers.mollieclassic import MollieClassicAdapter
from providers.paddle import PaddleAdapter
from providers.paypal import PayPalAdapter
from providers.port import Adapter
from providers.razorpay import RazorpayAdapter
from providers.settings import ProvidersSettings
from providers.square import SquareAdapter
from providers.standardwebhooks import StandardWebhooksAdapter
from providers.stripe import StripeAdapter


def build_adapters(settings: ProvidersSettings) -> dict[str, Adapter]:
    """Every provider's adapter, by the name in ``/webhooks/{name}``."""
    adapters: list[Adapter] = [
        StripeAdapter(settings),
        AdyenAdapter(settings),
        StandardWebhooksAdapter(settings),
        RazorpayAdapter(settings),
        SquareAdapter(settings),
        CheckoutAdapter(settings),
        PaddleAdapter(settings),
        GoCardlessAdapter(settings),
        PayPalAdapter(settings),
        BraintreeAdapter(settings),
        MollieAdapter(settings),
        MollieClassicAdapter(settings),
        AdyenPlatformAdapter(settings),
    ]
    return {adapter.name: adapter for adapter in adapters}
