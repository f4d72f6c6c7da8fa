"""Settings of the list of dead items."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class BoardSettings(BaseModel):
    """What the list of dead items holds beside the open ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    closed_days: float = Field(
        35.0, gt=0, le=400, description="days for which closed items stay in the DLQ's list and statistics"
    )
