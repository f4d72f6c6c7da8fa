"""The official SDKs as oracles: the same inputs through both, and every intended difference by its name."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, tzinfo
from types import SimpleNamespace
from typing import Any, Self

import pytest
import standardwebhooks.webhooks as standard_sdk
import stripe as stripe_sdk
from Adyen.util import generate_notification_sig, is_valid_hmac_notification
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.http_fields import split_list
from load.samples import sign
from providers import Adapter, ProvidersSettings, Request, SignatureInvalid, build_adapters
from tests.examples import examples

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
ADAPTERS = build_adapters(ProvidersSettings())
SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
KEY = "AB" * 32
every_example = hypothesis_settings(max_examples=examples(200))


class FrozenDatetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW_S, tz)


@pytest.fixture(autouse=True)
def the_sdks_clocks_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stripe._webhook.time", SimpleNamespace(time=lambda: float(NOW_S)))
    monkeypatch.setattr(standard_sdk, "datetime", FrozenDatetime)


def ours(adapter: Adapter, request: Request, secret: str) -> str:
    try:
        adapter.verify(request, [secret], NOW)
    except SignatureInvalid as refused:
        return refused.reason
    return "accepted"


def stripe_both(body: bytes, header: str | bytes, secret: str = SECRET) -> tuple[str, str]:
    """What we say and what the SDK says: ``accepted``, ``refused`` or the name of what it crashes with.

    Blanks around a list's members, and empty ones, are no part of a header's value (RFC 9110, section 5.6.1).
    """
    raw = b",".join(split_list(header if isinstance(header, bytes) else header.encode()))
    mine = ours(ADAPTERS["stripe"], Request(body, [(b"stripe-signature", raw)]), secret)
    try:
        stripe_sdk.WebhookSignature.verify_header(body, raw.decode("latin-1"), secret, 300)
    except stripe_sdk.SignatureVerificationError:
        return mine, "refused"
    except Exception as crash:
        return mine, type(crash).__name__
    return mine, "accepted"


def stripe_header(body: str, signed_at: int = NOW_S, secret: str = SECRET) -> str:
    header: str = stripe_sdk.WebhookSignature.generate_signature_header(body, secret, signed_at)
    return header


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@every_example
@given(_texts, st.integers(-300, 0), st.text(st.characters(codec="ascii"), min_size=1, max_size=30).filter(str.strip))
def test_what_stripes_sdk_signs_both_accept(body: str, age_s: int, secret: str) -> None:
    assert stripe_both(body.encode(), stripe_header(body, NOW_S + age_s, secret), secret) == ("accepted", "accepted")


@every_example
@given(_texts)
def test_what_we_sign_stripes_sdk_accepts(body: str) -> None:
    signed = sign(ADAPTERS["stripe"], body.encode(), SECRET, NOW)
    assert stripe_both(signed.body, signed.headers["Stripe-Signature"]) == ("accepted", "accepted")


@every_example
@example("", " ", 0)
@example("", ", ", 13)
@given(_texts, st.text(st.sampled_from("tv01=,9 abcdef"), max_size=30), st.integers(0, 90))
def test_spoilt_headers_both_refuse(body: str, junk: str, at: int) -> None:
    good = stripe_header(body)
    spoilt = good[:at] + junk + good[at:]
    mine, theirs = stripe_both(body.encode(), spoilt)
    if theirs != "accepted":
        assert mine != "accepted"
    elif mine != "accepted":
        assert difference_of(spoilt) is not None, spoilt


def difference_of(header: str) -> str | None:
    """Why we refuse a header that the SDK takes."""
    parts = header.split(",")
    times = [part[2:] for part in parts if part.startswith("t=")]
    if len(times) > 1:
        return "two timestamps"
    if not (len(times[0]) == 10 and times[0].isdigit()):
        return "a timestamp that int() takes and we don't"
    if any(part.count("=") > 1 for part in parts):
        return "text behind a second ="
    return None


@pytest.mark.parametrize(
    ("difference", "header", "expected"),
    [
        ("a timestamp in the future is refused, not taken", stripe_header("{}", NOW_S + 301), ("future", "accepted")),
        ("of two timestamps none is picked", stripe_header("{}") + ",t=1", ("malformed", "accepted")),
        (
            "a timestamp is ten digits, not what int() takes",
            stripe_header("{}").replace("t=", "t= "),
            ("malformed", "accepted"),
        ),
        (
            "digits with underscores are no timestamp",
            stripe_header("{}").replace("t=17698", "t=1_7698"),
            ("malformed", "accepted"),
        ),
        ("a signature beyond ASCII is a mismatch, not a crash", f"t={NOW_S},v1=\xff", ("mismatch", "TypeError")),
        ("text behind a second = is part of the signature", stripe_header("{}") + "=x", ("mismatch", "accepted")),
    ],
)
def test_stripe_is_read_more_strictly_than_by_its_sdk(difference: str, header: str, expected: tuple[str, str]) -> None:
    assert stripe_both(b"{}", header.encode("latin-1")) == expected, difference


def test_stripe_a_body_that_is_not_utf8_is_verified_not_a_crash() -> None:
    body = b"\xff"
    header = sign(ADAPTERS["stripe"], body, SECRET, NOW).headers["Stripe-Signature"]
    assert stripe_both(body, header) == ("accepted", "UnicodeDecodeError")
    assert stripe_both(body, f"t={NOW_S},v1={'0' * 64}") == ("mismatch", "UnicodeDecodeError")


def test_stripe_and_its_sdk_agree_on_age() -> None:
    for age_s in (0, 299, 300):
        assert stripe_both(b"{}", stripe_header("{}", NOW_S - age_s)) == ("accepted", "accepted")
    assert stripe_both(b"{}", stripe_header("{}", NOW_S - 301)) == ("stale", "refused")


def adyen_both(items: list[dict[str, Any]], key: str = KEY) -> tuple[str, str]:
    document = {"live": "true", "notificationItems": [{"NotificationRequestItem": item} for item in items]}
    mine = ours(ADAPTERS["adyen"], Request(json.dumps(document).encode(), []), key)
    try:
        valid = is_valid_hmac_notification(document, key)
    except Exception as crash:
        return mine, type(crash).__name__
    return mine, {True: "accepted", False: "refused", None: "None"}[valid]


def adyen_item(**changed: Any) -> dict[str, Any]:
    return {
        "pspReference": "PSP1",
        "originalReference": "ORIGINAL1",
        "merchantAccountCode": "Main",
        "merchantReference": "order-1",
        "amount": {"value": 1000, "currency": "EUR"},
        "eventCode": "CAPTURE",
        "success": "true",
        **changed,
    }


def adyen_signed(item: dict[str, Any], key: str = KEY) -> dict[str, Any]:
    signature = generate_notification_sig(item, key).decode()
    return {**item, "additionalData": {"hmacSignature": signature}}


_plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":"), max_size=12)


@every_example
@given(_plain, _plain, _plain, _texts, st.integers(-(2**60), 2**60), st.sampled_from(["true", "false"]), st.booleans())
def test_what_adyens_sdk_signs_both_accept(
    reference: str, original: str, account: str, merchant: str, value: int, success: str, has_original: bool
) -> None:
    item = adyen_item(
        pspReference=reference,
        merchantAccountCode=account,
        merchantReference=merchant,
        amount={"value": value, "currency": "EUR"},
        success=success,
        originalReference=original,
    )
    if not has_original:
        del item["originalReference"]
    assert adyen_both([adyen_signed(item)]) == ("accepted", "accepted")
    assert adyen_both([adyen_signed(item)], "CD" * 32) == ("mismatch", "refused")
    changed = {**adyen_signed(item), "merchantReference": merchant + "x"}
    assert adyen_both([changed]) == ("mismatch", "refused")


@every_example
@given(_plain, _texts)
def test_what_we_sign_adyens_sdk_accepts(reference: str, merchant: str) -> None:
    item = adyen_item(pspReference=reference, merchantReference=merchant)
    body = json.dumps({"live": "true", "notificationItems": [{"NotificationRequestItem": item}]}).encode()
    signed = json.loads(sign(ADAPTERS["adyen"], body, KEY, NOW).body)
    assert is_valid_hmac_notification(signed, KEY) is True


FORGED = {**adyen_signed(adyen_item()), "amount": {"value": 9_999_999, "currency": "EUR"}}


@pytest.mark.parametrize(
    ("difference", "items", "expected"),
    [
        ("every item is checked, not the first alone", [adyen_signed(adyen_item()), FORGED], ("mismatch", "accepted")),
        ("an unsigned item is refused, not passed over", [adyen_item()], ("missing", "None")),
        (
            "an empty signature is refused, not a crash",
            [adyen_item(additionalData={"hmacSignature": ""})],
            ("missing", "ValueError"),
        ),
        (
            "no signature beside other data is refused, not a crash",
            [adyen_item(additionalData={})],
            ("missing", "KeyError"),
        ),
        (
            "a signature beyond ASCII is a mismatch, not a crash",
            [adyen_item(additionalData={"hmacSignature": "é"})],
            ("mismatch", "TypeError"),
        ),
        (
            "a ':' where it could shift fields is refused",
            [adyen_signed(adyen_item(merchantAccountCode="Main:order", merchantReference="1"))],
            ("malformed", "accepted"),
        ),
        (
            "an amount is an integer, not whatever prints the same",
            [adyen_signed(adyen_item(amount={"value": "1000", "currency": "EUR"}))],
            ("malformed", "accepted"),
        ),
        (
            "null is signed as empty, as by Adyen's other SDKs, not as 'None'",
            [adyen_signed(adyen_item(originalReference=None))],
            ("mismatch", "accepted"),
        ),
        ("no items prove nothing, and are no crash", [], ("malformed", "IndexError")),
    ],
)
def test_adyen_is_read_more_strictly_than_by_its_sdk(
    difference: str, items: list[dict[str, Any]], expected: tuple[str, str]
) -> None:
    assert adyen_both(items) == expected, difference


def standard_both(body: bytes, headers: dict[str, str], secret: str = SECRET) -> tuple[str, str]:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    mine = ours(ADAPTERS["standardwebhooks"], Request(body, raw), secret)
    try:
        standard_sdk.Webhook(secret).verify(body, headers, json_parse=False)
    except standard_sdk.WebhookVerificationError:
        return mine, "refused"
    except Exception as crash:
        return mine, type(crash).__name__
    return mine, "accepted"


def standard_headers(
    body: str, signed_at: int = NOW_S, message_id: str = "msg_1", secret: str = SECRET
) -> dict[str, str]:
    at = datetime.fromtimestamp(signed_at, UTC)
    signature = standard_sdk.Webhook(secret).sign(message_id, at, body)
    return {"webhook-id": message_id, "webhook-timestamp": str(signed_at), "webhook-signature": signature}


_ids = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="."), min_size=1, max_size=30)
"""The SDK takes dots as well. They end the id in what is signed, and are refused here."""


@every_example
@given(_texts, st.integers(-300, 300), _ids, st.binary(min_size=1, max_size=64))
def test_what_the_standard_sdk_signs_both_accept(body: str, age_s: int, message_id: str, key: bytes) -> None:
    secret = "whsec_" + base64.b64encode(key).decode()
    headers = standard_headers(body, NOW_S + age_s, message_id, secret)
    assert standard_both(body.encode(), headers, secret) == ("accepted", "accepted")
    assert standard_both(body.encode() + b" ", headers, secret) == ("mismatch", "refused")


@every_example
@given(_texts, _ids)
def test_what_we_sign_the_standard_sdk_accepts(body: str, message_id: str) -> None:
    signed = sign(ADAPTERS["standardwebhooks"], body.encode(), SECRET, NOW, message_id)
    assert standard_both(signed.body, signed.headers) == ("accepted", "accepted")


@pytest.mark.parametrize("age_s", [301, -301])
def test_the_standard_sdk_and_we_agree_on_age(age_s: int) -> None:
    reason = "stale" if age_s > 0 else "future"
    assert standard_both(b"{}", standard_headers("{}", NOW_S - age_s)) == (reason, "refused")


SIGNED = standard_headers("{}")


@pytest.mark.parametrize(
    ("difference", "changed", "expected"),
    [
        (
            "a timestamp is ten digits, not what float() takes",
            {"webhook-timestamp": f"{NOW_S}.5"},
            ("malformed", "accepted"),
        ),
        (
            "a signature has one spelling; bits that base64 drops count",
            {"webhook-signature": SIGNED["webhook-signature"] + "="},
            ("mismatch", "accepted"),
        ),
        (
            "what isn't a signature is passed over, not a crash",
            {"webhook-signature": "nonsense " + SIGNED["webhook-signature"]},
            ("accepted", "ValueError"),
        ),
        (
            "a signature beyond base64 is a mismatch, not a crash",
            {"webhook-signature": "v1,\xff"},
            ("mismatch", "ValueError"),
        ),
        ("not a number is no time", {"webhook-timestamp": "nan"}, ("malformed", "refused")),
    ],
)
def test_standard_webhooks_are_read_more_strictly_than_by_the_sdk(
    difference: str, changed: dict[str, str], expected: tuple[str, str]
) -> None:
    assert standard_both(b"{}", {**SIGNED, **changed}) == expected, difference


def test_standard_a_body_that_is_not_utf8_is_verified_not_a_crash() -> None:
    signed = sign(ADAPTERS["standardwebhooks"], b"\xff", SECRET, NOW, "msg_1")
    assert standard_both(b"\xff", signed.headers) == ("accepted", "UnicodeDecodeError")


def test_the_same_secret_text_is_two_keys() -> None:
    """``whsec_`` is text at Stripe and base64 at Standard Webhooks; an SDK of one never accepts the other's."""
    body, message = b"{}", "{}"
    header = stripe_header(message)
    decoded_key = base64.b64decode(SECRET.removeprefix("whsec_")).decode()
    assert stripe_both(body, header) == ("accepted", "accepted")
    assert stripe_both(body, stripe_header(message, secret=decoded_key)) == ("mismatch", "refused")
