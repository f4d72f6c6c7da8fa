"""Events that only point to what moved: booked once it was fetched, as the events that hold it; unknown without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from core.event import Event
from core.work import Applied, Outcome, Unknown, WorkItem
from ledger.handler import LedgerHandler
from providers import ProvidersSettings, Request, build_adapters
from tests.one_merchant import OneMerchant
from tests.unit.providers.samples import gocardless, stripe
from tests.unit.providers.samples.stripe import CHARGE, DISPUTE, ONE_REFUND, PAYOUT, THIN_MONEY, thin

ADAPTERS = build_adapters(ProvidersSettings())
MONEY = dict(zip(THIN_MONEY, (CHARGE, ONE_REFUND, PAYOUT, DISPUTE), strict=True))


def handled(provider: str, request: Request) -> list[Outcome]:
    """What becomes of a request's events, by what is kept of each: its names and its body."""
    return [_handled(event) for event in ADAPTERS[provider].events(request, "live")]


def _handled(event: Event) -> Outcome:
    names = (event.event_key, event.entity_key, event.provider, event.account, event.event_type)
    item = WorkItem(1, *names, event.body, event.fact_key, 0, fact_sha256=event.fact_sha256)
    return LedgerHandler(ADAPTERS, OneMerchant())(item)


def balances(outcomes: Sequence[Outcome]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for outcome in outcomes:
        assert isinstance(outcome, Applied)
        for line in outcome.postings:
            found[line.account] += line.money.amount_minor * (1 if line.side == "debit" else -1)
    return dict(found)


@pytest.mark.parametrize("event_type", THIN_MONEY)
def test_a_thin_event_books_what_the_fat_one_does_and_is_unknown_without_a_key(event_type: str) -> None:
    told = MONEY[event_type]
    fat = handled("stripe", Request(stripe.event(event_type, told), []))
    assert handled("stripe", thin(event_type, told)) == fat
    assert isinstance(fat[0], Applied)
    [unknown] = handled("stripe", thin(event_type, None))
    assert isinstance(unknown, Unknown)
    assert unknown.code == "related_object='not fetched'"


@pytest.mark.parametrize("event_type", gocardless.BOOKED)
def test_an_event_of_gocardless_books_once_it_was_followed_and_is_unknown_without_a_token(event_type: str) -> None:
    assert isinstance(handled("gocardless", gocardless.followed(event_type))[0], Applied)
    [unknown] = handled("gocardless", Request(gocardless.about(event_type, gocardless.BOOKED[event_type][0]), []))
    assert isinstance(unknown, Unknown)
    assert unknown.code == "amount='not fetched'"


@pytest.mark.row("G3")
def test_payments_and_payouts_of_gocardless_are_of_one_clearing_account() -> None:
    outcomes = [
        *handled("gocardless", gocardless.followed("payments.confirmed", amount=10_000)),
        *handled("gocardless", gocardless.followed("payouts.paid")),
    ]
    clearing = {account: amount for account, amount in balances(outcomes).items() if account.endswith(":clearing")}
    assert clearing == {"provider:gocardless:clearing": 0}
