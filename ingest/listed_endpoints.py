"""Whether a provider's API says that the endpoint which it sends webhooks to is switched off."""

from __future__ import annotations

from urllib.parse import urlsplit

from core.errors import Unparseable
from ingest.catch_up import ListingSource
from ingest.fetch import ProviderFetch
from ingest.provider_client import CredentialsRefused, FetchFailed
from providers.port import EndpointsAdapter


async def is_switched_off(fetch: ProviderFetch, source: ListingSource) -> bool | None:
    """Whether all endpoints of this source's path are switched off; None: not known.

    An endpoint is payhook's by its path, ``…/webhooks/PROVIDER`` and the endpoint's name. A key that may read events
    need not be allowed to read endpoints: then it isn't known.

    :raises SettingError: a credential isn't of the provider's form
    """
    if not isinstance(source.adapter, EndpointsAdapter):
        return None
    wanted = source.adapter.endpoints_wanted(source.context.mode, source.credentials)
    if wanted is None:
        return None
    try:
        fetched = await fetch.fetch(wanted)
        endpoints = source.adapter.read_endpoints(fetched.body) if fetched.is_there else []
    except (FetchFailed, CredentialsRefused, Unparseable):
        return None
    ours = [
        endpoint.is_enabled for endpoint in endpoints if _path_of(endpoint.url).endswith(f"/webhooks/{source.name}")
    ]
    return not any(ours) if ours else None


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path.rstrip("/")
    except ValueError:
        return ""
