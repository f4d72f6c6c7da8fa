"""Requests of GoCardless: batches, whose events tell no amounts."""

from __future__ import annotations

from collections.abc import Sequence

from load.samples.gocardless import GoCardlessEvent, batch, payment_event
from tests.contract.adapter_cases.case import NOW, Case, Told


class GoCardlessCase(Case):
    name = "gocardless"
    secrets = ("new-secret-of-the-suite", "old-secret-of-the-suite")
    signature_headers = (b"webhook-signature",)
    books = False

    def body(self, told: Told) -> bytes:
        return self.batch([told])

    def batch(self, told: Sequence[Told]) -> bytes:
        return batch([self._event(one) for one in told], delivery=told[0].delivery)

    @staticmethod
    def _event(told: Told) -> GoCardlessEvent:
        links = {"payment": told.payment, "refund": told.movement, "amount": str(told.amount_minor)}
        return GoCardlessEvent(told.event, "refunds", "created", links, NOW, organisation=told.account)

    def others(self) -> Sequence[bytes]:
        actions = ("confirmed", "paid_out", "charged_back")
        return [payment_event(action, event_id="EV1", payment="PM1", created=NOW) for action in actions]
