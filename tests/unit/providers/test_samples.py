"""All public samples at once: each is in the table and read as it says, each vector proves and is what we sign, none
crashes an adapter.
"""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from core.errors import SettingError, Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import sign
from providers import Adapter, ModeMismatch, ProvidersSettings, Request, SignatureInvalid, build_adapters
from providers.settings import SquareSettings
from tests.contract.adapter_cases.case import GONE, flips, paths, with_value
from tests.unit.providers.samples.public import UNKNOWN, UNREADABLE, PublicEvent, delivered, public_events
from tests.unit.providers.samples.table import told
from tests.unit.providers.shapes import Source, refusal, sources

FOLDERS = {"adyenplatform": "adyen", "mollieclassic": "mollie"}
"""Providers whose samples are in another's folder."""
NAMED_BY_WHAT_IS_FETCHED = {"mollie/classic_payment"}
"""It only says an id."""
PATHS_MAX = 60
KINDS: tuple[object, ...] = (GONE, None, True, -1, 1.5, "", "x", [], [1], {}, {"id": 1})
PUBLIC = public_events()


def test_every_sample_is_in_the_table(samples: Path) -> None:
    there = {f"{file.parent.name}/{file.stem}" for file in samples.glob("*/*")}
    assert len(there) > 100
    wanted = there - NAMED_BY_WHAT_IS_FETCHED
    assert sorted(wanted - PUBLIC.keys()) == [], "not in public.tsv"
    assert sorted(PUBLIC.keys() - wanted) == [], "no such sample"


@pytest.mark.parametrize(("sample", "expected"), PUBLIC.items(), ids=PUBLIC)
def test_a_sample_is_named_and_books_as_its_line_says(
    samples: Path, sample: str, expected: Sequence[PublicEvent]
) -> None:
    adapter, request = adapter_of(expected[0].provider), delivered(samples, sample)
    if expected[0].books == UNREADABLE:
        with pytest.raises(Unparseable):
            adapter.events(request, "live")
        return
    got = []
    for event in adapter.events(request, "live" if expected[0].endpoint == "live" else "test"):
        try:
            fact = adapter.money(event.body, event.event_type)
            books = told(adapter.name, fact) or ""
        except (MoneyInvalid, MovementUnknown) as invalid:
            fact, books = None, UNKNOWN
            assert adapter.name == "braintree" or "manual entry" in str(invalid)
        assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
        assert event.body in request.body or adapter.name == "braintree"
        assert event.content_sha256 == adapter.content_sha256(event.body, event.content_version)
        at = event.occurred_at.isoformat() if event.occurred_at else ""
        got.append((event.mode, event.event_key, event.entity_key, at, books))
    assert got == [line[2:7] for line in expected], sample


def test_identical_items_of_one_request_are_one_event_several_times(samples: Path) -> None:
    request = delivered(samples, "adyen/djadyen_multiple_3items_identical")
    events = adapter_of("adyen").events(request, "test")
    assert len(events) == 3
    assert len({(event.event_key, event.content_sha256, event.body) for event in events}) == 1


@pytest.mark.parametrize(
    "sample", [sample for sample, [line, *_] in PUBLIC.items() if line.provider == "adyenplatform"]
)
def test_a_platforms_webhook_is_no_standard_notification_of_adyens(samples: Path, sample: str) -> None:
    request, adapter = delivered(samples, sample), adapter_of("adyen")
    assert refusal(adapter, request, "AB" * 32) is not None
    with pytest.raises(Unparseable):
        adapter.events(request, "test")


@pytest.mark.parametrize("sample", [sample for sample in PUBLIC if sample.startswith("paddle/entity_")])
def test_what_an_event_of_paddles_is_about_is_no_event_by_itself(samples: Path, sample: str) -> None:
    with pytest.raises(Unparseable):
        adapter_of("paddle").events(Request((samples / f"{sample}.json").read_bytes(), []), "live")


def test_every_sample_has_a_source_and_every_source_a_sample(samples: Path) -> None:
    files = {str(file.relative_to(samples)) for file in samples.glob("*/*")}
    assert files == {source["file"] for source in sources(samples)}


def adapter_of(provider: str, **settings: object) -> Adapter:
    return build_adapters(ProvidersSettings(**settings))[provider]


def extra(source: Source) -> dict[str, str]:
    return dict(part.split("=", 1) for part in source["extra"].split() if "=" in part)


def unix(seconds: str) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def in_header(source: Source, body: bytes, **others: str) -> Request:
    headers = {source["sig_header"]: source["sig_value"], **others}
    return Request(body, [(name.lower().encode(), value.encode()) for name, value in headers.items()])


@dataclass(frozen=True)
class Vector:
    """A published signature, by what the table of sources says and nothing else. ``signed``: what it is made of."""

    adapter: Adapter
    request: Request
    secret: str
    now: datetime
    signed: bytes

    @classmethod
    def of(cls, source: Source, body: bytes) -> Vector:
        provider, secret, now = source["provider"], source["secret_or_key"], datetime(2026, 1, 31, tzinfo=UTC)
        request, settings, signed = in_header(source, body), {}, body
        if provider in ("stripe", "paddle"):
            now = unix(source["sig_value"].partition("=")[2][:10])
        elif provider == "square":
            url = extra(source)["notification_url"]
            settings = {"square": SquareSettings(notification_urls={"default": url})}
        elif provider == "standardwebhooks":
            request, now = in_header(source, body, **extra(source)), unix(extra(source)["webhook-timestamp"])
        elif provider == "braintree":
            secret = f"{extra(source)['public_key']}:{secret.removeprefix('private_key=')}"
            request, signed = Request(body, []), b64decode(parse_qs(body.decode())["bt_payload"][0])
        elif source["sig_header"].startswith("(body"):
            whole = b'{"live":"false","notificationItems":[{"NotificationRequestItem":' + body.strip() + b"}]}"
            request = Request(body if b"notificationItems" in body else whole, [])
            signed = request.body
        elif provider == "adyen":
            provider = "adyenplatform"
        return cls(adapter_of(provider, **settings), request, secret, now, signed)


@pytest.fixture
def vectors(samples: Path) -> dict[str, tuple[Source, Vector]]:
    """By the sample's file. PayPal's certificate isn't published any more: its signed text is in its own module."""
    found = [source for source in sources(samples) if source["sig_value"] and source["provider"] != "paypal"]
    assert len(found) == 17
    return {source["file"]: (source, Vector.of(source, (samples / source["file"]).read_bytes())) for source in found}


def test_every_signature_vector_proves_as_its_source_says(vectors: dict[str, tuple[Source, Vector]]) -> None:
    for file, (source, one) in vectors.items():
        is_good = "expect=item1-invalid" not in source["extra"]
        assert refusal(one.adapter, one.request, one.secret, now=one.now) == (None if is_good else "mismatch"), file


def signatures(body: bytes) -> list[str]:
    """Adyen's, one an item."""
    items = [wrapper["NotificationRequestItem"] for wrapper in json.loads(body)["notificationItems"]]
    return [item["additionalData"]["hmacSignature"] for item in items]


def test_the_signature_made_for_a_vector_is_the_published_one(vectors: dict[str, tuple[Source, Vector]]) -> None:
    for file, (source, one) in vectors.items():
        made = sign(one.adapter, one.signed, one.secret, one.now, extra(source).get("webhook-id"))
        if one.adapter.name == "braintree":
            assert made.body == one.request.body, file
        elif one.adapter.name == "adyen":
            is_good = "expect=item1-invalid" not in source["extra"]
            assert (signatures(made.body) == signatures(one.request.body)) == is_good, file
        else:
            assert source["sig_value"].partition(",v0=")[0] in made.headers.values(), file


def test_no_vector_proves_with_a_secret_altered_by_one_bit(vectors: dict[str, tuple[Source, Vector]]) -> None:
    for file, (_, one) in vectors.items():
        for altered in (other.decode("latin-1") for other in flips(one.secret.encode())):
            if altered.lower() != one.secret.lower():  # hexadecimal digits have two spellings
                with contextlib.suppress(SettingError):
                    assert refusal(one.adapter, one.request, altered, now=one.now) == "mismatch", file


PROVIDERS = sorted(build_adapters(ProvidersSettings()))
URLS = SquareSettings(notification_urls={"default": "https://hooks.example.com"})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_sample_of_any_provider_proves_or_crashes_an_adapter(samples: Path, provider: str) -> None:
    adapter = adapter_of(provider, square=URLS)
    for file in sorted(samples.glob("*/*.*")):
        request = Request(file.read_bytes(), [(b"webhook-id", b"msg_1"), (b"webhook-timestamp", b"1")])
        with pytest.raises(SignatureInvalid):
            adapter.verify(request, [adapter.new_secret()], datetime(2026, 1, 31, tzinfo=UTC))
        with contextlib.suppress(Unparseable, ModeMismatch, SignatureInvalid):
            adapter.events(request, "test")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_kind_of_value_in_any_field_of_a_sample_crashes_an_adapter(samples: Path, provider: str) -> None:
    adapter, read = adapter_of(provider), 0
    headers = [(name, b"x") for name in (b"webhook-id", b"webhook-timestamp", b"webhook-signature")]
    for file in sorted((samples / FOLDERS.get(provider, provider)).glob("*.json")):
        body = file.read_bytes()
        places = list(paths(json.loads(body)))
        for path in places[:: len(places) // PATHS_MAX + 1]:
            for value in KINDS:
                request = Request(json.dumps(with_value(json.loads(body), path, value)).encode(), headers)
                with contextlib.suppress(Unparseable, ModeMismatch):
                    for event in adapter.events(request, "test"):
                        read += event.poison is None
                        with contextlib.suppress(MoneyInvalid, MovementUnknown, Unparseable):
                            adapter.money(event.body, event.event_type)
    assert read > 100 or provider in ("braintree", "mollieclassic"), "these aren't JSON"
