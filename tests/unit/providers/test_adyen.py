"""Adyen: every item of a request is proven."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from core.errors import SettingError, Unparseable
from load.samples import sign
from providers import (
    Adapter,
    Request,
    SignatureInvalid,
)
from tests.unit.providers.adyen_items import KEY, body, item, signature, signed

OTHER_KEY = "CD" * 32
FIELDS = ("pspReference", "originalReference", "merchantAccountCode", "merchantReference", "eventCode", "success")


def refused(adapter: Adapter, of: bytes, now: datetime, secrets: list[str] | None = None) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        adapter.verify(Request(of, []), [KEY] if secrets is None else secrets, now)
    return caught.value.reason


def test_the_index_of_the_key_that_signed_is_reported_and_of_several_items_the_oldest(
    adapter: Adapter, now: datetime
) -> None:
    keys = [KEY, OTHER_KEY]
    assert adapter.verify(Request(body(signed(item())), []), keys, now) == 0
    assert adapter.verify(Request(body(signed(item(), OTHER_KEY)), []), keys, now) == 1
    both = body(signed(item()), signed(item(pspReference="PSP2"), OTHER_KEY), signed(item(pspReference="PSP3")))
    assert adapter.verify(Request(both, []), keys, now) == 1


@pytest.mark.parametrize("name", FIELDS)
def test_each_signed_field_counts(adapter: Adapter, now: datetime, name: str) -> None:
    genuine = signed(item())
    assert refused(adapter, body({**genuine, name: genuine[name] + "x"}), now) == "mismatch"
    without = {key: value for key, value in genuine.items() if key != name}
    assert refused(adapter, body(without), now) == "mismatch"


@pytest.mark.parametrize(
    "amount", [{"value": 1001, "currency": "EUR"}, {"value": 1000, "currency": "USD"}, {}, ..., None]
)
def test_the_amount_counts(adapter: Adapter, now: datetime, amount: Any) -> None:
    assert refused(adapter, body({**signed(item()), "amount": None if amount is ... else amount}), now) == "mismatch"


@pytest.mark.parametrize(
    "changed", [{"originalReference": ...}, {"merchantReference": ...}, {"amount": ...}, {"amount": {}}]
)
def test_a_missing_field_is_signed_as_empty_and_so_is_null(
    adapter: Adapter, now: datetime, changed: dict[str, Any]
) -> None:
    made = signed(item(**changed))
    assert adapter.verify(Request(body(made), []), [KEY], now) == 0
    nulled = {**made, **{name: None for name, value in changed.items() if value is ...}}
    assert adapter.verify(Request(body(nulled), []), [KEY], now) == 0


@pytest.mark.parametrize("reference", [":", "a:b", "\\", "\\:", "/", "é:ü", "a\nb", '"'])
def test_the_merchants_reference_is_signed_unescaped_whatever_it_holds(
    adapter: Adapter, now: datetime, reference: str
) -> None:
    assert adapter.verify(Request(body(signed(item(merchantReference=reference))), []), [KEY], now) == 0


def test_a_colon_cannot_shift_one_fields_text_into_its_neighbour(adapter: Adapter, now: datetime) -> None:
    """Both items have the same signed bytes; only one of them was signed by Adyen."""
    genuine = signed(item(merchantAccountCode="Main", merchantReference="order:1"))
    shifted = {**genuine, "merchantAccountCode": "Main:order", "merchantReference": "1"}
    assert signature(genuine) == signature(shifted)
    assert adapter.verify(Request(body(genuine), []), [KEY], now) == 0
    assert refused(adapter, body(shifted), now) == "malformed"


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": {"value": "1000", "currency": "EUR"}},
        {"amount": {"value": 1000.0, "currency": "EUR"}},
        {"amount": {"value": True, "currency": "EUR"}},
        {"success": True},
        {"pspReference": 1},
        {"merchantReference": ["order-1"]},
        {"eventCode": "CAPTURE:"},
    ],
)
def test_a_signed_field_of_another_kind_is_refused(adapter: Adapter, now: datetime, changed: dict[str, Any]) -> None:
    assert refused(adapter, body({**signed(item()), **changed}), now) == "malformed"


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (None, "missing"),
        ({}, "missing"),
        ({"hmacSignature": None}, "missing"),
        ({"hmacSignature": ""}, "missing"),
        ("text", "missing"),
        ({"hmacSignature": 1}, "malformed"),
        ({"hmacSignature": "é"}, "mismatch"),
        ({"hmacSignature": "\x00"}, "mismatch"),
        ({"hmacSignature": "x" * 44}, "mismatch"),
    ],
)
def test_an_item_without_a_good_signature_is_refused(adapter: Adapter, now: datetime, extra: Any, reason: str) -> None:
    assert refused(adapter, body(signed(item()), {**item(), "additionalData": extra}), now) == reason


@pytest.mark.parametrize(
    "of",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"live":"true","notificationItems":[]}',
        b'{"live":"true","notificationItems":{}}',
        b'{"live":"true","notificationItems":[{}]}',
        b'{"live":"true","notificationItems":[{"NotificationRequestItem":[]}]}',
        b'{"live":"true","notificationItems":["text"]}',
    ],
)
def test_where_there_is_nothing_to_prove_nothing_is_proven(adapter: Adapter, now: datetime, of: bytes) -> None:
    assert refused(adapter, of, now) == "malformed"


def test_a_field_that_comes_twice_is_refused_before_anyone_picks_one(adapter: Adapter, now: datetime) -> None:
    twice = body(signed(item())).replace(b'"pspReference": "PSP1"', b'"pspReference": "PSP1", "pspReference": "PSP9"')
    assert refused(adapter, twice, now) == "malformed"


def test_the_number_of_items_is_bounded(adapter: Adapter, now: datetime) -> None:
    assert refused(adapter, body(*[signed(item())] * 257), now) == "malformed"


@pytest.mark.parametrize("secret", ["", "ABC", "XY", "AB CD", "whsec_AB", "AB\n"])
def test_a_key_is_pairs_of_hexadecimal_digits(adapter: Adapter, now: datetime, secret: str) -> None:
    with pytest.raises(SettingError, match="secrets/adyen"):
        adapter.check_secret(secret)
    with pytest.raises(SettingError):
        adapter.verify(Request(body(signed(item())), []), [secret], now)


def test_the_case_of_the_key_does_not_count(adapter: Adapter, now: datetime) -> None:
    assert adapter.verify(Request(body(signed(item())), []), [KEY.lower()], now) == 0


def test_what_is_signed_here_is_accepted_here(adapter: Adapter, now: datetime) -> None:
    secret = adapter.new_secret()
    adapter.check_secret(secret)
    first = {**item(), "additionalData": {"kept": "yes", "hmacSignature": "old"}, "ratio": 0.10}
    made = sign(adapter, body(first, item(pspReference="PSP2")), secret, now)
    assert adapter.verify(Request(made.body, []), [secret], now) == 0
    assert b'"kept":"yes"' in made.body
    assert made.headers == {"Content-Type": "application/json"}
    with pytest.raises(Unparseable):
        sign(adapter, b'{"notificationItems":[]}', secret, now)
