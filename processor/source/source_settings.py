"""Settings of a stream's ``source``: a text, or the table of a topic that another program writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import Discriminator, Field, Tag

from core.clock import from_rfc3339
from core.settings import Section

EARLIEST, LATEST = "earliest", "latest"
WANTED = "earliest, latest, or a time with its zone such as 2026-01-31T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Starting:
    text: str = EARLIEST
    moment: datetime | None = None

    def to_sentence(self, topic: str, ends: Mapping[int, tuple[int, int]], marks: Mapping[int, int]) -> str:
        waiting = sum(high - marks[number] for number, (_, high) in ends.items())
        left_out = sum(marks[number] - low for number, (low, _) in ends.items())
        waits = f"{waiting} record{'s wait' if waiting > 1 else ' waits'}" if waiting else "no record waits"
        left = f"{left_out} {'are' if left_out > 1 else 'is'} left out" if left_out else "none is left out"
        return f"begins in {topic} at {self.text} (starting_offsets): {waits}, {left}"


FROM_EARLIEST = Starting()


def parse_starting(text: str) -> Starting:
    if text in (EARLIEST, LATEST):
        return Starting(text)
    try:
        return Starting(text, from_rfc3339(text))
    except ValueError as wrong:
        raise ValueError(f"{text!r} isn't where a stream can begin: {WANTED}") from wrong


FUNCTION = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
TOPIC = r"^[A-Za-z0-9._-]{1,200}$"
CLOUDEVENTS = "cloudevents"


class TopicSource(Section):
    """A topic that another program writes."""

    topic: str = Field(pattern=TOPIC, description="a topic of Kafka that another program writes")
    identity: str = Field(
        CLOUDEVENTS,
        pattern=f"^{CLOUDEVENTS}$|{FUNCTION}",
        description="module:function that says which event a record is (`core.source_record`), or cloudevents: each "
        "record is one, in binary mode or in structured mode as JSON",
    )


TAGS = _TEXT, _TABLE = "text", "table"
"""How the two forms of a source are told apart in a message about a wrong one."""

StreamSource: TypeAlias = Annotated[
    Annotated[
        str,
        Field(pattern=r"^(kafka(:[A-Za-z0-9._-]{1,200})?|journal:[a-z][a-z0-9-]{0,39})$"),
        Tag(_TEXT),
    ]
    | Annotated[TopicSource, Tag(_TABLE)],
    Discriminator(lambda given: _TABLE if isinstance(given, Mapping | TopicSource) else _TEXT),
]
