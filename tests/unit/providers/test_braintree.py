"""Braintree: proven by the HMAC of the form's payload, one pair an API key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import warnings
from pathlib import Path
from urllib.parse import parse_qsl, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SettingError, Unparseable
from load.samples import sign
from load.samples.braintree import transaction_event
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.shapes import NOW
from tests.unit.providers.shapes import refusal as refusal_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK warns of names of its own
    from braintree import BraintreeGateway, Configuration, Environment
    from braintree.exceptions.invalid_signature_error import InvalidSignatureError

PUBLIC, PRIVATE = "integration_public_key", "integration_private_key"
SECRET = f"{PUBLIC}:{PRIVATE}"
TWO_PAIRS = "braintree/pay_subscription_cancelled.form"
ADAPTER = build_adapters(ProvidersSettings())["braintree"]
XML = transaction_event(
    "transaction_settled", transaction="tx1", merchant_account="M1", amount="12.50", currency="EUR", triggered=NOW
)
SIGNED = sign(ADAPTER, XML, SECRET, NOW)
FIELDS = dict(parse_qsl(SIGNED.body.decode()))
SIGNATURE, PAYLOAD = FIELDS["bt_signature"], FIELDS["bt_payload"]


def sdk(secret: str = SECRET) -> BraintreeGateway:
    public, private = secret.split(":")
    return BraintreeGateway(Configuration(Environment.Sandbox, "merchant", public_key=public, private_key=private))


def sdk_takes(signature: str, payload: str, secret: str = SECRET) -> bool:
    try:
        sdk(secret).webhook_notification.parse(signature, payload)
    except InvalidSignatureError:
        return False
    return True


def refusal(body: bytes, *secrets: str, content_type: str | None = None) -> str | None:
    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    return refusal_of(ADAPTER, Request(body, headers), *(secrets or (SECRET,)))


def form(*fields: tuple[str, str]) -> bytes:
    return urlencode(fields).encode()


def posted(signature: str, payload: str = PAYLOAD) -> bytes:
    return form(("bt_signature", signature), ("bt_payload", payload))


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
        assert refusal(posted(f"{other}&{PUBLIC}|{ours}")) is None
        assert refusal(posted(f"{PUBLIC}|{ours}&{other}")) is None


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
    mine = refusal(posted(spoilt)) is None
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
    assert refusal(posted(signature, payload)) == mine, difference
    if isinstance(theirs, bool):
        assert sdk_takes(signature, payload) == theirs, difference
        return
    with pytest.raises(theirs):
        sdk_takes(signature, payload)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "missing"),
        (form(("bt_payload", PAYLOAD)), "missing"),
        (form(("bt_signature", SIGNATURE)), "missing"),
        (form(("BT_SIGNATURE", SIGNATURE), ("bt_payload", PAYLOAD)), "missing"),
        (posted(""), "missing"),
        (posted(SIGNATURE.partition("|")[2]), "missing"),
        (posted(SIGNATURE.replace(PUBLIC, "another_key")), "mismatch"),
        (posted(SIGNATURE.replace("|", " | ")), "mismatch"),
        (posted(SIGNATURE + "\n"), "mismatch"),
        (posted(SIGNATURE.upper()), "mismatch"),
        (posted("&".join([f"k{n}|{'0' * 40}" for n in range(17)])), "malformed"),
        (posted("é"), "malformed"),
        (posted(SIGNATURE, ""), "malformed"),
        (posted(SIGNATURE, "<xml/>"), "malformed"),
        (posted(SIGNATURE, PAYLOAD.replace("\n", "\r\n")), "malformed"),
        (posted(SIGNATURE, PAYLOAD + " "), "malformed"),
        (posted(SIGNATURE, PAYLOAD + "\x00"), "malformed"),
        (posted(SIGNATURE, PAYLOAD + "\n"), "mismatch"),
        (form(("bt_signature", SIGNATURE), ("bt_payload", PAYLOAD), ("bt_payload", PAYLOAD)), "malformed"),
        (form(("bt_signature", SIGNATURE), ("bt_signature", SIGNATURE), ("bt_payload", PAYLOAD)), "malformed"),
        (form(*((f"f{n}", "") for n in range(20)), ("bt_signature", SIGNATURE), ("bt_payload", PAYLOAD)), "malformed"),
        (SIGNED.body + b"&", "malformed"),
        (SIGNED.body + b"&novalue", "malformed"),
        (SIGNED.body + "&é=1".encode(), "malformed"),
        (SIGNED.body + b"&x=%ff", "malformed"),
        (SIGNED.body.replace(b"&", b";"), "missing"),
        (SIGNED.body.replace(b"%2B", b"+").replace(b"%0A", b"\n"), "malformed"),
        (b'{"bt_signature":"x","bt_payload":"y"}', "malformed"),
    ],
)  # fmt: skip
def test_what_is_no_signed_form_is_refused(body: bytes, reason: str) -> None:
    assert refusal(body) == reason


def test_a_field_that_braintree_may_add_changes_nothing() -> None:
    assert refusal(SIGNED.body + b"&bt_more=1") is None


@pytest.mark.parametrize(
    ("content_type", "reason"),
    [
        (None, None),
        ("application/x-www-form-urlencoded", None),
        ("Application/X-WWW-Form-URLencoded; charset=UTF-8", None),
        ("application/json", "malformed"),
        ("multipart/form-data", "malformed"),
        ("application/x-www-form-urlencodedx", "malformed"),
        ("", "malformed"),
    ],
)
def test_another_content_type_than_a_forms_is_refused(content_type: str | None, reason: str | None) -> None:
    assert refusal(SIGNED.body, content_type=content_type) == reason


@pytest.mark.parametrize("secret", ["", PUBLIC, ":", f"{PUBLIC}:", f":{PRIVATE}", "a b:c", "a|b:c", "a:é", "a:b c"])
def test_what_is_no_api_key_is_refused_as_a_secret(adapter: Adapter, secret: str) -> None:
    with pytest.raises(SettingError):
        adapter.check_secret(secret)
    with pytest.raises(SettingError):
        adapter.verify(Request(SIGNED.body, []), [secret], NOW)


@pytest.mark.parametrize("payload", ["", "AAAA=AAA", "A", base64.encodebytes(b"").decode(), quote_plus(PAYLOAD), "é"])
def test_a_payload_that_isnt_base64_is_poison(adapter: Adapter, payload: str) -> None:
    with pytest.raises(Unparseable):
        adapter.events(Request(posted(SIGNATURE, payload), []), "live")
