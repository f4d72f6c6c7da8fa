"""Razorpay: the SDK as an oracle, and an event without a name of its own."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
import razorpay.errors
from hypothesis import given
from hypothesis import strategies as st
from razorpay.utility import Utility

from core.errors import SettingError
from core.money import MoneyFact
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.razorpay import payment, payout
from tests.unit.providers.shapes import NOW, changed, only
from tests.unit.providers.shapes import refusal as refusal_of

SECRET = "new-webhook-secret"
HEADER = b"x-razorpay-signature"


def signed(adapter: Adapter, body: bytes, secret: str = SECRET) -> bytes:
    return sign(adapter, body, secret, NOW).headers["X-Razorpay-Signature"].encode()


def refusal(adapter: Adapter, body: bytes, *signatures: bytes, secrets: tuple[str, ...] = (SECRET,)) -> str | None:
    return refusal_of(adapter, Request(body, [(HEADER, signature) for signature in signatures]), *secrets)


def both(adapter: Adapter, body: bytes, signature: bytes, secret: str = SECRET) -> tuple[str, str]:
    """What we say and what the SDK says: ``accepted``, ``refused`` or the name of what it crashes with."""
    try:
        mine = refusal(adapter, body, signature, secrets=(secret,)) or "accepted"
    except SettingError:
        mine = "SettingError"
    try:
        Utility().verify_webhook_signature(body.decode(), signature.decode("latin-1"), secret)
    except razorpay.errors.SignatureVerificationError:
        return mine, "refused"
    except Exception as crash:
        return mine, type(crash).__name__
    return mine, "accepted"


ADAPTER = build_adapters(ProvidersSettings())["razorpay"]
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(body=_texts, secret=_texts.filter(bool), spoilt=st.binary(max_size=70))
def test_the_sdk_and_we_accept_and_refuse_the_same(body: str, secret: str, spoilt: bytes) -> None:
    signature = signed(ADAPTER, body.encode(), secret)
    assert both(ADAPTER, body.encode(), signature, secret) == ("accepted", "accepted")
    assert both(ADAPTER, body.encode() + b" ", signature, secret) == ("mismatch", "refused")
    if spoilt != signature:
        mine, theirs = both(ADAPTER, body.encode(), spoilt, secret)
        assert (mine, theirs) in (("mismatch", "refused"), ("mismatch", "TypeError"))
        assert theirs == "refused" or not spoilt.isascii()


@pytest.mark.parametrize(
    ("difference", "body", "signature", "secret", "expected"),
    [
        ("a signature beyond ASCII is a mismatch, not a crash", b"{}", b"\xe9", SECRET, ("mismatch", "TypeError")),
        (
            "a body that isn't UTF-8 is verified, not a crash",
            b"\xff",
            signed(ADAPTER, b"\xff"),
            SECRET,
            ("accepted", "UnicodeDecodeError"),
        ),
        (
            "an empty secret is refused, not used as a key",
            b"{}",
            hmac.new(b"", b"{}", hashlib.sha256).hexdigest().encode(),
            "",
            ("SettingError", "accepted"),
        ),
    ],
)
def test_razorpay_is_read_more_strictly_than_by_its_sdk(
    adapter: Adapter, difference: str, body: bytes, signature: bytes, secret: str, expected: tuple[str, str]
) -> None:
    assert both(adapter, body, signature, secret) == expected, difference


@pytest.mark.parametrize("spoilt", [("created_at",), ("payload", "payment", "entity", "id")])
def test_what_has_no_time_or_no_id_is_named_by_its_content(adapter: Adapter, spoilt: tuple[str, ...]) -> None:
    bare = changed(payment(), *spoilt, to=...)
    spaced = json.dumps(json.loads(bare), indent=2).encode()
    event = only(adapter, bare)
    assert event.event_key == f"razorpay:acc_1:{adapter.content_sha256(bare, 1)}:payment.captured"
    assert only(adapter, spaced).event_key == event.event_key
    assert only(adapter, changed(bare, "payload", "payment", "entity", "amount", to=1)).event_key != event.event_key


@pytest.mark.parametrize("event_type", ["payout.reversed", "payout.failed"])
def test_the_fee_of_a_payout_that_came_back_undoes_what_was_booked_of_it(event_type: str) -> None:
    adapter = build_adapters(ProvidersSettings())["razorpay"]
    sent, taken = read_facts(adapter, "payout.processed")
    came_back, given_back = read_facts(adapter, event_type)
    assert (came_back.pair_key, given_back.pair_key) == (sent.pair_key, taken.pair_key)
    assert [fact.is_pair_end for fact in (sent, taken, came_back, given_back)] == [False, False, True, True]


def read_facts(adapter: Adapter, event_type: str) -> list[MoneyFact]:
    events = adapter.events(Request(payout(event_type), ()), "live")
    return [fact for event in events if (fact := adapter.money(event.body, event.event_type)) is not None]
