"""Settings of the processor, and what every work stream has of its own (`processor.streams.StreamConfig`)."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

from pydantic import Field, field_validator

from core.decision import ErrorKind
from core.settings import Section
from processor.backlog.capacity import EXECUTORS_MAX, HOLD_S
from processor.errors.error_rules import Rules
from processor.errors.retry import DelayText, PolicyText, RetryPolicy, parse_policy
from processor.workers.payload import BYTES_MAX, PAYLOAD_PATTERN

SHARDS_MAX = 64


class DeadHead(StrEnum):
    """Says whether the followers of a dead event are handled or wait."""

    CONTINUE = "continue"
    WAIT = "wait"


class DownstreamSettings(Section):
    """When something that a stream's handler calls outside isn't called, and how often at a time it is."""

    failures_to_open: int = Field(
        5,
        ge=1,
        le=1_000,
        description="failed calls in a row after which the breaker opens and nothing is called; never more than the "
        "stream's retry policy has tries",
    )
    reset_s: float = Field(5.0, gt=0, le=3_600, description="seconds that an open breaker waits before it lets probes")
    reset_s_max: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="longest that it waits: each probe that fails doubles the time to the next",
    )
    concurrency_max: int = Field(64, ge=1, le=10_000, description="most calls at a time")
    quiet_s_max: float = Field(
        300.0,
        ge=0,
        le=86_400,
        description="longest that a Retry-After keeps every event from this downstream; the event whose call was "
        "answered so waits as long as it says",
    )


RETRIED_KINDS = (ErrorKind.SLE, ErrorKind.SNBE)
"""Errors after which an event is tried again as often as its policy says, and is dead then."""

OUTAGE = "forever(1s, x2, max 60s)"
"""Policy of outages that have none of their own."""


class RetrySettings(Section):
    """A retry policy for each kind of error (`core.decision.ErrorKind`).

    A kind without one goes by ``default``; an outage without one is probed after 1, 2, 4 … 60 seconds.
    """

    default: PolicyText = Field(
        "exponential(1s, x2, max 16s, 5 tries, jitter 50%)",
        description='policy of every kind that has none of its own; retry = "…" is the same. exponential(…), '
        "forever(…), fixed(5s x3, 15s x5), a list such as 5000x3, 15000x5, LimitedExponentialRetryPolicy(1,60,2,120) "
        "and its like (docs/processor.md)",
    )
    transient: PolicyText | None = Field(None, description="of errors that are likely gone in a moment (SLE)")
    waits_for_data: PolicyText | None = Field(
        None, description="of errors that concern this event alone, until what it needs is there (SNBE)"
    )
    outage: PolicyText | None = Field(
        None,
        description="of errors that every event of the stream would meet (SBE): when a blocked stream tries again; "
        "after its last try at its longest delay, since no event dies of it. Without it after 1, 2, 4 … 60 seconds",
    )

    @property
    def by_kind(self) -> dict[ErrorKind, str]:
        named = {ErrorKind.SLE: self.transient, ErrorKind.SNBE: self.waits_for_data, ErrorKind.SBE: self.outage}
        return {kind: text for kind, text in named.items() if text is not None}

    @property
    def outage_policy(self) -> RetryPolicy:
        return parse_policy(self.outage or OUTAGE)

    @cached_property
    def policies(self) -> dict[ErrorKind, RetryPolicy]:
        """Returns the policy of each kind, read once: every event asks for two."""
        return {kind: parse_policy(self.by_kind.get(kind, self.default)) for kind in ErrorKind}

    @property
    def tries_min(self) -> int | None:
        """Returns the fewest retries after which an event is dead; None: it never is."""
        tries = [self.policies[kind].tries for kind in RETRIED_KINDS]
        return min((count for count in tries if count is not None), default=None)


class StreamSettings(Section):
    """How one work stream decides: how it retries, what a dead event means for its followers, its bounds.

    Set in streams.toml, ``[ledger] concurrency = 4``, or as ``PAYHOOK_STREAMS__LEDGER__CONCURRENCY``.
    """

    retry: RetrySettings = Field(
        default_factory=lambda: RetrySettings(),
        description="retry policy, one for all kinds of errors or a table of one a kind",
    )
    delay: DelayText = Field(
        "0s",
        description="how long after its receipt an event is handled at the earliest, such as 30s: for a source that "
        "isn't ready yet; only what isn't due waits, and later ones of its entity",
    )
    payload: str = Field(
        "json",
        pattern=PAYLOAD_PATTERN,
        description="what events hold: json (the handler gets the bytes as they came), avro:FILE.avsc or "
        "protobuf:FILE.desc#package.Message (it gets JSON made of them); avro where payload_schemas says all",
    )
    payload_schemas: str = Field(
        "",
        description="folder of the writers' Avro schemas (*.avsc): each value names its own, by fingerprint (single "
        "object) or by its id in a registry (Confluent's framing; the file is ID.avsc), and is resolved to avro:FILE",
    )
    payload_bytes_max: int = Field(
        BYTES_MAX, ge=1, le=64 << 20, description="a larger payload is dead: no handler sees it"
    )

    @field_validator("retry", mode="before")
    @classmethod
    def _of_all_kinds(cls, said: object) -> object:
        return {"default": said} if isinstance(said, str) else said

    dead_head: DeadHead = Field(DeadHead.WAIT, description="followers of a dead event: continue, or wait for a person")
    errors: Rules = Field(default_factory=lambda: Rules(), description="what errors mean: kinds, rules, hook, default")
    downstreams: dict[str, DownstreamSettings] = Field(
        default_factory=dict, description="breaker and limits by downstream; a name may end in *"
    )
    handler_deadline_s: float = Field(
        2.0, gt=0, le=60, description="a handler call that isn't back by then is a timeout of its event"
    )
    batch_deadline_s: float = Field(
        0.5,
        ge=0.05,
        le=60,
        description="most that handler calls which don't come back may add to the latency of other events; a call that "
        "its batch doesn't wait for runs until handler_deadline_s, and a later batch takes its result",
    )
    concurrency: int = Field(1, ge=1, le=64, description="entities that one executor task handles at a time")
    tasks_max: int = Field(
        0,
        ge=0,
        le=512,
        description="most executor tasks that handle at a time; 0: as many as there are cores. A stream that waits "
        "for others over the network takes 1, and a slot is added for it",
    )
    head_age_max_s: float = Field(
        0.0,
        ge=0,
        description="an event that has failed and held back later ones of its entity for so long is dead-lettered as "
        "HeadOfLineBlocked; 0: never",
    )
    head_utilisation_max: float = Field(
        0.9,
        gt=0,
        le=1,
        description="the share of stuck events (of those and the ones done in the last minute) above which a few "
        "failing ones may hold back the rest; head_uncommitted_min tells that from an outage; 1: never. Where "
        "followers of a dead event continue, those with the longest lines are dead-lettered as HeadOfLineBlocked. "
        "Where they wait, it is an alert",
    )
    head_uncommitted_min: float = Field(
        0.02,
        gt=0,
        le=1,
        description="the share of the stuck events that fail themselves from which on it is an outage; below it a few "
        "of them hold back the others",
    )


class ProcessorSettings(Section):
    master: str = Field("local[2]", description="Spark master")
    driver_memory: str = Field("1g", description="memory of the driver's JVM")
    executors_max: int = Field(
        0,
        ge=0,
        le=EXECUTORS_MAX,
        description="most executors that the processor asks its cluster for when there is more to do; 0: it leaves "
        "their number alone",
    )
    executors_min: int = Field(1, ge=1, le=EXECUTORS_MAX, description="fewest executors, with executors_max")
    executors_hold_s: float = Field(
        HOLD_S, gt=0, description="an idle executor is ended once fewer would have done for so long"
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="port of the processor's metrics, each further shard on the next, and then those of test traffic; "
        "0 for none",
    )
    anchor_key_file: str = Field(
        "",
        description="file with the keys that sign the journals' anchors, the newest first; empty: secrets/anchors in "
        "the data folder",
    )
    streams_file: str = Field(
        "", description="file of work streams (TOML), laid over those that are shipped (processor/streams.toml)"
    )
    shards: int = Field(
        1,
        ge=1,
        le=SHARDS_MAX,
        description="processes among which the partitions of payments.events are divided, each with a journal of its "
        "own; kafka.events_partitions must be a multiple. `payhook split` changes it where there are journals",
    )
