"""GoCardless: a batch is proven as a whole, and each of its events is named with its own bytes."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unparseable
from core.event import POISON_TYPE, Event, Mode
from core.money import MoneyInvalid
from load.samples import sign
from load.samples.gocardless import GoCardlessEvent, batch, payment_event
from providers import Adapter, ModeMismatch, ProvidersSettings, Request, build_adapters
from providers.gocardless import ITEMS_MAX, LEFT_TO_A_PERSON
from tests.unit.providers.shapes import NO_MONEY, NOW, Row, changed, names, only, refusal

SECRET = "new-webhook-secret"
HEADER, ORIGIN = b"webhook-signature", b"origin"
LIVE, SANDBOX = b"https://api.gocardless.com", b"https://api-sandbox.gocardless.com"
ADAPTER = build_adapters(ProvidersSettings())["gocardless"]
BODY = payment_event("confirmed", event_id="EV1", payment="PM1", created=NOW)


def signed(body: bytes, secret: str = SECRET) -> bytes:
    return sign(ADAPTER, body, secret, NOW).headers["Webhook-Signature"].encode()


GOOD = signed(BODY)


@given(st.binary(max_size=200), st.text(min_size=1, max_size=60))
def test_what_is_signed_is_the_raw_body_with_the_secrets_text(body: bytes, secret: str) -> None:
    assert signed(body, secret) == hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()


def test_a_bad_signature_is_answered_with_the_status_that_gocardless_wants(adapter: Adapter) -> None:
    assert adapter.signature_status == 498


IDENTITIES: dict[str, tuple[Row, ...]] = {
    "docs_mandate_cancelled": (
        (
            "gocardless:EV123:mandates.cancelled",
            "gocardless:OR123:MD123",
            *NO_MONEY,
            "2014-08-04T12:00:00+00:00",
        ),
    ),
    "vector_two_events": (
        (
            "gocardless:EV00BD05S5VM2T:subscriptions.created",
            "gocardless::SB0003JJQ2MR06",
            *NO_MONEY,
            "2018-07-05T09:13:51.404000+00:00",
        ),
        (
            "gocardless:EV00BD05TB8K63:mandates.created",
            "gocardless::MD000AMA19XGEC",
            *NO_MONEY,
            "2018-07-05T09:13:56.893000+00:00",
        ),
    ),
}


def identity(event: Event) -> Row:
    assert event.occurred_at is not None
    assert ADAPTER.money(event.body, event.event_type) is None
    assert (event.fact_key, event.fact_sha256) == (None, None)
    return event.event_key, event.entity_key, *NO_MONEY, event.occurred_at.isoformat()


def test_every_sample_is_named_as_written_down_by_hand(samples: Path, adapter: Adapter) -> None:
    assert names(samples / "gocardless") == sorted(IDENTITIES)
    for name, expected in IDENTITIES.items():
        body = (samples / f"gocardless/{name}.json").read_bytes()
        assert tuple(identity(event) for event in adapter.events(Request(body, []), "live")) == expected, name


def event_about(resource_type: str, action: str, **links: str) -> Event:
    return only(ADAPTER, batch([GoCardlessEvent("EV1", resource_type, action, links, NOW)]))


@pytest.mark.parametrize(
    ("resource_type", "links", "entity"),
    [
        ("payments", {"payment": "PM1"}, "PM1"),
        ("payments", {"payment": "PM1", "payout": "PO1", "parent_event": "EV0"}, "PM1"),
        ("refunds", {"refund": "RF1", "payment": "PM1"}, "PM1"),
        ("refunds", {"refund": "RF1"}, "RF1"),
        ("subscriptions", {"subscription": "SB1", "payment": "PM1"}, "PM1"),
        ("subscriptions", {"subscription": "SB1"}, "SB1"),
        ("mandates", {"mandate": "MD1", "customer_bank_account": "BA1"}, "MD1"),
        ("payouts", {"payout": "PO1"}, "PO1"),
        ("instalment_schedules", {"instalment_schedule": "IS1"}, "IS1"),
        ("billing_requests", {"billing_request": "BRQ1", "customer": "CU1"}, "BRQ1"),
        ("payments", {"payment": "PM1", "creditor": "CR1"}, "PM1"),
        ("refunds", {"refund": "RF1", "creditor": "CR1"}, "RF1"),
        ("payer_authorisations", {"payer_authorisation": "PAU1", "mandate": "MD1"}, "PAU1"),
        ("customer_bank_accounts", {"customer_bank_account": "BA1", "customer": "CU1"}, "BA1"),
        ("something_new", {"customer": "CU1"}, "EV1"),
        ("payments", {}, "EV1"),
    ],
)
def test_all_events_of_a_payment_share_one_entity(resource_type: str, links: dict[str, str], entity: str) -> None:
    assert event_about(resource_type, "updated", **links).entity_key == f"gocardless::{entity}"


def test_a_partners_merchants_are_reported_apart(adapter: Adapter) -> None:
    body = payment_event("confirmed", event_id="EV1", payment="PM1", created=NOW, organisation="OR1")
    assert (only(adapter, body).account, only(adapter, body).entity_key) == ("OR1", "gocardless:OR1:PM1")
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["gocardless"]
    assert only(merchant, body).entity_key == "gocardless:OR1"


def test_each_event_of_a_batch_keeps_its_own_bytes(adapter: Adapter) -> None:
    first = '{ "id":"EV1","resource_type":"payments", "action":"confirmed","links":{"payment":"PM1"},"n":1.50 }'
    second = '{"id":"EV2","resource_type":"payments","action":"failed","links":{"payment":"PM\\u0032"}}'
    body = f'{{"meta":{{"webhook_id":"WB1"}},\n"events" : [ {first} ,\t{second}] }}'.encode()
    events = adapter.events(Request(body, []), "live")
    assert [event.body for event in events] == [first.encode(), second.encode()]
    assert [event.entity_key for event in events] == ["gocardless::PM1", "gocardless::PM2"]


@pytest.mark.parametrize(
    ("field", "wrong"), [("id", ...), ("id", ""), ("id", 7), ("action", None), ("resource_type", []), ("links", "PM1")]
)
def test_one_bad_event_of_a_good_batch_is_poison_beside_the_good_ones(
    adapter: Adapter, field: str, wrong: object
) -> None:
    document = json.loads(batch([GoCardlessEvent(f"EV{n}", "payments", "paid_out", {}, NOW) for n in range(3)]))
    if wrong is ...:
        del document["events"][1][field]
    else:
        document["events"][1][field] = wrong
    body = json.dumps(document).encode()
    good, bad, last = adapter.events(Request(body, []), "live")
    assert (good.event_id, last.event_id) == ("EV0", "EV2")
    assert (bad.event_type, bad.event_id) == (POISON_TYPE, hashlib.sha256(bad.body).hexdigest())
    assert json.loads(bad.body) == document["events"][1]
    assert good.poison is None


@pytest.mark.parametrize("item", [None, 7, "EV1", [], True])
def test_what_is_no_event_at_all_is_poison_too(adapter: Adapter, item: object) -> None:
    body = json.dumps({"events": [item, json.loads(BODY)["events"][0]]}).encode()
    bad, good = adapter.events(Request(body, []), "live")
    assert (bad.event_type, good.event_key) == (POISON_TYPE, "gocardless:EV1:payments.confirmed")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"events":{}}',
        b'{"events":[]}',
        b'{"events":null}',
        b'{"events":[1],"events":[2]}',
        b'{"events":[' + b",".join([b"{}"] * (ITEMS_MAX + 1)) + b"]}",
        BODY.decode().encode("utf-16"),
    ],
)
def test_what_is_no_batch_is_poison_as_a_whole(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        adapter.events(Request(body, []), "live")


@pytest.mark.parametrize(
    ("origins", "endpoint", "allowed"),
    [
        ([LIVE], "live", True),
        ([SANDBOX], "test", True),
        ([SANDBOX], "live", False),
        ([LIVE], "test", False),
        ([], "live", True),
        ([], "test", True),
        ([b"https://somewhere.example.com"], "live", True),
        ([LIVE, SANDBOX], "live", False),
        ([LIVE, SANDBOX], "test", False),
    ],
)
def test_an_origin_that_says_otherwise_than_the_endpoint_is_refused(
    adapter: Adapter, origins: list[bytes], endpoint: Mode, allowed: bool
) -> None:
    request = Request(BODY, [(ORIGIN, origin) for origin in origins])
    if allowed:
        assert [event.mode for event in adapter.events(request, endpoint)] == [endpoint]
        return
    with pytest.raises(ModeMismatch) as caught:
        adapter.events(request, endpoint)
    assert caught.value.endpoint == endpoint


def test_two_origins_prove_nothing() -> None:
    request = Request(BODY, [(HEADER, GOOD), (ORIGIN, LIVE), (ORIGIN, SANDBOX)])
    assert refusal(ADAPTER, request, SECRET) == "several"


def test_the_content_is_the_events_own_and_not_its_batchs(adapter: Adapter) -> None:
    first, again = (payment_event("confirmed", event_id="EV1", payment="PM1", created=NOW, delivery=n) for n in (1, 2))
    assert first != again
    assert only(adapter, first).content_sha256 == only(adapter, again).content_sha256
    event = only(adapter, first)
    assert adapter.content_sha256(event.body, 1) == event.content_sha256
    assert adapter.content_sha256(changed(event.body, "details", "cause", to="other"), 1) != event.content_sha256


@pytest.mark.parametrize(
    ("resource_type", "links", "account"),
    [
        ("creditors", {"creditor": "CR1"}, "CR1"),
        ("creditors", {"creditor": "CR1", "organisation": "OR1"}, "OR1"),
        ("organisations", {"organisation": "OR1"}, "OR1"),
        ("payouts", {"payout": "PO1", "creditor": "CR1"}, "CR1"),
        ("payments", {"payment": "PM1", "creditor": "CR1"}, ""),
        ("mandates", {"mandate": "MD1"}, ""),
    ],
)
def test_an_event_names_the_merchant_that_its_links_name(
    resource_type: str, links: dict[str, str], account: str
) -> None:
    assert event_about(resource_type, "updated", **links).account == account


@pytest.mark.parametrize(
    "event_type",
    [
        *("payments.created", "payments.submitted", "payments.failed", "payments.charged_back", "payments.paid_out"),
        *("payments.surcharge_fee_debited", "refunds.created", "refunds.paid", "refunds.failed"),
        *("payouts.fx_rate_confirmed", "mandates.active", "outbound_payments.created"),
    ],
)
def test_what_announces_or_reports_again_moves_nothing(adapter: Adapter, event_type: str) -> None:
    body = changed(only(adapter, BODY).body, "amount", to=1_250)
    assert adapter.money(body, event_type) is None
    with pytest.raises(Unparseable):
        adapter.money(b"1250", event_type)


@pytest.mark.parametrize("event_type", sorted(LEFT_TO_A_PERSON))
def test_what_moves_money_is_for_a_person_because_no_event_says_how_much(adapter: Adapter, event_type: str) -> None:
    resource_type, _, action = event_type.partition(".")
    event = event_about(resource_type, action, payment="PM1")
    assert (event.event_type, event.fact_key, event.poison) == (event_type, None, None)
    with pytest.raises(MoneyInvalid, match=f"{event_type} .* manual entry"):
        adapter.money(event.body, event_type)


def test_the_types_left_to_a_person_are_these() -> None:
    left = ("confirmed", "late_failure_settled", "chargeback_settled", "chargeback_cancelled")
    others = ("refunds.refund_settled", "refunds.funds_returned", "payouts.paid", "creditors.bounced_payout")
    accounts = ("outbound_payments.executed", "payment_account_transaction.created")
    assert frozenset({*(f"payments.{action}" for action in left), *others, *accounts}) == LEFT_TO_A_PERSON
