"""Signed, and not readable or full of surprises: kept and answered 2xx, as sending it again can't mend it.

Nothing of a body reaches a Kafka key or header raw.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.ingest.conftest import ReceiverUnderTest, Record, Servers

KIB = 1_024
KEY_CHARS_MAX = 1_100
"""Four parts of at most 256 characters."""


def plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def assert_nothing_raw(record: Record) -> None:
    key, _, headers = record
    assert len(key) <= KEY_CHARS_MAX
    for text in (key.decode("ascii"), *headers, *headers.values()):
        assert plain(text) and len(text) <= KEY_CHARS_MAX, text[:100]


def event(receiver: ReceiverUnderTest, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A Stripe event with something changed, in JSON as Python writes it."""
    document: dict[str, Any] = json.loads(receiver.stripe("1")[0])
    change(document)
    return json.dumps(document).encode()


def within(receiver: ReceiverUnderTest, value: bytes) -> bytes:
    """An event in order, with ``value`` as one more field's."""
    return receiver.stripe("1")[0].rstrip()[:-1] + b', "more": ' + value + b"}"


Body = Callable[[ReceiverUnderTest], bytes]

UNREADABLE: dict[str, Body] = {
    "nothing": lambda r: b"",
    "blanks": lambda r: b" \r\n\t",
    "no JSON": lambda r: b"id=evt_1&type=charge.succeeded",
    "a number": lambda r: b"17",
    "a text": lambda r: b'"evt_1"',
    "null": lambda r: b"null",
    "an array": lambda r: b'[{"id": "evt_1", "type": "charge.succeeded"}]',
    "half a document": lambda r: r.stripe("1")[0][:-20],
    "a document and more": lambda r: r.stripe("1")[0] + b"{}",
    "a comment": lambda r: within(r, b"1 /* one */"),
    "a comma too many": lambda r: within(r, b"[1,]"),
    "single quotes": lambda r: within(r, b"'1'"),
    "nesting of 65": lambda r: within(r, b"[" * 65 + b"]" * 65),
    "nesting of 100,000": lambda r: within(r, b"[" * 100_000 + b"]" * 100_000),
    "nesting without end": lambda r: b"[" * 1_000_000,
    "objects nested 100,000 deep": lambda r: within(r, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "an id twice": lambda r: b'{"id": "evt_other", ' + r.stripe("1")[0].lstrip(b"{"),
    "an amount twice": lambda r: r.stripe("1")[0].replace(b'"amount": 500', b'"amount": 5, "amount": 500'),
    "a key twice, once escaped": lambda r: b'{"\\u0069d": "evt_other", ' + r.stripe("1")[0].lstrip(b"{"),
    "NaN": lambda r: within(r, b"NaN"),
    "Infinity": lambda r: within(r, b"-Infinity"),
    "an integer of 5,000 digits": lambda r: within(r, b"9" * 5_000),
    "an integer beyond 64 bits": lambda r: within(r, b"18446744073709551616"),
    "an amount beyond 64 bits": lambda r: r.stripe("1")[0].replace(b'"amount": 500', b'"amount": 18446744073709551616'),
    "an exponent without end": lambda r: within(r, b"1e" + b"9" * 400),
    "a number with a leading zero": lambda r: within(r, b"007"),
    "half a surrogate pair, escaped": lambda r: within(r, b'"\\ud800"'),
    "half a surrogate pair in an id": lambda r: event(r, lambda e: e.update(id="evt_\ud800")),
    "half a surrogate pair, raw": lambda r: within(r, b'"\xed\xa0\x80"'),
    "bytes that are no UTF-8": lambda r: within(r, b'"\xff\xfe"'),
    "an overlong slash": lambda r: within(r, b'"\xc0\xaf"'),
    "UTF-16": lambda r: r.stripe("1")[0].decode().encode("utf-16"),
    "UTF-16 without a mark": lambda r: r.stripe("1")[0].decode().encode("utf-16-le"),
    "UTF-32": lambda r: r.stripe("1")[0].decode().encode("utf-32"),
    "a byte order mark": lambda r: b"\xef\xbb\xbf" + r.stripe("1")[0],
    "a NUL in a text": lambda r: within(r, b'"\x00"'),
    "a line end in a text": lambda r: within(r, b'"a\r\nb"'),
    "no id": lambda r: event(r, lambda e: e.pop("id")),
    "an empty id": lambda r: event(r, lambda e: e.update(id="")),
    "a number for an id": lambda r: event(r, lambda e: e.update(id=17)),
    "a list for an id": lambda r: event(r, lambda e: e.update(id=["evt_1"])),
    "no type": lambda r: event(r, lambda e: e.pop("type")),
    "a text for the live flag": lambda r: event(r, lambda e: e.update(livemode="true")),
    "a number for an account": lambda r: event(r, lambda e: e.update(account=1)),
}


@pytest.mark.row("A7")
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=[name.replace(" ", "_") for name in UNREADABLE])
def test_what_cannot_be_read_is_one_poison_record_with_its_exact_bytes(
    receiver: ReceiverUnderTest, servers: Servers, body: Body
) -> None:
    signed = receiver.signed("stripe", body(receiver))
    servers.empty_redis()
    with servers.publishing(1) as published:
        answer = receiver.post(signed)
        assert answer.status_code == 200, answer.text
        assert receiver.post(signed).headers["idempotent-replayed"] == "true"
    [(key, value, headers)] = published
    assert value == signed[0]
    digest = hashlib.sha256(value).hexdigest()
    assert key.decode() == headers["entity_key"] == f"stripe:poison:{digest}"
    assert (headers["ce_type"], headers["event_key"]) == ("poison", f"stripe:{digest}:poison")
    assert headers["poison"]
    assert "fact_key" not in headers
    assert_nothing_raw(published[0])


SURPRISING: dict[str, Callable[[dict[str, Any]], object]] = {
    "NUL in the id": lambda e: e.update(id=e["id"] + "\x00"),
    "CR and LF in the id": lambda e: e.update(id=e["id"] + "\r\nevent_key: stripe:other"),
    "separators in the id": lambda e: e.update(id=e["id"] + ":charge.succeeded:%3A"),
    "an id outside ASCII": lambda e: e.update(id=e["id"] + "é\u202e\U0001f4b3"),
    "an id of 64 KiB": lambda e: e.update(id=e["id"] + "x" * 64 * KIB),
    "CR and LF in the type": lambda e: e.update(type="charge\r\nsucceeded"),
    "a type of 64 KiB": lambda e: e.update(type="x" * 64 * KIB),
    "NUL in the account": lambda e: e.update(account="acct\x00"),
    "an account of 64 KiB": lambda e: e.update(account="x" * 64 * KIB),
    "CR and LF in the payment": lambda e: e["data"]["object"].update(payment_intent="pi\r\n1"),
    "a payment of 64 KiB": lambda e: e["data"]["object"].update(payment_intent="x" * 64 * KIB),
    "CR and LF in the charge": lambda e: e["data"]["object"].update(id="ch\r\n1"),
    "a charge of 64 KiB": lambda e: e["data"]["object"].update(id="x" * 64 * KIB),
}


@pytest.mark.parametrize("change", SURPRISING.values(), ids=[name.replace(" ", "_") for name in SURPRISING])
def test_whatever_an_id_holds_keys_and_headers_stay_plain_and_short(
    receiver: ReceiverUnderTest, servers: Servers, change: Callable[[dict[str, Any]], object]
) -> None:
    signed = receiver.signed("stripe", event(receiver, change))
    with servers.publishing(1) as published:
        assert receiver.post(signed).status_code == 200
        assert receiver.post(signed).headers["idempotent-replayed"] == "true"
    [record] = published
    assert "poison" not in record[2]
    assert record[1] == signed[0]
    assert_nothing_raw(record)


@pytest.mark.parametrize(
    "amount",
    ["500", 500.0, 5.5, True, None, [500], {"value": 500}, 5e2, -0.0, 1e300],
    ids=["text", "float", "fraction", "bool", "null", "list", "object", "exponent", "minus_zero", "huge"],
)
def test_an_amount_that_is_no_integer_moves_no_money(
    receiver: ReceiverUnderTest, servers: Servers, amount: object
) -> None:
    """The event goes on without its fact: the handler then says what is wrong with it."""
    body = event(receiver, lambda e: e["data"]["object"].update(amount=amount, amount_captured=amount))
    with servers.publishing(1) as published:
        assert receiver.post(receiver.signed("stripe", body)).status_code == 200
    [(_, value, headers)] = published
    assert value == body
    assert "fact_key" not in headers and "poison" not in headers


def test_the_same_event_in_order_does_move_money(receiver: ReceiverUnderTest, servers: Servers) -> None:
    with servers.publishing(1) as published:
        assert receiver.post(receiver.stripe("1")).status_code == 200
    assert "fact_key" in published[0][2]


ELSEWHERE = {
    "adyen": b'{"live": "true", "notificationItems": [{"NotificationRequestItem": {"eventCode": "CAPTURE"}}]}',
    "standardwebhooks": b'{"type": "a", "type": "b"}',
    "razorpay": b'{"event": NaN}',
    "checkout": b"\xff\xfe",
    "paddle": b'"evt"',
    "gocardless": b'{"events": {"id": "EV1"}}',
    "mollie": b"[]",
}


@pytest.mark.parametrize("provider", sorted(ELSEWHERE))
def test_every_providers_unreadable_bytes_are_kept(
    receiver: ReceiverUnderTest, servers: Servers, provider: str
) -> None:
    signed = receiver.signed(provider, ELSEWHERE[provider])
    servers.empty_redis()
    with servers.publishing(1) as published:
        assert 200 <= receiver.post(signed, provider).status_code < 300
    assert published[0][1] in signed[0], "the request's bytes, or one item's"
    assert published[0][2]["ce_type"] == "poison"
    assert_nothing_raw(published[0])
