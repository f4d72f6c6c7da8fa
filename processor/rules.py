"""Holds what a work stream decides by: its configuration, and what isn't configured for each stream."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from core.event import Mode
from core.record_keys import Keys, RecordKeys
from core.routing import Shard, stream_of, topics_of
from core.where import HeaderFilter
from operations.limits import AloneLimits
from processor.errors.retry import parse_delay
from processor.streams import StreamConfig

DUE_PER_BATCH_MAX = 2_000
"""Waiting events that one batch handles again, those behind others included."""

BYTES_PER_BATCH_MAX = 256 << 20
"""Of what a batch reads, and of the bodies of waiting events beside it: the driver holds them in memory, in the JVM and
in Python (processor.driver_memory)."""

DRAIN_PER_ENTITY_MAX = 500


@dataclass(frozen=True, kw_only=True)
class StreamRules:
    """A work stream in one mode, or one of its shards there, as its batches need it.

    ``record_keys``: sign the commands and events that are believed; None: they aren't checked. ``transactional``:
    topics whose offsets have holes, where transactions' markers are. ``due_per_batch_max``, ``due_bytes_max``: events,
    and bytes of their bodies, that one batch handles again, those behind others included. ``jitter`` gives the share
    of the policy's jitter that one retry takes.
    """

    config: StreamConfig
    mode: Mode = "live"
    shard_number: int = 0
    record_keys: RecordKeys | None = None
    transactional: Collection[str] = ()
    due_per_batch_max: int = DUE_PER_BATCH_MAX
    due_bytes_max: int = BYTES_PER_BATCH_MAX
    drain_per_entity_max: int = DRAIN_PER_ENTITY_MAX
    jitter: Callable[[], float] = random.random

    @cached_property
    def name(self) -> str:
        return stream_of(self.config.name, self.mode, self.shard_number)

    @property
    def shard(self) -> Shard:
        return self.config.all_shards[self.shard_number]

    @cached_property
    def events_topic(self) -> str:
        return self.config.events_topic(self.mode)

    @cached_property
    def control_topic(self) -> str:
        return topics_of(self.mode).control

    @property
    def dlq_topic(self) -> str:
        return self.config.dlq_topic(self.mode, self.shard_number)

    @cached_property
    def where(self) -> HeaderFilter:
        return HeaderFilter.read(self.config.where)

    @cached_property
    def delay(self) -> timedelta:
        return timedelta(seconds=parse_delay(self.config.delay))

    @property
    def alone(self) -> AloneLimits:
        """Returns what one person may do alone: each of several shards allows its part."""
        return self.config.dlq.alone_limits.of_each(len(self.config.all_shards))

    @property
    def event_keys(self) -> Keys | None:
        """Returns the keys of which one signs each event; None: the stream takes unsigned events of others."""
        is_ours = self.events_topic == topics_of(self.mode).events
        return self.record_keys.now if is_ours and self.record_keys is not None else None
