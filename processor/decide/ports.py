"""What deciding asks of those around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from core.event import Event, Headers
from core.money import MoneyFact
from dlq.done_alone import DoneAlone
from dlq.frozen import ReadSelection, nothing_frozen
from journal.anchors import Head
from journal.errors import Refused
from journal.index import KnownEvent, KnownFact
from journal.index_changes import Line as Passed
from journal.open_item import OpenItem
from journal.schema import JournalRow

RowsOf: TypeAlias = Callable[[Sequence[int]], Mapping[int, JournalRow]]
"""Committed rows by their seq; those that aren't there are left out."""

BodiesOf: TypeAlias = Callable[[Iterable[str]], Mapping[str, bytes]]
"""Bodies by their hash; those that aren't kept are left out."""

AppliedUpto: TypeAlias = Callable[[Mapping[str, int]], Mapping[str, int]]
"""Of each entity the last applied item after the one that is named, in the committed rows; none where none was."""

Outgoing: TypeAlias = tuple[Event, Headers]


class Lookup(Protocol):
    """What is known of all rows before this batch: `journal.index.Index`."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def known_events(self, event_keys: Sequence[str]) -> list[KnownEvent | None]: ...
    def known_fact(self, fact_key: str) -> KnownFact | None: ...
    def known_facts(self, fact_keys: Sequence[str]) -> list[KnownFact | None]: ...
    def known_conflict(self, event_key: str, content_sha256: str) -> bool: ...
    def known_original(self, event_key: str, content_sha256: str) -> bool: ...
    def open_item(self, item_seq: int) -> OpenItem | None: ...
    def of_entity(self, entity_key: str) -> Iterator[int]: ...
    def queue(self, entity_key: str) -> Iterator[OpenItem]: ...
    def died(self, entity_key: str) -> Iterator[int]: ...
    def closed_heads(self, entity_key: str) -> list[tuple[int, int]]: ...
    def line(self, entity_key: str) -> Passed | None: ...
    def is_reversed(self, item_seq: int) -> bool: ...
    def reopened_at(self, item_seq: int) -> int | None: ...


class Reader(Protocol):
    """What deciding asks of a provider's adapter."""

    def content_sha256(self, body: bytes, version: int) -> str:
        """The content hash by an older version of its list of left-out fields."""

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        """What an event moves."""


@dataclass(frozen=True, slots=True)
class Known:
    """All that deciding may look up. It stands still during a batch: nothing of the batch is in it.

    ``backlog_s``: seconds that what the source holds takes before anything that comes now.
    """

    index: Lookup
    adapters: Mapping[str, Reader]
    rows_of: RowsOf = lambda seqs: {}
    bodies_of: BodiesOf = lambda hashes: {}
    applied_upto: AppliedUpto = lambda after: {}
    done_alone: DoneAlone = field(default_factory=lambda: DoneAlone(lambda since: ()))
    selections: ReadSelection = nothing_frozen
    backlog_s: Callable[[], float] = lambda: 0.0


class Republish(Protocol):
    """Puts events into the stream's own topic."""

    def __call__(self, events: Sequence[Outgoing]) -> str | None:
        """Returns once every replica has each of them, or why not; then some may be there all the same."""


class Watch(Protocol):
    """Looks whether what was decided is still what there is (`processor.history.check`)."""

    @property
    def refusal(self) -> Refused | None:
        """Why nothing more may be decided."""

    @property
    def by_range(self) -> Sequence[str]:
        """Partitions of which only topic id and range could be compared."""

    def notes(self) -> Mapping[str, str]: ...
    def close(self) -> None: ...


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
    """Says outside the lake where the journal stands; never blocks the caller."""

    @property
    def anchored_seq(self) -> int: ...
    def committed(self, head: Head) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...
