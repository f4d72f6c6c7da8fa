"""The journals of one stream, which together decide its events. Whoever reads them asks here whose an entity or a row
is, and doesn't know how many there are.

A shard that came later began with a copy of another one's journal: it knows every key, every fact and every open item
of the entities that it has from there. So there are two ways to read several journals as one ledger:

- What is summed over all of them takes of each the rows after `own_after`.
- What concerns one entity takes all rows of the journal of its shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from core.errors import PayhookError
from core.layout import StreamLayout
from core.location import Location
from core.routing import WHOLE, Shard
from journal.errors import StreamRefused
from journal.lake import has_table
from journal.reader import JournalReader

SHARD_NOTE = "shard"
"""The journal's note of the part of the events that it decides; without it, all."""

OWN_AFTER_NOTE = "own_after"
"""The note of the last row that a journal has from another one, which it began as a copy of."""


DIVIDING_NOTE = "dividing"
"""The note of the first shard's journal, from the beginning of a division to its end: among how many."""


class IncompleteJournals(StreamRefused):
    """The journals of a stream aren't those that the settings name: what is done to them would leave some out."""


class ShardsChanged(IncompleteJournals):
    """The journals were divided among another number of shards than the one that is configured.

    ``dividing``: among how many they are being divided; that isn't done.
    """

    def __init__(self, stream: str, divided: int, configured: int, dividing: int | None = None) -> None:
        self.stream = stream
        self.divided = divided
        self.configured = configured
        self.dividing = dividing
        problem = (
            f"processor.shards is {configured}, and its journal is one of {divided}. Set it to {divided}; `payhook "
            "split` divides journals among more"
            if dividing is None
            else f"its journals are being divided among {dividing} shards. Run `payhook split {dividing}` to its end"
        )
        super().__init__(f"stream {stream}: {problem}")


class ShardMissing(IncompleteJournals):
    def __init__(self, stream: str, shard: Shard) -> None:
        self.stream = stream
        self.shard = shard
        super().__init__(
            f"stream {stream}: it is divided among {shard.count} shards, and shard {shard.number} has no journal. If "
            "it is new, start its processor once, which makes it; if it is lost, restore a backup that has it"
        )


class ShardMisplaced(StreamRefused):
    def __init__(self, journal: Location, found: Shard, wanted: Shard) -> None:
        self.journal = journal
        self.found = found
        self.wanted = wanted
        super().__init__(
            f"{journal} is the journal of shard {found}, and that of {wanted} belongs there. Nothing is decided: put "
            "each shard's folder back where it was, or restore a backup"
        )


def shard_in(notes: Mapping[str, str]) -> Shard:
    return Shard.read(notes[SHARD_NOTE]) if SHARD_NOTE in notes else WHOLE


def shard_at(journal: Location | str) -> Shard:
    """Reads `shard_in` of the journal at a location; all events if there is none."""
    return shard_in(JournalReader(str(journal)).state().notes) if has_table(str(journal)) else WHOLE


def shard_note(shard: Shard) -> dict[str, str]:
    return {SHARD_NOTE: str(shard)} if shard.count > 1 else {}


def read_dividing(notes: Mapping[str, str]) -> int | None:
    return int(notes[DIVIDING_NOTE]) if DIVIDING_NOTE in notes else None


def own_after(notes: Mapping[str, str]) -> int:
    """Reads the last row that a journal has from another one; 0 if it never was a copy."""
    return int(notes.get(OWN_AFTER_NOTE, 0))


def own_rows_after(journal: Location | str) -> int:
    return own_after(JournalReader(str(journal)).state().notes) if has_table(str(journal)) else 0


def check_shard(stream: str, shard: Shard, first: Location, own: Location, others: Sequence[Location] = ()) -> None:
    """Checks the first shard's journal, which a division marks first and changes last, and the shard's own.

    :param others: every place where a shard's journal may be: looked at where the shard has none of its own yet
    :raises ShardsChanged: one of them was divided among another number of shards
    :raises ShardMisplaced: the journal at the shard's own place is another shard's
    """
    is_new = not has_table(str(own))
    for journal in (first, own, *(others if is_new else ())):
        check_count(stream, shard.count, journal)
    if not is_new and (actual := shard_at(own)) != shard:
        raise ShardMisplaced(own, actual, shard)


def check_shards(stream: str, journals: Sequence[Location]) -> None:
    """Checks the journals of all shards of a stream, in their order, so that nothing that is done to the whole stream
    leaves one out. A stream without any journal is whole too.

    :raises ShardsChanged: one of them was divided among another number of shards, or they are being divided
    :raises ShardMissing: one isn't there
    """
    for journal in journals:
        check_count(stream, len(journals), journal)
    check_none_missing(stream, journals)


def check_none_missing(stream: str, journals: Sequence[Location]) -> None:
    are_there = [has_table(str(journal)) for journal in journals]
    if any(are_there) and not all(are_there):
        raise ShardMissing(stream, Shard(are_there.index(False), len(are_there)))


def check_count(stream: str, count: int, journal: Location) -> None:
    if has_table(str(journal)):
        notes = JournalReader(str(journal)).state().notes
        divided, begun = shard_in(notes).count, read_dividing(notes)
        if divided != count or begun is not None:
            raise ShardsChanged(stream, divided, count, begun)


class OfEntity(Protocol):
    @property
    def entity_key(self) -> str | None: ...
    @property
    def partition(self) -> int: ...


def is_item_of(shard: Shard, row: OfEntity) -> bool:
    return is_of(shard, row.entity_key, row.partition)


def own_items(journal: Location | str) -> Callable[[OfEntity], bool]:
    """Builds a check by any of its rows whether the journal has an item; without a journal all items pass."""
    return partial(is_item_of, shard_at(journal))


def is_of(shard: Shard, entity_key: str | None, partition: int) -> bool:
    """Returns the same as `is_item_of`, from the columns: a row without an entity goes by its record's partition."""
    return shard.has_entity(entity_key) if entity_key is not None else shard.has_partition(partition)


class StreamUnknown(PayhookError):
    def __init__(self, stream: str, streams: Sequence[str]) -> None:
        self.stream = stream
        self.streams = list(streams)
        super().__init__(f"{stream} isn't a stream of this ledger: it has {', '.join(streams)}")


@dataclass(frozen=True, slots=True)
class Journals:
    places: Sequence[StreamLayout]

    @property
    def first_place(self) -> StreamLayout:
        return self.places[0]

    @property
    def streams(self) -> list[str]:
        return [place.stream for place in self.places]

    @property
    def is_divided(self) -> bool:
        return len(self.places) > 1

    def locate_shared(self, table: str) -> Location:
        return self.first_place.shared_table(table)

    def find_begun(self) -> list[StreamLayout]:
        return [place for place in self.places if has_table(str(place.journal))]

    def find_place(self, stream: str) -> StreamLayout:
        named_place = next((place for place in self.places if place.stream == stream), None)
        if named_place is None:
            raise StreamUnknown(stream, self.streams)
        return named_place

    def own_after(self, place: StreamLayout) -> int:
        return own_rows_after(place.journal) if place != self.first_place else 0

    def of_entity(self, entity_key: str) -> StreamLayout:
        return next(place for place in self.places if self.decides_entity(place, entity_key))

    def decides_entity(self, place: StreamLayout, entity_key: str) -> bool:
        return self.shard(place).has_entity(entity_key)

    def is_decided_in(self, place: StreamLayout, row: OfEntity) -> bool:
        return is_item_of(self.shard(place), row)

    def is_read_for(self, place: StreamLayout, partition: int) -> bool:
        return self.shard(place).has_partition(partition)

    def shard(self, place: StreamLayout) -> Shard:
        return Shard(self.places.index(place), len(self.places))

    def check(self) -> None:
        """Compares the journals with how many their notes say there are, before something is done to the whole stream.

        :raises IncompleteJournals: some would be left out
        """
        check_shards(self.first_place.stream, [place.journal for place in self.places])

    def check_one(self, place: StreamLayout) -> None:
        """Checks one journal alone, and the first one, which a division marks.

        :raises IncompleteJournals: one names another number of journals, or they are being divided
        :raises ShardMisplaced: another shard's journal is at its place
        """
        check_shard(place.stream, self.shard(place), self.first_place.journal, place.journal)
