"""The providers' cases by label: the one list that a new provider's is added to."""

from tests.contract.adapter_cases.adyen import AdyenCase
from tests.contract.adapter_cases.adyenplatform import AdyenPlatformCase, AdyenPlatformPayoutCase
from tests.contract.adapter_cases.braintree import BraintreeCase
from tests.contract.adapter_cases.case import Case
from tests.contract.adapter_cases.checkout import CheckoutCase
from tests.contract.adapter_cases.gocardless import GoCardlessCase
from tests.contract.adapter_cases.mollie import MollieCase
from tests.contract.adapter_cases.mollieclassic import MollieClassicCase
from tests.contract.adapter_cases.paddle import PaddleCase
from tests.contract.adapter_cases.paypal import PayPalCase
from tests.contract.adapter_cases.razorpay import RazorpayCase
from tests.contract.adapter_cases.square import SquareCase
from tests.contract.adapter_cases.standardwebhooks import StandardWebhooksCase
from tests.contract.adapter_cases.stripe import StripeCase

_CASES: list[Case] = [
    StripeCase(),
    AdyenCase(),
    StandardWebhooksCase(),
    RazorpayCase(),
    SquareCase(),
    CheckoutCase(),
    PaddleCase(),
    MollieCase(),
    MollieClassicCase(),
    AdyenPlatformCase(),
    AdyenPlatformPayoutCase(),
    BraintreeCase(),
    GoCardlessCase(),
    PayPalCase(),
]
CASES = {case.label: case for case in _CASES}

HOW_TO_ADD = (
    "{name} is in providers/registry.py and has no case: add tests/contract/adapter_cases/{name}.py with a subclass of "
    "Case, and its line to the list in adapter_cases/__init__.py. It says how a valid request is made: two secrets, a "
    "refund's body (a sample builder in load/samples/), the signature's headers. docs/adding-a-provider.md shows one"
)
