"""Receives a webhook: refuses it, or takes its events and says so. A bare ASGI application: it is on every request."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TypeAlias

from starlette.types import Receive, Scope, Send

from core.clock import Clock
from core.errors import SettingError, Unparseable
from ingest.body import BodyReader
from ingest.endpoints import EndpointContext, SecretsMissing, SecretsShared
from ingest.errors import RequestRefused
from ingest.event_reader import EventReader, traceparent_of
from ingest.http_messages import send_answer
from ingest.protocol import ClaimResult, TakeEvents
from ingest.provider_client import CredentialsRefused, FetchFailed, NotThereYet
from ingest.reports import UNKNOWN, RequestReports
from providers.port import DEFAULT_ENDPOINT, Adapter, Answer, ModeMismatch, SignatureInvalid
from providers.port import Request as Webhook

Extra: TypeAlias = list[tuple[bytes, bytes]]
NO_EXTRA: Extra = []
REPLAYED: Extra = [(b"idempotent-replayed", b"true")]


class Receiver:
    """``POST /webhooks/{provider}[/{endpoint}]``; its parts are opened by the caller."""

    def __init__(
        self,
        adapters: Mapping[str, Adapter],
        bodies: BodyReader,
        reader: EventReader,
        take: TakeEvents,
        reports: RequestReports,
        clock: Clock,
    ) -> None:
        self._adapters = adapters
        self._bodies = bodies
        self._reader = reader
        self._take = take
        self._reports = reports
        self._clock = clock

    def close(self) -> None:
        """Hands the last receipts over; no request may be under way any more."""
        self._reports.flush()

    def report_unread(self, refused: RequestRefused) -> None:
        self._reports.report_unread(refused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._clock.monotonic_s()
        provider, endpoint = _split_path(scope["path"])
        adapter = self._adapters.get(provider)
        known = UNKNOWN if adapter is None else provider
        try:
            answer, extra = await self._receive(scope, receive, adapter, provider, endpoint)
        except RequestRefused as refused:
            self._reports.report_refusal(known, refused)
            answer, extra = _build_error(refused)
        self._reports.report_answer(known, answer.status, self._clock.monotonic_s() - began)
        headers = [*_content_headers(answer.content_type, len(answer.body)), *extra]
        await send_answer(scope, send, answer.status, headers, answer.body)

    async def _receive(
        self, scope: Scope, receive: Receive, adapter: Adapter | None, provider: str, endpoint: str | None
    ) -> tuple[Answer, Extra]:
        if adapter is None:
            raise RequestRefused("unknown_provider", known=", ".join(sorted(self._adapters)))
        context = self._reader.find_context(provider, endpoint)
        if scope["method"] != "POST":
            raise RequestRefused("wrong_method", allow="POST")
        request = self._bodies.begin(scope, adapter.media_type)
        try:
            body = await self._bodies.read(receive, request)
            webhook = Webhook(body, scope["headers"], endpoint or DEFAULT_ENDPOINT, mode=context.mode)
            return await self._take_events(adapter, webhook, endpoint, context)
        finally:
            request.end()

    async def _take_events(
        self, adapter: Adapter, webhook: Webhook, endpoint: str | None, context: EndpointContext
    ) -> tuple[Answer, Extra]:
        # A request goes through six steps, the first three in `EventReader`, the others in the claim protocol:
        # 1. verify: its signature, or its provider's API, says whose it is.
        # 2. name: its bytes become events, or poison.
        # 3. mask: card data leaves them.
        # 4. claim: Redis says which of them nobody has published.
        # 5. publish: Kafka acknowledges those.
        # 6. confirm: Redis is told so; the answer doesn't wait for it.
        received_at = self._clock.now()
        try:
            events, left_out, is_there = await self._reader.read_events(
                adapter, webhook, endpoint, context, received_at
            )
            accepted, mode = adapter.accepted(), context.mode
            self._reports.report_left_out(left_out, accepted.status, received_at, mode)
            if events:
                return self._answer(adapter, await self._take(events, received_at, traceparent_of(webhook.headers)))
            if not left_out:
                self._reports.report_empty(adapter.name, accepted.status, received_at, mode, is_there=is_there)
            return accepted, NO_EXTRA
        except SignatureInvalid as invalid:
            status = None if invalid.reason == "several" else adapter.signature_status
            raise RequestRefused(f"signature_{invalid.reason}", status=status, problem=str(invalid)) from None
        except Unparseable as unreadable:
            raise RequestRefused("unreadable", problem=str(unreadable)) from None
        except ModeMismatch as mismatch:
            raise RequestRefused("mode_mismatch", problem=str(mismatch)) from None
        except FetchFailed as failed:
            pause_s = None if failed.retry_after_s is None else math.ceil(failed.retry_after_s)
            if isinstance(failed, NotThereYet):
                raise RequestRefused("not_there", retry_after_s=pause_s, cause=str(failed)) from None
            raise RequestRefused("not_fetched", retry_after_s=pause_s, cause=str(failed)) from None
        except (SecretsMissing, SecretsShared, SettingError, CredentialsRefused) as wrong:
            raise RequestRefused("not_configured", provider=adapter.name, cause=str(wrong)) from None

    def _answer(self, adapter: Adapter, result: ClaimResult) -> tuple[Answer, Extra]:
        accepted = adapter.accepted()
        failed, in_flight_still = result.has_failed, result.is_in_flight
        status = 503 if failed else 409 if in_flight_still else accepted.status
        self._reports.report_events(adapter.name, result, status)
        if failed:
            raise RequestRefused("not_published")
        if in_flight_still:
            raise RequestRefused("in_flight")
        return accepted, REPLAYED if result.is_replayed else NO_EXTRA


def _split_path(path: str) -> tuple[str, str | None]:
    """Splits ``/webhooks/stripe/eu`` into ``("stripe", "eu")``; what goes deeper is no endpoint's name."""
    provider, slash, endpoint = path.partition("/webhooks/")[2].partition("/")
    return provider, endpoint if slash else None


def _build_error(refused: RequestRefused) -> tuple[Answer, Extra]:
    headers = [(b"connection", b"close")] if refused.closes else []
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if refused.allow is not None:
        headers.append((b"allow", refused.allow.encode()))
    return Answer(refused.status, refused.json(), "application/json"), headers


@functools.lru_cache(maxsize=64)
def _content_headers(content_type: str, length: int) -> Extra:
    return [(b"content-type", content_type.encode()), (b"content-length", b"%d" % length)]
