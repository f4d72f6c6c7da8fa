"""What deciding asks of those around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from journal.anchors import Head
from journal.errors import Refused
from journal.schema import JournalRow
from processor.decide.admission import ContentHash
from processor.decide.one_person import MoneyReader


class Watch(Protocol):
    """Looks whether what was decided is still what there is (`processor.history.watch`)."""

    @property
    def refusal(self) -> Refused | None:
        """Why nothing more may be decided."""

    @property
    def by_range(self) -> Sequence[str]:
        """Partitions of which only topic id and range could be compared."""

    def notes(self) -> Mapping[str, str]: ...
    def close(self) -> None: ...


class Reader(ContentHash, MoneyReader, Protocol):
    """What deciding asks of a provider's adapter."""


class Follower(Protocol):
    """Something derived from the journal's rows, by seq."""

    def follow(self, rows: Sequence[JournalRow]) -> None: ...


class DeadLetters(Protocol):
    """The DLQ topic's publisher; never blocks the caller."""

    @property
    def published_upto(self) -> int: ...
    @property
    def unacknowledged(self) -> int: ...
    @property
    def waiting_s(self) -> float: ...
    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None: ...
    def passed(self, seq: int) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...


class Anchors(Protocol):
    """Who says outside the lake where the journal stands; never blocks the caller."""

    @property
    def anchored_seq(self) -> int: ...
    def committed(self, head: Head) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...
