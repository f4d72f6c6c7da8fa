"""The part of a work stream's configuration that deciding needs."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from core.decision import ErrorKind
from core.event import Mode
from core.record_keys import Keys, RecordKeys
from core.routing import topics_of
from core.where import EVERYTHING, HeaderFilter
from operations.limits import AloneLimits
from processor.decide.head_of_line import HeadLimits
from processor.errors.retry import RetryPolicy, parse_policy
from processor.settings import DeadHead

DUE_PER_BATCH_MAX = 2_000
"""Waiting events that one batch takes up again, those behind others included."""

BYTES_PER_BATCH_MAX = 256 << 20
"""Of what a batch reads, and of the bodies of waiting events beside it: the driver holds them in memory, in the JVM and
in Python (processor.driver_memory)."""

DRAIN_PER_ENTITY_MAX = 500
"""Events of one entity in a batch."""

RETRIED_KINDS = (ErrorKind.SLE, ErrorKind.SNBE)
"""Errors after which an event is tried again as often as its policy says, and is dead then."""

PROBE_S_MAX = 60.0
"""Longest wait between probes while the whole stream is blocked."""


@dataclass(frozen=True, slots=True)
class StreamRules:
    """The rules of one work stream, as its batches need them. Times in seconds.

    ``due_per_batch_max``, ``due_bytes_max``: events, and bytes of their bodies, that one batch takes up again, those
    behind others included. ``record_keys``: sign the commands and events that are believed; None: they aren't checked.
    ``transactional``: topics whose offsets have holes, where transactions' markers are. ``jitter`` gives the share of
    the policy's jitter that one retry takes. ``where``: what of its topic is the stream's business. ``delay``: how long
    after its receipt an event is handled at the earliest. ``policies``: of kinds of errors that have one of their own;
    the others go by ``policy``.
    """

    name: str
    events_topic: str
    control_topic: str
    policy: RetryPolicy
    dead_head: DeadHead
    due_per_batch_max: int = DUE_PER_BATCH_MAX
    drain_per_entity_max: int = DRAIN_PER_ENTITY_MAX
    probe_s_max: float = PROBE_S_MAX
    mode: Mode = "live"
    due_bytes_max: int = BYTES_PER_BATCH_MAX
    heads: HeadLimits = field(default_factory=HeadLimits)
    replays_max: int = 5
    alone: AloneLimits = field(default_factory=AloneLimits)
    transactional: Collection[str] = ()
    record_keys: RecordKeys | None = None
    jitter: Callable[[], float] = random.random
    where: HeaderFilter = EVERYTHING
    delay: timedelta = timedelta(0)
    policies: Mapping[ErrorKind, RetryPolicy] = field(default_factory=dict)

    @property
    def outage_policy(self) -> RetryPolicy:
        return self.policies.get(ErrorKind.SBE) or parse_policy(f"forever(1s, x2, max {self.probe_s_max}s)")

    def policy_of(self, kind: ErrorKind) -> RetryPolicy:
        return self.policies.get(kind, self.policy)

    @property
    def tries_min(self) -> int | None:
        """Returns the fewest retries after which an event is dead; None: it never is."""
        tries = [self.policy_of(kind).tries for kind in RETRIED_KINDS]
        return min((count for count in tries if count is not None), default=None)

    @property
    def event_keys(self) -> Keys | None:
        """Returns the keys of which one signs each event now; None: the stream takes events of others than payhook."""
        is_ours = self.events_topic == topics_of(self.mode).events
        return self.record_keys.now if is_ours and self.record_keys is not None else None
