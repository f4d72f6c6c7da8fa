"""A mode's ledger, which may have several journals: what is summed over all of them, and which of them to ask.

What is summed takes of each journal the rows after `journal.journals.own_after`; what is asked of an entity, an event
or a row takes the whole journal that decides the entity. With one journal nothing is looked up. A page of what several
journals hold ends at a `Cursor`: the next page begins there, whatever was decided meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from deltalake.exceptions import DeltaError

from core.clock import from_micros, to_micros
from core.decision import Decision
from core.errors import PayhookError
from core.layout import StreamLayout
from core.routing import row_name
from journal.errors import JournalBroken
from journal.journals import Journals, check_count
from journal.schema import JournalRow, from_arrow
from ledger.queries.balances import AsOf
from ledger.queries.export import Source
from ledger.queries.lake import LedgerUnreadable, PinnedTables, TableRows, quote_literal
from ledger.queries.story import EVENTS_MAX, EntityStory, EventStory, read_entity_story, read_event_story
from ledger.redactions import StoredBodyStatus, read_body_statuses
from operations.orders import is_command_entity

_TEXT = re.compile(r"\d{1,18}(?:~\d{1,18}){1,2}~[a-z0-9.-]{0,64}", re.ASCII)
_MICROS_MAX = 253_402_300_800_000_000
"""The end of the year 9999."""


class CursorInvalid(PayhookError):
    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__("the cursor isn't one that a page gave as `next`: begin without one")


@dataclass(frozen=True, slots=True)
class Cursor:
    at: datetime
    numbers: tuple[int, ...]
    stream: str

    @classmethod
    def read(cls, given: str, numbers: int) -> Self:
        """
        :raises CursorInvalid: no page gave it
        """
        parts = given.split("~")
        if not _TEXT.fullmatch(given) or len(parts) != numbers + 2 or int(parts[0]) >= _MICROS_MAX:
            raise CursorInvalid(given)
        return cls(from_micros(int(parts[0])), tuple(map(int, parts[1:-1])), parts[-1])

    @property
    def text(self) -> str:
        return "~".join([str(to_micros(self.at)), *map(str, self.numbers), self.stream])


_ROW = re.compile(r"(?:([a-z0-9.-]+):)?(\d{1,18})", re.ASCII)
_BY_SEQ = "seq:"
_SEEN = 'seq, item_seq, first, topic, "partition", "offset", decision, decided_at, entity_key, row_hash'


class RowAmbiguous(PayhookError):
    def __init__(self, seq: int, streams: Sequence[str]) -> None:
        self.seq = seq
        self.streams = list(streams)
        names = " or ".join(row_name(stream, seq) for stream in streams)
        super().__init__(f"the first shard has no row {seq}; say which shard's it is: {names}")


class RowNameInvalid(PayhookError):
    def __init__(self, named: str) -> None:
        self.named = named
        super().__init__(f"{named!r} names no row: write 123, or ledger.1:123 for another shard's row")


@dataclass(frozen=True, slots=True)
class LedgerJournals(Journals):
    @classmethod
    def open(cls, places: Sequence[StreamLayout]) -> LedgerJournals:
        """Opens the journals that the settings name, and checks their number with each of them.

        With another number sums would lack rows, or have them twice.

        :raises IncompleteJournals: it is another one, or they are being divided
        :raises LedgerUnreadable: a journal is damaged
        """
        ledger = cls(places)
        for place in places:
            try:
                check_count(place.stream, len(places), place.journal)
            except (JournalBroken, DeltaError, OSError) as broken:
                raise LedgerUnreadable(str(place.journal), str(broken)) from broken
        return ledger

    def list_postings(self) -> list[TableRows]:
        return [TableRows(str(place.postings), place.stream) for place in self.places]

    def list_journals(self) -> list[TableRows]:
        return [TableRows(str(place.journal), place.stream, self.own_after(place)) for place in self.places]

    def list_tables(self, source: Source) -> list[TableRows]:
        return self.list_postings() if source == "postings" else self.list_journals()

    def find_as_of(self, named: str) -> AsOf:
        """Returns the moment after a row, which is named as `parse_row_name` reads it; else after the journal's last
        row.

        :raises RowUnreadable, StreamUnknown: it names none
        :raises LedgerUnreadable: a journal is damaged
        """
        places, seq = self.parse_row_name(named)
        if not self.is_divided:
            return AsOf(seq=seq)
        last = self._find_last_row(places, seq)
        if last is None:
            return AsOf(seq=0, stream=places.stream)
        origin = self._find_origin(places, last)
        return AsOf(seq=last.seq, stream=origin.stream, at=last.decided_at)

    def parse_row_name(self, named: str) -> tuple[StreamLayout, int]:
        """Parses a row's name into its journal and number: ``5`` is the first journal's row, ``ledger.1:5`` that one's.

        :raises RowUnreadable, StreamUnknown: it names none
        """
        parts = _ROW.fullmatch(named)
        if parts is None:
            raise RowNameInvalid(named)
        return self.first_place if parts[1] is None else self.find_place(parts[1]), int(parts[2])

    def find_event(self, key: str) -> tuple[StreamLayout, str, tuple[str, ...]]:
        """Finds the journal whose rows a key names (an event's, a fact's, ``seq:N``), and the key there; else the first
        one.

        The last part names the rows by which other journals decided it too: its copies named different entities.

        :raises RowAmbiguous: another journal's row was named without its stream
        :raises StreamUnknown: it names a stream that isn't one of them
        :raises LedgerUnreadable: a journal is damaged
        """
        if not self.is_divided:
            return self.first_place, key, ()
        if key.startswith(_BY_SEQ) and _ROW.fullmatch(key.removeprefix(_BY_SEQ)):
            return *self._find_row(*self.parse_row_name(key.removeprefix(_BY_SEQ))), ()
        for name in ("event_key", "fact_key"):
            if holding := self._find_holding(f"{name} = {quote_literal(key)}"):
                decided_at = [
                    (place, row.seq)
                    for place, rows in holding
                    if (row := self._find_first_row(place, rows)) is not None
                ]
                (at, _), *others = decided_at or [(holding[0][0], 0)]
                return at, key, tuple(row_name(place.stream, seq) for place, seq in others)
        return self.first_place, key, ()

    def group_by_journal(self, keys: Iterable[str]) -> dict[StreamLayout, list[str]]:
        """
        :raises RowAmbiguous, StreamUnknown, LedgerUnreadable: as `find_event`
        """
        keys_by_place: dict[StreamLayout, list[str]] = {}
        for key in keys:
            at, _, _ = self.find_event(key)
            keys_by_place.setdefault(at, []).append(key)
        return keys_by_place

    def read_story(self, key: str) -> tuple[EventStory, list[StoredBodyStatus]]:
        """
        :raises RowAmbiguous, StreamUnknown, LedgerUnreadable, JournalBroken: as `find_event` and
        `read_event_story`
        """
        at, named, others = self.find_event(key)
        receipts = str(self.locate_shared("receipts"))
        story = read_event_story(str(at.journal), str(at.postings), named, str(at.bodies_table), receipts, at.stream)
        return replace(story, others=others), read_body_statuses(
            at.stream, at.bodies_table, self.locate_shared("redactions"), story.rows
        )

    def read_entity(self, entity_key: str, limit: int = EVENTS_MAX) -> EntityStory:
        at = self.of_entity(entity_key)
        return read_entity_story(str(at.journal), entity_key, limit, at.stream)

    def _find_row(self, at: StreamLayout, seq: int) -> tuple[StreamLayout, str]:
        """Finds the journal that decides a row's entity now: the given one may have only a copy of the row."""
        holding = {place.stream: rows[0] for place, rows in self._find_holding(f"seq = {seq}")}
        row = holding.get(at.stream)
        if row is None:
            if at == self.first_place and holding:
                raise RowAmbiguous(seq, list(holding))
            return at, f"{_BY_SEQ}{seq}"
        same = [
            place for place in self.places if place.stream in holding and holding[place.stream].row_hash == row.row_hash
        ]
        return next((place for place in same if self._has_decided(place, row)), at), f"{_BY_SEQ}{seq}"

    def _find_last_row(self, places: StreamLayout, seq: int) -> JournalRow | None:
        lake = PinnedTables(journal=str(places.journal))
        if "journal" not in lake:
            return None
        last = f"SELECT max(seq) FROM journal WHERE seq <= {seq}"
        return next(iter(from_arrow(lake.ask(f"SELECT {_SEEN} FROM journal WHERE seq = ({last})"))), None)

    def _find_origin(self, places: StreamLayout, row: JournalRow) -> StreamLayout:
        if row.seq > self.own_after(places):
            return places
        holding = [(place, rows[0]) for place, rows in self._find_holding(f"seq = {row.seq}")]
        same = (place for place, held_row in holding if held_row.row_hash == row.row_hash)
        return next((place for place in same if row.seq > self.own_after(place)), self.first_place)

    def _find_holding(self, condition: str) -> list[tuple[StreamLayout, list[JournalRow]]]:
        holding = []
        for place in self.places:
            lake = PinnedTables(journal=str(place.journal))
            if "journal" in lake and (rows := lake.ask(f"SELECT {_SEEN} FROM journal WHERE {condition}")).num_rows:
                holding.append((place, from_arrow(rows)))
        return holding

    def _find_first_row(self, places: StreamLayout, rows: Sequence[JournalRow]) -> JournalRow | None:
        own_rows = (row for row in rows if self._has_decided(places, row))
        return min(own_rows, key=lambda row: row.seq, default=None)

    def _has_decided(self, places: StreamLayout, row: JournalRow) -> bool:
        """Returns whether a row was decided in a journal. Each has every command's row, but only one acts on it."""
        if is_command_entity(row.entity_key):
            return row.decision is not Decision.IGNORED
        return self.is_decided_in(places, row)
