"""Mollie's classic webhooks of our own making: an id, and an order with its refunds that Mollie answers for it."""

from __future__ import annotations

from collections.abc import Sequence

from load.samples.mollie import classic_delivery, fetched, money, order, payment, refund
from load.samples.sender import Sample, Samples, Sending, SignedRequest

ORDER = "ord_ofthesuite"
DELIVERY = classic_delivery(ORDER)


def _answer(samples: Sequence[Sample]) -> bytes:
    made = order(ORDER, amount_minor=5_000, currency="EUR", created=samples[0].at)
    made["amountRefunded"] = money(1_000 * samples[0].delivery, "EUR")
    refunds = [refund(f"re_{one.movement}", of=f"tr_{one.payment}", **one.money) for one in samples]
    return fetched(made, refunds=refunds)


def _others() -> list[bytes]:
    common = Sample(amount_minor=5_000).money
    return [fetched(order(ORDER, **common), payments=[payment("tr_1", **common)])]


def _sign(sending: Sending) -> SignedRequest:
    """Mollie signs nothing: what it answers to our key is the proof."""
    return sending.posted({})


SAMPLES = Samples(lambda sample: _answer([sample]), _sign, _others, batch=_answer)
