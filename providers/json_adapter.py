"""What adapters of JSON webhooks have in common: one of them is identities, money and a signature."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import EllipsisType, MappingProxyType
from typing import Any, NamedTuple

from core import strict_json
from core.event import Event, Mode
from core.keys import join_key
from core.money import MoneyFact
from providers.fields import ContentVersionUnknown, an_object, certain, content_hash, entity_key
from providers.port import ACCEPTED, Answer, Request
from providers.settings import ProvidersSettings


class Named(NamedTuple):
    """What an event is called. ``entity``: what its order is kept for, a payment where there is one.

    ``key``: what tells the event from others of its type, where its id alone doesn't. ``mode``: where the provider
    signs it; None: the endpoint's.
    """

    event_id: str
    event_type: str
    account: str
    entity: str
    occurred_at: datetime | None
    key: tuple[str, ...] | None = None
    mode: Mode | None = None


class Delivered(NamedTuple):
    """A document, the request that it came in, and the endpoint's mode."""

    document: dict[str, Any]
    request: Request
    mode: Mode


class JsonAdapter(ABC):
    """An `Adapter` whose events are JSON objects; unless `events` says otherwise, a request is one of them.

    ``left_out``: by content version, the top-level fields that differ between deliveries of one event.
    """

    name: str
    identity_fields: frozenset[str]
    signature_status = 401
    content_version = 1
    left_out: Mapping[int, Collection[str]] = MappingProxyType({1: ()})

    def __init__(self, settings: ProvidersSettings) -> None:
        self._settings = settings

    @abstractmethod
    def named(self, delivered: Delivered) -> Iterable[Named]:
        """The events that a document tells of, in their order.

        :raises Unparseable: it names none for sure
        :raises ModeMismatch: an unsigned live flag says otherwise than the endpoint
        """

    @abstractmethod
    def fact(self, document: dict[str, Any], event_type: str) -> MoneyFact | None:
        """What money moved; None for none.

        :raises MoneyInvalid, Unparseable: it isn't certain
        """

    @abstractmethod
    def key(self, secret: str) -> bytes:
        """What a secret signs with.

        :raises SettingError: empty, or not of the provider's form
        """

    def events(self, request: Request, mode: Mode) -> list[Event]:
        delivered = Delivered(an_object(request.document, "the body"), request, mode)
        return self.read(delivered, request.body)

    def read(self, delivered: Delivered, body: bytes) -> list[Event]:
        """The events of a document, each with the document's exact bytes."""
        return [self._event(delivered, body, named) for named in self.named(delivered)]

    def _event(self, delivered: Delivered, body: bytes, named: Named) -> Event:
        document = delivered.document
        name, event_type, account = self.name, named.event_type, named.account
        fact = certain(lambda: self.fact(document, event_type))
        return Event(
            provider=name,
            event_id=named.event_id,
            event_type=event_type,
            event_key=join_key(name, *(named.key or (named.event_id,)), event_type),
            entity_key=self.entity_key(named),
            content_sha256=self.content(document, self.content_version, fact),
            content_version=self.content_version,
            body=body,
            mode=named.mode or delivered.mode,
            account=account,
            occurred_at=named.occurred_at,
            fact_key=fact.fact_key if fact else None,
            fact_sha256=fact.sha256 if fact else None,
        )

    def entity_key(self, named: Named) -> str:
        """What the event's order is kept for."""
        return entity_key(self._settings.entity, self.name, named.account, named.entity)

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return self.fact(an_object(strict_json.loads(body), "the body"), event_type)

    def content_sha256(self, body: bytes, version: int) -> str:
        if version == 0:
            return hashlib.sha256(body).hexdigest()
        if not 1 <= version <= self.content_version:
            raise ContentVersionUnknown(self.name, version)
        return self.content(an_object(strict_json.loads(body), "the body"), version)

    def content(
        self,
        document: Mapping[str, Any],
        version: int,
        fact: MoneyFact | EllipsisType | None = ...,  # noqa: ARG002 - for an adapter whose content rests on it
    ) -> str:
        """The content hash of an event, as that version made it. ``fact``: what it reports for sure, where known."""
        return content_hash(document, self.left_out[version])

    def accepted(self) -> Answer:
        return ACCEPTED

    def check_secret(self, secret: str) -> None:
        self.key(secret)
