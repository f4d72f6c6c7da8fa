"""Settings of what a work stream's handler calls outside, by the downstream's name."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, model_validator

ANY = "*"
"""At the end of a name: every downstream whose name begins so. Alone: every one without a line of its own."""


class DownstreamSettings(BaseModel):
    """When one downstream is called, how often, and when not at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failures_to_open: int = Field(
        5,
        ge=1,
        le=1_000,
        description="failed calls in a row after which the breaker opens and nothing is called; never more than the "
        "stream's retry policy has tries",
    )
    reset_s: float = Field(5.0, gt=0, le=3_600, description="seconds that an open breaker waits before it lets probes")
    probes: int = Field(
        3, ge=1, le=1_000, description="calls in all that a half-open breaker lets through; all good: it closes"
    )
    calls_per_batch_max: int = Field(10_000, ge=1, description="most calls of one batch")
    seconds_per_batch_max: float = Field(
        1.0,
        gt=0,
        le=60,
        description="seconds of a batch that its calls may fill, by the time that they took so far; the rest waits for "
        "the next one: longer uses a slow downstream better, shorter keeps others waiting less",
    )
    concurrency_min: int = Field(1, ge=1, le=10_000, description="calls at a time that are always allowed")
    concurrency_start: int = Field(8, ge=1, le=10_000, description="calls at a time before anything is known")
    concurrency_max: int = Field(64, ge=1, le=10_000, description="most calls at a time")
    slow_ratio: float = Field(
        2.0, gt=1, le=100, description="a mean call time of so many times the best one lowers the calls at a time"
    )
    retry_share: float = Field(0.2, ge=0, le=10, description="retries allowed for each first try of the window")
    retries_min: int = Field(10, ge=0, description="retries that the window allows however few first tries it saw")
    retry_window_s: float = Field(10.0, gt=0, le=3_600, description="seconds that the retry budget looks back")
    held_per_s: float = Field(
        500.0, gt=0, le=100_000, description="held events that are taken up again per second, one after another"
    )
    quiet_s_max: float = Field(
        300.0,
        ge=0,
        le=86_400,
        description="longest that a Retry-After keeps every event from this downstream; the one that was told so waits "
        "as long as it was told",
    )

    @model_validator(mode="after")
    def _in_order(self) -> DownstreamSettings:
        if not self.concurrency_min <= self.concurrency_start <= self.concurrency_max:
            raise ValueError("concurrency_min ≤ concurrency_start ≤ concurrency_max is wanted")
        return self


def before_retries_end(settings: DownstreamSettings, tries: int | None) -> DownstreamSettings:
    """The settings with a breaker that opens before a lone event's own retries are spent: an outage mustn't kill it.

    ``tries`` is the retry policy's, None for no end.
    """
    if tries is None or settings.failures_to_open <= tries:
        return settings
    return settings.model_copy(update={"failures_to_open": max(1, tries)})


def pattern_of(name: str, patterns: Mapping[str, object]) -> str | None:
    """The line that holds for a downstream: its own, else the longest that ends in ``*``; None for none."""
    if name in patterns:
        return name
    fitting = [text for text in patterns if text.endswith(ANY) and name.startswith(text[:-1])]
    return max(fitting, key=len, default=None)
