"""HTTP in order, and not a webhook that may be believed: the right status, and nothing reaches Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import httpx2
import pytest

from core.clock import SystemClock
from load.samples import sign
from load.samples.adyen import AdyenItem, adyen_notification
from providers.registry import build_adapters
from tests.integration.ingest.conftest import PROVIDERS, ReceiverUnderTest, Servers, Signed
from tests.integration.ingest.wire import head

JSON = {"Content-Type": "application/json"}
TOLERANCE_S = 300


@pytest.fixture(scope="module", autouse=True)
def nothing_is_published(shared_receiver: ReceiverUnderTest, servers: Servers) -> Iterator[None]:
    """But for the webhooks that are replayed: one each."""
    with servers.publishing(len(REPLAYED)):
        yield


REPLAYED = ["stripe", "standardwebhooks"]


def error(answer: httpx2.Response) -> tuple[int, str]:
    reported = answer.json()
    assert set(reported) == {"error"} and set(reported["error"]) == {"code", "message"}
    return answer.status_code, reported["error"]["code"]


def signed_at(receiver: ReceiverUnderTest, at: datetime, provider: str = "stripe") -> Signed:
    body, _ = receiver.stripe("1")
    request = sign(build_adapters(PROVIDERS)[provider], body, receiver.servers.secrets[provider], at)
    return request.body, request.headers


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("provider", ["stripe", "stripe/eu"])
def test_a_webhook_is_posted(receiver: ReceiverUnderTest, method: str, provider: str) -> None:
    body, headers = receiver.stripe("1")
    answer = httpx2.request(method, f"{receiver.url}/webhooks/{provider}", content=body, headers=headers)
    assert error(answer) == (405, "wrong_method")
    assert (answer.headers["allow"], answer.headers["connection"]) == ("POST", "close")


def test_a_head_request_is_answered_without_a_body(receiver: ReceiverUnderTest) -> None:
    with receiver.wire() as wire:
        wire.send(head(line=b"HEAD /webhooks/stripe HTTP/1.1") + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.head().startswith(b"HTTP/1.1 405 ")
        assert wire.is_closed()


@pytest.mark.parametrize(
    ("provider", "content_type"),
    [
        ("stripe", "text/html"),
        ("stripe", "text/plain"),
        ("stripe", "text/json"),
        ("stripe", "multipart/form-data; boundary=x"),
        ("stripe", "application/x-www-form-urlencoded"),
        ("stripe", "application/xml"),
        ("stripe", "application/jsonp"),
        ("stripe", "application/json; charset=utf-16"),
        ("stripe", "application/json;charset=latin-1"),
        ("stripe", ""),
        ("braintree", "application/json"),
        ("mollieclassic", "multipart/form-data"),
    ],
)
def test_a_body_of_another_type_is_refused(receiver: ReceiverUnderTest, provider: str, content_type: str) -> None:
    body, headers = receiver.stripe("1")
    answer = receiver.post((body, {**headers, "Content-Type": content_type}), provider)
    assert error(answer) == (415, "wrong_type")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "GZIP", "identity, gzip", "gzip, identity", "x-unknown"])
def test_a_body_that_is_coded_is_refused_because_signatures_are_over_plain_bytes(
    receiver: ReceiverUnderTest, coding: str
) -> None:
    body, headers = receiver.stripe("1")
    answer = receiver.post((body, {**headers, "Content-Encoding": coding}))
    assert error(answer) == (415, "encoded")


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/nobody",
        "/webhooks/nobody/eu",
        "/webhooks/",
        "/webhooks/Stripe",
        "/webhooks/stripe%00",
        "/webhooks/stripe%2f",
        "/webhooks/stripe/",
        "/webhooks/stripe/eu/west",
        "/webhooks/stripe/..%2fadyen",
        "/webhooks/stripe/%0d%0aSet-Cookie:a",
        "/webhooks/stripe/" + "a" * 65,
        "/webhooks//stripe",
        "//webhooks/stripe",
        "/webhooks/%ff%fe",
    ],
)
def test_there_is_nothing_at_any_other_path(receiver: ReceiverUnderTest, path: str) -> None:
    body, headers = receiver.stripe("1")
    lines = [f"{name}: {value}".encode() for name, value in headers.items()]
    with receiver.wire() as wire:
        wire.send(head(*lines, b"Content-Length: %d" % len(body), line=f"POST {path} HTTP/1.1".encode()) + body)
        answer = wire.expect_answer()
        assert answer.status == 404
        assert answer.code in ("unknown_provider", "unknown_endpoint", "not_found")


@pytest.mark.parametrize("path", ["/webhooks", "/healthz/", "/readyz/", "/docs", "/openapi.json", "/metrics", "/"])
def test_no_other_path_answers_or_leads_elsewhere(receiver: ReceiverUnderTest, path: str) -> None:
    """A redirect would be made of the Host header, which anybody may write."""
    assert error(httpx2.get(receiver.url + path, follow_redirects=False)) == (404, "not_found")


Change = Callable[[str], list[tuple[str, bytes]]]
"""Header fields from the signature that is right."""


def one(value: str | bytes) -> list[tuple[str, bytes]]:
    return [("Stripe-Signature", value if isinstance(value, bytes) else value.encode())]


def timestamp_of(signature: str) -> str:
    return signature.split(",")[0].removeprefix("t=")


def with_timestamp(form: Callable[[str], str]) -> Change:
    return lambda right: one(right.replace(timestamp_of(right), form(timestamp_of(right)), 1))


SIGNATURES: dict[str, tuple[Change, int, str]] = {
    "none": (lambda right: [], 401, "signature_missing"),
    "an empty one": (lambda right: one(""), 401, "signature_malformed"),
    "two that are right": (lambda right: one(right) * 2, 400, "signature_several"),
    "a right one after a wrong one": (lambda right: one("t=1,v1=00") + one(right), 400, "signature_several"),
    "two in other letters": (
        lambda right: [*one(right), ("STRIPE-SIGNATURE", right.encode())],
        400,
        "signature_several",
    ),
    "non-ASCII bytes": (lambda right: one(right.encode() + b"\xff\xfe"), 401, "signature_mismatch"),
    "non-ASCII digits": (
        lambda right: one(f"t={timestamp_of(right)},v1=".encode() + b"\xd9\xa1" * 32),
        401,
        "signature_mismatch",
    ),
    "no timestamp": (lambda right: one(right.split(",", 1)[1]), 401, "signature_malformed"),
    "two timestamps": (lambda right: one(f"{right},t={timestamp_of(right)}"), 401, "signature_malformed"),
    "a timestamp that is no number": (with_timestamp(lambda at: "now"), 401, "signature_malformed"),
    "a timestamp with an underscore": (with_timestamp(lambda at: at[:4] + "_" + at[4:]), 401, "signature_malformed"),
    "a timestamp with a blank": (with_timestamp(lambda at: " " + at), 401, "signature_malformed"),
    "a timestamp with a sign": (with_timestamp(lambda at: "+" + at), 401, "signature_malformed"),
    "a timestamp with a fraction": (with_timestamp(lambda at: at + ".0"), 401, "signature_malformed"),
    "NaN for a timestamp": (with_timestamp(lambda at: "nan"), 401, "signature_malformed"),
    "a timestamp in Arabic digits": (
        with_timestamp(lambda at: "".join(chr(0x660 + int(digit)) for digit in at)),
        401,
        "signature_malformed",
    ),
    "another timestamp": (with_timestamp(lambda at: str(int(at) - 1)), 401, "signature_mismatch"),
    "no v1": (lambda right: one(f"t={timestamp_of(right)}"), 401, "signature_missing"),
    "v0 alone": (lambda right: one(right.replace("v1=", "v0=")), 401, "signature_missing"),
    "an empty v1": (lambda right: one(f"t={timestamp_of(right)},v1="), 401, "signature_mismatch"),
    "one bit off": (lambda right: one(right[:-1] + ("0" if right[-1] != "0" else "1")), 401, "signature_mismatch"),
    "one digit short": (lambda right: one(right[:-1]), 401, "signature_mismatch"),
    "capital digits": (
        lambda right: one(right.partition("v1=")[0] + "v1=" + right.partition("v1=")[2].upper()),
        401,
        "signature_mismatch",
    ),
    "seventeen": (lambda right: one(right + ",v1=00" * 16), 401, "signature_malformed"),
    "16 KB of them": (lambda right: one(f"t={timestamp_of(right)},v1=" + "0" * 15_000), 401, "signature_mismatch"),
}


@pytest.mark.parametrize(
    ("change", "status", "code"), SIGNATURES.values(), ids=[name.replace(" ", "_") for name in SIGNATURES]
)
def test_what_is_not_proven_is_refused(receiver: ReceiverUnderTest, change: Change, status: int, code: str) -> None:
    body, headers = receiver.stripe("1")
    fields = [b"%b: %b" % (name.encode(), value) for name, value in change(headers["Stripe-Signature"])]
    with receiver.wire() as wire:
        wire.send(head(*fields, b"Content-Length: %d" % len(body)) + body)
        answer = wire.expect_answer()
        assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize("provider", REPLAYED)
@pytest.mark.parametrize(("seconds", "reason"), [(-TOLERANCE_S - 5, "stale"), (TOLERANCE_S + 5, "future")])
def test_a_signature_out_of_its_time_is_refused(
    receiver: ReceiverUnderTest, provider: str, seconds: int, reason: str
) -> None:
    signed = signed_at(receiver, SystemClock().now() + timedelta(seconds=seconds), provider)
    assert error(receiver.post(signed, provider)) == (401, f"signature_{reason}")


@pytest.mark.parametrize("provider", REPLAYED)
def test_a_delivery_that_is_replayed_in_its_time_is_a_duplicate(receiver: ReceiverUnderTest, provider: str) -> None:
    signed = signed_at(receiver, SystemClock().now() - timedelta(seconds=TOLERANCE_S - 30), provider)
    answers = [receiver.post(signed, provider) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert ["idempotent-replayed" in answer.headers for answer in answers] == [False, True, True]


def test_a_signature_of_another_provider_or_of_an_old_secret_proves_nothing(receiver: ReceiverUnderTest) -> None:
    body, headers = receiver.stripe("1")
    assert error(receiver.post((body, headers), "standardwebhooks")) == (401, "signature_missing")
    other = build_adapters(PROVIDERS)["stripe"]
    request = sign(other, body, other.new_secret(), SystemClock().now())
    assert error(receiver.post((request.body, request.headers))) == (401, "signature_mismatch")


def test_one_forged_item_is_a_forged_batch(receiver: ReceiverUnderTest) -> None:
    body, headers = receiver.adyen("A", "B")
    assert body.count(b'"value":700') == 2
    forged = b'"value":7'.join([b'"value":700'.join(body.split(b'"value":700')[:2]), body.split(b'"value":700')[2]])
    assert error(receiver.post((forged, headers), "adyen")) == (401, "signature_mismatch")


def test_an_item_without_a_signature_is_a_forged_batch(receiver: ReceiverUnderTest) -> None:
    item = AdyenItem("psp-1", "pay-1", "Shop", "o-1", "CAPTURE", 700, "EUR", SystemClock().now())
    assert error(receiver.post((adyen_notification([item], True), JSON), "adyen")) == (401, "signature_missing")


def test_signed_test_traffic_is_answered_and_left_out_where_none_is_taken(receiver: ReceiverUnderTest) -> None:
    body, _ = receiver.stripe("left-out")
    signed = receiver.signed("stripe", body.replace(b'"livemode": true', b'"livemode": false'))
    answers = [receiver.post(signed) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert all("idempotent-replayed" not in answer.headers for answer in answers), "it holds no claim"


def test_gocardless_is_reported_of_a_wrong_signature_by_the_status_that_it_knows(receiver: ReceiverUnderTest) -> None:
    headers = {**JSON, "Webhook-Signature": "00" * 32}
    assert error(receiver.post((b'{"events": []}', headers), "gocardless")) == (498, "signature_mismatch")
