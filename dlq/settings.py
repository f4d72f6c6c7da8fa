"""Settings of a stream's dead-letter topic and its publisher."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

DLQ_PREFIX = "dlq."
"""A topic is a dead-letter queue only if its name begins so: whoever reads it knows what it holds."""


class DlqSettings(BaseModel):
    """Where a stream's dead letters go, and how. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: str = Field(
        "",
        pattern=r"^(dlq\.[A-Za-z0-9._-]{1,200})?$",
        description="the dead letters' topic; its name begins with dlq.; empty: dlq. and the stream's name",
    )
    copy_record: bool = Field(
        True,
        description="copy key and value; false: headers alone, which say topic, partition and offset of the original",
    )
    create_topic: bool = Field(
        False, description="make the topic at start if it isn't there; false: refuse to start, and say how it is made"
    )
    replication: int = Field(1, ge=1, le=16, description="replicas of a topic that is made at start")
    retry_s_max: float = Field(30.0, gt=0, description="longest wait between two tries to publish a dead letter")
    in_memory_max: int = Field(
        2_000, ge=1, description="most unpublished dead letters held in memory; more are read again from the journal"
    )
