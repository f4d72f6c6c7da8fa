"""A payout of Adyen's platform, as its tests want it."""

from __future__ import annotations

from typing import Any

from load.samples import adyenplatform as own
from tests.unit.providers.shapes import NOW


def payout(**reported: Any) -> bytes:
    return own.payout_event(
        **{
            "transfer": "3JWKA1",
            "sequence": 3,
            "account": "BA1",
            "amount_minor": 22_700,
            "currency": "EUR",
            "created": NOW,
            **reported,
        }
    )
