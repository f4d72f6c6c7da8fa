"""The base of adapters: each is identities, money and a signature."""

from __future__ import annotations

import hashlib
import secrets as random_secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from core import strict_json
from core.errors import Unparseable
from core.event import Event, Mode, poison_event
from core.keys import join_key, name_of
from core.money import MoneyFact, MovementUnknown
from providers.content import hash_fields
from providers.event_types import EventTypes, Meaning
from providers.fields import ContentVersionUnknown, Path, an_object, content_hash, entity_key
from providers.money import (
    WITHHELD,
    list_fee_types,
    make_person_error,
    read_if_certain,
    read_withheld,
    split_fee,
    types_of,
)
from providers.port import ACCEPTED, JSON, Answer, Request
from providers.settings import ProvidersSettings
from providers.signature import TOLERANCE_S, check_age, find_matching, hex_mac, sent

D = TypeVar("D")
JsonObject = dict[str, Any]


class Named(NamedTuple):
    """The names of an event. ``entity``: a payment where there is one; events of one entity are kept in order.

    ``key``: what tells the event from others of its type, where its id alone doesn't. ``mode``: where the provider
    signs it; None: the endpoint's. ``is_loss``: a lost dispute, which makes two events (`providers.money.types_of`).
    """

    event_id: str
    event_type: str
    account: str
    entity: str
    occurred_at: datetime | None
    key: tuple[str, ...] | None = None
    mode: Mode | None = None
    is_loss: bool = False


class Delivered(NamedTuple, Generic[D]):
    document: D
    request: Request
    mode: Mode


def as_kept(fact: MoneyFact | None) -> MoneyFact | None:
    """Returns the fact with its account as events have it (`core.keys.name_of`)."""
    if fact is None or name_of(fact.account) == fact.account:
        return fact
    return replace(fact, account=name_of(fact.account))


class Signed(NamedTuple):
    """The proof of a request: its signatures, the bytes that they are of, and the Unix time in those, if there is one.

    What the time must have to count, `BaseAdapter.verify` checks.
    """

    signatures: Sequence[bytes]
    message: bytes
    signed_at: int | None = None


class BaseAdapter(ABC, Generic[D]):
    """An `Adapter` that reads events from documents; unless `events` says otherwise, a request is one of them.

    ``header``: has the signature, in lower case. ``key_prefix``: how the provider's secrets begin.
    ``tolerance_s``: seconds that a signed time may be off the clock, both ways. ``accounts_in_entities``: False where
    not every event of a payment names the merchant account, and ids are unique without. ``splits_losses``: a lost
    dispute makes two events (`Named.is_loss`). ``looked_up``: where a person finds the amounts of types that are
    left to one. ``ledger``: the provider whose movements and payments they are; None: its own.
    """

    name: str
    ledger: str | None = None
    identity_fields: frozenset[str]
    envelopes: frozenset[str] = frozenset()
    header: bytes
    media_type = JSON
    signature_status = 401
    content_version = 1
    key_prefix = ""
    tolerance_s: int = TOLERANCE_S
    accounts_in_entities = True
    splits_losses = False
    event_types: EventTypes
    looked_up = ""

    def __init__(self, settings: ProvidersSettings) -> None:
        self._settings = settings

    @abstractmethod
    def parsed(self, body: bytes) -> D:
        """Parses the document that an event's bytes are.

        :raises Unparseable: they are none
        """

    @abstractmethod
    def named(self, delivered: Delivered[D]) -> Iterable[Named]:
        """Names the events that a document tells of, in their order.

        :raises Unparseable: it names none for sure
        :raises ModeMismatch: an unsigned live flag says otherwise than the endpoint
        """

    @abstractmethod
    def fact(self, document: D, event_type: str) -> MoneyFact | None:
        """Reads what money moved; None for none.

        :raises MoneyInvalid, Unparseable: it isn't certain
        :raises MovementUnknown: no table says what a value that decides it means
        """

    def fees(self, document: D, event_type: str) -> Sequence[MoneyFact]:  # noqa: ARG002 - for adapters that override it
        """Reads the fees that a document tells of, none of them zero, each a movement of its own.

        :raises MoneyInvalid, MovementUnknown, Unparseable: as `fact`
        """
        return ()

    @abstractmethod
    def content(self, document: D, version: int) -> str:
        """Hashes an event's content, as that version made it."""

    def content_now(self, document: D, fact: MoneyFact | None) -> str:  # noqa: ARG002 - for adapters that override it
        """Hashes the content as `content_version` makes it; ``fact`` is what the event reports for sure."""
        return self.content(document, self.content_version)

    @abstractmethod
    def key(self, secret: str) -> Any:
        """Returns the key that a secret stands for: the bytes of an HMAC's key, unless `proven` is another check.

        :raises SettingError: empty, or not of the provider's form
        """

    def signed(self, request: Request) -> Signed:
        """Returns the proof: the body, signed in a header of its own. A provider that signs something else says what.

        :raises SignatureInvalid: ``missing``, ``several`` or ``malformed``
        """
        return Signed(sent(request, self.header), request.body)

    def signature(self, key: Any, message: bytes) -> bytes:
        return hex_mac(key, message)

    def proven(self, signed: Signed, keys: Sequence[Any]) -> int:
        """Returns the index of the key that signed.

        :raises SignatureInvalid: none did
        """
        return find_matching(signed.signatures, [self.signature(key, signed.message) for key in keys])

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:
        signed = self.signed(request)
        index = self.proven(signed, [self.key(secret) for secret in secrets])
        if signed.signed_at is not None:
            # The last check, so that a forger learns nothing about the clock.
            check_age(signed.signed_at, now, self.tolerance_s)
        return index

    def events(self, request: Request, mode: Mode) -> list[Event]:
        return self.read(Delivered(self.parsed(request.body), request, mode), request.body)

    def read(self, delivered: Delivered[D], body: bytes) -> list[Event]:
        """Reads the events of a document, each with the document's exact bytes."""
        return [
            self._build_event(delivered, body, named._replace(event_type=event_type))
            for named in self.named(delivered)
            for event_type in (
                *(types_of(named.event_type) if named.is_loss else (named.event_type,)),
                *self._list_fee_types(delivered.document, named.event_type),
            )
        ]

    def _list_fee_types(self, document: D, event_type: str) -> Iterable[str]:
        """A fee is an event of its own, of the same bytes: it may be told later than its payment, or by another view.

        Where they can't be read for sure, though the notification's money can, one event fails when it is handled.
        """
        if self.meaning_of(document, event_type) != "books":
            return ()
        fees = read_if_certain(lambda: self.fees(document, event_type))
        if fees is not None:
            return list_fee_types(event_type, len(fees))
        is_read = read_if_certain(lambda: (self.fact(document, event_type),)) is not None
        return list_fee_types(event_type, 1 if is_read else 0)

    def _build_event(self, delivered: Delivered[D], body: bytes, named: Named) -> Event:
        document, event_type = delivered.document, named.event_type
        fact = read_if_certain(lambda: self._read_kept_fact(document, event_type))
        told_by = split_fee(event_type)[0].removesuffix(WITHHELD)
        reported = fact if told_by == event_type else read_if_certain(lambda: self._read_kept_fact(document, told_by))
        return Event(
            provider=self.name,
            event_id=named.event_id,
            event_type=name_of(event_type),
            event_key=self.event_key(named),
            entity_key=self.entity_key(named),
            content_sha256=self.content_now(document, reported),
            content_version=self.content_version,
            body=body,
            mode=named.mode or delivered.mode,
            account=name_of(named.account),
            occurred_at=named.occurred_at,
            fact_key=fact.fact_key if fact else None,
            fact_sha256=fact.sha256 if fact else None,
        )

    def _read_kept_fact(self, document: D, event_type: str) -> MoneyFact | None:
        return as_kept(self._read_fact(document, event_type))

    def _read_fact(self, document: D, event_type: str) -> MoneyFact | None:
        told_type = event_type
        if self.event_types.meaning_of(event_type) == "unknown":
            # No type of the provider's: perhaps one that payhook made of it.
            told_by, number = split_fee(event_type)
            if number and self.meaning_of(document, told_by) == "books":
                return self._read_fee(document, event_type)
            of_loss = event_type.removesuffix(WITHHELD)
            if self.splits_losses and self.meaning_of(document, of_loss) == "books":
                told_type = of_loss
        meaning = self.meaning_of(document, told_type)
        if meaning == "person":
            raise make_person_error(event_type, self.looked_up)
        if meaning == "nothing":
            return None
        if meaning == "unknown":
            raise MovementUnknown("type", event_type)
        if not self.splits_losses:
            return self.fact(document, event_type)
        fact = read_withheld(event_type, lambda read_type: self.fact(document, read_type))
        if fact is None and told_type != event_type:
            raise MovementUnknown("type", event_type)
        return fact

    def _read_fee(self, document: D, event_type: str) -> MoneyFact:
        """
        :raises MovementUnknown: the document tells of fewer fees, so that payhook made no such type
        """
        told_by, number = split_fee(event_type)
        fees = self.fees(document, told_by)
        if number > len(fees):
            raise MovementUnknown("type", event_type)
        return fees[number - 1]

    def meaning_of(self, document: D, event_type: str) -> Meaning:  # noqa: ARG002 - for adapters that override it
        return self.event_types.meaning_of(event_type)

    def event_key(self, named: Named) -> str:
        return join_key(self.name, *(named.key or (named.event_id,)), named.event_type)

    def entity_key(self, named: Named) -> str:
        kept_for = self._settings.entity
        account = named.account if self.accounts_in_entities or kept_for == "merchant" else ""
        return entity_key(kept_for, self.ledger or self.name, account, named.entity)

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        return self._read_kept_fact(self.parsed(body), event_type)

    def content_sha256(self, body: bytes, version: int) -> str:
        if version == 0:
            return hashlib.sha256(body).hexdigest()
        if not 1 <= version <= self.content_version:
            raise ContentVersionUnknown(self.name, version)
        return self.content(self.parsed(body), version)

    def accepted(self) -> Answer:
        return ACCEPTED

    def check_secret(self, secret: str) -> None:
        self.key(secret)

    def new_secret(self) -> str:
        return self.key_prefix + random_secrets.token_urlsafe(24)


class JsonAdapter(BaseAdapter[JsonObject]):
    """An adapter whose events are JSON objects.

    ``counts``: the fields that decide a conflict (`providers.content`), since content version 2. Version 1 is the whole
    body without the top-level fields ``left_out``, and all there is of an adapter that lists none. A list that changes
    makes a version of its own; ``added``: by version, the fields that weren't in the lists before.
    """

    left_out: ClassVar[Collection[str]] = ()
    counts: ClassVar[Sequence[Path]] = ()
    added: ClassVar[Mapping[int, Sequence[Path]]] = {}

    def parsed(self, body: bytes) -> JsonObject:
        return an_object(strict_json.load_json(body), "the body")

    def content(self, document: Mapping[str, Any], version: int) -> str:
        if version == 1:
            return content_hash(document, self.left_out)
        return hash_fields(document, self.counts if version == self.content_version else self._list_counts(version))

    def _list_counts(self, version: int) -> list[Path]:
        later = {path for since, paths in self.added.items() if since > version for path in paths}
        return [path for path in self.counts if path not in later]

    def events(self, request: Request, mode: Mode) -> list[Event]:
        # The request keeps its document, which is read once.
        return self.read(Delivered(an_object(request.document, "the body"), request, mode), request.body)

    def read_or_poison(self, item: object, body: bytes, request: Request, mode: Mode) -> list[Event]:
        """Reads the events of one item among several: an item that can't be named costs only itself."""
        try:
            return self.read(Delivered(an_object(item, "an event"), request, mode), body)
        except Unparseable as unreadable:
            return [poison_event(self.name, body, mode, unreadable.problem)]
