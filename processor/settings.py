"""Settings of the processor and of its work streams."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class DeadHead(StrEnum):
    """What the followers of a dead event do."""

    CONTINUE = "continue"
    WAIT = "wait"


class StreamSettings(BaseModel):
    """One work stream: what it reads, how it retries, what a dead event means for its followers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    retry: str = Field(
        "exponential(1s, x2, max 16s, 5 tries, jitter 50%)",
        description="retry policy: exponential(…), fixed(…) or forever(…)",
    )
    dead_head: DeadHead = Field(DeadHead.WAIT, description="followers of a dead event: continue, or wait for a person")
    error_kinds: dict[str, str] = Field(
        default_factory=dict, description="error kind (NRE, SLE, SNBE, SBE) by exception class name, over the defaults"
    )
    in_place_tries: int = Field(3, ge=1, le=10, description="tries of a short-lived error within one batch")
    handler_deadline_s: float = Field(
        2.0, gt=0, le=60, description="a handler call that isn't back by then is a timeout of its event"
    )
    concurrency: int = Field(1, ge=1, le=64, description="entities that one executor task handles at a time")
    probe_s_max: float = Field(60.0, gt=0, description="longest wait between probes while the whole stream is blocked")


class ProcessorSettings(BaseModel):
    """Settings of the Spark application."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[2]", description="Spark master")
    driver_memory: str = Field("1g", description="memory of the driver's JVM")
    metrics_port: int = Field(0, ge=0, le=65535, description="loopback port of the processor's metrics; 0 for none")
    test_metrics_port: int = Field(
        0, ge=0, le=65535, description="loopback port of the metrics of test traffic's processor; 0 for none"
    )
    offsets_per_batch_max: int = Field(8_000, ge=1, description="most Kafka records that one batch takes")
    due_per_batch_max: int = Field(2_000, ge=1, description="most parked events that one batch takes up again")
    drain_per_entity_max: int = Field(500, ge=1, description="most events of one entity in a batch")
    tick_s: int = Field(1, ge=1, le=60, description="a batch is made at least this often, so that due retries fire")
    ledger: StreamSettings = Field(default_factory=lambda: StreamSettings(), description="the ledger stream")
