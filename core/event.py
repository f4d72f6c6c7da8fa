"""An event as its adapter names it, and how Kafka carries it (CloudEvents binding plus our headers).

The headers have a version, ``major.minor``. A minor one adds headers, or says more in one: code that knows an older
minor reads it and passes over what is new. A major one can't be read by older code. Every version that a release wrote
stays readable, since Kafka holds records for days and the journal their headers for ever: `STEPS` lifts a record from
one version to the next, and `from_record` knows the newest form only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, TypeAlias, cast
from urllib.parse import quote, unquote

from core.clock import from_rfc3339, to_rfc3339
from core.errors import Unparseable
from core.keys import ENCODED_CHARS_MAX, decode_name, encode_name, join_key

VERSION_HEADER = "schema_version"
POISON_CHARS_MAX = 500

Version: TypeAlias = tuple[int, int]
Texts: TypeAlias = dict[str, str]

SCHEMA_VERSION: Version = (1, 1)
"""That of release 0.1.0, and the first that a release wrote."""

_VERSION = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_PLAIN = " !\"#$&'()*+,/;<=>?@[]^{|}"

_SCHEMA_VERSION_TEXT = b"%d.%d" % SCHEMA_VERSION
POISON_TYPE = "poison"
CATCH_UP = "catch-up"
"""The source of an event that its provider's API listed; a webhook's event has no source."""
OWN_TYPES = "payhook."
"""Begins the types of events that payhook makes by itself. No webhook may claim one."""
REVERSED_TYPE = OWN_TYPES + "reversed"
"""A stream's record of a booking that was taken back in the journal that it reads."""
ELSEWHERE_TYPE = OWN_TYPES + "elsewhere"
"""Of no event: a journal's row of offsets that aren't its stream's (`core.where`)."""
SHA256_HEX_CHARS = 64
WITHHELD_SHA256 = "0" * SHA256_HEX_CHARS
"""Stands for the hash of what was masked where not even a keyed one may be kept."""
HEADER_CHARS_MAX = ENCODED_CHARS_MAX
"""Of a name in a header. A key has a handful of parts, of `core.keys.PART_CHARS_MAX` characters at most."""

_BOUNDED = (
    "provider",
    "ce_id",
    "ce_type",
    "event_key",
    "entity_key",
    "account",
    "fact_key",
    "tenant",
    "zone",
    "source",
)
CONTENT_VERSION_MAX = 255
"""The index keeps it in a byte."""

Mode: TypeAlias = Literal["live", "test"]
Headers: TypeAlias = list[tuple[str, bytes]]


class Dedupe(StrEnum):
    """The receiver's finding about a published event. Information only: the journal decides."""

    CLAIMED = "claimed"
    RECLAIMED = "reclaimed"
    CONFLICT = "conflict"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class Event:
    """Holds one provider event with its identities; ``body`` holds its exact bytes.

    ``event_id``, ``event_type`` and ``account`` are raw, as the provider writes them (`core.keys.name_of`); keys are
    texts of encoded parts. Hashes are lower-case hex SHA-256. ``content_sha256`` leaves out what differs between
    deliveries; ``content_version`` is the version of that list. ``poison`` says why signed bytes couldn't be read.
    ``original_sha256`` is set where card data was masked: a keyed hash of the bytes as the provider sent them, or
    `WITHHELD_SHA256`. ``body`` and every other hash are of the masked bytes. ``original_content_sha256`` is then a
    keyed hash of the content hash of the event as it was sent; None where it is withheld. Copies that were masked in
    different ways share it. ``tenant`` and ``zone`` are the endpoint's. ``source``: `CATCH_UP`, or None.
    """

    provider: str
    event_id: str
    event_type: str
    event_key: str
    entity_key: str
    content_sha256: str
    content_version: int
    body: bytes
    mode: Mode
    account: str
    occurred_at: datetime | None = None
    fact_key: str | None = None
    fact_sha256: str | None = None
    poison: str | None = None
    original_sha256: str | None = None
    original_content_sha256: str | None = None
    tenant: str | None = None
    zone: str | None = None
    source: str | None = None

    @property
    def body_sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    event: Event
    received_at: datetime
    dedupe: Dedupe
    headers: dict[str, str]


def poison_event(provider: str, body: bytes, mode: Mode, problem: str) -> Event:
    """Makes the event of signed bytes that no adapter can read: its identity and its entity are their hash."""
    digest = hashlib.sha256(body).hexdigest()
    return Event(
        provider=provider,
        event_id=digest,
        event_type=POISON_TYPE,
        event_key=join_key(provider, digest, POISON_TYPE),
        entity_key=join_key(provider, POISON_TYPE, digest),
        content_sha256=digest,
        content_version=0,
        body=body,
        mode=mode,
        account="",
        poison=problem[:POISON_CHARS_MAX],
    )


def to_headers(event: Event, received_at: datetime, dedupe: Dedupe, traceparent: str | None = None) -> Headers:
    """Returns the Kafka headers of an event; the record's value is ``event.body``, its key ``event.entity_key``.

    CloudEvents 1.0 in binary mode (Kafka protocol binding), then payhook's own. Texts that come from a body are
    percent-encoded, so that no control character reaches a header.
    """
    source = f"/webhooks/{event.provider}" + (f"?tenant={event.tenant}" if event.tenant is not None else "")
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", encode_name(event.event_id).encode()),
        ("ce_source", source.encode()),
        ("ce_type", encode_name(event.event_type).encode()),
        (VERSION_HEADER, _SCHEMA_VERSION_TEXT),
        ("provider", event.provider.encode()),
        ("event_key", event.event_key.encode()),
        ("entity_key", event.entity_key.encode()),
        ("account", encode_name(event.account).encode()),
        ("content_sha256", event.content_sha256.encode()),
        ("content_version", b"%d" % event.content_version),
        ("body_sha256", event.body_sha256.encode()),
        ("received_at", to_rfc3339(received_at).encode()),
        ("dedupe", dedupe.value.encode()),
        ("mode", event.mode.encode()),
    ]
    optional = (
        ("fact_key", event.fact_key),
        ("fact_sha256", event.fact_sha256),
        ("ce_time", None if event.occurred_at is None else to_rfc3339(event.occurred_at)),
        ("traceparent", traceparent),
        ("original_sha256", event.original_sha256),
        ("original_content_sha256", event.original_content_sha256),
        ("tenant", event.tenant),
        ("zone", event.zone),
        ("source", event.source),
        ("poison", quote_text(event.poison) if event.poison else None),
    )
    return headers + [(name, text.encode()) for name, text in optional if text is not None]


def from_record(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> ReceivedEvent:
    """Inverts `to_headers`, for records of every version that was ever written.

    :raises Unparseable: the record wasn't written by a receiver, or by one of a newer major version than this code
    """
    as_received = {name: raw.decode("utf-8", "replace") for name, raw in headers if raw is not None}
    try:
        texts = upcast_headers(as_received)
        for name in _BOUNDED:
            if len(texts.get(name, "")) > HEADER_CHARS_MAX:
                raise ValueError(f"{name} has more than {HEADER_CHARS_MAX} characters")
        occurred = texts.get("ce_time")
        event = Event(
            provider=texts["provider"],
            event_id=decode_name(texts["ce_id"]),
            event_type=decode_name(texts["ce_type"]),
            event_key=texts["event_key"],
            entity_key=texts["entity_key"],
            content_sha256=_check_sha256(texts["content_sha256"]),
            content_version=_parse_version(texts["content_version"]),
            body=value or b"",
            mode=cast(Mode, texts["mode"]),
            account=decode_name(texts["account"]),
            occurred_at=from_rfc3339(occurred) if occurred else None,
            fact_key=texts.get("fact_key"),
            fact_sha256=_hash_in(texts, "fact_sha256"),
            poison=unquote_text(texts["poison"]) if "poison" in texts else None,
            original_sha256=_hash_in(texts, "original_sha256"),
            original_content_sha256=_hash_in(texts, "original_content_sha256"),
            tenant=texts.get("tenant"),
            zone=texts.get("zone"),
            source=texts.get("source"),
        )
        return ReceivedEvent(event, from_rfc3339(texts["received_at"]), Dedupe(texts["dedupe"]), as_received)
    except KeyError as missing:
        raise Unparseable(f"header {missing.args[0]!r} is missing") from missing
    except ValueError as wrong:
        raise Unparseable(f"a header is wrong: {wrong}") from wrong


def _check_sha256(text: str) -> str:
    if len(text) != SHA256_HEX_CHARS or bytes.fromhex(text).hex() != text:
        raise ValueError(f"{text[:80]!r} is no SHA-256 in lower-case hex")
    return text


def _hash_in(texts: Mapping[str, str], name: str) -> str | None:
    return _check_sha256(texts[name]) if name in texts else None


def _parse_version(text: str) -> int:
    version = int(text)
    if not 0 <= version <= CONTENT_VERSION_MAX:
        raise ValueError(f"content_version {text[:20]!r} isn't between 0 and {CONTENT_VERSION_MAX}")
    return version


@dataclass(frozen=True, slots=True)
class Step:
    version: Version
    lift: Callable[[Texts], None]


STEPS: tuple[Step, ...] = ()
"""Oldest first, one a version that a release wrote before this one."""


def version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def quote_text(text: str) -> str:
    """Percent-encodes what isn't plain ASCII for a header, and cuts to `POISON_CHARS_MAX`."""
    return quote(text[:POISON_CHARS_MAX], safe=_PLAIN, errors="backslashreplace")


def unquote_text(text: str) -> str:
    plain = unquote(text)[:POISON_CHARS_MAX]
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in plain)


def upcast_headers(texts: Texts, steps: Sequence[Step] = STEPS, newest: Version = SCHEMA_VERSION) -> Texts:
    """Lifts a record's header texts to the form of ``newest``, without changing the given ones.

    Those of this version and of a newer minor one are given back.

    :raises KeyError: there is no version
    :raises Unparseable: it can't be read, is of a newer major version, or of one that no step begins at
    """
    version = _schema_version(texts[VERSION_HEADER])
    if version[0] > newest[0]:
        version_given, version_known = version_text(version), version_text(newest)
        raise Unparseable(f"header schema {version_given} is newer than {version_known}: upgrade the processor first")
    if version >= newest:
        return texts
    due = [step for step in steps if step.version >= version]
    if not due or due[0].version != version:
        raise Unparseable(f"no release wrote header schema {version_text(version)}: have the provider send it again")
    lifted = dict(texts)
    for step in due:
        step.lift(lifted)
    return lifted


def _schema_version(text: str) -> Version:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise Unparseable(f"header {VERSION_HEADER} is wrong: expected a version such as 1.1, got {text[:40]!r}")
    return int(match[1]), int(match[2] or 0)
