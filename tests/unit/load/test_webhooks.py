"""The samples that demo and load post are shaped, sized and understood like the providers' own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from statistics import median

import pytest

from core.money import Money, Movement
from load.samples import sign
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.standardwebhooks import standard_event
from load.samples.stripe import stripe_event
from providers import Adapter, MoneyRule, ProvidersSettings, Request, StandardWebhooksSettings, build_adapters
from providers.money import WITHHELD

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
STRIPE_TYPES: dict[str, Movement | None] = {
    "charge.succeeded": Movement.CAPTURE,
    "charge.captured": Movement.CAPTURE,
    "charge.failed": None,
    "charge.refunded": Movement.REFUND,
    "charge.refund.updated": Movement.REFUND,
    "refund.created": Movement.REFUND,
    "refund.failed": Movement.REFUND_FAILED,
    "charge.dispute.created": Movement.DISPUTE_OPENED,
    "charge.dispute.funds_withdrawn": Movement.DISPUTE_OPENED,
    "charge.dispute.funds_reinstated": Movement.DISPUTE_WON,
    "charge.dispute.closed": Movement.DISPUTE_LOST,
    "payout.paid": Movement.PAYOUT_PAID,
    "payout.failed": Movement.PAYOUT_FAILED,
    "payment_intent.succeeded": None,
    "customer.updated": None,
    "radar.early_fraud_warning.created": None,
}


@pytest.fixture
def adapters() -> dict[str, Adapter]:
    return build_adapters(ProvidersSettings())


def stripe(event_type: str, event_id: str = "evt_1", **changed: object) -> bytes:
    fields: dict[str, object] = {
        "payment": "pi_1",
        "account": "acct_1",
        "amount_minor": 1250,
        "currency": "EUR",
        "created": NOW,
        **changed,
    }
    return stripe_event(event_id, event_type, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("event_type", "movement"), STRIPE_TYPES.items())
def test_a_stripe_sample_moves_what_its_type_says(
    adapters: dict[str, Adapter], event_type: str, movement: Movement | None
) -> None:
    body = stripe(event_type)
    *debit, event = adapters["stripe"].events(Request(body, []), "test")
    assert [one.event_type for one in debit] == [event_type + WITHHELD] * (movement is Movement.DISPUTE_LOST)
    assert event.event_key == f"stripe:evt_1:{event_type}"
    assert (event.account, event.mode, event.occurred_at) == ("acct_1", "live", NOW)
    fact = adapters["stripe"].money(body, event_type)
    assert (fact and fact.movement) == movement
    assert fact is None or fact.money == Money(1250, "EUR")


def test_a_payments_stripe_samples_share_its_entity_and_its_facts(adapters: dict[str, Adapter]) -> None:
    of_payment = [name for name in STRIPE_TYPES if not name.startswith(("payout", "customer"))]
    made = [adapters["stripe"].events(Request(stripe(name), []), "live")[0] for name in of_payment]
    assert {event.entity_key for event in made} == {"stripe:acct_1:pi_1"}
    captures = [event.fact_key for event in made if event.event_type in ("charge.succeeded", "charge.captured")]
    assert captures == ["stripe:ch_1:capture"] * 2


def test_samples_of_two_payments_are_of_two_charges_whatever_their_ids_end_with(adapters: dict[str, Adapter]) -> None:
    made = [stripe("charge.succeeded", payment=payment) for payment in ("pi_acct_a_1", "pi_acct_b_1")]
    facts = {adapters["stripe"].events(Request(body, []), "live")[0].fact_key for body in made}
    assert len(facts) == 2


def test_each_stripe_refund_sample_is_one_of_its_own_unless_named(adapters: dict[str, Adapter]) -> None:
    def fact(body: bytes) -> str | None:
        return adapters["stripe"].events(Request(body, []), "live")[0].fact_key

    assert fact(stripe("refund.created", "evt_1")) != fact(stripe("refund.created", "evt_2"))
    named = [fact(stripe("refund.created", name, object_id="re_9")) for name in ("evt_1", "evt_2")]
    assert named == ["stripe:re_9:refund"] * 2


def test_stripe_samples_are_as_large_as_real_ones() -> None:
    ids = {"payment": "pi_" + "a" * 24, "account": "acct_" + "b" * 16}
    sizes = [len(stripe(name, "evt_" + "c" * 24, **ids)) for name in STRIPE_TYPES]
    assert 1000 <= median(sizes) <= 1400
    assert max(sizes) <= 2000


def test_a_stripe_sample_of_the_platform_names_no_account(adapters: dict[str, Adapter]) -> None:
    body = stripe("charge.succeeded", account="", livemode=False)
    assert "account" not in json.loads(body)
    (event,) = adapters["stripe"].events(Request(body, []), "live")
    assert (event.entity_key, event.mode) == ("stripe::pi_1", "test")


def adyen_item(number: int, original: str = "P1", success: bool = True) -> AdyenItem:
    return AdyenItem(f"M{number}", original, "Main", "order-1", "CAPTURE", 1250, "EUR", NOW, success)


def test_an_adyen_sample_holds_its_items_and_proves_once_signed(adapters: dict[str, Adapter]) -> None:
    adapter = adapters["adyen"]
    key = adapter.new_secret()
    signed = sign(
        adapter, adyen_notification([adyen_item(1), adyen_item(2, success=False), adyen_item(3, "")]), key, NOW
    )
    request = Request(signed.body, [])
    assert adapter.verify(request, [key], NOW) == 0
    made = adapter.events(request, "live")
    assert [event.event_key for event in made] == [
        "adyen:M1:CAPTURE:true",
        "adyen:M2:CAPTURE:false",
        "adyen:M3:CAPTURE:true",
    ]
    assert [event.fact_key for event in made] == ["adyen:M1:capture", None, "adyen:M3:capture"]
    assert [event.entity_key for event in made] == ["adyen:Main:P1", "adyen:Main:P1", "adyen:Main:M3"]
    assert made[0].occurred_at == NOW


def test_an_adyen_sample_says_which_mode_it_is_of(adapters: dict[str, Adapter]) -> None:
    assert adapters["adyen"].events(Request(adyen_notification([adyen_item(1)], live=False), []), "test")


def test_a_standard_sample_is_laid_out_as_the_default_pointers_have_it() -> None:
    rule = MoneyRule(event_type="payment.captured", movement=Movement.CAPTURE, id="/data/id")
    settings = ProvidersSettings(standardwebhooks=StandardWebhooksSettings(money=(rule,)))
    adapter = build_adapters(settings)["standardwebhooks"]
    body = standard_event(
        "payment.captured", payment="pay_1", account="shop", amount_minor=1250, currency="eur", occurred_at=NOW
    )
    signed = sign(adapter, body, adapter.new_secret(), NOW, "msg_1")
    headers = [(name.encode(), value.encode()) for name, value in signed.headers.items()]
    (event,) = adapter.events(Request(signed.body, headers), "live")
    assert event.entity_key == "standardwebhooks:shop:pay_1"
    assert event.fact_key == "standardwebhooks:shop:mv_1:capture"
    assert event.occurred_at == NOW
    fact = adapter.money(body, "payment.captured")
    assert fact is not None
    assert fact.money == Money(1250, "EUR")
