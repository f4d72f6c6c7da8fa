"""The receiver without servers: memory claims, a publisher that does what a test sets, signed Stripe events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

from core.clock import ManualClock
from core.errors import PayhookError
from core.event import Headers, Mode
from core.tracing import Tracing
from ingest.app import create_app
from ingest.body import BodyReader
from ingest.claims import ClaimKey, ClaimState, ClaimsUnavailable
from ingest.endpoints import EndpointContexts, SecretFiles, secret_file
from ingest.event_reader import EventReader
from ingest.limits import Load, RateLimits, ReceiverLimits
from ingest.metrics import IngestMetrics
from ingest.pan import CardMasker, MaskingKey
from ingest.protocol import ClaimProtocol, add_tracing
from ingest.provider_client import FetchFailed
from ingest.publisher import Publisher
from ingest.receiver import Receiver
from ingest.reports import RequestReports
from ingest.settings import IngestSettings
from ingest.verifier import Verifier
from load.samples import sign
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.stripe import stripe_event
from providers.port import Fetched, Wanted
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.memory_claims import MemoryClaims
from tests.virtual_time import LoopClock

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MASKING_KEY = MaskingKey("k" * 32)


class ListPublisher:
    """What was published; ``fails`` names entities whose events Kafka doesn't take."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes, dict[str, str]]] = []
        self.receipts: list[dict[str, Any]] = []
        self.fails: set[bytes] = set()
        self.gate: asyncio.Event | None = None

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Headers) -> bool:
        if self.gate is not None:
            await self.gate.wait()
        if key in self.fails:
            return False
        self.records.append((key, value, {name: text.decode() for name, text in headers}))
        return True

    def publish_unawaited(self, topic: str, value: bytes) -> None:
        self.receipts += map(json.loads, value.splitlines())

    async def is_reachable(self) -> bool:
        return True

    @property
    def flags(self) -> list[str]:
        return [headers["dedupe"] for *_, headers in self.records]


class ProviderAnswers:
    """What providers answer to what adapters want, by URL; nothing else is answered."""

    def __init__(self) -> None:
        self.by_url: dict[str, Fetched | PayhookError] = {}

    async def fetch(self, wanted: Wanted) -> Fetched:
        found = self.by_url.get(wanted.url, FetchFailed(wanted.url, "no answer"))
        if isinstance(found, PayhookError):
            raise found
        return found


class BreakableClaims(MemoryClaims):
    """Memory claims that can be taken down, as Redis can."""

    down = False

    async def claim(self, keys: Sequence[ClaimKey], owner: bytes) -> list[ClaimState]:
        self._up()
        return await super().claim(keys, owner)

    def settle(self, published: Sequence[ClaimKey], given_up: Sequence[ClaimKey], owner: bytes) -> None:
        if not self.down:
            super().settle(published, given_up, owner)

    def _up(self) -> None:
        if self.down:
            raise ClaimsUnavailable("gone")


class SetGenerations:
    """Generations as the test sets them."""

    def __init__(self) -> None:
        self.by_mode: dict[Mode, int | None] = {"live": 0, "test": 0}

    def find_generation(self, mode: Mode, entity_key: str) -> int | None:
        return self.by_mode[mode]

    def check(self, mode: Mode) -> None:
        """They agree."""


QUICK = ReceiverLimits(in_flight_wait_s=0.2)


class Bench:
    """One receiver and what the test asks of it."""

    def __init__(self, folder: Path, limits: ReceiverLimits = QUICK, **settings: Any) -> None:
        self.limits = limits
        self.clock = ManualClock(NOW)
        self.adapters = build_adapters(ProvidersSettings())
        self.secrets = {name: adapter.new_secret() for name, adapter in self.adapters.items()}
        for name, secret in self.secrets.items():
            (folder / name).write_text(secret + "\n", "utf-8")
        self.claims = BreakableClaims(self.clock, 30.0, 1e6)
        self.generations = SetGenerations()
        self.publisher = ListPublisher()
        self.tracing: Tracing | None = None
        self.fetch = ProviderAnswers()
        self.settings = IngestSettings(**settings)
        for name in self.settings.endpoints:
            self.secrets[name] = self.adapters[name.partition("/")[0]].new_secret()
            (folder / secret_file(name)).write_text(self.secrets[name] + "\n", "utf-8")
        self._folder = folder
        self.metrics = IngestMetrics()
        """Of the last request: each has an app of its own."""

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        app = create_app(self._opened)
        async with app.router.lifespan_context(app):
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://receiver") as client:
                yield client

    async def post(self, body: bytes, headers: dict[str, str], path: str = "/webhooks/stripe") -> httpx2.Response:
        async with self.client() as client:
            return await client.post(path, content=body, headers=headers)

    def stripe(
        self, event_id: str = "evt_1", amount: int = 500, endpoint: str = "stripe", **changes: Any
    ) -> tuple[bytes, dict[str, str]]:
        """A signed event of the payment ``pi_1``."""
        whole: dict[str, Any] = {
            "payment": "pi_1",
            "account": "acct_1",
            "amount_minor": amount,
            "currency": "EUR",
            "created": NOW,
        }
        body = stripe_event(event_id, "charge.succeeded", **(whole | changes))
        return self.signed(endpoint, body)

    def adyen(self, *references: str, live: bool = True) -> tuple[bytes, dict[str, str]]:
        items = [AdyenItem(ref, f"pay-{ref}", "Shop", "order-1", "CAPTURE", 700, "EUR", NOW) for ref in references]
        return self.signed("adyen", adyen_notification(items, live))

    def signed(self, endpoint: str, body: bytes) -> tuple[bytes, dict[str, str]]:
        """With the secret of an endpoint, which is named as in the settings."""
        request = sign(self.adapters[endpoint.partition("/")[0]], body, self.secrets[endpoint], NOW)
        return request.body, request.headers

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Receiver, Publisher]]:
        metrics = self.metrics = IngestMetrics()
        protocol = ClaimProtocol(
            self.claims, self.generations, self.publisher, metrics, LoopClock(), self.limits.in_flight_wait_s
        )
        secrets = SecretFiles(self._folder, self.clock, EndpointContexts(self.settings))
        rates = RateLimits(self.settings.rates_per_s, self.clock)
        load = Load(self.limits.in_flight_max, self.limits.in_flight_bytes_max, self.clock)
        verifier = Verifier(self.adapters, secrets, self.fetch, protocol, rates, metrics)
        receiver = Receiver(
            self.adapters,
            BodyReader(load, self.settings.body_bytes_max, self.limits.read_deadline_s),
            EventReader(verifier, EndpointContexts(self.settings), CardMasker(self.settings.pan, MASKING_KEY)),
            add_tracing(protocol.take_events, self.tracing),
            RequestReports(self.publisher, metrics, self.clock, self.settings.mode),
            self.clock,
        )
        yield receiver, self.publisher
        receiver.close()
