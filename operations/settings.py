"""Settings of a stream's dead letters and of what operators may do with them.

Every process reads the settings: this module loads nothing that lists items.
"""

from __future__ import annotations

import re

from pydantic import Field, NonNegativeInt, field_validator

from dlq.settings import DeadLetterTopicSettings
from operations.limits import EVERY_CURRENCY, AloneLimits

_CURRENCY = re.compile(r"[A-Z]{3}")


class DlqSettings(DeadLetterTopicSettings):
    """The place of a stream's dead letters, and limits on operators' acts. Times in seconds."""

    replays_max: int = Field(
        5,
        ge=1,
        le=1_000,
        description="failed replays of an item after which it is replayed only by force",
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

    @field_validator("alone_amounts_minor_max", "alone_replay_amounts_minor_max")
    @classmethod
    def _check_currencies(cls, amounts: dict[str, int]) -> dict[str, int]:
        wrong = [name for name in amounts if name != EVERY_CURRENCY and not _CURRENCY.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} isn't a currency: expected three capital letters, or * for every other one")
        return amounts

    @property
    def alone_limits(self) -> AloneLimits:
        return AloneLimits(
            self.alone_items_max,
            self.alone_amounts_minor_max,
            self.alone_replay_items_max,
            self.alone_replay_amounts_minor_max,
        )
