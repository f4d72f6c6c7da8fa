"""The adapters by name: the one list that a new provider is added to."""

from __future__ import annotations

from collections.abc import Callable

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

ADAPTERS: tuple[Callable[[ProvidersSettings], Adapter], ...] = (
    StripeAdapter,
    AdyenAdapter,
    StandardWebhooksAdapter,
    RazorpayAdapter,
    SquareAdapter,
    CheckoutAdapter,
    PaddleAdapter,
    GoCardlessAdapter,
    PayPalAdapter,
    BraintreeAdapter,
    MollieAdapter,
    MollieClassicAdapter,
    AdyenPlatformAdapter,
)


def build_adapters(settings: ProvidersSettings) -> dict[str, Adapter]:
    """Every provider's adapter, by the name in ``/webhooks/{name}``."""
    adapters = [adapter(settings) for adapter in ADAPTERS]
    return {adapter.name: adapter for adapter in adapters}
