"""The webhooks of the story."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from load.traffic import Traffic, Webhook

HONEST = 420
REDELIVERED = 40
AT_ONCE_EVENTS = 5
AT_ONCE_COPIES = 10
FOLLOWERS = 3

NEWCOMER = "acct_newcomer"
CLOSED = "acct_closed"

MERCHANTS = """\
# Which internal account belongs to a provider's merchant account. Read again whenever it changes.
[stripe]
"acct_main" = "merchant-main"
"acct_closed" = {account = "merchant-closed", closed = true}

[adyen]
"MainMerchant" = "merchant-main"

[standardwebhooks]
"shop" = "merchant-main"
"""

MERCHANTS_LATER = MERCHANTS.replace(
    '"acct_closed" = {account = "merchant-closed", closed = true}',
    '"acct_closed" = "merchant-closed"\n"acct_newcomer" = "merchant-newcomer"',
)


@dataclass(frozen=True, slots=True)
class Cast:
    """Everything that is posted, by the part it plays.

    ``waiting`` and ``closed`` are a head and its followers, of one payment each.
    """

    honest: Sequence[Webhook]
    redelivered: Sequence[Webhook]
    at_once: Sequence[Webhook]
    after_redis_loss: Sequence[Webhook]
    first_content: Webhook
    other_content: Webhook
    poison: Webhook
    unknown_type: Webhook
    waiting: Sequence[Webhook]
    closed: Sequence[Webhook]
    money_events: set[str] = field(default_factory=set)

    @property
    def deliveries(self) -> int:
        """Webhooks that the story posts, every redelivery and copy counted."""
        once = (self.honest, self.redelivered, self.after_redis_loss, self.waiting, self.closed)
        alone = (self.first_content, self.other_content, self.poison, self.unknown_type)
        return sum(map(len, once)) + len(alone) + AT_ONCE_COPIES * len(self.at_once)


def make_cast(traffic: Traffic, random: Random) -> Cast:
    """Signed and ready; amounts and order differ from run to run."""
    honest = [traffic.single(number) for number in range(HONEST)]
    first = traffic.stripe("conflict", "charge.succeeded", 4_200, "EUR")
    other = traffic.stripe("conflict", "charge.succeeded", 9_900, "EUR")
    cast = Cast(
        honest=honest,
        redelivered=random.sample(honest[: HONEST // 2], REDELIVERED),
        at_once=[traffic.stripe(f"once-{n}", "charge.succeeded", 1_000 + n, "EUR") for n in range(AT_ONCE_EVENTS)],
        after_redis_loss=random.sample(honest[: HONEST // 2], REDELIVERED),
        first_content=first,
        other_content=other,
        poison=traffic.signed("stripe", b'{"id": "evt_broken", "type": "charge.succeeded", '),
        unknown_type=traffic.stripe("mandate", "mandate.updated", 0, "EUR"),
        waiting=_payment(traffic, "newcomer", NEWCOMER),
        closed=_payment(traffic, "closed", CLOSED),
    )
    applied = [*honest, *cast.at_once, first, *cast.waiting, *cast.closed]
    cast.money_events.update(key for webhook in applied if not _no_money(webhook) for key in webhook.event_keys)
    return cast


def _payment(traffic: Traffic, number: str, account: str) -> list[Webhook]:
    """A capture and the refunds that follow it, all of one payment."""
    head = traffic.stripe(number, "charge.succeeded", 9_000, "EUR", account=account)
    refunds = [
        traffic.stripe(f"{number}-{n}", "refund.created", 1_000, "EUR", account=account, payment=number)
        for n in range(1, FOLLOWERS + 1)
    ]
    return [head, *refunds]


def _no_money(webhook: Webhook) -> bool:
    if webhook.provider != "stripe":
        return False
    return bool(json.loads(webhook.body)["type"] == "customer.updated")
