"""Mollie's classic webhooks: an id comes, the payment is fetched, and the answer is what proves."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from core.errors import SettingError, Unparseable
from core.event import Mode
from core.money import MoneyInvalid, MovementUnknown
from load.samples import mollie as samples_of
from load.samples import sign
from providers import Adapter, Request, SignatureInvalid
from providers.mollieclassic import MollieClassicAdapter
from providers.port import Fetched, FetchingAdapter
from tests.unit.providers.samples.mollieclassic import (
    BAD_SECRETS,
    BY_PAYPAL,
    IDS,
    KEY,
    LATER,
    NO_IDS,
    NO_RESOURCES,
    about,
    answered,
    chargeback,
    delivery,
    payment,
    refund,
    refunded,
)
from tests.unit.providers.samples.table import told
from tests.unit.providers.shapes import NOW, refusal

OLD = "test_" + "Z9y8X7w6V5" * 3


def test_the_payment_is_asked_for_at_mollie_with_our_own_keys(samples: Path, adapter: MollieClassicAdapter) -> None:
    body = (samples / "mollie/classic_payment.form").read_bytes()
    wanted = adapter.wants(Request(body, []), [KEY, OLD])
    assert wanted is not None
    assert wanted.url == "https://api.mollie.com/v2/payments/tr_d0b0E3EA3v?embed=captures,refunds,chargebacks"
    assert (wanted.bearers, wanted.kept_s) == ((KEY, OLD), 0)


def test_an_order_is_asked_for_with_its_payments(adapter: MollieClassicAdapter) -> None:
    wanted = adapter.wants(Request(b"id=ord_pbjz8x", []), [KEY])
    assert wanted is not None
    assert wanted.url == "https://api.mollie.com/v2/orders/ord_pbjz8x?embed=payments,refunds"


@pytest.mark.parametrize("body", IDS)
def test_ids_are_opaque_and_stay_one_segment_of_the_address(adapter: MollieClassicAdapter, body: bytes) -> None:
    wanted = adapter.wants(Request(body, []), [KEY])
    assert wanted is not None
    assert wanted.url.partition("?")[0] == f"https://api.mollie.com/v2/{IDS[body]}"


def test_an_oauth_token_says_at_a_test_endpoint_that_it_asks_for_a_test_payment(adapter: MollieClassicAdapter) -> None:
    """An API key is of one mode, and Mollie refuses it the parameter."""
    token = "access_" + "A1b2C3d4E5" * 3
    expected: dict[Mode, tuple[str, str]] = {"test": ("testmode=true", ""), "live": ("", "")}
    for mode, queries in expected.items():
        wanted = adapter.wants(Request(b"id=tr_1", [], mode=mode), [token, KEY])
        assert wanted is not None
        assert (wanted.bearers, wanted.queries) == ((token, KEY), queries)


def test_what_mollie_doesnt_know_yet_is_asked_for_again_while_mollie_waits(adapter: MollieClassicAdapter) -> None:
    wanted = adapter.wants(Request(b"id=tr_1", []), [KEY])
    assert wanted is not None
    assert (wanted.may_appear, wanted.within_s) == (True, 10.0)


def test_it_says_that_it_has_to_fetch(adapters: dict[str, Adapter]) -> None:
    assert isinstance(adapters["mollieclassic"], FetchingAdapter)
    assert not isinstance(adapters["mollie"], FetchingAdapter)


@pytest.mark.parametrize("body", NO_IDS)
def test_nothing_is_fetched_for_what_is_not_exactly_a_payments_or_an_orders_id(
    adapter: MollieClassicAdapter, body: bytes
) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        adapter.wants(Request(body, []), [KEY])
    assert caught.value.reason == "malformed"


def test_what_mollie_answers_to_our_key_proves_and_which_key_it_was_is_reported(adapter: Adapter) -> None:
    for bearer in (0, 1):
        assert adapter.verify(delivery(samples_of.fetched(payment()), bearer=bearer), [KEY, OLD], NOW) == bearer


def test_every_other_id_than_the_fetched_ones_is_refused(adapter: Adapter) -> None:
    """The delivery altered by one bit names another payment, or nothing at all."""
    fetched = Fetched(200, samples_of.fetched(payment() | {"id": "tr_5B8cwPMGnU"}), 0)
    body = b"id=tr_5B8cwPMGnU"
    assert refusal(adapter, Request(body, [], fetched=fetched), KEY) is None
    for at in range(8 * len(body)):
        altered = body[: at // 8] + bytes([body[at // 8] ^ (1 << at % 8)]) + body[at // 8 + 1 :]
        assert refusal(adapter, Request(altered, [], fetched=fetched), KEY) in ("malformed", "mismatch")


@pytest.mark.parametrize("key", BAD_SECRETS)
def test_a_key_of_another_form_is_never_sent(adapter: MollieClassicAdapter, key: str) -> None:
    with pytest.raises(SettingError):
        adapter.wants(Request(b"id=tr_1", []), [key])


def test_a_new_secret_is_of_the_form_of_a_key(adapter: Adapter) -> None:
    assert adapter.new_secret() != adapter.new_secret()
    adapter.check_secret(adapter.new_secret())


def test_there_is_nothing_to_sign(adapter: Adapter) -> None:
    signed = sign(adapter, samples_of.classic_delivery("tr_1"), KEY, NOW)
    assert signed.body == b"id=tr_1"
    assert signed.headers == {"Content-Type": "application/x-www-form-urlencoded"}


def test_the_public_sample_is_named_by_what_mollie_answers(samples: Path, adapter: Adapter) -> None:
    """The sample holds an id and nothing else: ``id=tr_d0b0E3EA3v``."""
    body = (samples / "mollie/classic_payment.form").read_bytes()
    answer = samples_of.fetched(payment() | {"id": "tr_d0b0E3EA3v"})
    request = Request(body, [], fetched=Fetched(200, answer, 0))
    assert adapter.verify(request, [KEY], NOW) == 0
    (event,) = adapter.events(request, "live")
    fact = adapter.money(event.body, event.event_type)
    assert (event.event_key, event.entity_key) == (
        "mollieclassic:tr_d0b0E3EA3v:payment.paid",
        "mollie::tr_d0b0E3EA3v",
    )
    assert told("mollieclassic", fact) == "tr_d0b0E3EA3v:capture 1000 EUR of tr_d0b0E3EA3v"


def test_each_event_holds_the_exact_bytes_of_what_it_tells_of(adapter: Adapter) -> None:
    spaced = json.dumps(
        json.loads(samples_of.fetched(payment(), refunds=[refund("re_1"), refund("re_2")])), indent=3
    ).encode()
    reported = adapter.events(delivery(spaced), "live")
    assert [json.loads(event.body)["id"] for event in reported] == ["tr_1", "re_1", "re_2"]
    assert reported[0].body == spaced
    assert all(event.body in spaced for event in reported)


@pytest.mark.parametrize("stage", ["refund.failed", "payment.paid", "chargeback.reversed"])
def test_a_stage_that_the_body_does_not_show_books_nothing(adapter: Adapter, stage: str) -> None:
    with pytest.raises(Unparseable, match="stage"):
        adapter.money(json.dumps(refund(status="refunded")).encode(), stage)


def test_a_refund_whose_amount_cannot_be_trusted_fails_when_it_is_handled(adapter: Adapter) -> None:
    _, reported = adapter.events(refunded(amount=None), "live")
    assert reported.fact_key is None
    with pytest.raises((MoneyInvalid, Unparseable)):
        adapter.money(reported.body, reported.event_type)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (refunded(status="processing"), refunded(status="failed")),
        (about(payment(), chargebacks=[chargeback()]), about(payment(), chargebacks=[chargeback(LATER)])),
    ],
    ids=["a refund that failed", "a chargeback that was reversed"],
)
def test_what_ended_is_still_told_as_it_began(adapter: Adapter, earlier: Request, later: Request) -> None:
    (_, began), (_, still, _) = adapter.events(earlier, "live"), adapter.events(later, "live")
    for name in ("event_key", "content_sha256", "fact_key", "fact_sha256"):
        assert getattr(began, name) == getattr(still, name), name


@pytest.mark.parametrize("broken", NO_RESOURCES)
def test_a_resource_that_cannot_be_read_keeps_its_own_bytes(adapter: Adapter, broken: object) -> None:
    events = adapter.events(about(payment(), refunds=[refund("re_1"), broken, refund("re_2")]), "live")
    assert json.loads(events[2].body) == broken


def test_an_answer_whose_parts_cannot_be_told_apart_is_kept_whole(adapter: Adapter) -> None:
    request = answered(_embedded=7)
    (event,) = adapter.events(request, "live")
    assert request.fetched is not None
    assert event.body == request.fetched.body


@pytest.mark.parametrize("reversed_at", [None, LATER])
@pytest.mark.parametrize("settled", [None, samples_of.money(0, "EUR")])
def test_who_has_the_money_of_a_chargeback_of_a_payment_by_paypal_is_unknown(
    adapter: Adapter, reversed_at: datetime | None, settled: dict[str, str] | None
) -> None:
    told_back = chargeback(reversed_at) | ({} if settled is None else {"settlementAmount": settled})
    of_payment, *of_chargeback = adapter.events(about(BY_PAYPAL, chargebacks=[told_back]), "live")
    assert of_payment.fact_key == "mollie:tr_1:capture"
    assert len(of_chargeback) == (1 if reversed_at is None else 2)
    for event in of_chargeback:
        assert (event.fact_key, event.entity_key) == (None, "mollie::tr_1")
        with pytest.raises(MovementUnknown):
            adapter.money(event.body, event.event_type)


def test_a_chargeback_of_a_payment_by_paypal_that_mollie_settles_is_deducted_there(adapter: Adapter) -> None:
    settled = BY_PAYPAL | {"settlementAmount": samples_of.money(1_000, "EUR")}
    events = adapter.events(about(settled, chargebacks=[chargeback()]), "live")
    assert [event.fact_key for event in events] == ["mollie:tr_1:capture", "mollie:chb_1:dispute_opened"]
    fact = adapter.money(events[1].body, events[1].event_type)
    assert told("mollieclassic", fact) == "chb_1:dispute_opened 700 EUR of tr_1"
