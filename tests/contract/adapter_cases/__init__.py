"""The providers' cases by label, made of the registry and the sample files."""

from load.samples import adyenplatform
from providers import ProvidersSettings, build_adapters
from tests.contract.adapter_cases.case import Case
from tests.contract.adapter_cases.unlike import AdyenCase, BraintreeCase, MollieClassicCase, PayPalCase, StripeCase

_UNLIKE: dict[str, type[Case]] = {
    "stripe": StripeCase,
    "adyen": AdyenCase,
    "braintree": BraintreeCase,
    "mollieclassic": MollieClassicCase,
    "paypal": PayPalCase,
}
CASES = {name: _UNLIKE.get(name, Case)(name) for name in build_adapters(ProvidersSettings())}
CASES["adyenplatform-payout"] = Case("adyenplatform", adyenplatform.PAYOUTS)
