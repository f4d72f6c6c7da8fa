"""Where live and test traffic go: each mode has topics, a work stream and keys of its own."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from core.event import Event, Mode

MODES: Final[tuple[Mode, ...]] = ("live", "test")
TENANT_MARK = "~"
"""Between a tenant and a key. No tenant's and no provider's name has it, so a key says by itself whose it is."""

_TEST_TOPIC, _TEST_STREAM = ".test", "-test"

PARTITIONER = "murmur2_random"
"""Of topics that others publish to as well. It is librdkafka's name of Java's own."""

JOURNAL_TOPIC = "journal."
"""Begins the name under which a stream reads another's journal: there, offsets are seqs, with gaps between them."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """One mode's topics, beside ``dlq.<stream>``."""

    events: str
    control: str
    receipts: str
    anchors: str


def _named(suffix: str) -> TopicNames:
    return TopicNames(*(f"payments.{name}{suffix}" for name in ("events", "control", "receipts", "anchors")))


_TOPICS = MappingProxyType({"live": _named(""), "test": _named(_TEST_TOPIC)})


_EVENTS = frozenset(names.events for names in _TOPICS.values())
_CONTROL = frozenset(names.control for names in _TOPICS.values())


def is_events(topic: str) -> bool:
    """Whether a topic is one that receivers publish events to."""
    return topic in _EVENTS


def topics_of(mode: Mode) -> TopicNames:
    """``payments.events`` and its like; with ``.test`` at the end for test traffic."""
    return _TOPICS[mode]


def partition_of(topic: str, key: bytes, events_partitions: int) -> int | None:
    """The partition of a record of ``payments.events`` or ``payments.control``; None for every other topic.

    It goes by the number that is configured, not by the topic's own: a topic that grows moves no entity.
    """
    if is_events(topic):
        return zlib.crc32(key) % events_partitions
    return 0 if topic in _CONTROL else None


def stream_of(stream: str, mode: Mode) -> str:
    """A work stream's name in a mode: ``ledger``, or ``ledger-test``."""
    return stream if mode == "live" else f"{stream}{_TEST_STREAM}"


def mode_of(stream: str) -> Mode:
    """The mode whose events a work stream decides: the inverse of `stream_of`."""
    return "test" if stream.endswith(_TEST_STREAM) else "live"


def base_of(stream: str) -> str:
    """A work stream's name as it is configured: ``ledger`` for ``ledger-test`` too."""
    return stream.removesuffix(_TEST_STREAM)


def in_mode(topic: str, mode: Mode) -> str:
    """A topic's name in a mode: ``orders``, or ``orders.test``."""
    return topic if mode == "live" else f"{topic}{_TEST_TOPIC}"


def dlq_topic(stream: str) -> str:
    """The topic of a work stream's dead letters."""
    return f"dlq.{stream}"


def journal_topic(stream: str, receiver: str) -> str:
    """What a receiver gets of a stream's journal, as a topic's name: ``journal.ledger/shop-a``."""
    return f"{JOURNAL_TOPIC}{stream}/{receiver}"


def source_of(topic: str) -> str:
    """The stream whose journal a topic of `journal_topic` is."""
    return topic.removeprefix(JOURNAL_TOPIC).partition("/")[0]


def receiver_of(topic: str) -> str:
    """Whose a topic of `journal_topic` is. A stream's name has no slash."""
    return topic.partition("/")[2]


def is_sparse(topic: str) -> bool:
    """Whether a topic's offsets may have gaps between them."""
    return topic.startswith(JOURNAL_TOPIC)


def of_tenant(tenant: str | None, key: str) -> str:
    """A key with its tenant: ``shop-a~stripe:evt_1:charge.succeeded``; as it is without one."""
    return key if tenant is None else f"{tenant}{TENANT_MARK}{key}"


def scoped(event: Event, tenant: str | None, zone: str | None) -> Event:
    """The event as that tenant's, from that zone; the adapter named it without either."""
    if tenant is None and zone is None:
        return event
    return replace(
        event,
        event_key=of_tenant(tenant, event.event_key),
        entity_key=of_tenant(tenant, event.entity_key),
        fact_key=None if event.fact_key is None else of_tenant(tenant, event.fact_key),
        tenant=tenant,
        zone=zone,
    )
