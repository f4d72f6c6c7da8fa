"""Requests of Adyen's platform webhooks."""

from __future__ import annotations

from types import MappingProxyType

from load.samples import adyenplatform
from tests.contract.adapter_cases.case import NOW, Case, Told, number_in


class AdyenPlatformCase(Case):
    """A seller's share of a refund: it belongs to a payment, and the standard webhooks book it."""

    name = "adyenplatform"
    secrets = ("0123456789ABCDEF" * 4, "FEDCBA9876543210" * 4)
    signature_headers = (b"hmacsignature",)
    settings = MappingProxyType({"adyen": {"platforms": {"SamplePlatform": "SampleShop"}}})
    books = False

    def body(self, told: Told) -> bytes:
        return adyenplatform.platform_payment_event(
            transfer=told.movement,
            sequence=number_in(told.event),
            payment=told.payment,
            account=told.account,
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW,
            queued_s=told.delivery,
        )


class AdyenPlatformPayoutCase(AdyenPlatformCase):
    """A payout to a seller's bank: it books."""

    label = "adyenplatform-payout"
    books = True
    of_payment = False

    def body(self, told: Told) -> bytes:
        return adyenplatform.payout_event(
            transfer=told.movement,
            sequence=number_in(told.event),
            account=told.account,
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW,
            queued_s=told.delivery,
        )
