"""A record of a topic that another program writes, and who its event is: the seam between a stream and its
``identity`` function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record as Kafka holds it. ``at``: when it was written, by Kafka's own time of it (UTC).

    ``headers`` are pairs of name and raw value, in order; a name may come twice. ``decode`` parses bytes by the
    stream's ``payload``.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    at: datetime | None
    decode: Callable[[bytes], Any]

    def header(self, name: str) -> str | None:
        """Returns the last header of a name as text; None where there is none."""
        values = [raw for header, raw in self.headers if header == name]
        return None if not values or values[-1] is None else values[-1].decode("utf-8", "replace")

    def document(self) -> Any:
        """Returns the value as the handler sees it: parsed JSON, also of Avro and Protobuf.

        :raises PayhookError: the value can't be read so; let it pass through, the record dies of it
        """
        return self.decode(self.value or b"")


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """Says which event a record is.

    All copies of the event, and no other in its topic, have its ``event_key``. Events of one ``entity`` are handled one
    after the other, in Kafka's order. ``occurred_at`` has a zone.
    """

    event_key: str
    entity: str
    event_type: str
    occurred_at: datetime | None = None
    tenant: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class NotAnEvent:
    """The record isn't an event of the stream: no handler sees it, and it isn't dead-lettered."""

    reason: str


Identified: TypeAlias = RecordIdentity | NotAnEvent
IdentityFunction: TypeAlias = Callable[[SourceRecord], Identified]
