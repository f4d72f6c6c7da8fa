"""Settings of selections and their runs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from dlq.commands import TARGETS_MAX


class SelectionSettings(BaseModel):
    """How much is frozen and kept, and how fast it runs. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items_max: int = Field(1_000_000, ge=1, le=10_000_000, description="most items of one selection")
    kept_max: int = Field(
        500, ge=1, le=100_000, description="most selections kept; the oldest whose run is over, or never began, leave"
    )
    kept_items_max: int = Field(5_000_000, ge=1, description="most items of all kept selections together; as above")
    command_items_max: int = Field(
        1_000, ge=1, le=TARGETS_MAX, description="most items that one command names; what is sent can't be paused"
    )
    command_s_max: float = Field(
        2.0, gt=0, le=60, description="at a set rate, most that one command holds: so many seconds' worth of items"
    )
    on_their_way_max: int = Field(
        4_000,
        ge=1,
        description="most items of all runs that are sent and not tried yet: live traffic never waits behind more",
    )
    lag_s_max: float = Field(
        3.0,
        gt=0,
        description="a stream that is further behind, or whose batches take longer, gets nothing more for now",
    )
    lease_s: float = Field(
        15.0, gt=0, le=600, description="after so long without a sign of life another process takes over a run"
    )
