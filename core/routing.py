"""Says where live and test traffic go: each mode has topics, a work stream and keys of its own."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar

from core.event import Event, Mode

Value = TypeVar("Value")

MODES: Final[tuple[Mode, ...]] = ("live", "test")
FOREIGN = "kafka/"
"""Begins the provider of events of another program's topic; no provider's name has a slash."""

TENANT_MARK = "~"
"""Between a tenant and a key. No tenant's and no provider's name has it, so a key says by itself whose it is."""

TEST_TRAFFIC_OFF = "test_traffic_off"
"""The outcome of a test event that came to a live endpoint while no test traffic is taken. It is answered 2xx, and no
journal knows it."""

_TEST_TOPIC, _TEST_STREAM = ".test", "-test"

SHARD_MARK = "."
"""Before a shard's number in a stream's name; no stream that is configured has it."""

_MODE_AND_SHARD = re.compile(rf"({_TEST_STREAM})?({re.escape(SHARD_MARK)}[1-9][0-9]*)?")

PARTITIONER = "murmur2_random"
"""Of topics that others publish to as well. It is librdkafka's name of Java's own."""

JOURNAL_TOPIC = "journal."
"""Begins the name under which a stream reads another's journal: there, offsets are seqs, with gaps between them."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    events: str
    control: str
    receipts: str
    anchors: str


def _name_topics(suffix: str) -> TopicNames:
    return TopicNames(*(f"payments.{name}{suffix}" for name in ("events", "control", "receipts", "anchors")))


_TOPICS = MappingProxyType({"live": _name_topics(""), "test": _name_topics(_TEST_TOPIC)})


OWN_TOPICS = frozenset(
    topic for names in _TOPICS.values() for topic in (names.events, names.control, names.receipts, names.anchors)
)

_EVENTS = frozenset(names.events for names in _TOPICS.values())
_CONTROL = frozenset(names.control for names in _TOPICS.values())


def foreign_provider(topic: str) -> str:
    return FOREIGN + topic


def is_foreign(provider: str | None) -> bool:
    return (provider or "").startswith(FOREIGN)


def is_events(topic: str) -> bool:
    return topic in _EVENTS


def topics_of(mode: Mode) -> TopicNames:
    return _TOPICS[mode]


def partition_of(topic: str, key: bytes, events_partitions: int) -> int | None:
    """Returns the partition of a record of ``payments.events`` or ``payments.control``; None for every other topic.

    It depends on the configured number, not on the topic's own: a topic that grows moves no entity.
    """
    if is_events(topic):
        return zlib.crc32(key) % events_partitions
    return 0 if topic in _CONTROL else None


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the events, of ``count`` parts by their entities. It has a journal of its own, and decides alone.

    ``kafka.events_partitions`` is a multiple of ``count``. So the shard that reads an entity's partition is the same
    however many partitions there are.
    """

    number: int = 0
    count: int = 1

    @classmethod
    def read(cls, text: str) -> Shard:
        number, _, count = text.partition("/")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has_partition(self, partition: int) -> bool:
        return partition % self.count == self.number

    def has_entity(self, entity_key: str) -> bool:
        return zlib.crc32(entity_key.encode()) % self.count == self.number


WHOLE: Final = Shard()
"""All events."""


def stream_of(stream: str, mode: Mode, shard: int = 0) -> str:
    """Names a work stream in a mode: ``ledger``, or ``ledger-test``; of a shard after the first, ``ledger.1``."""
    name = stream if mode == "live" else f"{stream}{_TEST_STREAM}"
    return f"{name}{SHARD_MARK}{shard}" if shard else name


def have_a_name_in_common(stream: str, other: str) -> bool:
    shorter, longer = sorted((stream, other), key=len)
    return longer.startswith(shorter) and _MODE_AND_SHARD.fullmatch(longer, len(shorter)) is not None


def shard_of(stream: str) -> int:
    return int(stream.partition(SHARD_MARK)[2] or 0)


def row_name(stream: str, seq: int) -> str:
    """Names a journal's row, or an item: its number, and before it the stream of a shard after the first,
    ``ledger.1:5``.
    """
    return f"{stream}:{seq}" if shard_of(stream) else str(seq)


def mode_of(stream: str) -> Mode:
    return "test" if stream.partition(SHARD_MARK)[0].endswith(_TEST_STREAM) else "live"


def base_of(stream: str) -> str:
    """Returns a work stream's name as it is configured: ``ledger`` for ``ledger-test`` and ``ledger.1`` too."""
    return stream.partition(SHARD_MARK)[0].removesuffix(_TEST_STREAM)


def is_shard_of(stream: str, whole: str) -> bool:
    return base_of(stream) == base_of(whole) and mode_of(stream) == mode_of(whole)


def of_stream(values: Mapping[str, Value], whole: str) -> dict[str, Value]:
    return {name: value for name, value in values.items() if is_shard_of(name, whole)}


def in_mode(topic: str, mode: Mode) -> str:
    return topic if mode == "live" else f"{topic}{_TEST_TOPIC}"


def dlq_topic(stream: str) -> str:
    return f"dlq.{stream}"


def journal_topic(stream: str, receiver: str) -> str:
    """Names the topic of what a receiver gets of a stream's journal: ``journal.ledger/shop-a``."""
    return f"{JOURNAL_TOPIC}{stream}/{receiver}"


def source_of(topic: str) -> str:
    return topic.removeprefix(JOURNAL_TOPIC).partition("/")[0]


def receiver_of(topic: str) -> str:
    return topic.partition("/")[2]


def is_sparse(topic: str) -> bool:
    return topic.startswith(JOURNAL_TOPIC)


def of_tenant(tenant: str | None, key: str) -> str:
    """Adds the tenant to a key: ``shop-a~stripe:evt_1:charge.succeeded``; as it is without one."""
    return key if tenant is None else f"{tenant}{TENANT_MARK}{key}"


def scope_event(event: Event, tenant: str | None, zone: str | None) -> Event:
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
