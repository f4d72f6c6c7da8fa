"""Standard Webhooks: what proves a request, and what its event is called."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from core.errors import SettingError, Unparseable
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from load.samples import sign
from providers import (
    Adapter,
    MoneyRule,
    ProvidersSettings,
    Request,
    SignatureInvalid,
    StandardWebhooksSettings,
    build_adapters,
)

KEY = b"k" * 24
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = b'{"type":"payment.captured"}'


def mac(message_id: str, signed_at: str, body: bytes = BODY, key: bytes = KEY) -> str:
    message = f"{message_id}.{signed_at}.".encode() + body
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()


def headers(now: datetime, *, prefix: str = "webhook-", message_id: str = "msg_1", age_s: int = 0) -> dict[str, str]:
    """Well-made headers; each test spoils one thing."""
    signed_at = str(int(now.timestamp()) - age_s)
    return {
        f"{prefix}id": message_id,
        f"{prefix}timestamp": signed_at,
        f"{prefix}signature": f"v1,{mac(message_id, signed_at)}",
    }


def request(of: dict[str, str], body: bytes = BODY) -> Request:
    return Request(body, [(name.encode(), value.encode()) for name, value in of.items()])


def refused(adapter: Adapter, of: Request, now: datetime, secrets: list[str] | None = None) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        adapter.verify(of, [SECRET] if secrets is None else secrets, now)
    return caught.value.reason


@pytest.mark.parametrize("prefix", ["webhook-", "svix-"])
def test_both_families_of_names_are_verified(adapter: Adapter, now: datetime, prefix: str) -> None:
    other = adapter.new_secret()
    assert adapter.verify(request(headers(now, prefix=prefix)), [other, SECRET], now) == 1


def test_families_of_names_do_not_mix(adapter: Adapter, now: datetime) -> None:
    mixed = headers(now)
    mixed["svix-signature"] = mixed.pop("webhook-signature")
    assert refused(adapter, request(mixed), now) == "missing"


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_header_is_there_once(adapter: Adapter, now: datetime, name: str) -> None:
    whole = headers(now)
    without = {key: value for key, value in whole.items() if key != name}
    assert refused(adapter, request(without), now) == "missing"
    pairs = [*request(whole).headers, (name.encode(), whole[name].encode())]
    assert refused(adapter, Request(BODY, pairs), now) == "several"


def test_one_good_signature_of_several_is_enough(adapter: Adapter, now: datetime) -> None:
    made = headers(now)
    good = made["webhook-signature"]
    for header in (f"v1,AAAA {good}", f"{good} v1a,AAAA", f"v2,AAAA v1a,BBBB {good} v1,"):
        assert adapter.verify(request({**made, "webhook-signature": header}), [SECRET], now) == 0


@pytest.mark.parametrize("header", ["", "v1a,{0}", "v2,{0}", "{0}", "V1,{0}", "v1 {0}"])
def test_only_version_one_counts(adapter: Adapter, now: datetime, header: str) -> None:
    made = headers(now)
    bare = made["webhook-signature"].removeprefix("v1,")
    assert refused(adapter, request({**made, "webhook-signature": header.format(bare)}), now) == "missing"


def test_another_spelling_of_the_same_signature_is_refused(adapter: Adapter, now: datetime) -> None:
    """Bits that base64 throws away must not make a second valid signature."""
    made = headers(now)
    good = made["webhook-signature"]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".index(good[-2])
    twin = good[:-2] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[last ^ 1] + "="
    assert base64.b64decode(twin[3:]) == base64.b64decode(good[3:])
    for spelling in (twin, good.rstrip("="), good[:5] + "\n" + good[5:]):
        assert refused(adapter, request({**made, "webhook-signature": spelling}), now) == "mismatch"


@pytest.mark.parametrize("value", [b"v1,\xff\xfe", "v1,é".encode(), b"v1,", b"v1,\x00"])
def test_signatures_of_any_bytes_are_a_mismatch_not_a_crash(adapter: Adapter, now: datetime, value: bytes) -> None:
    pairs = [(name, value if name.endswith(b"signature") else text) for name, text in request(headers(now)).headers]
    assert refused(adapter, Request(BODY, pairs), now) == "mismatch"


@pytest.mark.parametrize("signed_at", ["", "nan", "inf", "1769860800.0", "1_769_8608", " 1769860800", "17698608001"])
def test_a_timestamp_is_ten_ascii_digits(adapter: Adapter, now: datetime, signed_at: str) -> None:
    made = {**headers(now), "webhook-timestamp": signed_at, "webhook-signature": f"v1,{mac('msg_1', signed_at)}"}
    assert refused(adapter, request(made), now) == "malformed"


@pytest.mark.parametrize("message_id", ["", "a b", "é", "a\n", "x" * 257])
def test_an_id_is_printable_ascii(adapter: Adapter, now: datetime, message_id: str) -> None:
    assert refused(adapter, request(headers(now, message_id=message_id)), now) == "malformed"


def test_secrets_are_base64_with_or_without_their_prefix_and_padding(adapter: Adapter, now: datetime) -> None:
    for key in (b"k" * 24, b"k" * 25, b"k" * 26):
        encoded = base64.b64encode(key).decode()
        signed_at = str(int(now.timestamp()))
        made = {**headers(now), "webhook-signature": f"v1,{mac('msg_1', signed_at, key=key)}"}
        for secret in (encoded, "whsec_" + encoded, "whsec_" + encoded.rstrip("=")):
            adapter.check_secret(secret)
            assert adapter.verify(request(made), [secret], now) == 0


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_é", "whsec_a", "whsec_AA AA", "whpk_####"])
def test_a_secret_of_another_form_is_refused_and_not_used(adapter: Adapter, now: datetime, secret: str) -> None:
    with pytest.raises(SettingError, match="secrets/standardwebhooks"):
        adapter.check_secret(secret)
    with pytest.raises(SettingError):
        adapter.verify(request(headers(now)), [secret], now)


def test_what_is_signed_here_is_accepted_here(adapter: Adapter, now: datetime) -> None:
    secret = adapter.new_secret()
    for event_id in (None, "msg_7"):
        signed = sign(adapter, BODY, secret, now, event_id)
        of = request({name.lower(): value for name, value in signed.headers.items()}, signed.body)
        assert adapter.verify(of, [secret], now) == 0
        (event,) = adapter.events(of, "live")
        assert event_id is None or event.event_id == event_id
        assert event.body == BODY


def test_an_event_has_all_its_names(adapter: Adapter, now: datetime) -> None:
    document = {
        "type": "payment.captured",
        "timestamp": "2026-01-31T12:00:00.5Z",
        "data": {"payment": "pay_1", "account": "shop"},
    }
    (event,) = adapter.events(request(headers(now), json.dumps(document).encode()), "test")
    assert event.event_key == "standardwebhooks:msg_1:payment.captured"
    assert event.entity_key == "standardwebhooks:shop:pay_1"
    assert (event.account, event.mode, event.fact_key) == ("shop", "test", None)
    assert event.occurred_at == datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)


def test_an_event_without_an_entity_is_one_of_its_own(adapter: Adapter, now: datetime) -> None:
    (event,) = adapter.events(request(headers(now)), "live")
    assert (event.entity_key, event.occurred_at) == ("standardwebhooks::msg_1", None)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"type":""}', b'{"type":1}', b'{"type":"a","type":"b"}', b"\xff"]
)
def test_an_event_without_its_names_is_poison(adapter: Adapter, now: datetime, body: bytes) -> None:
    with pytest.raises(Unparseable):
        adapter.events(request(headers(now), body), "live")


def test_the_whole_body_is_content(adapter: Adapter, now: datetime) -> None:
    bodies = [b'{"type":"a","n":1.0}', b'{ "n":1.0, "type":"a"}', b'{"type":"a","n":1.00}']
    made = [adapter.events(request(headers(now), body), "live")[0] for body in bodies]
    assert made[0].content_sha256 == made[1].content_sha256 != made[2].content_sha256
    for event in made:
        assert adapter.content_sha256(event.body, event.content_version) == event.content_sha256


OWN = StandardWebhooksSettings(
    type="/event~1name",
    occurred_at="/at",
    entity="/order/0/id",
    account="/shop",
    money=(
        MoneyRule(
            event_type="paid", movement=Movement.CAPTURE, id="/payment", amount="/sum/minor", currency="/sum/code"
        ),
    ),
)
PAID = {
    "event/name": "paid",
    "at": 1769860800,
    "order": [{"id": 77}],
    "shop": "s1",
    "payment": "p1",
    "sum": {"minor": 1250, "code": "eur"},
}


def own(document: dict[str, Any], now: datetime) -> tuple[Any, Adapter]:
    adapter = build_adapters(ProvidersSettings(standardwebhooks=OWN))["standardwebhooks"]
    (event,) = adapter.events(request(headers(now), json.dumps(document).encode()), "live")
    return event, adapter


def test_a_senders_body_is_described_by_settings(now: datetime) -> None:
    event, adapter = own(PAID, now)
    assert (event.event_type, event.entity_key) == ("paid", "standardwebhooks:s1:77")
    assert event.occurred_at == datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    fact = adapter.money(event.body, "paid")
    assert fact == MoneyFact("standardwebhooks:s1:p1:capture", Movement.CAPTURE, "s1", "77", Money(1250, "EUR"))
    assert (event.fact_key, event.fact_sha256) == (fact.fact_key, fact.sha256)
    assert adapter.money(event.body, "refunded") is None


@pytest.mark.parametrize(
    "change", [{"payment": None}, {"payment": ""}, {"sum": {}}, {"sum": {"minor": 1.5, "code": "EUR"}}]
)
def test_money_that_cannot_be_trusted_loses_no_event_and_books_nothing(now: datetime, change: dict[str, Any]) -> None:
    event, adapter = own({**PAID, **change}, now)
    assert (event.event_type, event.fact_key) == ("paid", None)
    with pytest.raises(MoneyInvalid):
        adapter.money(event.body, "paid")


@pytest.mark.parametrize("pointer", ["", "type", "/a~2b", "/a~"])
def test_a_wrong_pointer_is_found_at_start(pointer: str) -> None:
    with pytest.raises(ValidationError):
        StandardWebhooksSettings(type=pointer)
