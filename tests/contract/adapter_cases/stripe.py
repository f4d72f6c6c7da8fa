"""Requests of Stripe."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from load.webhooks import stripe_event
from tests.contract.adapter_cases.case import NOW, Case, Told


class StripeCase(Case):
    name = "stripe"
    secrets = ("whsec_new_of_the_suite", "whsec_old_of_the_suite")
    signature_headers = (b"stripe-signature",)
    tolerance_s = 300

    def body(self, told: Told) -> bytes:
        body = stripe_event(
            f"evt_{told.event}",
            "refund.created",
            payment=f"pi_{told.payment}",
            account=f"acct_{told.account}",
            amount_minor=told.amount_minor,
            currency="EUR",
            created=NOW,
            object_id=f"re_{told.movement}",
        )
        return self.spoiled(body, ("pending_webhooks",), told.delivery)

    def others(self) -> Sequence[bytes]:
        types = (
            "charge.captured",
            "charge.refunded",
            "charge.dispute.created",
            "charge.dispute.closed",
            "payout.paid",
            "payout.failed",
            "refund.failed",
            "payment_intent.succeeded",
            "customer.created",
        )
        return [
            stripe_event(
                "evt_1", one, payment="pi_1", account="acct_1", amount_minor=1_250, currency="EUR", created=NOW
            )
            for one in types
        ]

    def renderings(self) -> Sequence[tuple[bytes, bytes]]:
        """Before and since 2022-11-15 (https://docs.stripe.com/upgrades#2022-11-15), and 2025-03-31."""
        return [
            in_versions("charge.refunded", _lists_its_refunds, _lists_none, {"amount_refunded": 0}),
            in_versions("charge.succeeded", _lists_its_refunds, _lists_none),
            in_versions("payment_intent.succeeded", _lists_its_charges, _names_its_latest_charge),
            in_versions("invoice.paid", _names_its_intent, _lists_its_payments),
        ]


Fields = Mapping[str, Any]


def in_versions(
    event_type: str,
    older: Callable[[Fields], Fields],
    newer: Callable[[Fields], Fields],
    previous: Fields | None = None,
) -> tuple[bytes, bytes]:
    """The bodies of one event to an endpoint of an older API version, and to one of a newer."""
    whole = json.loads(
        stripe_event(
            "evt_1", event_type, payment="pi_1", account="acct_1", amount_minor=1_250, currency="EUR", created=NOW
        )
    )
    found = [
        {
            **whole,
            "api_version": version,
            "data": {
                "object": render(whole["data"]["object"]),
                **({} if previous is None else {"previous_attributes": {**previous, **changed}}),
            },
            "pending_webhooks": pending,
        }
        for version, render, changed, pending in (
            ("2020-08-27", older, {"refunds": {"data": [], "total_count": 0}}, 2),
            ("2025-03-31.basil", newer, {}, 1),
        )
    ]
    first, second = (json.dumps(document).encode() for document in found)
    return first, second


def _lists_its_refunds(charge: Fields) -> Fields:
    return {**charge, "invoice": None, "refunds": {**charge["refunds"], "total_count": 1}}


def _lists_none(charge: Fields) -> Fields:
    return {name: value for name, value in charge.items() if name != "refunds"}


def _lists_its_charges(intent: Fields) -> Fields:
    rest = {name: value for name, value in intent.items() if name != "latest_charge"}
    charge = {"id": intent["latest_charge"], "object": "charge", "amount": intent["amount"], "captured": True}
    return {**rest, "charges": {"object": "list", "data": [charge], "has_more": False}}


def _names_its_latest_charge(intent: Fields) -> Fields:
    return intent


def _names_its_intent(invoice: Fields) -> Fields:
    return {**invoice, "paid": True, "payment_intent": "pi_1", "charge": "ch_1"}


def _lists_its_payments(invoice: Fields) -> Fields:
    rest = {name: value for name, value in invoice.items() if name not in ("payment_intent", "charge")}
    payment = {"payment": {"payment_intent": "pi_1", "type": "payment_intent"}, "status": "paid"}
    return {**rest, "payments": {"object": "list", "data": [payment], "has_more": False}}
