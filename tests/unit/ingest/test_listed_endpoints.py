"""What a provider's API says of the endpoints that it sends webhooks to: asked over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ingest.catch_up import ListingSource, is_switched_off
from ingest.endpoints import EndpointContexts
from ingest.fetch import HttpFetch
from ingest.provider_client import open_client
from ingest.settings import IngestSettings
from providers.port import ListingAdapter
from tests.provider_lists import Lists, serve_lists
from tests.unit.ingest.app_under_test import Bench
from tests.unit.ingest.test_catch_up import CREDENTIALS

PATHS = {
    "stripe": "/v1/webhook_endpoints",
    "square": "/v2/webhooks/subscriptions",
    "paddle": "/notification-settings",
}
OURS, OTHER = "https://hooks.shop.example/webhooks/{}", "https://crm.example/from-{}"


def endpoint(provider: str, url: str, *, enabled: bool) -> Mapping[str, object]:
    """As in each provider's reference."""
    if provider == "stripe":
        return {"id": "we_1", "object": "webhook_endpoint", "status": "enabled" if enabled else "disabled", "url": url}
    if provider == "square":
        return {"id": "wbhk_1", "name": "payhook", "enabled": enabled, "notification_url": url}
    return {"id": "ntfset_1", "type": "url", "destination": url, "active": enabled}


@pytest.fixture
def lists() -> Iterator[Lists]:
    with serve_lists(Lists()) as served:
        yield served


def ask(lists: Lists, folder: Path, provider: str, name: str | None = None) -> bool | None:
    endpoints = {} if name is None else {f"{provider}/{name}": {"mode": "live"}}
    bench = Bench(folder, endpoints=endpoints)
    adapter, contexts = bench.adapters[provider], EndpointContexts(bench.settings)
    assert isinstance(adapter, ListingAdapter)
    assert isinstance(bench.settings, IngestSettings)
    source = ListingSource(adapter, name, contexts.find_context(provider, name), (CREDENTIALS[provider],))

    async def asked() -> bool | None:
        async with open_client() as client:
            fetch = HttpFetch(client, bench.clock, loopback=True, instead=lists.api_urls)
            try:
                return await is_switched_off(fetch, source)
            finally:
                await fetch.close()

    return asyncio.run(asked())


def answer(lists: Lists, provider: str, *endpoints: Mapping[str, object]) -> None:
    name = "subscriptions" if provider == "square" else "data"
    lists.resources[PATHS[provider]] = json.dumps({name: endpoints})


@pytest.mark.parametrize("provider", PATHS)
def test_an_endpoint_that_is_switched_off_at_the_provider_is_known(lists: Lists, tmp_path: Path, provider: str) -> None:
    ours, other = OURS.format(provider), OTHER.format(provider)
    answer(lists, provider, endpoint(provider, other, enabled=False), endpoint(provider, ours, enabled=True))
    assert ask(lists, tmp_path, provider) is False
    answer(lists, provider, endpoint(provider, other, enabled=True), endpoint(provider, ours, enabled=False))
    assert ask(lists, tmp_path, provider) is True


@pytest.mark.parametrize("provider", PATHS)
def test_one_of_several_that_is_on_is_enough(lists: Lists, tmp_path: Path, provider: str) -> None:
    """An address that was moved leaves its old endpoint behind, switched off."""
    old = OURS.format(provider).replace("hooks.", "old.")
    answer(
        lists, provider, endpoint(provider, old, enabled=False), endpoint(provider, OURS.format(provider), enabled=True)
    )
    assert ask(lists, tmp_path, provider) is False


@pytest.mark.parametrize("provider", PATHS)
def test_an_endpoint_of_its_own_is_told_from_the_others(lists: Lists, tmp_path: Path, provider: str) -> None:
    ours = OURS.format(provider)
    answer(lists, provider, endpoint(provider, ours, enabled=True), endpoint(provider, f"{ours}/eu/", enabled=False))
    assert ask(lists, tmp_path, provider, "eu") is True
    assert ask(lists, tmp_path, provider) is False


@pytest.mark.parametrize("provider", PATHS)
def test_what_cannot_be_told_is_not_an_alarm(lists: Lists, tmp_path: Path, provider: str) -> None:
    """No endpoint has payhook's path; the key may not read endpoints; it isn't such a list."""
    answer(lists, provider, endpoint(provider, OTHER.format(provider), enabled=False))
    assert ask(lists, tmp_path, provider) is None
    lists.resources[PATHS[provider]] = '{"data": 7, "subscriptions": [{"enabled": false}]}'
    assert ask(lists, tmp_path, provider) is None
    lists.refuses = True
    assert ask(lists, tmp_path, provider) is None


@pytest.mark.parametrize("provider", ["paypal", "gocardless"])
def test_a_provider_that_does_not_say_is_not_asked(lists: Lists, tmp_path: Path, provider: str) -> None:
    assert ask(lists, tmp_path, provider) is None
    assert lists.asked == []
