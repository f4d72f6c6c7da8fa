"""Stripe: what proves a request, and what its event is called."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.errors import Unparseable
from core.event import Event
from providers import Adapter, ProvidersSettings, Request, SignatureInvalid, build_adapters

SECRET = "whsec_sample"
BODY = b'{"id":"evt_1","type":"charge.succeeded"}'


def mac(body: bytes, signed_at: str, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), signed_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def header(now: datetime, *, age_s: int = 0, body: bytes = BODY, secret: str = SECRET, scheme: str = "v1") -> str:
    """A well-made header; each test spoils one thing."""
    signed_at = str(int(now.timestamp()) - age_s)
    return f"t={signed_at},{scheme}={mac(body, signed_at, secret)}"


def request(*headers: str | bytes, body: bytes = BODY) -> Request:
    raw = [value if isinstance(value, bytes) else value.encode() for value in headers]
    return Request(body, [(b"stripe-signature", value) for value in raw])


def event(adapter: Adapter, document: Any, mode: Any = "live") -> Event:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    (only,) = adapter.events(Request(body, []), mode)
    assert only.body == body
    return only


def refused(adapter: Adapter, of: Request, now: datetime, secrets: list[str] | None = None) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        adapter.verify(of, [SECRET] if secrets is None else secrets, now)
    return caught.value.reason


def test_one_good_signature_of_several_is_enough_while_a_secret_rolls(adapter: Adapter, now: datetime) -> None:
    bad = "0" * 64
    assert adapter.verify(request(f"{header(now)},v1={bad}"), [SECRET], now) == 0
    signed_at = int(now.timestamp())
    assert adapter.verify(request(f"t={signed_at},v1={bad},v1={mac(BODY, str(signed_at))}"), [SECRET], now) == 0


def test_without_a_header_the_signature_is_missing(adapter: Adapter, now: datetime) -> None:
    assert refused(adapter, request(), now) == "missing"


def test_v0_never_counts(adapter: Adapter, now: datetime) -> None:
    assert refused(adapter, request(header(now, scheme="v0")), now) == "missing"
    assert refused(adapter, request(header(now).replace("v1=", "V1=")), now) == "missing"


@pytest.mark.parametrize(
    "signed_at",
    [
        "",
        "now",
        "1_769_8608",
        "١٧٦٩٨٦٠٨٠٠",
        " 1769860800",
        "1769860800 ",
        "1769860800\n",
        "+769860800",
        "-769860800",
        "1769860800.0",
        "nan",
        "inf",
        "0x69696969",
        "176986080",
        "17698608000",
    ],
)
def test_a_timestamp_is_ten_ascii_digits(adapter: Adapter, now: datetime, signed_at: str) -> None:
    assert refused(adapter, request(f"t={signed_at},v1={mac(BODY, signed_at)}"), now) == "malformed"


def test_a_timestamp_is_there_once(adapter: Adapter, now: datetime) -> None:
    signed_at = str(int(now.timestamp()))
    assert refused(adapter, request(f"v1={mac(BODY, signed_at)}"), now) == "malformed"
    assert refused(adapter, request(f"{header(now)},t={signed_at}"), now) == "malformed"


def test_the_tolerance_holds_both_ways_to_the_second(adapter: Adapter, now: datetime) -> None:
    for age_s in (300, -300):
        assert adapter.verify(request(header(now, age_s=age_s)), [SECRET], now) == 0
    assert refused(adapter, request(header(now, age_s=301)), now) == "stale"
    assert refused(adapter, request(header(now, age_s=-301)), now) == "future"
    assert refused(adapter, request(header(now, age_s=300)), now + timedelta(microseconds=1)) == "stale"


def test_a_forged_stale_request_is_a_mismatch_so_that_nothing_is_learnt(adapter: Adapter, now: datetime) -> None:
    assert refused(adapter, request(header(now, age_s=999, secret="other")), now) == "mismatch"


@pytest.mark.parametrize("value", [b"\xff\xfe", "é".encode(), b"0" * 63, b"0" * 65, b"", b"=", b"\x00" * 64])
def test_signatures_of_any_bytes_are_a_mismatch_not_a_crash(adapter: Adapter, now: datetime, value: bytes) -> None:
    made = request(b"t=%d,v1=%b" % (int(now.timestamp()), value))
    assert refused(adapter, made, now) == "mismatch"


def test_the_case_of_the_signature_counts(adapter: Adapter, now: datetime) -> None:
    signed_at = str(int(now.timestamp()))
    assert refused(adapter, request(f"t={signed_at},v1={mac(BODY, signed_at).upper()}"), now) == "mismatch"


def test_a_header_cannot_buy_unbounded_work(adapter: Adapter, now: datetime) -> None:
    assert refused(adapter, request(header(now) + ",v1=0" * 16), now) == "malformed"
    assert adapter.verify(request(header(now) + ",v1=0" * 15), [SECRET], now) == 0


def test_raw_bytes_are_verified_whatever_they_are(adapter: Adapter, now: datetime) -> None:
    for body in (b"", b"\xff\xfe", b"{", b'{"a": 1}\n'):
        assert adapter.verify(request(header(now, body=body), body=body), [SECRET], now) == 0
        assert refused(adapter, request(header(now, body=body), body=body + b" "), now) == "mismatch"


def test_the_key_is_the_whole_text_of_the_secret(adapter: Adapter, adapters: dict[str, Adapter], now: datetime) -> None:
    """``whsec_`` means the text itself here, and the decoded bytes at Standard Webhooks."""
    secret = adapters["standardwebhooks"].new_secret()
    assert refused(adapter, request(header(now, secret=secret.removeprefix("whsec_"))), now, [secret]) == "mismatch"
    assert adapter.verify(request(header(now, secret=secret)), [secret], now) == 0


def test_a_new_secret_begins_as_stripes_do(adapter: Adapter) -> None:
    assert adapter.new_secret().startswith("whsec_")


def test_an_event_has_all_its_names(adapter: Adapter) -> None:
    document = {
        "id": "evt_1",
        "type": "charge.succeeded",
        "account": "acct_1",
        "created": 1769860800,
        "livemode": True,
        "data": {
            "object": {
                "id": "ch_1",
                "payment_intent": "pi_1",
                "captured": True,
                "amount": 900,
                "amount_captured": 800,
                "currency": "eur",
            }
        },
    }
    made = event(adapter, document)
    assert (made.provider, made.event_id, made.event_type) == ("stripe", "evt_1", "charge.succeeded")
    assert made.event_key == "stripe:evt_1:charge.succeeded"
    assert made.entity_key == "stripe:acct_1:pi_1"
    assert made.fact_key == "stripe:ch_1:capture"
    assert made.account == "acct_1"
    assert made.occurred_at == datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    assert made.body_sha256 == hashlib.sha256(json.dumps(document).encode()).hexdigest()
    fact = adapter.money(made.body, made.event_type)
    assert fact is not None
    assert made.fact_sha256 == fact.sha256


@pytest.mark.parametrize(
    ("reported", "payment"),
    [
        ({"id": "re_1", "payment_intent": "pi_1", "charge": "ch_1"}, "pi_1"),
        ({"id": "re_1", "payment_intent": None, "charge": "ch_1"}, "ch_1"),
        ({"id": "re_1", "payment_intent": {"id": "pi_1"}, "charge": {"id": "ch_1"}}, "pi_1"),
        ({"id": "re_1", "payment_intent": None, "charge": {"id": "ch_1"}}, "ch_1"),
        ({"id": "po_1"}, "po_1"),
        ({"id": "po_1", "payment_intent": 7, "charge": []}, "po_1"),
        ({}, "evt_1"),
    ],
)
def test_order_is_kept_for_the_payment(adapter: Adapter, reported: Any, payment: str) -> None:
    made = event(adapter, {"id": "evt_1", "type": "x", "data": {"object": reported}})
    assert made.entity_key == f"stripe::{payment}"


def test_order_is_kept_for_the_merchant_by_configuration() -> None:
    adapter = build_adapters(ProvidersSettings(entity="merchant"))["stripe"]
    document = {"id": "evt_1", "type": "x", "account": "acct_1", "data": {"object": {"id": "pi_1"}}}
    assert event(adapter, document).entity_key == "stripe:acct_1"


@pytest.mark.parametrize(
    ("related", "payment"), [({"id": "mtr_1", "type": "billing.meter"}, "mtr_1"), (None, "evt_1"), ("mtr_1", "mtr_1")]
)
def test_a_thin_event_may_name_what_it_is_related_to(adapter: Adapter, related: Any, payment: str) -> None:
    document = {
        "id": "evt_1",
        "type": "v1.billing.meter.error",
        "created": "2022-02-15T00:27:45.330Z",
        "related_object": related,
    }
    made = event(adapter, document)
    assert made.entity_key == f"stripe::{payment}"
    assert made.occurred_at == datetime(2022, 2, 15, 0, 27, 45, 330_000, UTC)


@pytest.mark.parametrize("created", [None, "soon", 1.5, True, -1, 10**12, [], "2022-02-15T00:27:45"])
def test_a_time_that_cannot_be_read_is_none_and_costs_nothing(adapter: Adapter, created: Any) -> None:
    assert event(adapter, {"id": "evt_1", "type": "x", "created": created}).occurred_at is None


@pytest.mark.parametrize(
    ("livemode", "endpoint", "mode"),
    [
        (True, "live", "live"),
        (True, "test", "live"),
        (False, "live", "test"),
        (None, "test", "test"),
        (None, "live", "live"),
    ],
)
def test_the_signed_live_flag_routes(adapter: Adapter, livemode: Any, endpoint: str, mode: str) -> None:
    assert event(adapter, {"id": "evt_1", "type": "x", "livemode": livemode}, endpoint).mode == mode


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"id":"evt_1","id":"evt_2","type":"x"}',
        {"type": "x"},
        {"id": "evt_1"},
        {"id": "", "type": "x"},
        {"id": "evt_1", "type": ""},
        {"id": 1, "type": "x"},
        {"id": "evt_1", "type": ["x"]},
        {"id": None, "type": "x"},
        {"id": "evt_1", "type": "x", "account": 1},
        {"id": "evt_1", "type": "x", "livemode": "true"},
    ],
)
def test_an_event_without_its_names_is_poison(adapter: Adapter, document: Any) -> None:
    with pytest.raises(Unparseable):
        event(adapter, document)


def test_ids_that_hold_the_separator_are_reported_apart(adapter: Adapter) -> None:
    one = event(adapter, {"id": "a:b", "type": "c"})
    other = event(adapter, {"id": "a", "type": "b:c"})
    assert one.event_key != other.event_key


def test_a_redelivery_has_the_same_content_and_other_bytes(adapter: Adapter) -> None:
    first = event(adapter, {"id": "evt_1", "type": "x", "pending_webhooks": 2, "data": {"object": {"a": 1, "b": 2}}})
    again = event(adapter, {"type": "x", "id": "evt_1", "pending_webhooks": 1, "data": {"object": {"b": 2, "a": 1}}})
    assert first.content_sha256 == again.content_sha256
    assert first.body_sha256 != again.body_sha256


def test_only_the_outer_pending_webhooks_is_left_out(adapter: Adapter) -> None:
    first = event(adapter, {"id": "evt_1", "type": "x", "data": {"pending_webhooks": 2}})
    other = event(adapter, {"id": "evt_1", "type": "x", "data": {"pending_webhooks": 1}})
    assert first.content_sha256 != other.content_sha256


@pytest.mark.parametrize(
    ("one", "other"),
    [("1", "2"), ("0.1", "0.10000000000000000001"), ("9007199254740993.0", "9007199254740992.0"), ('"1"', "1")],
)
def test_other_content_has_another_hash_however_close(adapter: Adapter, one: str, other: str) -> None:
    made = [event(adapter, f'{{"id":"evt_1","type":"x","amount":{amount}}}'.encode()) for amount in (one, other)]
    assert made[0].event_key == made[1].event_key
    assert made[0].content_sha256 != made[1].content_sha256


def test_the_answer_is_small_json(adapter: Adapter) -> None:
    answer = adapter.accepted()
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body) == {"status": "accepted"}
