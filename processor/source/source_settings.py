"""Settings of a stream's ``source``: a text, or the table of a topic that another program writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Discriminator, Field, Tag

from core.settings import Section

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
