"""Events of payhook's own making: one form for all providers, the same for the same fact."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from core.errors import Unparseable
from core.event import Dedupe, from_record
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from providers.fields import ContentVersionUnknown
from providers.reconciled import (
    RECONCILED,
    Origin,
    ReconciledReader,
    build_reconciled_event,
    build_reconciled_headers,
    choose_reader,
)
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from tests.settlement_reports import AT

FACT = MoneyFact("stripe:re_1:refund", Movement.REFUND, "acct_1", "pi_1", Money(500, "EUR"))
ORIGIN = Origin("20260131T120000Z-abcdef", "balance.csv", "ab" * 32, 17, "Ada Łovelace", "webhook lost")


def event(tenant: str | None = None, fact: MoneyFact = FACT, origin: Origin = ORIGIN):
    return build_reconciled_event("stripe", fact, "stripe:acct_1:pi_1", AT, origin, "live", tenant)


def test_what_is_read_again_is_the_fact() -> None:
    made = event()
    assert ReconciledReader().money(made.body, made.event_type) == FACT
    assert (made.fact_key, made.fact_sha256) == (FACT.fact_key, FACT.sha256)


def test_a_payout_has_no_payment_and_may_go_either_way() -> None:
    payout = MoneyFact("stripe:po_1:payout_paid", Movement.PAYOUT_PAID, "", None, Money(-5, "JPY"))
    made = event(fact=payout)
    assert ReconciledReader().money(made.body, made.event_type) == payout


def test_the_same_fact_found_again_is_the_same_event() -> None:
    once, again = event(), event(origin=replace(ORIGIN, run_id="later", line=4, actor="Bob", reason="again"))
    assert (once.event_key, once.content_sha256) == (again.event_key, again.content_sha256)
    assert once.body != again.body
    assert ReconciledReader().content_sha256(again.body, 1) == once.content_sha256


def test_the_same_fact_with_another_amount_is_a_conflict() -> None:
    other = event(fact=replace(FACT, money=Money(501, "EUR")))
    assert other.event_key == event().event_key
    assert other.content_sha256 != event().content_sha256


def test_its_key_is_no_key_that_an_adapter_gives() -> None:
    assert event().event_key == f"stripe:re_1:refund:{RECONCILED}"


def test_a_tenants_keys_are_scoped_and_its_body_isnt() -> None:
    made = event("shop-a")
    assert made.event_key.startswith("shop-a~stripe:re_1")
    assert (made.entity_key, made.fact_key) == ("shop-a~stripe:acct_1:pi_1", "shop-a~stripe:re_1:refund")
    assert ReconciledReader().money(made.body, made.event_type) == FACT


def test_its_headers_say_who_made_it_and_are_read_as_a_receivers() -> None:
    made = event()
    headers = build_reconciled_headers(made, ORIGIN, AT)
    received = from_record(made.body, headers)
    assert received.event.event_key == made.event_key
    assert received.event.content_sha256 == made.content_sha256
    assert (received.event.event_type, received.dedupe) == (RECONCILED, Dedupe.DEFERRED)
    assert received.headers["ce_source"] == f"/reconciliations/{ORIGIN.run_id}"
    assert received.headers["reason"] == "webhook lost"
    assert all(value.isascii() for _, value in headers)


def test_only_our_own_types_are_read_by_the_neutral_reader() -> None:
    adapter = StripeAdapter(ProvidersSettings())
    assert choose_reader(adapter, "charge.succeeded") is adapter
    assert isinstance(choose_reader(adapter, RECONCILED), ReconciledReader)
    assert isinstance(choose_reader(adapter, "payhook.of.2031"), ReconciledReader)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"type": "payhook.other"}, Unparseable),
        ({"fact": None}, Unparseable),
        ({"fact": {"fact_key": "", "movement": "refund", "amount_minor": 1, "currency": "EUR"}}, Unparseable),
        ({"fact": {"fact_key": "f", "movement": "gift", "amount_minor": 1, "currency": "EUR"}}, Unparseable),
        ({"fact": {"fact_key": "f", "movement": "refund", "amount_minor": "1", "currency": "EUR"}}, MoneyInvalid),
        ({"fact": {"fact_key": "f", "movement": "refund", "amount_minor": 1, "currency": "eur"}}, MoneyInvalid),
    ],
)
def test_a_body_that_says_too_little_is_refused(change: dict[str, object], error: type[Exception]) -> None:
    body = json.dumps({**json.loads(event().body), **change}).encode()
    with pytest.raises(error):
        ReconciledReader().money(body, RECONCILED)


def test_a_type_of_newer_code_is_refused_and_so_is_a_content_version() -> None:
    with pytest.raises(Unparseable, match="isn't a type that is known here"):
        ReconciledReader().money(event().body, "payhook.of.2031")
    with pytest.raises(ContentVersionUnknown):
        ReconciledReader().content_sha256(event().body, 9)
