"""Settings of dead letters: a stream's topic, and how long one may stay open."""

from __future__ import annotations

from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from core.settings import Section

DLQ_PREFIX = "dlq."
"""A topic is a dead-letter queue only if its name begins so, unless ``dlq.prefix`` says otherwise."""


class AgeLimits(Section):
    """Limits how long a dead event may stay open, in hours."""

    age_h_max: float = Field(24.0, gt=0, description="hours that a dead event may stay open")
    escalate_h: float = Field(48.0, gt=0, description="hours after which an open one is escalated, as a critical alert")

    @model_validator(mode="after")
    def _escalate_later(self) -> Self:
        if self.escalate_h <= self.age_h_max:
            raise ValueError("escalate_h must be more than age_h_max")
        return self


class DeadLetterTopicSettings(Section):
    """The place of a stream's dead letters, and what is copied into it."""

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

    @field_validator("topic")
    @classmethod
    def _has_prefix(cls, topic: str, info: ValidationInfo) -> str:
        prefix = info.data.get("prefix", DLQ_PREFIX)
        if topic and not topic.startswith(prefix):
            raise ValueError(f"{topic!r} doesn't begin with {prefix!r} (dlq.prefix)")
        return topic
