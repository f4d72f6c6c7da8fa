"""Holds what one look at the stack sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from alerts.counters import Series
from dead_letters.rates import Rate


@dataclass(frozen=True, slots=True)
class DeadSummary:
    """The dead events of a journal. ``oldest_at``: when the one that has been open for longest first died; a replay
    that fails doesn't reset it. ``rates``: how fast they come and go, by window. ``unknown``: how many events are
    unknown (undos, and others of the last day), by what of them isn't known."""

    depth: int
    oldest_at: datetime | None
    rates: tuple[Rate, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replicas:
    """Partitions of payhook's topics: with a replica that isn't in sync; with too few of them for Kafka to take
    anything."""

    out_of_sync: int
    under_min: int


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation of the stack.

    - ``statuses``: each stream's word, None where it is missing or old.
    - ``dead``: None where the journal can't be read.
    - ``samples``: of every process whose metrics answered.
    - ``rounds``: how old the newest good ``backup``, the last ``maintenance`` and the last ``verification`` are. Ages
      are by rule, as multiples of the round's interval; None where a report can't be read.
    - ``done_at``: when these were done last, as far as is known.
    - ``disks``: used share by place; ``memory``: used share here.
    - ``broken``: invariants by stream that didn't hold when last verified.
    - ``subscribers``: when each answered 410, None where it didn't.
    - ``caught_up``: what providers' own lists came to, by source.
    """

    receiver_ready: bool | None = None
    statuses: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    dead: Mapping[str, DeadSummary | None] = field(default_factory=dict)
    samples: Mapping[Series, float] = field(default_factory=dict)
    rounds: Mapping[str, float | None] = field(default_factory=dict)
    done_at: Mapping[str, datetime] = field(default_factory=dict)
    disks: Mapping[str, float | None] = field(default_factory=dict)
    memory: float | None = None
    broken: Mapping[str, int] = field(default_factory=dict)
    replicas: Replicas | None = None
    subscribers: Mapping[str, datetime | None] | None = field(default_factory=dict)
    caught_up: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
