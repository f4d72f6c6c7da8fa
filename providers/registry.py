"""The adapters by name: the list that a new provider is added to, and those of packages of one's own."""

from __future__ import annotations

from collections.abc import Callable

from core.errors import SettingError
from providers.adyen import AdyenAdapter
from providers.adyenplatform import AdyenPlatformAdapter
from providers.braintree import BraintreeAdapter
from providers.checkout import CheckoutAdapter
from providers.gocardless import GoCardlessAdapter
from providers.installed import ADAPTERS_GROUP, AdapterTwice, find_entry_points, open_adapter
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
    """Builds every provider's adapter, by the name in ``/webhooks/{name}``.

    :raises AdapterUnusable, AdapterTwice: a package of one's own has an adapter that can't be taken
    :raises SettingError: the settings of one are wrong, or are of none that is installed
    """
    adapters = {adapter.name: adapter for adapter in (adapter(settings) for adapter in ADAPTERS)}
    installed_adapters = find_entry_points(ADAPTERS_GROUP)
    for name in settings.own:
        if name not in installed_adapters:
            raise SettingError(f"providers.own.{name}", "no adapter of that name is installed")
    for name, entry in installed_adapters.items():
        if name in adapters:
            raise AdapterTwice(name, None, entry)
        adapters[name] = open_adapter(entry, settings)
    return adapters
