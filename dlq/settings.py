"""Settings of the dead-letter topic and its publisher."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DlqSettings(BaseModel):
    """How dead letters are published. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    retry_s_max: float = Field(30.0, gt=0, description="longest wait between two tries to publish a dead letter")
    in_memory_max: int = Field(
        2_000, ge=1, description="most unpublished dead letters held in memory; more are read again from the journal"
    )
