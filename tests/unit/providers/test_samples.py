"""All public samples at once: each is in one table of identities, each vector proves, none crashes an adapter.

A provider's test module has its table as ``IDENTITIES``, keyed by the sample's file name without its end.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from providers import Adapter, ModeMismatch, ProvidersSettings, Request, SignatureInvalid, build_adapters
from providers.paypal import read_headers
from providers.settings import SquareSettings
from tests.contract.adapter_cases.case import GONE, paths, with_value

HERE = Path(__file__).parent
FOLDERS = {"adyenplatform": "adyen", "mollieclassic": "mollie"}
"""Providers whose samples are in another's folder."""
NAMED_BY_WHAT_IS_FETCHED = {"mollie/classic_payment"}
"""It only says an id."""
PATHS_MAX = 60
KINDS: tuple[object, ...] = (GONE, None, True, -1, 1.5, "", "x", [], [1], {}, {"id": 1})

Source = Mapping[str, str]


def sources(samples: Path) -> list[Source]:
    with (samples / "SOURCES.tsv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


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


def proven(source: Source, body: bytes) -> bool:
    """Whether the vector's signature proves its body, by what the table of sources says and nothing else."""
    provider, secrets, now = source["provider"], [source["secret_or_key"]], datetime(2026, 1, 31, tzinfo=UTC)
    request, settings = in_header(source, body), {}
    if provider == "stripe":
        now = unix(extra(source)["now"])
    elif provider == "paddle":
        now = unix(source["sig_value"][3:13])
    elif provider == "square":
        url = extra(source)["notification_url"]
        settings = {"square": SquareSettings(notification_urls={"default": url})}
    elif provider == "standardwebhooks":
        request, now = in_header(source, body, **extra(source)), unix(extra(source)["webhook-timestamp"])
    elif provider == "braintree":
        private = source["secret_or_key"].removeprefix("private_key=")
        request, secrets = Request(body, []), [f"{extra(source)['public_key']}:{private}"]
    elif source["sig_header"].startswith("(body"):
        whole = b'{"live":"false","notificationItems":[{"NotificationRequestItem":' + body.strip() + b"}]}"
        request = Request(body if b"notificationItems" in body else whole, [])
    elif provider == "adyen":
        provider = "adyenplatform"
    try:
        return adapter_of(provider, **settings).verify(request, secrets, now) == 0
    except SignatureInvalid:
        return False


def test_every_signature_vector_proves_as_its_source_says(samples: Path) -> None:
    """PayPal's certificate isn't published any more: of its vector the signed text is compared."""
    vectors = [source for source in sources(samples) if source["sig_value"]]
    assert len(vectors) == 18
    for source in vectors:
        body = (samples / source["file"]).read_bytes()
        if source["provider"] == "paypal":
            assert paypal_text(source, body) == extra(source)["signed"].encode()
        else:
            assert proven(source, body) == ("expect=item1-invalid" not in source["extra"]), source["file"]


def paypal_text(source: Source, body: bytes) -> bytes:
    said = extra(source)
    request = in_header(
        source,
        body,
        **{
            "paypal-transmission-id": said["transmission_id"],
            "paypal-transmission-time": said["time"],
            "paypal-cert-url": said["cert_url"],
            "paypal-auth-algo": "SHA256withRSA",
        },
    )
    return read_headers(request).signed(said["webhook_id"], body)


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
