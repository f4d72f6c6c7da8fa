"""Mollie's classic webhooks: an id comes, the payment is fetched, and the answer is what proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import SettingError, Unparseable
from load.samples import mollie as own
from load.samples import sign
from providers import Adapter, Request, SignatureInvalid
from providers.mollieclassic import MollieClassicAdapter
from providers.port import Fetched, FetchingAdapter
from tests.unit.providers.mollieclassic_answers import KEY, OLD, delivery, payment
from tests.unit.providers.shapes import NOW, refusal


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


def test_it_says_that_it_has_to_fetch(adapters: dict[str, Adapter]) -> None:
    assert isinstance(adapters["mollieclassic"], FetchingAdapter)
    assert not isinstance(adapters["mollie"], FetchingAdapter)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"id=",
        b"id=tr_",
        b"ID=tr_1",
        b"tr_1",
        b"id=tr_1\n",
        b"id=tr_1&id=tr_2",
        b"id=tr_1&x=1",
        b"x=1&id=tr_1",
        b"id=tr_1/../../orders/ord_1",
        b"id=tr_1?embed=x",
        b"id=tr_1%2F..",
        b"id=tr_%31",
        b"id=tr_1#",
        b"id=tr_1+",
        b"id=tr_ 1",
        "id=tr_é".encode(),
        "id=tr_١".encode(),
        b"id=tr_1\x00",
        b"id=\xfftr_1",
        b"id=re_1",
        b"id=sub_1",
        b"id=chb_1",
        b"id=pl_1",
        b"id=stl_1",
        b"id=TR_1",
        b'{"id":"tr_1"}',
        b"id=tr_" + b"x" * 129,
    ],
)
def test_nothing_is_fetched_for_what_is_not_exactly_a_payments_or_an_orders_id(
    adapter: MollieClassicAdapter, body: bytes
) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        adapter.wants(Request(body, []), [KEY])
    assert caught.value.reason == "malformed"
    assert refusal(adapter, Request(body, [], fetched=Fetched(200, own.fetched(payment()), 0)), KEY) == "malformed"


def test_what_mollie_answers_to_our_key_proves_and_which_key_it_was_is_reported(adapter: Adapter) -> None:
    for bearer in (0, 1):
        assert adapter.verify(delivery(own.fetched(payment()), bearer=bearer), [KEY, OLD], NOW) == bearer


@pytest.mark.parametrize("status", [404, 410])
def test_an_id_that_mollie_does_not_know_is_taken_and_tells_nothing(adapter: Adapter, status: int) -> None:
    request = delivery(b'{"status":404,"title":"Not Found"}', status=status)
    assert adapter.verify(request, [KEY], NOW) == 0
    assert adapter.events(request, "live") == []


def test_without_an_answer_nothing_is_proven(adapter: Adapter) -> None:
    assert refusal(adapter, Request(b"id=tr_1", []), KEY) == "missing"
    assert refusal(adapter, delivery(own.fetched(payment()), bearer=1), KEY) == "missing"
    with pytest.raises(Unparseable):
        adapter.events(Request(b"id=tr_1", []), "live")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "malformed"),
        (b"<html>maintenance</html>", "malformed"),
        (b"[]", "malformed"),
        (b'{"resource":"payment","id":"tr_1","id":"tr_1"}', "malformed"),
        (b'{"resource":"payment","id":"tr_2"}', "mismatch"),
        (b'{"resource":"payment","id":"TR_1"}', "mismatch"),
        (b'{"resource":"order","id":"tr_1"}', "mismatch"),
        (b'{"resource":"payment"}', "mismatch"),
        (b'{"id":"tr_1"}', "mismatch"),
    ],
)
def test_an_answer_about_something_else_proves_nothing_so_that_mollie_sends_again(
    adapter: Adapter, answer: bytes, reason: str
) -> None:
    assert refusal(adapter, delivery(answer), KEY) == reason


def test_every_other_id_than_the_fetched_ones_is_refused(adapter: Adapter) -> None:
    """The delivery altered by one bit names another payment, or nothing at all."""
    fetched = Fetched(200, own.fetched(payment() | {"id": "tr_5B8cwPMGnU"}), 0)
    body = b"id=tr_5B8cwPMGnU"
    assert refusal(adapter, Request(body, [], fetched=fetched), KEY) is None
    for at in range(8 * len(body)):
        altered = body[: at // 8] + bytes([body[at // 8] ^ (1 << at % 8)]) + body[at // 8 + 1 :]
        assert refusal(adapter, Request(altered, [], fetched=fetched), KEY) in ("malformed", "mismatch")


@pytest.mark.parametrize(
    "key",
    ["", "live_", "live_short", "dHar4XY7LxsDOtmnkVtjNVWXLSlXsM", "live_" + "é" * 30, KEY + "\n", "Live_" + "a" * 30],
)
def test_a_key_of_another_form_is_a_setting_error_and_never_sent(adapter: MollieClassicAdapter, key: str) -> None:
    with pytest.raises(SettingError):
        adapter.check_secret(key)
    with pytest.raises(SettingError):
        adapter.wants(Request(b"id=tr_1", []), [key])
    with pytest.raises(SettingError):
        adapter.verify(delivery(own.fetched(payment())), [key], NOW)


def test_a_new_secret_is_of_the_form_of_a_key(adapter: Adapter) -> None:
    assert adapter.new_secret() != adapter.new_secret()
    adapter.check_secret(adapter.new_secret())


def test_there_is_nothing_to_sign(adapter: Adapter) -> None:
    signed = sign(adapter, own.classic_delivery("tr_1"), KEY, NOW)
    assert signed.body == b"id=tr_1"
    assert signed.headers == {"Content-Type": "application/x-www-form-urlencoded"}
