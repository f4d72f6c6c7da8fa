"""Deliveries of Mollie's classic webhooks: an id, and what Mollie answers for it to one of our keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from load.samples import mollie
from providers import Request
from providers.port import Fetched
from tests.contract.adapter_cases.case import NOW, SAMPLE, Case, Told, flips

ORDER = "ord_ofthesuite"
DELIVERY = mollie.classic_delivery(ORDER)


class MollieClassicCase(Case):
    """A case's body is what is fetched: an order with its refunds. The delivery itself says only which order."""

    name = "mollieclassic"
    secrets = ("live_newkeyofthesuite0000000000", "live_oldkeyofthesuite0000000000")
    signature_headers = ()
    fetched_from = f"https://api.mollie.com/v2/orders/{ORDER}"

    def body(self, told: Told) -> bytes:
        return self.batch([told])

    def batch(self, told: Sequence[Told]) -> bytes:
        order = mollie.order(ORDER, amount_minor=5_000, currency="EUR", created=NOW)
        order["amountRefunded"] = mollie.money(1_000 * told[0].delivery, "EUR")
        return mollie.fetched(order, refunds=[self._refund(one) for one in told])

    def request(self, body: bytes, secret: str, told: Told = SAMPLE) -> Request:
        headers = [(b"content-type", b"application/x-www-form-urlencoded")]
        return self.asked_with(Request(DELIVERY, headers, fetched=Fetched(200, body)), secret, self.secrets)

    def forged(self) -> Request:
        """What Mollie answers is about another order than the delivery."""
        body = self.body(SAMPLE).replace(ORDER.encode(), ORDER.upper().encode())
        return self.request(body, self.secrets[0])

    def asked_with(self, request: Request, secret: str, listed: Sequence[str]) -> Request:
        """Mollie answers to the key that is ``secret``; where that isn't listed, to none."""
        if request.fetched is None or secret not in listed:
            return replace(request, fetched=None)
        return replace(request, fetched=replace(request.fetched, bearer=list(listed).index(secret)))

    def altered(self, request: Request) -> Iterator[Request]:
        for body in flips(request.body):
            yield replace(request, body=body)

    def resigned(self, request: Request, values: Sequence[bytes]) -> Iterator[Request]:
        """Mollie's answer is the proof: none, or something else."""
        yield replace(request, fetched=Fetched(200, values[0]) if values else None)

    @staticmethod
    def _refund(told: Told) -> mollie.Object:
        return mollie.refund(
            f"re_{told.movement}", of=f"tr_{told.payment}", amount_minor=told.amount_minor, currency="EUR", created=NOW
        )

    def others(self) -> Sequence[bytes]:
        order = mollie.order(ORDER, amount_minor=5_000, currency="EUR", created=NOW)
        paid = mollie.payment("tr_1", amount_minor=5_000, currency="EUR", created=NOW)
        return [mollie.fetched(order, payments=[paid])]
