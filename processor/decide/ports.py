"""Ports through which deciding reaches what is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from core.event import Event, Headers
from core.money import MoneyFact
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from operations.done_alone import DoneAlone
from operations.frozen import ReadSelection, nothing_frozen

RowsOf: TypeAlias = Callable[[Sequence[int]], Mapping[int, JournalRow]]
"""Committed rows by their seq; those that aren't there are left out."""

BodiesOf: TypeAlias = Callable[[Iterable[str]], Mapping[str, bytes]]
"""Bodies by their hash; those that aren't kept are left out."""

AppliedUpto: TypeAlias = Callable[[Mapping[str, int]], Mapping[str, int]]
"""Of each entity the last applied item after the one that is named, in the committed rows; none where none was."""

Outgoing: TypeAlias = tuple[Event, Headers]

Republish: TypeAlias = Callable[[Sequence[Outgoing]], str | None]
"""Puts events into the stream's own topic. Returns once every replica has each of them, or why not; then some may be
there all the same."""


PutBackRecord: TypeAlias = Callable[[JournalRow, tuple[str, bytes]], str | None]
"""Publishes another program's record once more, with a header more (`processor.source.opening`). Returns why it
couldn't; then the copy may be there all the same."""

FreeClaims: TypeAlias = Callable[[Sequence[str]], str | None]
"""Ends the receivers' claims on event keys. Returns why it couldn't; then some may be free all the same."""


def no_claims(_event_keys: Sequence[str]) -> None: ...


class AdapterReader(Protocol):
    """The part of a provider's adapter that deciding needs."""

    def content_sha256(self, body: bytes, version: int) -> str:
        """Returns the content hash by an older version of its list of left-out fields."""

    def money(self, body: bytes, event_type: str) -> MoneyFact | None: ...


@dataclass(frozen=True, slots=True)
class BatchLookups:
    """All look-ups of deciding. They stand still during a batch: nothing of the batch is in them.

    ``backlog_s``: seconds that what the source holds takes before anything that comes now.
    """

    index: Index
    adapters: Mapping[str, AdapterReader]
    rows_of: RowsOf = lambda seqs: {}
    bodies_of: BodiesOf = lambda hashes: {}
    applied_upto: AppliedUpto = lambda after: {}
    done_alone: DoneAlone = field(default_factory=lambda: DoneAlone(lambda since: ()))
    selections: ReadSelection = nothing_frozen
    backlog_s: Callable[[], float] = lambda: 0.0
    free_claims: FreeClaims = no_claims


class DerivedTable(Protocol):
    """A table that follows a journal's rows by seq, made by its class's ``open(path)``. Before an epoch begins its
    class's ``check(path, reader)`` raises `StreamRefused` if the table is ahead of its journal.
    """

    def catch_up(self, reader: JournalReader) -> None: ...
    def follow(self, rows: Sequence[JournalRow]) -> None: ...


class DeadLetterPublisher(Protocol):
    """The DLQ topic's publisher; never blocks the caller."""

    @property
    def published_upto(self) -> int: ...
    @property
    def unacknowledged(self) -> int: ...
    @property
    def waiting_s(self) -> float: ...
    def publish(self, rows: Sequence[tuple[JournalRow, bytes]]) -> None: ...
    def on_passed(self, seq: int) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...
