"""The providers' own published signatures and samples: each proves, and altered by one bit none does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import Unparseable
from load.samples import sign
from providers import Adapter, Request, SignatureInvalid

Source = Callable[[str], dict[str, str]]

ADYEN_VECTORS = [
    "adyen/vector_py_backslash.json",
    "adyen/vector_py_colon.json",
    "adyen/vector_py_forwardslash.json",
    "adyen/vector_py_mixed.json",
    "adyen/vector_py_nested_item.json",
]


def flips(raw: bytes) -> Iterator[bytes]:
    """Every neighbour of ``raw`` that differs in one bit."""
    for at in range(len(raw)):
        for bit in range(8):
            yield raw[:at] + bytes([raw[at] ^ (1 << bit)]) + raw[at + 1 :]


def proves(adapter: Adapter, request: Request, secrets: list[str], now: datetime) -> bool:
    try:
        adapter.verify(request, secrets, now)
    except SignatureInvalid:
        return False
    return True


def stripe_vector(samples: Path, source_of: Source) -> tuple[bytes, bytes, str, datetime]:
    source = source_of("stripe/vector_dotnet_v1_v0.json")
    extra = dict(part.split("=", 1) for part in source["extra"].split())
    now = datetime.fromtimestamp(int(extra["now"]), UTC)
    return (samples / source["file"]).read_bytes(), source["sig_value"].encode(), source["secret_or_key"], now


def test_stripes_vector_proves_and_altered_by_one_bit_does_not(
    samples: Path, source_of: Source, stripe_adapter: Adapter
) -> None:
    body, header, secret, now = stripe_vector(samples, source_of)

    def holds(of: bytes, by: bytes) -> bool:
        return proves(stripe_adapter, Request(of, [(b"stripe-signature", by)]), [secret], now)

    assert holds(body, header)
    assert not any(holds(altered, header) for altered in flips(body))
    counted, _, v0 = header.partition(b",v0=")
    assert not any(holds(body, altered + b",v0=" + v0) for altered in flips(counted))
    assert all(
        holds(body, counted + b",v0=" + altered)
        for altered in flips(v0)
        if b"v1" not in altered and b"," not in altered
    )
    assert not proves(stripe_adapter, Request(body, [(b"stripe-signature", b"t=1533204620,v0=" + v0)]), [secret], now)


def test_stripes_vector_does_not_prove_with_a_secret_altered_by_one_bit(
    samples: Path, source_of: Source, stripe_adapter: Adapter
) -> None:
    body, header, secret, now = stripe_vector(samples, source_of)
    request = Request(body, [(b"stripe-signature", header)])
    altered = [other.decode("latin-1") for other in flips(secret.encode())]
    assert not proves(stripe_adapter, request, altered, now)
    assert stripe_adapter.verify(request, [*altered, secret], now) == len(altered)


def adyen_vector(samples: Path, source_of: Source, file: str) -> tuple[bytes, str, str]:
    """The published item as Adyen delivers it, its signature and its key."""
    source = source_of(file)
    item = (samples / file).read_bytes().strip()
    whole = b'{"live":"false","notificationItems":[{"NotificationRequestItem":' + item + b"}]}"
    return whole, source["sig_value"], source["secret_or_key"]


def signed_spans(whole: bytes) -> Iterator[tuple[int, int]]:
    """Where the signed values and the signature itself stand in the request."""
    item = json.loads(whole)["notificationItems"][0]["NotificationRequestItem"]
    for name in (
        "pspReference",
        "originalReference",
        "merchantAccountCode",
        "merchantReference",
        "eventCode",
        "success",
    ):
        if name in item:
            yield span(whole, name, json.dumps(item[name]).strip('"'))
    yield span(whole, "value", str(item["amount"]["value"]))
    yield span(whole, "currency", item["amount"]["currency"])
    yield span(whole, "hmacSignature", item["additionalData"]["hmacSignature"])


def span(whole: bytes, name: str, value: str) -> tuple[int, int]:
    at = whole.index(value.encode(), whole.index(f'"{name}"'.encode()) + len(name) + 2)
    return at, at + len(value.encode())


@pytest.mark.parametrize("file", ADYEN_VECTORS)
def test_adyens_vectors_prove_and_altered_by_one_bit_do_not(
    samples: Path, source_of: Source, adyen_adapter: Adapter, now: datetime, file: str
) -> None:
    whole, _, key = adyen_vector(samples, source_of, file)
    assert adyen_adapter.verify(Request(whole, []), [key], now) == 0
    for start, end in signed_spans(whole):
        for altered in flips(whole[start:end]):
            request = Request(whole[:start] + altered + whole[end:], [])
            assert not proves(adyen_adapter, request, [key], now), altered


@pytest.mark.parametrize("file", ADYEN_VECTORS)
def test_adyens_vectors_do_not_prove_with_a_key_altered_by_one_bit(
    samples: Path, source_of: Source, adyen_adapter: Adapter, now: datetime, file: str
) -> None:
    whole, _, key = adyen_vector(samples, source_of, file)
    altered = [other.hex() for other in flips(bytes.fromhex(key))]
    assert not proves(adyen_adapter, Request(whole, []), altered, now)


@pytest.mark.parametrize("file", ADYEN_VECTORS)
def test_the_signature_made_for_adyens_vectors_is_the_published_one(
    samples: Path, source_of: Source, adyen_adapter: Adapter, now: datetime, file: str
) -> None:
    whole, signature, key = adyen_vector(samples, source_of, file)
    signed = json.loads(sign(adyen_adapter, whole, key, now).body)
    assert signed["notificationItems"][0]["NotificationRequestItem"]["additionalData"]["hmacSignature"] == signature


def test_a_batch_proves_as_a_whole_and_a_forged_second_item_refuses_it(
    samples: Path, source_of: Source, adyen_adapter: Adapter, now: datetime
) -> None:
    key = source_of("adyen/derived_batch_4_valid.json")["secret_or_key"]
    valid = Request((samples / "adyen/derived_batch_4_valid.json").read_bytes(), [])
    forged = Request((samples / "adyen/derived_batch_second_item_forged.json").read_bytes(), [])
    assert adyen_adapter.verify(valid, [key], now) == 0
    assert len(adyen_adapter.events(valid, "test")) == 4
    with pytest.raises(SignatureInvalid) as caught:
        adyen_adapter.verify(forged, [key], now)
    assert caught.value.reason == "mismatch"


def test_a_notification_without_a_signature_is_refused(samples: Path, adyen_adapter: Adapter, now: datetime) -> None:
    request = Request((samples / "adyen/djadyen_no_hmac.json").read_bytes(), [])
    with pytest.raises(SignatureInvalid) as caught:
        adyen_adapter.verify(request, ["AB" * 32], now)
    assert caught.value.reason == "missing"


def standard_vector(samples: Path, source_of: Source) -> tuple[bytes, dict[str, bytes], str, datetime]:
    source = source_of("standardwebhooks/vector_sign_test.json")
    headers = dict(part.split("=", 1) for part in source["extra"].split())
    headers[source["sig_header"]] = source["sig_value"]
    now = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    raw = {name: value.encode() for name, value in headers.items()}
    return (samples / source["file"]).read_bytes(), raw, source["secret_or_key"], now


def test_standard_webhooks_vector_proves_and_altered_by_one_bit_does_not(
    samples: Path, source_of: Source, standard_adapter: Adapter
) -> None:
    body, headers, secret, now = standard_vector(samples, source_of)

    def holds(of: bytes, by: dict[str, bytes]) -> bool:
        return proves(
            standard_adapter, Request(of, [(name.encode(), value) for name, value in by.items()]), [secret], now
        )

    assert holds(body, headers)
    assert not any(holds(altered, headers) for altered in flips(body))
    for name, value in headers.items():
        assert not any(holds(body, {**headers, name: altered}) for altered in flips(value)), name


def test_the_signature_made_for_standard_webhooks_vector_is_the_published_one(
    samples: Path, source_of: Source, standard_adapter: Adapter
) -> None:
    body, headers, secret, now = standard_vector(samples, source_of)
    signed = sign(standard_adapter, body, secret, now, headers["webhook-id"].decode())
    assert signed.headers["webhook-signature"] == headers["webhook-signature"].decode()


def test_stripes_header_is_made_as_published(samples: Path, source_of: Source, stripe_adapter: Adapter) -> None:
    body, header, secret, _ = stripe_vector(samples, source_of)
    signed_at = datetime.fromtimestamp(1533204620, UTC)
    assert header.startswith(
        sign(stripe_adapter, body, secret, signed_at).headers["Stripe-Signature"].encode() + b",v0="
    )


def test_a_stripe_charge_and_its_intent_are_one_entity(samples: Path, stripe_adapter: Adapter) -> None:
    entities = set()
    for name in ("charge.succeeded", "payment_intent.created", "payment_intent.succeeded"):
        (event,) = stripe_adapter.events(Request((samples / f"stripe/{name}.json").read_bytes(), []), "test")
        entities.add(event.entity_key)
    assert entities == {"stripe::pi_000000000000000000000000"}


def test_identical_items_of_one_request_are_one_event_several_times(samples: Path, adyen_adapter: Adapter) -> None:
    body = (samples / "adyen/djadyen_multiple_3items_identical.json").read_bytes()
    events = adyen_adapter.events(Request(body, []), "test")
    assert len(events) == 3
    assert len({(event.event_key, event.content_sha256, event.body) for event in events}) == 1


@pytest.mark.parametrize(
    "name",
    [
        "bp_transfer-updated",
        "bp_balanceplatform-balanceAccount-balance-updated",
        "oas_ach_notification_of_change",
        "oas_eft_notice_of_change",
    ],
)
def test_what_is_no_standard_notification_is_neither_proven_nor_read(
    samples: Path, adyen_adapter: Adapter, now: datetime, name: str
) -> None:
    request = Request((samples / f"adyen/{name}.json").read_bytes(), [])
    with pytest.raises(SignatureInvalid):
        adyen_adapter.verify(request, ["AB" * 32], now)
    with pytest.raises(Unparseable):
        adyen_adapter.events(request, "test")
