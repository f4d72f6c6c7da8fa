"""The journals of one stream, which together decide its events. Whoever reads them asks here whose an entity or a row
is, and doesn't know how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import PayhookError
from core.layout import StreamLayout
from core.location import Location
from core.routing import Shard
from journal.lake import has_table
from journal.shards import OfEntity, check_shard, check_shards, is_item_of, own_rows_after


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
