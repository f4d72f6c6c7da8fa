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
from ingest.endpoints import Context, SecretsMissing, SecretsShared
from ingest.errors import Refused
from ingest.event_reader import EventReader, traceparent_of
from ingest.http_messages import send_answer
from ingest.protocol import Take, Taken
from ingest.provider_client import CredentialsRefused, FetchFailed, NotThereYet
from ingest.reports import UNKNOWN, Reports
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
        take: Take,
        reports: Reports,
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

    def unread(self, refused: Refused) -> None:
        """Reports a request that was refused as HTTP, before its path was looked at."""
        self._reports.unread(refused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; every error is one that says what to do."""
        began = self._clock.monotonic()
        provider, endpoint = _named(scope["path"])
        adapter = self._adapters.get(provider)
        known = UNKNOWN if adapter is None else provider
        try:
            answer, extra = await self._receive(scope, receive, adapter, provider, endpoint)
        except Refused as refused:
            self._reports.refused(known, refused)
            answer, extra = _error(refused)
        self._reports.answered(known, answer.status, self._clock.monotonic() - began)
        headers = [*_content_headers(answer.content_type, len(answer.body)), *extra]
        await send_answer(scope, send, answer.status, headers, answer.body)

    async def _receive(
        self, scope: Scope, receive: Receive, adapter: Adapter | None, provider: str, endpoint: str | None
    ) -> tuple[Answer, Extra]:
        """Returns the answer, and headers to go with it."""
        if adapter is None:
            raise Refused("unknown_provider", known=", ".join(sorted(self._adapters)))
        context = self._reader.context(provider, endpoint)
        if scope["method"] != "POST":
            raise Refused("wrong_method", allow="POST")
        request = self._bodies.begin(scope, adapter.media_type)
        try:
            body = await self._bodies.read(receive, request)
            webhook = Webhook(body, scope["headers"], endpoint or DEFAULT_ENDPOINT, mode=context.mode)
            return await self._taken(adapter, webhook, endpoint, context)
        finally:
            request.end()

    async def _taken(
        self, adapter: Adapter, webhook: Webhook, endpoint: str | None, context: Context
    ) -> tuple[Answer, Extra]:
        """Takes the request's events, and says what adapter and provider refuse."""
        # A request goes through six steps, the first three in `EventReader`, the others in the claim protocol:
        # 1. verify: its signature, or its provider's API, says whose it is.
        # 2. name: its bytes become events, or poison.
        # 3. mask: card data leaves them.
        # 4. claim: Redis says which of them nobody has published.
        # 5. publish: Kafka acknowledges those.
        # 6. confirm: Redis is told so; the answer doesn't wait for it.
        received_at = self._clock.now()
        try:
            events, left_out, is_there = await self._reader.events(adapter, webhook, endpoint, context, received_at)
            accepted, mode = adapter.accepted(), context.mode
            self._reports.left_out(left_out, accepted.status, received_at, mode)
            if events:
                return self._answer(adapter, await self._take(events, received_at, traceparent_of(webhook.headers)))
            if not left_out:
                self._reports.held_nothing(adapter.name, accepted.status, received_at, mode, is_there=is_there)
            return accepted, NO_EXTRA
        except SignatureInvalid as invalid:
            status = None if invalid.reason == "several" else adapter.signature_status
            raise Refused(f"signature_{invalid.reason}", status=status, problem=str(invalid)) from None
        except Unparseable as unreadable:
            raise Refused("unreadable", problem=str(unreadable)) from None
        except ModeMismatch as mismatch:
            raise Refused("mode_mismatch", problem=str(mismatch)) from None
        except FetchFailed as failed:
            pause_s = None if failed.retry_after_s is None else math.ceil(failed.retry_after_s)
            if isinstance(failed, NotThereYet):
                raise Refused("not_there", retry_after_s=pause_s, cause=str(failed)) from None
            raise Refused("not_fetched", retry_after_s=pause_s, cause=str(failed)) from None
        except (SecretsMissing, SecretsShared, SettingError, CredentialsRefused) as wrong:
            raise Refused("not_configured", provider=adapter.name, cause=str(wrong)) from None

    def _answer(self, adapter: Adapter, result: Taken) -> tuple[Answer, Extra]:
        accepted = adapter.accepted()
        failed, in_flight_still = result.failed, result.in_flight
        status = 503 if failed else 409 if in_flight_still else accepted.status
        self._reports.took(adapter.name, result, status)
        if failed:
            raise Refused("not_published")
        if in_flight_still:
            raise Refused("in_flight")
        return accepted, REPLAYED if result.replayed else NO_EXTRA


def _named(path: str) -> tuple[str, str | None]:
    """``/webhooks/stripe/eu`` is ``("stripe", "eu")``; what goes deeper is no endpoint's name."""
    provider, slash, endpoint = path.partition("/webhooks/")[2].partition("/")
    return provider, endpoint if slash else None


def _error(refused: Refused) -> tuple[Answer, Extra]:
    headers = [(b"connection", b"close")] if refused.closes else []
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if refused.allow is not None:
        headers.append((b"allow", refused.allow.encode()))
    return Answer(refused.status, refused.json(), "application/json"), headers


@functools.lru_cache(maxsize=64)
def _content_headers(content_type: str, length: int) -> Extra:
    return [(b"content-type", content_type.encode()), (b"content-length", b"%d" % length)]
