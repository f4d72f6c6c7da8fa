"""The public listener: a webhook comes in, and its answer is true."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from core.clock import Clock
from core.errors import SettingError, Unparseable
from core.event import Event, poison_event
from ingest.errors import (
    Refused,
    in_flight,
    not_configured,
    not_published,
    unknown_endpoint,
    unknown_provider,
)
from ingest.metrics import IngestMetrics
from ingest.protocol import Protocol, Taken
from ingest.publisher import Publisher
from ingest.reading import read_body
from ingest.receipts import Receipts
from ingest.secrets import SecretFiles, SecretsMissing
from ingest.settings import IngestSettings
from providers.port import Adapter, ModeMismatch, SignatureInvalid
from providers.port import Request as Webhook

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
ENDPOINT = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""It names a file of secrets."""
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
MESSAGE_CHARS_MAX = 300


class Receiver:
    """Answers one request after the other; its parts are opened and passed in by whoever starts it."""

    def __init__(
        self,
        settings: IngestSettings,
        adapters: Mapping[str, Adapter],
        secrets: SecretFiles,
        protocol: Protocol,
        publisher: Publisher,
        metrics: IngestMetrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._adapters = adapters
        self._secrets = secrets
        self._protocol = protocol
        self._receipts = Receipts(publisher)
        self._metrics = metrics
        self._clock = clock

    async def receive(self, request: Request, provider: str, endpoint: str | None) -> Response:
        """A webhook's answer; every error is one that says what to do."""
        began = self._clock.monotonic()
        named = provider if provider in self._adapters else UNKNOWN
        try:
            answer = await self._take(request, provider, endpoint)
        except Refused as refused:
            self._metrics.refusals.labels(named, refused.outcome).inc()
            if refused.outcome not in ("in_flight", "not_published"):
                self._receipts.refused(named, refused.outcome, refused.status, self._clock.now())
            answer = error_answer(refused)
        self._metrics.answers.labels(named, str(answer.status_code)).inc()
        self._metrics.request_seconds.observe(self._clock.monotonic() - began)
        return answer

    async def _take(self, request: Request, provider: str, endpoint: str | None) -> Response:
        adapter = self._adapters.get(provider)
        if adapter is None:
            raise unknown_provider(provider, sorted(self._adapters))
        if endpoint is not None and not ENDPOINT.fullmatch(endpoint):
            raise unknown_endpoint()
        body = await read_body(request, self._settings.body_bytes_max, self._settings.read_deadline_s)
        received_at = self._clock.now()
        webhook = Webhook(body, request.scope["headers"])
        self._verify(adapter, webhook, endpoint)
        events = self._events(adapter, webhook)
        taken = await self._protocol.take(events, received_at, traceparent(request))
        return self._answer(adapter, taken)

    def _verify(self, adapter: Adapter, webhook: Webhook, endpoint: str | None) -> None:
        """Nothing of the body is believed before this."""
        try:
            index = adapter.verify(webhook, self._secrets.of(adapter.name, endpoint), self._clock.now())
        except SignatureInvalid as invalid:
            status = 400 if invalid.reason == "several" else 401
            raise Refused(status, f"signature_{invalid.reason}", str(invalid)) from None
        except (SecretsMissing, SettingError) as missing:
            log.error("%s", missing)
            problem = f"the receiver has no usable secret for {adapter.name}; its operator must set one"
            raise not_configured(problem, self._settings.retry_after_s) from None
        self._metrics.secrets.labels(adapter.name, str(index)).inc()

    def _events(self, adapter: Adapter, webhook: Webhook) -> list[Event]:
        """Signed but unreadable is poison: it is kept and answered 2xx, because sending it again can't mend it."""
        mode = self._settings.mode
        try:
            events = adapter.events(webhook, mode)
            for event in events:
                if event.mode != mode:
                    raise ModeMismatch(mode, event.mode)
            return events
        except Unparseable as unreadable:
            log.warning("%s sent signed bytes that can't be read: %s", adapter.name, unreadable)
            return [poison_event(adapter.name, webhook.body, mode, unreadable.problem)]
        except ModeMismatch as mismatch:
            raise Refused(422, "mode_mismatch", str(mismatch)) from None
        except Exception as bug:
            # A 500 would use up the provider's retries; as poison the bytes wait for the mended adapter.
            log.exception("the adapter of %s failed on signed bytes", adapter.name)
            return [poison_event(adapter.name, webhook.body, mode, f"the adapter failed: {type(bug).__name__}")]

    def _answer(self, adapter: Adapter, taken: Taken) -> Response:
        accepted = adapter.accepted()
        status = 503 if taken.failed else 409 if taken.in_flight else accepted.status
        now = self._clock.now()
        for taking in taken.takings:
            self._metrics.events.labels(adapter.name, taking.outcome).inc()
            self._receipts.answered(taking.event, taking.outcome, status, now)
        if taken.failed:
            raise not_published(self._settings.retry_after_s)
        if taken.in_flight:
            raise in_flight()
        headers = {"Idempotent-Replayed": "true"} if taken.replayed else {}
        return Response(accepted.body, accepted.status, headers, accepted.content_type)


def traceparent(request: Request) -> str | None:
    """The caller's trace (W3C Trace Context), if it is one."""
    given = request.headers.get("traceparent")
    return given if given is not None and TRACEPARENT.fullmatch(given) else None


def error_answer(refused: Refused) -> Response:
    """``{"error": {"code", "message"}}``; never more of the request than its kind."""
    headers = {"Connection": "close"} if refused.closes else {}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(refused.retry_after_s)
    content = {"error": {"code": refused.outcome, "message": refused.problem[:MESSAGE_CHARS_MAX]}}
    return JSONResponse(content, refused.status, headers)


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(open_receiver: Callable[[], AbstractAsyncContextManager[tuple[Receiver, Publisher]]]) -> FastAPI:
    """The application; ``open_receiver`` opens every client when the server starts and closes it at the end."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_receiver() as (receiver, publisher):
            app.state.receiver, app.state.publisher = receiver, publisher
            yield

    app = FastAPI(title="payhook receiver", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/webhooks/{provider}")
    async def receive(request: Request, provider: str) -> Response:
        receiver: Receiver = request.app.state.receiver
        return await receiver.receive(request, provider, None)

    @app.post("/webhooks/{provider}/{endpoint}")
    async def receive_at_endpoint(request: Request, provider: str, endpoint: str) -> Response:
        receiver: Receiver = request.app.state.receiver
        return await receiver.receive(request, provider, endpoint)

    @app.get("/healthz")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        publisher: Publisher = request.app.state.publisher
        ready = await publisher.reachable()
        return PlainTextResponse("ready\n" if ready else "Kafka doesn't answer\n", 200 if ready else 503)

    return app
