"""All public samples at once: each is in one table of identities, each vector proves and is what we sign, none
crashes an adapter.

A provider's test module has its table as ``IDENTITIES``, keyed by the sample's file name without its end.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from core.errors import SettingError, Unparseable
from core.money import MoneyInvalid
from load.samples import sign
from providers import Adapter, ModeMismatch, ProvidersSettings, Request, SignatureInvalid, build_adapters
from providers.settings import SquareSettings
from tests.contract.adapter_cases.case import GONE, flips, paths, with_value
from tests.unit.providers.shapes import Source, refusal, sources

HERE = Path(__file__).parent
FOLDERS = {"adyenplatform": "adyen", "mollieclassic": "mollie"}
"""Providers whose samples are in another's folder."""
NAMED_BY_WHAT_IS_FETCHED = {"mollie/classic_payment"}
"""It only says an id."""
PATHS_MAX = 60
KINDS: tuple[object, ...] = (GONE, None, True, -1, 1.5, "", "x", [], [1], {}, {"id": 1})


def tables() -> Iterator[tuple[str, Mapping[str, object]]]:
    """The folder that a module's samples are in, and its table."""
    for file in sorted(HERE.glob("test_*.py")):
        if "\nIDENTITIES" in file.read_text("utf-8"):
            provider = file.stem.split("_")[1]
            yield FOLDERS.get(provider, provider), importlib.import_module(f"{__package__}.{file.stem}").IDENTITIES


def named() -> Counter[str]:
    return Counter(f"{folder}/{name}" for folder, table in tables() for name in table)


def test_every_sample_is_in_exactly_one_table(samples: Path) -> None:
    there = {f"{file.parent.name}/{file.stem}" for file in samples.glob("*/*")}
    assert len(there) > 100
    wanted, found = there - NAMED_BY_WHAT_IS_FETCHED, named()
    assert sorted(wanted - found.keys()) == [], "in no module's IDENTITIES"
    assert sorted(found.keys() - wanted) == [], "no such sample"
    assert sorted(name for name, times in found.items() if times > 1) == [], "in several tables"


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
                        with contextlib.suppress(MoneyInvalid, Unparseable):
                            adapter.money(event.body, event.event_type)
    assert read > 100 or provider in ("braintree", "mollieclassic"), "these aren't JSON"
