"""Braintree: the SDK as an oracle of signatures, and what an event is named by that has no id or time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import warnings
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.money import MoneyInvalid, MovementUnknown
from load.samples import sign
from providers import Request
from tests.unit.providers.samples.braintree import (
    ADAPTER,
    BY_PAYPAL,
    CHECK,
    LISTED_FEE,
    NO_TIMESTAMP,
    PAYLOAD,
    PRIVATE,
    PUBLIC,
    SECRET,
    SIGNATURE,
    changed,
    of_method,
    posted,
    signed_form,
    transaction,
    with_older,
    with_paypals_fee,
)
from tests.unit.providers.shapes import NOW
from tests.unit.providers.shapes import refusal as refusal_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK warns of names of its own
    from braintree import BraintreeGateway, Configuration, Environment
    from braintree.exceptions.invalid_signature_error import InvalidSignatureError

TWO_PAIRS = "braintree/pay_subscription_cancelled.form"


def sdk(secret: str = SECRET) -> BraintreeGateway:
    public, private = secret.split(":")
    return BraintreeGateway(Configuration(Environment.Sandbox, "merchant", public_key=public, private_key=private))


def sdk_takes(signature: str, payload: str, secret: str = SECRET) -> bool:
    try:
        sdk(secret).webhook_notification.parse(signature, payload)
    except InvalidSignatureError:
        return False
    return True


def refusal(body: bytes, *secrets: str) -> str | None:
    return refusal_of(ADAPTER, Request(body, []), *(secrets or (SECRET,)))


def test_a_real_delivery_has_a_pair_for_each_of_the_merchants_keys(samples: Path) -> None:
    """Whose private keys nobody published: each pair is read, and none of them is ours."""
    body = (samples / TWO_PAIRS).read_bytes()
    fields = dict(parse_qsl(body.decode()))
    assert [pair.partition("|")[0] for pair in fields["bt_signature"].split("&")] == [
        "5r59rrxhn89npc9n",
        "htz4dd5m2syd6r7w",
    ]
    assert refusal(body, "5r59rrxhn89npc9n:guess", "htz4dd5m2syd6r7w:guess") == "mismatch"
    for other in fields["bt_signature"].split("&"):
        ours = SIGNATURE.partition("|")[2]
        assert refusal(signed_form(f"{other}&{PUBLIC}|{ours}")) is None
        assert refusal(signed_form(f"{PUBLIC}|{ours}&{other}")) is None


@given(st.binary(min_size=1, max_size=200))
def test_what_is_signed_is_the_payload_with_its_line_ends(body: bytes) -> None:
    fields = dict(parse_qsl(sign(ADAPTER, body, SECRET, NOW).body.decode()))
    key = hashlib.sha1(PRIVATE.encode()).digest()
    expected = hmac.new(key, fields["bt_payload"].encode(), hashlib.sha1).hexdigest()
    assert fields["bt_signature"] == f"{PUBLIC}|{expected}"
    assert base64.b64decode(fields["bt_payload"]) == body


def test_what_we_sign_the_sdk_takes_and_reads() -> None:
    notification = sdk().webhook_notification.parse(SIGNATURE, PAYLOAD)
    assert (notification.kind, notification.transaction.id) == ("transaction_settled", "tx1")
    assert str(notification.transaction.amount) == "12.50"


@given(st.text(st.sampled_from("|&:ab01" + PUBLIC[0]), max_size=20), st.integers(0, len(SIGNATURE)))
def test_spoilt_signatures_both_refuse(junk: str, at: int) -> None:
    spoilt = SIGNATURE[:at] + junk + SIGNATURE[at:]
    mine = refusal(signed_form(spoilt)) is None
    try:
        theirs = sdk_takes(spoilt, PAYLOAD)
    except ValueError:
        assert any(pair.count("|") > 1 for pair in spoilt.split("&"))
        return
    assert mine == theirs


@pytest.mark.parametrize(
    ("difference", "signature", "payload", "expected"),
    [
        ("a payload without its last line end is another payload", SIGNATURE, PAYLOAD.rstrip("\n"), ("mismatch", True)),
        (
            "of two pairs for one key either may be right, not the first alone",
            f"{PUBLIC}|{'0' * 40}&{SIGNATURE}",
            PAYLOAD,
            (None, False),
        ),
        ("a pair is two parts, not the first two of three", f"{SIGNATURE}|more", PAYLOAD, ("mismatch", ValueError)),
    ],
    ids=range(3),
)
def test_where_we_differ_from_the_sdk(
    difference: str, signature: str, payload: str, expected: tuple[str | None, bool | type[Exception]]
) -> None:
    mine, theirs = expected
    assert refusal(signed_form(signature, payload)) == mine, difference
    if isinstance(theirs, bool):
        assert sdk_takes(signature, payload) == theirs, difference
        return
    with pytest.raises(theirs):
        sdk_takes(signature, payload)


@pytest.mark.parametrize(
    "xml",
    [CHECK, transaction("transaction_settled", ("<id>tx1</id>", "")), transaction("transaction_settled", NO_TIMESTAMP)],
)
def test_what_has_no_id_or_time_is_named_by_its_content(xml: bytes) -> None:
    (event,) = ADAPTER.events(posted(xml), "live")
    assert event.event_id == ADAPTER.content_sha256(event.body, 1)
    assert event.poison is None


def test_an_events_bytes_are_its_xml() -> None:
    (event,) = ADAPTER.events(posted(transaction()), "live")
    assert event.body == transaction()


@pytest.mark.parametrize("kind", ["paypal-account", "granted-payment-instrument-update"])
def test_a_payment_methods_event_is_named_by_its_content(kind: str) -> None:
    (event,) = ADAPTER.events(posted(of_method(kind)), "live")
    assert event.event_id == ADAPTER.content_sha256(event.body, 1)


@pytest.mark.parametrize("field", ["transaction-fee-amount", "refund-from-transaction-fee-amount"])
def test_what_paypal_took_or_gave_back_of_its_fee_for_a_refund_is_unknown_and_the_refund_books(field: str) -> None:
    settled = transaction("transaction_settled", BY_PAYPAL, refund_of="tx0")
    events = ADAPTER.events(with_paypals_fee(settled, name=field), "live")
    assert [event.fact_key for event in events] == ["braintree:tx1:refund", None]
    with pytest.raises(MovementUnknown, match=field):
        ADAPTER.money(events[1].body, events[1].event_type)


def test_an_earlier_charge_without_an_id_waits_for_a_person() -> None:
    events = ADAPTER.events(posted(with_older("behind").replace(b"<id>tx0</id>", b"")), "live")
    of_charge, of_earlier = [event for event in events if event.event_type.startswith("subscription_charged")]
    assert of_charge.fact_key == "braintree:tx1:capture"
    with pytest.raises(MoneyInvalid, match="no id"):
        ADAPTER.money(of_earlier.body, of_earlier.event_type)


@pytest.mark.parametrize("status", ["voided", "settlement_declined"])
def test_who_has_the_service_fee_of_an_earlier_charge_that_came_to_nothing_is_unknown(status: str) -> None:
    events = ADAPTER.events(posted(changed(with_older("behind", status), LISTED_FEE)), "live")
    of_charge, of_earlier, of_fee = events
    assert [of_charge.fact_key, of_earlier.fact_key] == ["braintree:tx1:capture", "braintree:tx0:capture_failed"]
    with pytest.raises(MovementUnknown, match="service-fee-amount"):
        ADAPTER.money(of_fee.body, of_fee.event_type)


def test_an_earlier_charge_is_of_its_own_merchant_account() -> None:
    events = ADAPTER.events(posted(with_older("behind", merchant_account="M0")), "live")
    facts = [ADAPTER.money(event.body, event.event_type) for event in events]
    assert [event.account for event in events] == ["M1", "M0"]
    assert [fact and fact.account for fact in facts] == ["M1", "M0"]
