"""Square: the notification URL is the endpoint's, from the settings; and the SDK as an oracle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from square.utils.webhooks_helper import verify_signature

from core.errors import SettingError, Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import sign
from load.samples import square as samples_of
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.square import UNREADABLE_FEES
from tests.unit.providers.shapes import NOW
from tests.unit.providers.shapes import refusal as refusal_of

SECRET = "new-signature-key"
HEADER, ENVIRONMENT = b"x-square-hmacsha256-signature", b"square-environment"
URL, OTHER_URL = "https://hooks.example.com/webhooks/square", "https://hooks.example.com/webhooks/square/sandbox"


def square(**urls: str) -> Adapter:
    return build_adapters(ProvidersSettings.model_validate({"square": {"notification_urls": urls}}))["square"]


ADAPTER = square(default=URL, sandbox=OTHER_URL)


@pytest.fixture
def adapter() -> Adapter:
    return ADAPTER


def signed(body: bytes, secret: str = SECRET, endpoint: str = "default") -> bytes:
    headers = sign(ADAPTER, body, secret, NOW, endpoint=endpoint).headers
    return headers["x-square-hmacsha256-signature"].encode()


def refusal(
    adapter: Adapter, body: bytes, *signatures: bytes, secrets: tuple[str, ...] = (SECRET,), endpoint: str = "default"
) -> str | None:
    request = Request(body, [(HEADER, signature) for signature in signatures], endpoint)
    return refusal_of(adapter, request, *secrets)


BODY = samples_of.payment_event(
    "payment.updated",
    event_id="e-1",
    payment="PAYMENT1",
    account="M1",
    amount_minor=1_250,
    currency="USD",
    created=NOW,
)
GOOD = signed(BODY)


def test_an_endpoint_without_its_url_says_which_setting_is_missing(adapter: Adapter) -> None:
    with pytest.raises(SettingError, match=r"providers\.square\.notification_urls\.payouts"):
        adapter.verify(Request(BODY, [(HEADER, GOOD)], "payouts"), [SECRET], NOW)
    with pytest.raises(SettingError, match="notification_urls"):
        sign(adapter, BODY, SECRET, NOW, endpoint="payouts")
    assert refusal_of(adapter, Request(BODY, [], "payouts"), SECRET) == "missing"


@pytest.mark.parametrize(
    "url", ["", "hooks.example.com", "https://", "https://a.example/ ", " https://a.example/", "x"]
)
def test_a_url_that_can_not_be_one_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValidationError):
        square(default=url)


# The SDK as an oracle.


def both(body: bytes, signature: bytes | None, secret: str = SECRET) -> tuple[str, str]:
    """What we say and what the SDK says: ``accepted``, ``refused`` or the name of what it crashes with."""
    try:
        mine = refusal(ADAPTER, body, *(() if signature is None else (signature,)), secrets=(secret,)) or "accepted"
    except SettingError:
        mine = "SettingError"
    try:
        holds = verify_signature(
            request_body=body.decode(),
            signature_header=None if signature is None else signature.decode("latin-1"),  # type: ignore[arg-type]
            signature_key=secret,
            notification_url=URL,
        )
    except Exception as crash:
        return mine, type(crash).__name__
    return mine, "accepted" if holds else "refused"


_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(body=_texts, secret=_texts, spoilt=st.binary(max_size=60))
def test_the_sdk_and_we_accept_and_refuse_the_same(body: str, secret: str, spoilt: bytes) -> None:
    signature = signed(body.encode(), secret)
    assert both(body.encode(), signature, secret) == ("accepted", "accepted")
    assert both(body.encode() + b" ", signature, secret) == ("mismatch", "refused")
    if spoilt != signature:
        assert both(body.encode(), spoilt, secret) == ("mismatch", "refused")


@pytest.mark.parametrize(
    ("difference", "body", "signature", "secret", "expected"),
    [
        ("no signature is missing, not a crash", b"{}", None, SECRET, ("missing", "AttributeError")),
        ("an empty body is signed like any other", b"", signed(b""), SECRET, ("accepted", "refused")),
        (
            "a body that isn't UTF-8 is verified, not a crash",
            b"\xff",
            signed(b"\xff"),
            SECRET,
            ("accepted", "UnicodeDecodeError"),
        ),
        ("an empty key is a setting that is wrong", b"{}", signed(b"{}"), "", ("SettingError", "ValueError")),
    ],
)
def test_square_is_read_otherwise_than_by_its_sdk(
    difference: str, body: bytes, signature: bytes | None, secret: str, expected: tuple[str, str]
) -> None:
    assert both(body, signature, secret) == expected, difference


@pytest.mark.parametrize("body", UNREADABLE_FEES)
def test_fees_that_cannot_be_read_wait_for_a_person_while_the_rest_books(adapter: Adapter, body: bytes) -> None:
    told, fee = adapter.events(Request(body, []), "live")
    assert told.fact_key in ("square:PAYMENT1:capture", "square:po_1:payout_paid", "square:po_1:payout_failed")
    assert (fee.event_key, fee.fact_key) == (f"{told.event_key}.fee", None)
    with pytest.raises((MoneyInvalid, MovementUnknown, Unparseable)):
        adapter.money(fee.body, fee.event_type)
