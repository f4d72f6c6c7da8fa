"""Verifies that a request is its provider's: by its signature, by what the provider is asked, and by its delivery."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import httpx2

from core.errors import Unparseable
from ingest.endpoints import SecretFiles
from ingest.fetch import ProviderFetch
from ingest.limits import RateLimits
from ingest.metrics import IngestMetrics
from ingest.protocol import ClaimProtocol
from ingest.provider_client import FetchFailed, NotThereYet, strip_url
from providers.port import (
    Adapter,
    FetchingAdapter,
    PointingAdapter,
    Request,
    SignatureInvalid,
    Wanted,
    WeaklySigningAdapter,
)

log = logging.getLogger(__name__)

GIVEN_UP_AFTER = timedelta(hours=1)
"""What a signed event points to is refused for so long while the API doesn't know it, so that the provider sends it
again. After that it is kept as unknown: the provider's last try must not be the end of it."""

VIEWS_AT_ONCE = 5
"""Views fetched at once for one request; a batch may point to hundreds of things. One provider may have so many
of all places."""
VIEWS_S = 6.0
"""For all of them: GoCardless waits for 10 s, and Kafka may take 4. Answers may be kept, so that a batch that is sent
again continues where it was."""


class Verifier:
    """Verifies requests; nothing of a body is believed before. Only verified events count to a provider's rate."""

    def __init__(
        self,
        adapters: Mapping[str, Adapter],
        secrets: SecretFiles,
        fetch: ProviderFetch,
        protocol: ClaimProtocol,
        rates: RateLimits,
        metrics: IngestMetrics,
    ) -> None:
        self._fetching = {name: adapter for name, adapter in adapters.items() if isinstance(adapter, FetchingAdapter)}
        self._weakly_signing = {
            name: adapter for name, adapter in adapters.items() if isinstance(adapter, WeaklySigningAdapter)
        }
        self._pointing = {name: adapter for name, adapter in adapters.items() if isinstance(adapter, PointingAdapter)}
        self._secrets = secrets
        self._fetch = fetch
        self._protocol = protocol
        self._rates = rates
        self._metrics = metrics

    async def verify(self, adapter: Adapter, webhook: Request, endpoint: str | None, received_at: datetime) -> Request:
        """Returns the webhook, its signature verified, with what its adapter wants from the provider.

        :raises SignatureInvalid: not all of it is proven
        :raises Unparseable: it doesn't say what to fetch from the provider
        :raises FetchFailed, CredentialsRefused: the provider can't be asked
        :raises SecretsMissing, SecretsShared, SettingError: the endpoint's secrets or credentials are missing or wrong
        """
        secrets = self._secrets.find_secrets(adapter.name, endpoint)
        fetching = self._fetching.get(adapter.name)
        if fetching is not None and (wanted := fetching.wants(webhook, secrets)) is not None:
            webhook = replace(webhook, fetched=await self._fetch.fetch(wanted))
        self._metrics.count_verified(adapter.name, adapter.verify(webhook, secrets, received_at), endpoint)
        return await self.follow(adapter.name, webhook, endpoint, received_at)

    async def follow(self, provider: str, webhook: Request, endpoint: str | None, now: datetime) -> Request:
        """Returns the webhook with what the provider's API says of what it points to, if there are credentials for it.

        :param webhook: verified, or read from the provider's API itself
        :raises FetchFailed, CredentialsRefused: the provider can't be asked
        :raises SecretsMissing, SettingError: the endpoint's credentials are wrong
        """
        pointing = self._pointing.get(provider)
        credentials = () if pointing is None else self._secrets.find_credentials(provider, endpoint)
        if pointing is None or not credentials:
            return webhook
        wanted = {question.url: question for question in pointing.points_to(webhook, credentials)}
        places = asyncio.Semaphore(VIEWS_AT_ONCE)
        asking = (self._fetch_view(pointing, question, now, places) for question in wanted.values())
        try:
            async with asyncio.timeout(VIEWS_S):
                answers = await asyncio.gather(*asking, return_exceptions=True)
        except TimeoutError:
            raise FetchFailed(provider, f"{len(wanted)} questions took longer than {VIEWS_S:g} s") from None
        views: dict[str, bytes] = {}
        for url, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                views[url] = answer
        return replace(webhook, views=views)

    async def _fetch_view(
        self, pointing: PointingAdapter, wanted: Wanted, now: datetime, places: asyncio.Semaphore
    ) -> bytes | None:
        """Returns None for what isn't there and isn't new: its event is kept without it.

        The other events of the request aren't affected.
        """
        async with places:
            fetched = await self._fetch.fetch(wanted)
        if not fetched.is_there:
            if wanted.since is not None and now - wanted.since > GIVEN_UP_AFTER:
                log.warning("%s: an event is accepted without the object it points to: the API has none", pointing.name)
                return None
            raise NotThereYet(_strip_wanted_url(wanted))
        try:
            pointing.check_answer(wanted, fetched.body)
        except Unparseable as garbled:
            raise FetchFailed(_strip_wanted_url(wanted), garbled.problem) from None
        return fetched.body

    async def admit_request(self, adapter: Adapter, webhook: Request, endpoint: str | None, has_events: bool) -> None:
        """Does the rest, once its events are read: it is within its provider's rate, and its delivery proves its body.

        Without an event it costs no rate: where nothing is signed (Mollie's classic webhooks), anybody sends such.

        :param webhook: verified
        :raises RequestRefused: 429, beyond the provider's rate
        :raises SignatureInvalid: not all of it is proven
        :raises FetchFailed, CredentialsRefused: the provider can't be asked
        :raises SecretsMissing, SettingError: the endpoint's credentials are wrong
        """
        if has_events:
            self._rates.take_token(adapter.name)
        weak = self._weakly_signing.get(adapter.name)
        if weak is not None:
            await self._check_delivery(weak, webhook, endpoint)

    async def _check_delivery(self, weak: WeaklySigningAdapter, webhook: Request, endpoint: str | None) -> None:
        """Checks a body that its signature doesn't tell from others: the API does, or a delivery's first one counts.

        What the API confirmed claims no delivery and asks for no claim: another body may have come first.
        """
        credentials = self._secrets.find_credentials(weak.name, endpoint)
        wanted = weak.original(webhook, credentials) if credentials else None
        if wanted is not None:
            weak.check_original(webhook, await self._fetch.fetch(wanted))
            return
        body_sha256 = hashlib.sha256(webhook.body).hexdigest()
        if not await self._protocol.is_first_body(weak.name, weak.delivery_id(webhook), body_sha256):
            raise SignatureInvalid("reused")


def _strip_wanted_url(wanted: Wanted) -> str:
    return strip_url(httpx2.URL(wanted.url))
