"""A mode's ledger, whose journals several shards may have: what is summed over all of them, and which of them to ask.

What is summed takes of each journal the rows after `journal.shards.own_after`; what is asked of an entity, an event or
a row takes the whole journal of the entity's shard. With one shard nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltalake.exceptions import DeltaError

from core.decision import Decision
from core.errors import PayhookError
from core.layout import StreamLayout
from core.location import Location
from core.routing import Shard, row_name
from dlq.orders import is_command_entity
from journal.errors import JournalBroken
from journal.schema import JournalRow, from_arrow
from journal.shards import check_count, decides, own_rows_after
from ledger.queries.balances import AsOf
from ledger.queries.export import Source
from ledger.queries.lake import Lake, LedgerUnreadable, Rows, text
from ledger.queries.story import EVENTS_MAX, EntityStory, EventStory, entity_story, event_story
from ledger.redactions import BodyStatus, body_statuses

_ROW = re.compile(r"(?:([a-z0-9.-]+):)?(\d{1,18})", re.ASCII)
_BY_SEQ = "seq:"
_SEEN = 'seq, item_seq, first, topic, "partition", "offset", decision, decided_at, entity_key, row_hash'


class ShardUnknown(PayhookError):
    """A row was named of a stream that isn't one of this ledger's."""

    def __init__(self, stream: str, streams: Sequence[str]) -> None:
        self.stream = stream
        self.streams = list(streams)
        super().__init__(f"{stream} isn't a stream of this ledger: it has {', '.join(streams)}")


class RowAmbiguous(PayhookError):
    """A row's number, which the first shard hasn't and others have."""

    def __init__(self, seq: int, streams: Sequence[str]) -> None:
        self.seq = seq
        self.streams = list(streams)
        names = " or ".join(row_name(stream, seq) for stream in streams)
        super().__init__(f"the first shard has no row {seq}; say which shard's it is: {names}")


class RowUnreadable(PayhookError):
    """A text that names no row."""

    def __init__(self, named: str) -> None:
        self.named = named
        super().__init__(f"{named!r} names no row: 123 is wanted, or ledger.1:123 for another shard's")


@dataclass(frozen=True, slots=True)
class Shards:
    """The places of a ledger's shards, in their order."""

    places: Sequence[StreamLayout]

    @classmethod
    def of(cls, places: Sequence[StreamLayout]) -> Shards:
        """Those that the settings name, compared with the number that their journals say: by another one sums would
        lack rows, or have them twice.

        :raises ShardsChanged: it is another one, or they are being divided
        :raises LedgerUnreadable: a journal is damaged
        """
        for one in places:
            try:
                check_count(one.stream, len(places), one.journal)
            except (JournalBroken, DeltaError, OSError) as broken:
                raise LedgerUnreadable(str(one.journal), str(broken)) from broken
        return cls(places)

    @property
    def first(self) -> StreamLayout:
        return self.places[0]

    @property
    def streams(self) -> list[str]:
        return [one.stream for one in self.places]

    def shared(self, table: str) -> Location:
        """A table that all shards have together."""
        return self.first.shared(table)

    @property
    def is_divided(self) -> bool:
        return len(self.places) > 1

    def shard(self, places: StreamLayout) -> Shard:
        """The part of the events that one of them decides."""
        return Shard(self.places.index(places), len(self.places))

    def postings(self) -> list[Rows]:
        """What is summed of bookings."""
        return [Rows(str(one.postings), one.stream) for one in self.places]

    def journals(self) -> list[Rows]:
        """What is summed of decisions."""
        return [Rows(str(one.journal), one.stream, self.own_after(one)) for one in self.places]

    def tables(self, source: Source) -> list[Rows]:
        """What an export takes."""
        return self.postings() if source == "postings" else self.journals()

    def after_row(self, named: str) -> AsOf:
        """The moment after a row, which is named as `row` reads it; after the last one where the journal ends before.

        :raises RowUnreadable, ShardUnknown: it names none
        :raises LedgerUnreadable: a journal is damaged
        """
        places, seq = self.row(named)
        if not self.is_divided:
            return AsOf(seq=seq)
        last = self._last_row(places, seq)
        if last is None:
            return AsOf(seq=0, stream=places.stream)
        own = self._wrote(places, last)
        return AsOf(seq=last.seq, stream=own.stream, at=last.decided_at)

    def own_after(self, places: StreamLayout) -> int:
        """The last row that a shard's journal has from another one; the first one's never was a copy."""
        return own_rows_after(places.journal) if places != self.first else 0

    def named(self, stream: str) -> StreamLayout:
        """
        :raises ShardUnknown: none of them is called so
        """
        found = next((one for one in self.places if one.stream == stream), None)
        if found is None:
            raise ShardUnknown(stream, self.streams)
        return found

    def row(self, named: str) -> tuple[StreamLayout, int]:
        """Whose row a text names, and its number: ``5`` is the first shard's, ``ledger.1:5`` that one's.

        :raises RowUnreadable, ShardUnknown: it names none
        """
        parts = _ROW.fullmatch(named)
        if parts is None:
            raise RowUnreadable(named)
        return self.first if parts[1] is None else self.named(parts[1]), int(parts[2])

    def of_entity(self, entity_key: str) -> StreamLayout:
        """Whose journal has an entity's rows, all of them."""
        return next(one for one in self.places if self.shard(one).decides(entity_key))

    def of_event(self, key: str) -> tuple[StreamLayout, str, tuple[str, ...]]:
        """Whose journal has the rows that a key names (an event's, a fact's, ``seq:N``), and the key there; then the
        rows by which other shards decided it too, because its copies named different entities.

        Where no journal has any it is the first one's.

        :raises RowAmbiguous: another shard's row was named without its stream
        :raises ShardUnknown: it names a stream that isn't one of them
        :raises LedgerUnreadable: a journal is damaged
        """
        if not self.is_divided:
            return self.first, key, ()
        if key.startswith(_BY_SEQ) and _ROW.fullmatch(key.removeprefix(_BY_SEQ)):
            return *self._of_row(*self.row(key.removeprefix(_BY_SEQ))), ()
        for name in ("event_key", "fact_key"):
            if holding := self._holding(f"{name} = {text(key)}"):
                known = [(one, row.seq) for one, rows in holding if (row := self._first_row(one, rows)) is not None]
                (at, _), *others = known or [(holding[0][0], 0)]
                return at, key, tuple(row_name(one.stream, seq) for one, seq in others)
        return self.first, key, ()

    def story(self, key: str) -> tuple[EventStory, list[BodyStatus]]:
        """The whole story of an event, and what became of its bodies.

        :raises RowAmbiguous, ShardUnknown, LedgerUnreadable, JournalBroken: as `of_event` and `event_story`
        """
        at, named, others = self.of_event(key)
        receipts = str(self.shared("receipts"))
        story = event_story(str(at.journal), str(at.postings), named, str(at.bodies), receipts, at.stream)
        return replace(story, others=others), body_statuses(at.stream, at.bodies, self.shared("redactions"), story.rows)

    def entity(self, entity_key: str, limit: int = EVENTS_MAX) -> EntityStory:
        """The first ``limit`` events of an entity.

        :raises LedgerUnreadable: its journal is damaged
        """
        at = self.of_entity(entity_key)
        return entity_story(str(at.journal), entity_key, limit, at.stream)

    def _of_row(self, at: StreamLayout, seq: int) -> tuple[StreamLayout, str]:
        """A row of an entity that another shard goes on with is in the copy that this one began as."""
        holding = {one.stream: rows[0] for one, rows in self._holding(f"seq = {seq}")}
        row = holding.get(at.stream)
        if row is None:
            if at == self.first and holding:
                raise RowAmbiguous(seq, list(holding))
            return at, f"{_BY_SEQ}{seq}"
        same = [one for one in self.places if one.stream in holding and holding[one.stream].row_hash == row.row_hash]
        return next((one for one in same if self._decided(one, row)), at), f"{_BY_SEQ}{seq}"

    def _last_row(self, places: StreamLayout, seq: int) -> JournalRow | None:
        """The last row up to ``seq`` of a shard's journal; None: there is none."""
        lake = Lake(journal=str(places.journal))
        if "journal" not in lake:
            return None
        last = f"SELECT max(seq) FROM journal WHERE seq <= {seq}"
        return next(iter(from_arrow(lake.ask(f"SELECT {_SEEN} FROM journal WHERE seq = ({last})"))), None)

    def _wrote(self, places: StreamLayout, row: JournalRow) -> StreamLayout:
        """Whose own row it is: of one that a shard's journal has as a copy, the shard that it came from."""
        if row.seq > self.own_after(places):
            return places
        holding = [(one, rows[0]) for one, rows in self._holding(f"seq = {row.seq}")]
        same = (one for one, held in holding if held.row_hash == row.row_hash)
        return next((one for one in same if row.seq > self.own_after(one)), self.first)

    def _holding(self, condition: str) -> list[tuple[StreamLayout, list[JournalRow]]]:
        """The shards whose journals have such rows, with what tells whose they are."""
        found = []
        for one in self.places:
            lake = Lake(journal=str(one.journal))
            if "journal" in lake and (rows := lake.ask(f"SELECT {_SEEN} FROM journal WHERE {condition}")).num_rows:
                found.append((one, from_arrow(rows)))
        return found

    def _first_row(self, places: StreamLayout, rows: Sequence[JournalRow]) -> JournalRow | None:
        """The first of the rows that a shard decided."""
        own = (row for row in rows if self._decided(places, row))
        return min(own, key=lambda row: row.seq, default=None)

    def _decided(self, places: StreamLayout, row: JournalRow) -> bool:
        """Whether a shard decided a row. Every shard has a row of every command; the one that it is for acts on it."""
        if is_command_entity(row.entity_key):
            return row.decision is not Decision.IGNORED
        return decides(self.shard(places), row)
