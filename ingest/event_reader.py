"""Reads a request's events: verifies it, names its events, poison where they can't be read, and masks card data."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from core.errors import Unparseable
from core.event import CATCH_UP, OWN_TYPES, Event, poison_event
from core.http_fields import strip_blanks
from core.log import event_fields
from ingest.body import RawHeaders
from ingest.endpoints import ENDPOINT, EndpointContext, EndpointContexts, UnknownEndpoint
from ingest.errors import RequestRefused
from ingest.pan import CardMasker
from ingest.verifier import Verifier
from providers.port import DEFAULT_ENDPOINT, Adapter, ModeMismatch, Request

log = logging.getLogger(__name__)

ON_LOOP_BYTES_MAX = 16 << 10
"""A larger body is read in a thread: one full of digits takes 0.7 s for each MB, and others would wait for it."""

TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class ReadEvents(NamedTuple):
    """A request's events. ``left_out``: of test mode, while no test traffic is taken. ``is_there``: False where the
    provider's API doesn't know what it is about.
    """

    events: list[Event]
    left_out: list[Event]
    is_there: bool


class EventReader:
    def __init__(self, verifier: Verifier, contexts: EndpointContexts, masker: CardMasker) -> None:
        self._verifier = verifier
        self._contexts = contexts
        self._masker = masker
        self._large = asyncio.Semaphore(1)

    def find_context(self, provider: str, endpoint: str | None) -> EndpointContext:
        if endpoint is not None and not ENDPOINT.fullmatch(endpoint):
            raise RequestRefused("unknown_endpoint")
        try:
            return self._contexts.find_context(provider, endpoint)
        except UnknownEndpoint:
            raise RequestRefused("unknown_endpoint") from None

    async def read_events(
        self, adapter: Adapter, webhook: Request, endpoint: str | None, context: EndpointContext, received_at: datetime
    ) -> ReadEvents:
        """Reads nothing of a body before its signature is verified, and gives no event before the request is admitted.

        :raises ModeMismatch: the request or one of its events is of another mode than is taken there
        :raises RequestRefused: 503, an event can't be looked through for card data; 429, beyond the provider's rate
        :raises SignatureInvalid, Unparseable, FetchFailed, CredentialsRefused, SecretsMissing, SecretsShared,
            SettingError: see `Verifier.verify` and `Verifier.admit_request`
        """
        webhook = await self._verifier.verify(adapter, webhook, endpoint, received_at)
        events = await self._read_body(adapter, webhook, context)
        await self._verifier.admit_request(adapter, webhook, endpoint, bool(events))
        taken = [event for event in events if self._contexts.may_take(event)]
        left_out = [event for event in events if not self._contexts.may_take(event)]
        return ReadEvents(taken, left_out, webhook.fetched is None or webhook.fetched.is_there)

    async def read_listed(
        self, adapter: Adapter, body: bytes, endpoint: str | None, context: EndpointContext
    ) -> list[Event]:
        """Returns the events of a body that the provider's API listed, those of them whose mode is taken here.

        What they point to isn't asked for: this is enough to know which they are.

        :raises ModeMismatch: it is of another mode than is taken there
        :raises RequestRefused: 503, an event can't be looked through for card data
        """
        return await self._read_catch_up(adapter, _as_webhook(body, endpoint, context), context)

    async def follow_listed(
        self, adapter: Adapter, body: bytes, endpoint: str | None, context: EndpointContext, now: datetime
    ) -> list[Event]:
        """Reads events as `read_listed` does, with what they point to.

        :raises ModeMismatch: it is of another mode than is taken there
        :raises RequestRefused: 503, an event can't be looked through for card data
        :raises FetchFailed, CredentialsRefused, SecretsMissing, SettingError: see `Verifier.follow`
        """
        webhook = _as_webhook(body, endpoint, context)
        return await self._read_catch_up(
            adapter, await self._verifier.follow(adapter.name, webhook, endpoint, now), context
        )

    async def _read_catch_up(self, adapter: Adapter, webhook: Request, context: EndpointContext) -> list[Event]:
        events = await self._read_body(adapter, webhook, context)
        return [replace(event, source=CATCH_UP) for event in events if self._contexts.may_take(event)]

    async def _read_body(self, adapter: Adapter, webhook: Request, context: EndpointContext) -> list[Event]:
        """Signed but unreadable is poison: it is kept and answered 2xx, because sending it again can't help."""
        if len(webhook.body) <= ON_LOOP_BYTES_MAX:
            return self._name_events(adapter, webhook, context)
        # One at a time: each thread more would take as much of the loop's time again.
        async with self._large:
            return await asyncio.to_thread(self._name_events, adapter, webhook, context)

    def _name_events(self, adapter: Adapter, webhook: Request, context: EndpointContext) -> list[Event]:
        name, mode = adapter.name, context.mode
        try:
            events = adapter.events(webhook, mode)
        except ModeMismatch:
            raise
        except Unparseable as unreadable:
            events = [poison_event(name, webhook.body, mode, unreadable.problem)]
            log.warning("%s sent signed bytes that can't be read", name, extra=_build_log_fields(webhook))
        except Exception as bug:
            # A 500 would use up the provider's retries; as poison the bytes wait for the corrected adapter.
            problem = type(bug).__name__
            events = [poison_event(name, webhook.body, mode, f"the adapter failed: {problem}")]
            log.error("the adapter of %s failed on signed bytes: %s", name, problem, extra=_build_log_fields(webhook))
        return [
            self._contexts.route_event(self._mask_event(adapter, _reject_own_type(event)), context) for event in events
        ]

    def _mask_event(self, adapter: Adapter, event: Event) -> Event:
        """Masks card data. Where that fails nothing is published: the provider sends the event again until it works."""
        try:
            return self._masker.mask_event(event, adapter)
        except Exception as bug:
            raise RequestRefused("not_masked", cause=f"an event of {adapter.name}: {type(bug).__name__}") from None


def _as_webhook(body: bytes, endpoint: str | None, context: EndpointContext) -> Request:
    return Request(body, (), endpoint or DEFAULT_ENDPOINT, mode=context.mode)


def _reject_own_type(event: Event) -> Event:
    """Makes poison of an event whose type is one of payhook's own: a type says how an event is booked."""
    if not event.event_type.startswith(OWN_TYPES):
        return event
    return poison_event(event.provider, event.body, event.mode, f"only payhook makes events of a type {OWN_TYPES}…")


def traceparent_of(headers: RawHeaders) -> str | None:
    for name, value in headers:
        if name == b"traceparent" and TRACEPARENT.fullmatch(strip_blanks(value)):
            return strip_blanks(value).decode("ascii")
    return None


def _build_log_fields(webhook: Request) -> dict[str, str]:
    """Names the trace alone: the key of what can't be read is a hash of bytes that aren't masked yet."""
    return event_fields(None, traceparent_of(webhook.headers))
