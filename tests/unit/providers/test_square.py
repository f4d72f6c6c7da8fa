"""Square: proven by a signature over the configured notification URL and the raw body."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from square.utils.webhooks_helper import verify_signature

from core.errors import SettingError
from load.samples import sign
from load.samples import square as samples_of
from providers import Adapter, ModeMismatch, ProvidersSettings, Request, build_adapters
from tests.unit.providers.shapes import NOW, only
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


def test_the_older_signature_header_proves_nothing(adapter: Adapter) -> None:
    """``x-square-signature`` is HMAC-SHA1 and no longer sent."""
    assert refusal_of(adapter, Request(BODY, [(b"x-square-signature", GOOD)]), SECRET) == "missing"


# The notification URL is the endpoint's, from the settings.


def test_what_is_signed_for_one_endpoint_does_not_prove_at_another(adapter: Adapter) -> None:
    assert refusal(adapter, BODY, signed(BODY, endpoint="sandbox"), endpoint="sandbox") is None
    assert refusal(adapter, BODY, signed(BODY, endpoint="sandbox")) == "mismatch"
    assert refusal(adapter, BODY, GOOD, endpoint="sandbox") == "mismatch"


def test_who_asks_for_another_host_does_not_change_what_was_signed(adapter: Adapter) -> None:
    forged = sign(square(default="https://attacker.example/webhooks/square"), BODY, SECRET, NOW)
    signature = forged.headers["x-square-hmacsha256-signature"].encode()
    request = Request(BODY, [(HEADER, signature), (b"host", b"attacker.example"), (b"x-forwarded-host", b"a.example")])
    assert refusal_of(adapter, request, SECRET) == "mismatch"


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


# Live or sandbox is said in an unsigned header, so it has to agree with the endpoint.


@pytest.mark.parametrize(
    ("values", "mode", "reported"),
    [
        ([b"Sandbox"], "live", "test"),
        ([b"Production"], "test", "live"),
        ([b"Production", b"Sandbox"], "live", "test"),
        ([b"elsewhere"], "live", None),
        ([b""], "test", None),
        ([b"\xff"], "live", None),
    ],
)
def test_an_environment_that_disagrees_with_the_endpoint_is_refused(
    adapter: Adapter, values: list[bytes], mode: str, reported: str | None
) -> None:
    with pytest.raises(ModeMismatch) as caught:
        only(adapter, BODY, *((ENVIRONMENT, value) for value in values), mode="live" if mode == "live" else "test")
    assert (caught.value.endpoint, caught.value.reported) == (mode, reported)


@pytest.mark.parametrize("values", [[], [b"Production"], [b"production"], [b"PRODUCTION", b"Production"]])
def test_an_environment_that_agrees_or_is_not_reported_leaves_the_mode_to_the_endpoint(
    adapter: Adapter, values: list[bytes]
) -> None:
    assert only(adapter, BODY, *((ENVIRONMENT, value) for value in values)).mode == "live"
    assert only(adapter, BODY, mode="test").mode == "test"


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
