"""Settings of dead letters: a stream's topic and its publisher, the list of its items, selections and their runs.

All in one place because every process reads the settings: none loads what lists items to know how long they are kept.
"""

from __future__ import annotations

import re
from typing import Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dlq.limits import EVERY_CURRENCY, AloneLimits

_CURRENCY = re.compile(r"[A-Z]{3}")
DLQ_PREFIX = "dlq."
"""A topic is a dead-letter queue only if its name begins so, unless ``dlq.prefix`` says otherwise."""


class AgeLimits(BaseModel):
    """How long a dead event may stay open, in hours."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    age_h_max: float = Field(24.0, gt=0, description="hours that a dead event may stay open")
    escalate_h: float = Field(48.0, gt=0, description="hours after which an open one is escalated, as a critical alert")

    @model_validator(mode="after")
    def _escalate_later(self) -> Self:
        if self.escalate_h <= self.age_h_max:
            raise ValueError("escalate_h must be more than age_h_max")
        return self


class DlqSettings(BaseModel):
    """The place of a stream's dead letters, and limits on operators' acts. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = Field(
        DLQ_PREFIX,
        pattern=r"^[A-Za-z0-9._-]{0,100}$",
        description="how the name of a dead-letter topic begins; empty: any name is one",
    )
    topic: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,200}$",
        description="the dead letters' topic; its name begins with dlq.prefix; empty: that and the stream's name",
    )
    copy_record: bool = Field(
        True,
        description="copy headers, key and value; false: nothing of the original, but where it is (`__dlq.errors.…`)",
    )
    create_topic: bool = Field(
        False, description="make the topic at start if it isn't there; false: refuse to start, and say how it is made"
    )
    replays_max: int = Field(
        5,
        ge=1,
        le=1_000,
        description="an item that was replayed so often and died each time is replayed again only by force",
    )
    alone_items_max: int = Field(
        100,
        ge=1,
        le=5_000,
        description="most items that one person may purge or resolve within 24 hours; of this, and of the three below, "
        "each of several shards allows its part",
    )
    alone_amounts_minor_max: dict[str, NonNegativeInt] = Field(
        default_factory=lambda: {EVERY_CURRENCY: 1_000_000},
        description="most money, in minor units by currency, whose events one person may purge or resolve within "
        "24 hours; * stands for currencies that aren't named, none for no limit",
    )
    alone_replay_items_max: int = Field(
        100_000, ge=1, description="most items that one person may replay within 24 hours"
    )
    alone_replay_amounts_minor_max: dict[str, NonNegativeInt] = Field(
        default_factory=lambda: {"EUR": 1_000_000_000, "GBP": 1_000_000_000, "USD": 1_000_000_000},
        description="most money, as above, whose events one person may replay within 24 hours",
    )
    alone_redactions_max: int = Field(
        100, ge=1, description="most bodies that one person may have removed (`payhook ledger redact`) within 24 hours"
    )

    @field_validator("topic")
    @classmethod
    def _has_prefix(cls, topic: str, info: ValidationInfo) -> str:
        prefix = info.data.get("prefix", DLQ_PREFIX)
        if topic and not topic.startswith(prefix):
            raise ValueError(f"{topic!r} doesn't begin with {prefix!r} (dlq.prefix)")
        return topic

    @field_validator("alone_amounts_minor_max", "alone_replay_amounts_minor_max")
    @classmethod
    def _check_currencies(cls, amounts: dict[str, int]) -> dict[str, int]:
        wrong = [name for name in amounts if name != EVERY_CURRENCY and not _CURRENCY.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no currency: three capital letters, or * for every other one")
        return amounts

    @property
    def alone_limits(self) -> AloneLimits:
        return AloneLimits(
            self.alone_items_max,
            self.alone_amounts_minor_max,
            self.alone_replay_items_max,
            self.alone_replay_amounts_minor_max,
        )
