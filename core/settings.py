"""Settings that several services share: Kafka, Redis, topics. Each service's own stand beside its code."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from core.durability import Durability, replicas_min


class KafkaSettings(BaseModel):
    """The broker that every process talks to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = Field(
        "127.0.0.1:9092", min_length=1, description="Kafka's bootstrap servers; `payhook up` sets its own broker's"
    )
    durability: Durability = Field(
        "replicated",
        description="replicated: receiver and processor start only where each topic has 3 replicas, of which 2 must "
        "have a record; single: one broker is enough, and what it loses is lost. `payhook up` sets single unless it is "
        "set, for its own broker",
    )
    transactional: tuple[str, ...] = Field(
        (),
        description="topics that transactions write to, such as a mirror's: gaps between their offsets are taken for "
        "markers, and not refused",
    )

    @property
    def embedded_durability(self) -> Durability:
        """What `payhook up` asks of its own broker: it is all there is, unless somebody wants more."""
        return self.durability if "durability" in self.model_fields_set else "single"


class RedisSettings(BaseModel):
    """The Redis that receivers claim keys in, and processors announce their generation in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        "redis://127.0.0.1:6379/0", min_length=1, description="Redis's URL; `payhook up` sets its own server's"
    )


class TopicsSettings(BaseModel):
    """Topics as they are made. Partition counts are for good: another count moves keys between partitions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    events_partitions: int = Field(4, ge=1, le=512, description="partitions of payments.events; 48 outside one machine")
    control_partitions: int = Field(
        1, ge=1, le=1, description="partitions of payments.control: one, commands have one order"
    )
    receipts_partitions: int = Field(1, ge=1, le=512, description="partitions of payments.receipts")
    dlq_partitions: int = Field(4, ge=1, le=512, description="partitions of dlq.ledger: those of payments.events")
    events_retention_days: int = Field(7, ge=1, description="days that payments.events and payments.receipts keep")
    dlq_retention_days: int = Field(30, ge=1, description="days that dlq.ledger keeps")
    replication: int | None = Field(
        None,
        ge=1,
        le=16,
        description="replicas of each topic; unless it is set 3, or 1 where kafka.durability is single",
    )

    def replicas(self, durability: Durability) -> int:
        """Of each topic that is made."""
        return self.replication or replicas_min(durability)
