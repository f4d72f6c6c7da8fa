"""The providers' cases by name: the one list that a new provider's is added to."""

from tests.contract.adapter_cases.adyen import AdyenCase
from tests.contract.adapter_cases.case import Case
from tests.contract.adapter_cases.standardwebhooks import StandardWebhooksCase
from tests.contract.adapter_cases.stripe import StripeCase

_CASES: list[Case] = [
    StripeCase(),
    AdyenCase(),
    StandardWebhooksCase(),
]
CASES = {case.name: case for case in _CASES}

HOW_TO_ADD = (
    "{name} is in providers/registry.py and has no case: add tests/contract/adapter_cases/{name}.py with a subclass of "
    "Case, and its line to the list in adapter_cases/__init__.py. It says how a valid request is made: two secrets, a "
    "refund's body (a sample builder in load/samples/), the signature's headers. docs/adding-a-provider.md shows one"
)
