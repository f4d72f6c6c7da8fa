"""One webhook: refused, or taken and answered truly. A bare ASGI application, as every request passes through it."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import orjson
from starlette.types import Receive, Scope, Send

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
    wrong_method,
)
from ingest.metrics import IngestMetrics
from ingest.protocol import Protocol, Taken
from ingest.publisher import Publisher
from ingest.reading import RawHeaders, read_body
from ingest.receipts import Receipts
from ingest.secrets import SecretFiles, SecretsMissing
from ingest.settings import IngestSettings
from providers.port import Adapter, Answer, ModeMismatch, SignatureInvalid
from providers.port import Request as Webhook

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
ENDPOINT = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""It names a file of secrets."""
TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
MESSAGE_CHARS_MAX = 300
SETTLED_BY_RECEIPTS = frozenset({"in_flight", "not_published"})
"""Refusals whose events have receipts of their own."""


class Receiver:
    """``POST /webhooks/{provider}[/{endpoint}]``; its parts are opened and passed in by whoever starts it."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; every error is one that says what to do."""
        began = self._clock.monotonic()
        provider, endpoint = _named(scope["path"])
        known = provider if provider in self._adapters else UNKNOWN
        extra: list[tuple[bytes, bytes]] = []
        try:
            answer, replayed = await self._take(scope, receive, provider, endpoint)
            if replayed:
                extra.append((b"idempotent-replayed", b"true"))
        except Refused as refused:
            self._metrics.refused(known, refused.outcome)
            if refused.outcome not in SETTLED_BY_RECEIPTS:
                self._receipts.refused(known, refused.outcome, refused.status, self._clock.now())
            answer, extra = _error(refused)
        self._metrics.answered(known, answer.status, self._clock.monotonic() - began)
        await _send(send, answer, extra)

    async def _take(self, scope: Scope, receive: Receive, provider: str, endpoint: str | None) -> tuple[Answer, bool]:
        """The answer, and whether all of it was known before."""
        headers: RawHeaders = scope["headers"]
        adapter = self._adapters.get(provider)
        if adapter is None:
            raise unknown_provider(provider, sorted(self._adapters))
        if endpoint is not None and not ENDPOINT.fullmatch(endpoint):
            raise unknown_endpoint()
        if scope["method"] != "POST":
            raise wrong_method()
        body = await read_body(headers, receive, self._settings.body_bytes_max, self._settings.read_deadline_s)
        received_at = self._clock.now()
        webhook = Webhook(body, headers)
        self._verify(adapter, webhook, endpoint)
        taken = await self._protocol.take(self._events(adapter, webhook), received_at, _traceparent(headers))
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
        self._metrics.verified(adapter.name, index)

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

    def _answer(self, adapter: Adapter, taken: Taken) -> tuple[Answer, bool]:
        accepted = adapter.accepted()
        status = 503 if taken.failed else 409 if taken.in_flight else accepted.status
        now = self._clock.now()
        for taking in taken.takings:
            self._metrics.took(adapter.name, taking.outcome)
            self._receipts.answered(taking.event, taking.outcome, status, now)
        if taken.failed:
            raise not_published(self._settings.retry_after_s)
        if taken.in_flight:
            raise in_flight()
        return accepted, taken.replayed


def _named(path: str) -> tuple[str, str | None]:
    """``/webhooks/stripe/eu`` is ``("stripe", "eu")``; what goes deeper is no endpoint's name."""
    provider, slash, endpoint = path.partition("/webhooks/")[2].partition("/")
    return provider, endpoint if slash else None


def _traceparent(headers: RawHeaders) -> str | None:
    """The caller's trace (W3C Trace Context), if it is one."""
    for name, value in headers:
        if name == b"traceparent" and TRACEPARENT.fullmatch(value):
            return value.decode("ascii")
    return None


def _error(refused: Refused) -> tuple[Answer, list[tuple[bytes, bytes]]]:
    """``{"error": {"code", "message"}}``; never more of the request than its kind."""
    headers = [(b"connection", b"close")] if refused.closes else []
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if refused.allow is not None:
        headers.append((b"allow", refused.allow.encode()))
    content = {"error": {"code": refused.outcome, "message": refused.problem[:MESSAGE_CHARS_MAX]}}
    return Answer(refused.status, orjson.dumps(content), "application/json"), headers


async def _send(send: Send, answer: Answer, extra: list[tuple[bytes, bytes]]) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *extra,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
